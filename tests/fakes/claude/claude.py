"""A small `claude -p` that keeps to stream-json, and misbehaves in one named way per `--fault`.

Owns the frames that the adapter's tests need and nothing of a model. Standard library only. Claude
Code's own flags are read where they matter and else ignored. What a prompt's first word makes of a turn:

    say WORDS      the words as text         ask    a Bash call that asks for leave
    question       AskUserQuestion           plan   ExitPlanMode with a document
    work           a turn that ends only by an interrupt
    leave          the same, with a subagent and a shell in the background
"""

import json
import signal
import sys
import time
from typing import Any
from uuid import uuid4

Json = dict[str, Any]

FAULTS = {
    "silent": "never answers initialize",
    "dies-at-start": "writes to stderr and exits 3",
    "refuses-initialize": "answers initialize with an error",
    "no-login": "has no account",
    "no-conversation": "does not know what it is to resume",
    "malformed-reply": "answers settings with things that are no answers",
    "no-result": "ends a turn with nothing but the idle state",
    "dies-in-turn": "exits 9 in mid-turn",
    "ignores-eof": "stays after the end of stdin and after TERM",
    "noise": "writes lines that are no frames between its frames",
    "old": "names no prompts by uuid and has no lifecycle",
    "repeats": "sends each assistant frame twice",
    "refused-key": "tries a refused key again until it is interrupted",
    "big-line": "sends a line of five million characters",
    "asks-too-much": "sends control requests that nobody serves",
    "takes-back": "takes its question for leave back",
    "deaf": "does not hear an interrupt",
    "other-mode": "takes another mode than it was told",
    "half-shapes": "sends frames with parts of the wrong type",
}


