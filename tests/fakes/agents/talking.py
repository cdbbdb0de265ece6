"""Faults of what a turn says: updates, tools, permissions and text.

Each class docstring says what goes wrong, and what its turn says for a test to see.
"""

from typing import Any

from base import ALLOW_ALWAYS, ALLOW_ONCE, REJECT_ONCE, Fake, Json, log

MEGABYTE = 1_000_000


class GarbageStdout(Fake):
    """Lines that are no messages among the messages; the text itself has U+2028 and U+0085."""

    fault = "garbage-stdout"

    def turn(self, text: str) -> None:
        self.say("before\u2028")
        self.raw(b'not json\nnull\n42\n"text"\n[1,2]\n[]\n{}\n{"no":"rpc"}\n\n   \n')
        self.say("between\u0085")
        self.raw(b"\xff\xfe broken \x00 bytes\n" + "{\u2028\n".encode())
        self.send({"id": 999_999, "result": {}})
        self.send({"id": "nobody", "result": {}})
        self.say("after")
        self.end()


class UnknownUpdates(Fake):
    """Kinds, content blocks, statuses and notifications that no schema knows; says "known"."""

    fault = "unknown-updates"

    def turn(self, text: str) -> None:
        self.update("hologram_update", beam={"deep": [1, None, 2.5]})
        self.notify("session/update", {"sessionId": self.session_id, "update": {}})
        self.notify("session/update", {"sessionId": self.session_id, "update": None})
        self.notify("session/update", {"sessionId": "no-such-session", "update": {}})
        self.notify("session/update", {})
        self.notify("_auth/status_update", {"authStatus": {"kind": "gateway"}})
        self.notify("future/thing", {"x": 1})
        self.update("agent_message_chunk", content={"type": "smell", "data": "rose"})
        self.tool("odd", kind="teleport", status="dreaming", extra=True)
        self.tool_update("odd", status="completed", content=[{"type": "hologram"}])
        self.say("known")
        self.end(newField=[1])


class ToolUpdateFirst(Fake):
    """tool_call_update is the first word about a tool, its title comes later."""

    fault = "tool-update-first"

    def turn(self, text: str) -> None:
        self.tool_update("first", "line 1\n", status="in_progress", kind="execute")
        self.tool_update("first", title="make all", rawInput={"command": "make all"})
        self.tool_update("first", "line 1\nline 2\n", status="completed")
        self.tool_update("failed-only", "outside the workspace", status="failed")
        self.end()


class ToolNeverEnds(Fake):
    """The turn ends while two tools are open: one running, one only announced."""

    fault = "tool-never-ends"

    def turn(self, text: str) -> None:
        self.tool("running")
        self.tool("announced", status="pending")
        self.say("done")
        self.end()


class PermissionTwice(Fake):
    """Two requests for one tool call are open at once; says both answers."""

    fault = "permission-twice"

    def turn(self, text: str) -> None:
        self.tool("twice", status="pending")
        options = [ALLOW_ONCE, REJECT_ONCE]
        first, second = self.permission("twice", options), self.permission("twice", options)
        answers: dict[int, str] = {}
        for message in self.arriving():
            if message.get("id") in (first, second) and "result" in message:
                outcome = message["result"]["outcome"]
                answers[message["id"]] = outcome.get("optionId", outcome["outcome"])
            if len(answers) == 2:
                break
        self.tool_update("twice", status="completed")
        self.say(f"answers: {answers[first]} {answers[second]}")
        self.end("cancelled" if self.cancelled else "end_turn")


class PermissionNoRejectOption(Fake):
    """Offers two ways to allow and none to reject, without a tool_call; says the answer."""

    fault = "permission-no-reject-option"

    def turn(self, text: str) -> None:
        choice = self.wait_choice(self.permission("only", [ALLOW_ONCE, ALLOW_ALWAYS]))
        self.say(f"answer: {choice}")
        self.end("cancelled" if self.cancelled else "end_turn")


class LateUpdates(Fake):
    """Text, the end of a tool and usage come after the turn's answer."""

    fault = "late-updates"

    def turn(self, text: str) -> None:
        self.tool("late")
        self.say("in time")
        self.end()
        self.say("too late")
        self.tool_update("late", "made", status="completed")
        self.update("usage_update", used=500, size=1000)


class IdNullError(Fake):
    """An error answer to nothing (id null) arrives mid-turn; says "before after"."""

    fault = "id-null-error"

    def turn(self, text: str) -> None:
        self.say("before ")
        self.refuse(None, -32700, "Parse error")
        self.say("after")
        self.end()


class CumulativeOutput(Fake):
    """Each update holds the whole output so far; the exit code hides in rawOutput.contents."""

    fault = "cumulative-output"

    def turn(self, text: str) -> None:
        self.tool("grows", rawInput={"command": "count"})
        output = ""
        for number in range(1, 6):
            output += f"tick{number}\n"
            self.tool_update("grows", output)
        exit_entry = {"type": "shell_exit", "shellId": "0", "exitCode": 4}
        raw = {"content": output, "contents": [exit_entry]}
        self.tool_update("grows", output, status="completed", rawOutput=raw)
        self.end()