class Fake:
    def __init__(self, argv: list[str]) -> None:
        self.faults = {arg.split("=", 1)[1] for arg in argv if arg.startswith("--fault=")}
        unknown = self.faults - FAULTS.keys()
        if unknown:
            sys.exit(f"no such fault: {unknown}")
        self.session = _value(argv, "--session-id") or _value(argv, "--resume") or str(uuid4())
        self.resumes = _value(argv, "--resume")
        self.mode = _value(argv, "--permission-mode") or "default"
        self.uuid = ""
        self.asking = ""
        self.count = 0

    def has(self, fault: str) -> bool:
        return fault in self.faults

    def put(self, **frame: Any) -> None:
        whole = {**frame, "session_id": self.session, "uuid": frame.get("uuid") or str(uuid4())}
        sys.stdout.write(json.dumps(whole) + "\n")
        sys.stdout.flush()

    def raw(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def run(self) -> int:
        if self.has("dies-at-start"):
            sys.stderr.write("error: the settings are broken\n")
            return 3
        if self.has("no-conversation") and self.resumes:
            said = f"No conversation found with session ID: {self.resumes}"
            sys.stderr.write(said + "\n")
            self.put(type="result", subtype="error_during_execution", is_error=True, errors=[said])
            return 1
        if self.has("ignores-eof"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for line in sys.stdin:
            code = self.take(json.loads(line))
            if code is not None:
                return code
        if self.has("ignores-eof"):
            while True:
                time.sleep(60)
        return 0

    def take(self, message: Json) -> int | None:
        match message["type"]:
            case "control_request":
                self.control(message["request_id"], message["request"])
            case "control_response":
                self.answered(message["response"])
            case "user":
                return self.turn(message)
            case _:
                pass
        return None

    def control(self, own: str, request: Json) -> None:
        match request["subtype"]:
            case "initialize":
                self.initialize(own)
            case "interrupt":
                self.reply(own, {"still_queued": []})
                if self.uuid and not self.has("deaf"):
                    self.end("error_during_execution", "aborted_streaming", error=True)
            case subtype if self.has("malformed-reply"):
                self.raw(json.dumps({"type": "control_response", "response": "what?"}))
                self.raw(json.dumps({"type": "control_response"}))
                response = {"subtype": "success", "request_id": own, "response": [subtype]}
                self.raw(json.dumps({"type": "control_response", "response": response}))
            case "set_permission_mode":
                self.mode = "default" if self.has("other-mode") else request["mode"]
                self.reply(own, {"mode": self.mode})
            case "set_model" if request.get("model") == "nonsense":
                self.refuse(own, "no such model", "invalid_model")
            case "set_model":
                self.reply(own, {"model": request.get("model") or "default"})
            case _:
                self.refuse(own, "not supported", "unsupported_request")

    def initialize(self, own: str) -> None:
        if self.has("silent"):
            return
        if self.has("refuses-initialize"):
            self.refuse(own, "not today", "")
            return
        source = "none" if self.has("no-login") else "ANTHROPIC_API_KEY"
        account = {"tokenSource": "none", "apiKeySource": source, "apiProvider": "firstParty"}
        models = [{"value": "opus", "displayName": "Opus", "description": "big"}]
        commands = [{"name": "compact", "description": "shorten", "argumentHint": ""}]
        hello = {
            "commands": commands,
            "models": models,
            "account": account,
            "claude_code_version": "9.9.9",
            "current_permission_mode": self.mode,
        }
        self.reply(own, hello)

    def reply(self, own: str, response: Json) -> None:
        inner = {"subtype": "success", "request_id": own, "response": response}
        self.raw(json.dumps({"type": "control_response", "response": inner}))

    def refuse(self, own: str, error: str, code: str) -> None:
        inner = {"subtype": "error", "request_id": own, "error": error, "error_code": code}
        self.raw(json.dumps({"type": "control_response", "response": inner}))

    def turn(self, message: Json) -> int | None:
        content = message["message"]["content"]
        words = content if isinstance(content, str) else content[-1]["text"]
        self.uuid = message.get("uuid") or ""
        named = {} if self.has("old") else {"user_message_uuids": [self.uuid]}
        if not self.has("old"):
            self.put(type="command_lifecycle", command_uuid=self.uuid, state="started")
        source = "ANTHROPIC_API_KEY"
        init: Json = {"model": "claude-fake", "permissionMode": self.mode, "apiKeySource": source}
        init["tools"] = ["Bash", "mcp__gh__pr"]
        self.put(type="system", subtype="init", cwd="/code", **init, **named)
        word, _, rest = words.partition(" ")
        if self.has("noise"):
            for line in ("not json", "[1, 2]", '"text"', "{}", '{"type": 7}', '{"type": "odd"}'):
                self.raw(line)
        if self.has("half-shapes"):
            self.half_shapes()
        if self.has("dies-in-turn"):
            self.text("half a ")
            return 9
        if self.has("refused-key"):
            error = {"error": "authentication_failed", "error_status": 401}
            self.put(type="system", subtype="api_retry", attempt=1, max_retries=10, **error)
            return None
        match word:
            case "say":
                self.text("x" * 5_000_000 if self.has("big-line") else rest)
                self.end("success", "completed")
            case "ask":
                self.use("Bash", {"command": "touch a"}, ask=True)
            case "question":
                options = [{"label": "Red"}, {"label": "Blue"}]
                several = {"question": "Which?", "multiSelect": True, "options": options}
                self.use("AskUserQuestion", {"questions": [several]}, ask=True)
            case "plan":
                self.use("ExitPlanMode", {"plan": "# Leap"}, ask=True)
            case "leave":
                kinds = {"a1": "local_agent", "b1": "local_bash"}
                tasks = [{"task_id": own, "task_type": kind} for own, kind in kinds.items()]
                self.put(type="system", subtype="background_tasks_changed", tasks=tasks)
                self.text("working ")
            case _:
                self.text("working ")
        return None

    def half_shapes(self) -> None:
        odd: list[Any] = [None, 7, "x", [], {}]
        for value in odd:
            for kind in (
                "assistant",
                "user",
                "stream_event",
                "control_request",
                "result_",
                "system",
            ):
                message = {"message": value, "event": value, "request": value, "subtype": value}
                self.raw(json.dumps({"type": kind, **message}))

    def text(self, words: str) -> None:
        self.count += 1
        own = f"msg_{self.count}"
        pieces = [words[:3], words[3:]] if len(words) > 3 else [words]
        start = {"type": "message_start", "message": {"id": own, "model": "claude-fake"}}
        self.put(type="stream_event", event=start, api_message_id=own)
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            self.put(type="stream_event", event=event, api_message_id=own)
        self.assistant(own, {"type": "text", "text": words})

    def assistant(self, own: str, block: Json) -> None:
        frame = str(uuid4())
        for _ in range(2 if self.has("repeats") else 1):
            self.put(type="assistant", message={"id": own, "content": [block]}, uuid=frame)

    def use(self, name: str, source: Json, *, ask: bool) -> None:
        self.count += 1
        own = f"toolu_{self.count}"
        block = {"type": "tool_use", "id": own, "name": name, "input": source}
        self.assistant(f"msg_{self.count}", block)
        if self.has("asks-too-much"):
            for subtype in ("hook_callback", "mcp_message", "elicitation"):
                request = {"subtype": subtype}
                self.raw(
                    json.dumps(
                        {"type": "control_request", "request_id": subtype, "request": request}
                    )
                )
        if not ask:
            return
        self.asking = own
        rule = {"toolName": name, "ruleContent": "touch *"}
        rules = {"type": "addRules", "rules": [rule], "behavior": "allow"}
        mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
        request = {
            "subtype": "can_use_tool",
            "tool_name": name,
            "input": source,
            "tool_use_id": own,
            "permission_suggestions": [mode, {**rules, "destination": "localSettings"}],
        }
        self.raw(json.dumps({"type": "control_request", "request_id": "leave", "request": request}))
        if self.has("takes-back"):
            self.raw(json.dumps({"type": "control_cancel_request", "request_id": "leave"}))
            self.result("taken back", error=True)

    def answered(self, response: Json) -> None:
        """Repeats the answer as the tool's result, so that a test sees what arrived."""
        if response["request_id"] == "leave" and self.asking:
            answer: Json = response.get("response") or {}
            self.result(json.dumps(answer), error=answer.get("behavior") != "allow")

    def result(self, said: str, *, error: bool) -> None:
        block = {"type": "tool_result", "tool_use_id": self.asking, "content": said}
        self.asking = ""
        message = {"role": "user", "content": [{**block, "is_error": error}]}
        self.put(type="user", message=message)
        self.text(said)
        self.end("success", "completed")

    def end(self, subtype: str, reason: str, *, error: bool = False) -> None:
        if not self.has("no-result"):
            named = {} if self.has("old") else {"user_message_uuids": [self.uuid]}
            usage = {"input_tokens": 10, "output_tokens": 2}
            how = {"terminal_reason": reason, "stop_reason": "end_turn", "is_error": error}
            self.put(type="result", subtype=subtype, usage=usage, **how, **named)
        self.put(type="system", subtype="session_state_changed", state="idle")
        self.uuid = ""


def _value(argv: list[str], flag: str) -> str:
    return next((arg.split("=", 1)[1] for arg in argv if arg.startswith(f"{flag}=")), "")


if __name__ == "__main__":
    sys.exit(Fake(sys.argv[1:]).run())