class TextErrorEndTurn(Fake):
    """A model error told as text with end_turn and no usage; the second turn is well."""

    fault = "text-error-end-turn"
    info = {"name": "Copilot", "title": "Copilot", "version": "1.0.102"}  # noqa: RUF012 - ClassVar

    def turn(self, text: str) -> None:
        if self.turns > 1:
            super().turn(text)
            return
        self.update("usage_update", used=8670, size=128_000)
        self.say("Error: 400 scripted failure")
        self.answer(self.prompt_id, {"stopReason": "end_turn"})


class CodexSoftError(Fake):
    """A model error told as a chunk without messageId, with usage null; the second turn is well."""

    fault = "codex-soft-error"
    info = {  # noqa: RUF012 - the base declares it ClassVar
        "name": "@agentclientprotocol/codex-acp",
        "title": "Codex",
        "version": "2.6.0",
    }

    def turn(self, text: str) -> None:
        self.say("Working on it. ", messageId="msg_1")
        if self.turns > 1:
            self.end()
            return
        meta = {"codex": {"threadStatus": {"type": "systemError"}}}
        self.update("session_info_update", _meta=meta)
        self.say("The model is busy, try again later.\n\n")
        self.end(usage=None, _meta={"quota": {"token_count": None, "model_usage": []}})


class ModeUpdateText(Fake):
    """A change of mode is told as text of the model, at set_mode and in the turn."""

    fault = "mode-update-text"
    info = {"name": "gemini-cli", "title": "Gemini CLI", "version": "0.61.0"}  # noqa: RUF012 - ClassVar

    def set_mode(self, request_id: Any, mode: str) -> None:
        self.say(f"[MODE_UPDATE] {mode}")
        self.answer(request_id, {})

    def turn(self, text: str) -> None:
        self.say("[MODE_UPDATE] yolo")
        self.say("real text")
        self.end()


class UsageEmptyChunk(Fake):
    """Usage comes in an empty text chunk's _meta and nowhere else."""

    fault = "usage-empty-chunk"
    info = {"name": "qwen-code", "title": "Qwen Code", "version": "0.15.10"}  # noqa: RUF012 - ClassVar

    def turn(self, text: str) -> None:
        self.say("real text")
        usage = {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110, "thoughtTokens": 0}
        self.say("", _meta={"usage": usage, "durationMs": 66})
        self.answer(self.prompt_id, {"stopReason": "end_turn"})


class HugeLine(Fake):
    """One chunk of 5 MB in one line, then "end"."""

    fault = "huge-line"

    def turn(self, text: str) -> None:
        self.say("h" * (5 * MEGABYTE))
        self.say("end")
        self.end()


class OversizedLine(Fake):
    """One line of 70 MB, more than anyone should hold, then "end"."""

    fault = "oversized-line"

    def turn(self, text: str) -> None:
        self.say("o" * (70 * MEGABYTE))
        self.say("end")
        self.end()


class StderrFlood(Fake):
    """8 MB of standard error during the turn, coloured, with one line of 1 MB; then "end"."""

    fault = "stderr-flood"

    def turn(self, text: str) -> None:
        log("x" * MEGABYTE)
        for number in range(70_000):
            log(f"\x1b[31mflood {number:06}\x1b[0m {'.' * 80}")
        self.say("end")
        self.end()


class SamePromptEcho(Fake):
    """The user's own words come back as user_message_chunk before the answer."""

    fault = "same-prompt-echo"

    def turn(self, text: str) -> None:
        self.update("user_message_chunk", content={"type": "text", "text": text})
        self.say("the answer")
        self.end()


class Elicitation(Fake):
    """Asks with a form (argv[2] "url": with a link); says the action and the content."""

    fault = "elicitation"

    def turn(self, text: str) -> None:
        params: Json = {"sessionId": self.session_id, "message": "Which database?"}
        if self.argument == "url":
            params |= {"mode": "url", "elicitationId": "e-1", "url": "http://localhost/login"}
        else:
            names = {"type": "string", "title": "Name", "enum": ["postgres", "sqlite"]}
            schema = {"type": "object", "properties": {"name": names}, "required": ["name"]}
            params |= {"mode": "form", "requestedSchema": schema}
        answer = self.wait_answer(self.request("elicitation/create", params)) or {}
        result: Json = answer.get("result", {"action": "error"})
        content: Json = result.get("content") or {}
        if self.argument == "url":
            self.notify("elicitation/complete", {"elicitationId": "e-1"})
        self.say(f"action: {result['action']} {content.get('name')}")
        self.end("cancelled" if self.cancelled else "end_turn")


class ExtensionRequest(Fake):
    """Sends an extension request that no client knows; says the code of the answer."""

    fault = "extension-request"

    def turn(self, text: str) -> None:
        self.notify("_x/note", {"any": "thing"})
        answer = self.wait_answer(self.request("_x/y", {"z": 1})) or {}
        self.say(f"code: {answer.get('error', {}).get('code')}")
        self.end()
