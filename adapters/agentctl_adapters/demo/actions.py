"""What each directive of the script language does, and the short tour of a plain prompt.

Owns the effects: files of the workspace, commands, the process's own end. Knows no framing and no ids.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from agentctl_adapters.demo.script import Step
from agentctl_adapters.demo.shell import Shells, spawn_escape
from agentctl_adapters.demo.turn import Turn, TurnCancelled, note
from agentctl_adapters.demo.wire import AUTH_REQUIRED, Json, RpcError, encode, obj

READ_LIMIT = 64 * 1024
BLOCK = 256 * 1024
MODES = {
    "ask": "Asks before it edits or runs anything",
    "auto": "Asks nothing",
    "plan": "Only reads and plans",
}
# Pause between two pieces of the tour: slow enough to be watched, short enough for an impatient eye.
BEAT_S = 0.04
# What comes after the answer must really be late: the answer has left the pipe by then.
LATE_S = 0.03

# A picture of one pixel, as the protocol carries it.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_WORDS = (
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "runs",
    "on",
)


class Actions:
    """Runs steps in one turn."""

    def __init__(self, turn: Turn, shells: Shells) -> None:
        self._turn = turn
        self._shells = shells
        self._verbs: dict[str, Callable[[Step], None]] = {
            "say": lambda step: turn.say(step.text),
            "unknown": lambda step: turn.say(f"I do not know how to: {step.text}\nTry /help."),
            "words": lambda step: self._words(step.numbers[0], 0),
            "slow": lambda step: self._words(*step.numbers),
            "big": lambda step: turn.say("b" * step.numbers[0]),
            "chunks": lambda step: self._chunks(*step.numbers),
            "think": lambda step: turn.think(step.text),
            "plan": self._plan,
            "read": self._read,
            "run": lambda step: self._run(step.text, ask=True),
            "run!": lambda step: self._run(step.text, ask=False),
            "write": self._write,
            "picture": self._picture,
            "ask": self._ask,
            "usage": lambda _: turn.report_usage(),
            "title": self._title,
            "mode": self._mode,
            "modelname": lambda _: turn.say(turn.saved.model),
            "history": lambda _: turn.say(f"This session has seen {turn.saved.turns} user turns."),
            "env": self._env,
            "argv": lambda _: turn.say(json.dumps(sys.argv)),
            "cwd": lambda _: turn.say(f"session: {turn.saved.cwd}\nprocess: {Path.cwd()}"),
            "mcp": self._mcp,
            "background": self._background,
            "late": lambda step: turn.afterwards.append(lambda: turn.say(step.text)),
            "outside": lambda _: turn.afterwards.append(self._outside),
            "model-error": self._model_error,
            "auth-error": self._auth_error,
            "crash": lambda step: os._exit(step.numbers[0] if step.numbers else 1),
            "hang": lambda _: self._hang(),
            "hang-hard": lambda _: self._hang_hard(),
            "exit-on-cancel": lambda _: self._exit_on_cancel(),
            "stderr": self._stderr,
            "noise": lambda step: turn.wire.write(step.text.encode() + b"\n"),
            "spawn-escape": lambda _: turn.say(f"escaped pid {spawn_escape()}"),
        }

    def perform(self, step: Step) -> None:
        """Do one step.

        Raises:
            TurnCancelled: The turn was cancelled before or during it.
            RpcError: The step ends the turn with this error.
        """
        if self._turn.cancelled.is_set() and step.verb not in _DEAF:
            raise TurnCancelled
        self._verbs[step.verb](step)

    def tour(self) -> None:
        """The canned turn of a prompt that is no script: a bit of everything, in under 2 s."""
        turn = self._turn
        if turn.attachments:
            self._tell(f"Thank you for the {' and the '.join(turn.attachments)}. ")
        self._tell("Hello! I am the demo agent: ", "no model, ", "no key, ", "no network. ")
        self._tell("Here is what a turn ", "looks like.\n")
        turn.think("Look around first, then write one small file, if I may.")
        steps = ["Look around the workspace", "Ask to write demo.txt", "Say goodbye"]
        turn.plan([(steps[0], "in_progress"), (steps[1], "pending"), (steps[2], "pending")])
        turn.pause(BEAT_S)
        self._look_around()
        turn.plan([(steps[0], "completed"), (steps[1], "in_progress"), (steps[2], "pending")])
        written = self._edit_demo_file()
        turn.plan([(steps[0], "completed"), (steps[1], "completed"), (steps[2], "in_progress")])
        self._tell("\nI wrote demo.txt, " if written else "\nI left demo.txt alone, ")
        self._tell("as you said. " if turn.saved.mode == "ask" else f"by mode {turn.saved.mode}. ")
        self._tell("That is all of me. ", "Give me a script to see more, ")
        self._tell("for example: run date || think nice || say bye. ", "/help lists the rest.")
        turn.plan([(step, "completed") for step in steps])
        turn.report_usage()

    def _tell(self, *pieces: str) -> None:
        for piece in pieces:
            self._turn.say(piece)
            self._turn.pause(BEAT_S)

    def _look_around(self) -> None:
        turn, call_id = self._turn, self._turn.call_id()
        cwd = turn.saved.cwd
        locations = [{"path": cwd}]
        turn.tool(call_id, "Look around the workspace", "read", "in_progress", locations=locations)
        turn.pause(BEAT_S)
        try:
            names = sorted(entry.name for entry in Path(cwd).iterdir())
        except OSError as error:
            turn.tool_update(call_id, status="failed", content=_text(str(error)))
            return
        shown = "\n".join(names[:8]) or "(empty)"
        more = f"\n… and {len(names) - 8} more" if len(names) > 8 else ""
        turn.tool_update(call_id, status="completed", content=_text(shown + more))

    def _edit_demo_file(self) -> bool:
        turn, call_id = self._turn, self._turn.call_id()
        path = Path(turn.saved.cwd, "demo.txt")
        call = _edit(call_id, path, f"Hello from the demo agent, turn {turn.saved.turns}.\n")
        turn.tool(**{_NAMES.get(key, key): value for key, value in call.items()}, status="pending")
        if self._refused(call, always_ask=False):
            turn.tool_update(call_id, status="failed", content=_text("Not allowed."))
            return False
        turn.tool_update(call_id, status="in_progress")
        turn.pause(BEAT_S)
        return self._apply(call_id, path, call)

    def _refused(self, call: Json, *, always_ask: bool) -> bool:
        if self._turn.saved.mode == "plan":
            return True
        return not self._turn.allowed(call, always_ask=always_ask)

    def _apply(self, call_id: str, path: Path, call: Json) -> bool:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(call["content"][0]["newText"], encoding="utf-8", errors="replace")
        except OSError as error:
            self._turn.tool_update(call_id, status="failed", content=_text(str(error)))
            return False
        self._turn.tool_update(call_id, status="completed", content=call["content"])
        return True

    def _words(self, count: int, gap_ms: int) -> None:
        for index in range(count):
            self._turn.say(("" if index == 0 else " ") + _WORDS[index % len(_WORDS)])
            self._turn.pause(gap_ms / 1000)

    def _chunks(self, count: int, size: int) -> None:
        turn = self._turn
        body = turn.chunk("c" * size)
        turn.saved.remember(body)
        params = {"sessionId": turn.saved.session_id, "update": body}
        line = encode({"jsonrpc": "2.0", "method": "session/update", "params": params})
        per_block = max(1, BLOCK // len(line))
        block = line * per_block
        for _ in range(count // per_block):
            turn.pause(0)
            turn.wire.write(block)
        turn.wire.write(line * (count % per_block))

    def _plan(self, _: Step) -> None:
        done, doing = ("Understand the task", "completed"), ("Do it", "in_progress")
        self._turn.plan([done, doing, ("Check the result", "pending")])

    def _inside(self, name: str) -> Path | None:
        """The path under the workspace, or None when it leads out of it."""
        workspace = os.path.realpath(self._turn.saved.cwd)
        target = os.path.realpath(os.path.join(workspace, name))  # noqa: PTH118 - name may be absolute
        return Path(target) if os.path.commonpath([workspace, target]) == workspace else None

    def _read(self, step: Step) -> None:
        turn, call_id = self._turn, self._turn.call_id()
        path = self._inside(step.text)
        locations = [{"path": str(path or step.text)}]
        title = f"Read {step.text}"
        turn.tool(call_id, title, "read", "in_progress", locations=locations)
        try:
            if path is None:
                raise PermissionError(f"{step.text} is outside the workspace")
            with path.open("rb") as file:
                text = file.read(READ_LIMIT).decode("utf-8", "replace")
        except OSError as error:
            turn.tool_update(call_id, status="failed", content=_text(str(error)))
            return
        turn.tool_update(call_id, status="completed", content=_text(text))

    def _write(self, step: Step) -> None:
        turn, call_id = self._turn, self._turn.call_id()
        name, _, text = step.text.partition(" ")
        path = self._inside(name)
        if path is None:
            message = _text(f"{name} is outside the workspace")
            turn.tool_update(call_id, status="failed", content=message)
            return
        call = _edit(call_id, path, text)
        if turn.saved.mode == "auto":
            named = {_NAMES.get(key, key): value for key, value in call.items()}
            turn.tool(**named, status="in_progress")
        elif self._refused(call, always_ask=False):
            return
        self._apply(call_id, path, call)

    def _run(self, command: str, *, ask: bool) -> None:
        turn, call_id = self._turn, self._turn.call_id()
        raw: Json = {"command": command, "cwd": turn.saved.cwd}
        call: Json = {"toolCallId": call_id, "title": command, "kind": "execute", "rawInput": raw}
        turn.tool(call_id, command, "execute", "pending" if ask else "in_progress", rawInput=raw)
        if ask:
            if self._refused(call, always_ask=False):
                turn.tool_update(call_id, status="failed", content=_text("Not allowed."))
                return
            turn.tool_update(call_id, status="in_progress")
        self._stream(call_id, command, turn.cancelled)
        if turn.cancelled.is_set():
            raise TurnCancelled

    def _stream(self, call_id: str, command: str, stop: threading.Event) -> None:
        turn, output = self._turn, ""

        def show(text: str) -> None:
            nonlocal output
            output = text
            turn.tool_update(call_id, keep=False, content=_text(text))

        try:
            running = self._shells.start(command, turn.saved.cwd)
        except OSError as error:
            turn.tool_update(call_id, status="failed", content=_text(str(error)))
            return
        code = running.stream(show, stop)
        raw: Json = {"exitCode": code, "output": output}
        if code is None:
            raw = {"cancelled": True, "output": output}
        elif code < 0:
            raw = {"exitCode": None, "signal": -code, "output": output}
        if running.truncated:
            raw["truncated"] = True
        status = "completed" if code == 0 else "failed"
        turn.tool_update(call_id, status=status, content=_text(output), rawOutput=raw)

    def _picture(self, step: Step) -> None:
        turn = self._turn
        image: Json = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        if not step.text:
            turn.update({"sessionUpdate": "agent_message_chunk", "content": image})
            return
        call_id = turn.call_id()
        turn.tool(call_id, step.text, "other", "in_progress")
        content: list[Json] = [{"type": "content", "content": image}]
        turn.tool_update(call_id, status="completed", content=content)

    def _background(self, step: Step) -> None:
        turn, call_id = self._turn, self._turn.call_id()
        raw = {"command": step.text, "run_in_background": True}
        turn.tool(call_id, step.text, "execute", "in_progress", rawInput=raw)
        never = threading.Event()
        threading.Thread(target=self._stream, args=(call_id, step.text, never), daemon=True).start()

    def _ask(self, step: Step) -> None:
        turn = self._turn
        if "form" not in obj(turn.client_capabilities.get("elicitation")):
            turn.say(step.text)
            return
        schema = {
            "type": "object",
            "properties": {"answer": {"type": "string", "title": "Answer"}},
            "required": ["answer"],
        }
        params = {
            "mode": "form",
            "sessionId": turn.saved.session_id,
            "message": step.text,
            "requestedSchema": schema,
        }
        result = turn.request("elicitation/create", params)
        if result.get("action") == "accept":
            turn.say(f"You answered: {obj(result.get('content')).get('answer')}")
        else:
            turn.say(f"No answer: {result.get('action', 'the client refused')}")

    def _title(self, step: Step) -> None:
        self._turn.saved.title = step.text
        body = {"sessionUpdate": "session_info_update", "title": step.text}
        self._turn.update(body, keep=False)

    def _mode(self, step: Step) -> None:
        turn = self._turn
        if not step.text:
            turn.say(turn.saved.mode)
        elif step.text in MODES:
            turn.saved.mode = step.text
            body = {"sessionUpdate": "current_mode_update", "currentModeId": step.text}
            turn.update(body, keep=False)
        else:
            turn.say(f"There is no mode {step.text}.")

    def _env(self, step: Step) -> None:
        value = os.environ.get(step.text)
        self._turn.say(f"{step.text} is not set" if value is None else f"{step.text}={value}")

    def _mcp(self, _: Step) -> None:
        lines = [_describe(server) for server in self._turn.live.mcp_servers]
        self._turn.say("\n".join(lines) or "no MCP servers")

    def _outside(self) -> None:
        call: Json = {"toolCallId": "index", "title": "Index the workspace", "kind": "other"}
        answer = self._turn.allowed(call, always_ask=True)
        note(f"indexing the workspace was {'allowed' if answer else 'not allowed'}")

    def _model_error(self, step: Step) -> None:
        raise RpcError(step.numbers[0], step.text)

    def _auth_error(self, _: Step) -> None:
        raise RpcError(AUTH_REQUIRED, "Authentication required")

    def _hang(self) -> None:
        self._turn.cancelled.wait()
        raise TurnCancelled

    def _hang_hard(self) -> None:
        threading.Event().wait()

    def _exit_on_cancel(self) -> None:
        self._turn.cancelled.wait()
        os._exit(0)

    def _stderr(self, step: Step) -> None:
        sys.stderr.write(step.text + "\n")
        sys.stderr.flush()


# A cancel that comes just before one of these must meet it all the same.
_DEAF = frozenset({"hang-hard", "exit-on-cancel"})
_NAMES = {"toolCallId": "call_id"}


def _text(text: str) -> list[Json]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def _edit(call_id: str, path: Path, text: str) -> Json:
    try:
        old = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        old = None
    diff = {"type": "diff", "path": str(path), "oldText": old, "newText": text}
    return {
        "toolCallId": call_id,
        "title": f"Write {path.name}",
        "kind": "edit",
        "content": [diff],
        "locations": [{"path": str(path)}],
    }


def _describe(server: Json) -> str:
    """One MCP server without its secrets: of env and headers only the names."""
    kind = server.get("type", "stdio")
    where = server.get("url") or " ".join([server.get("command", ""), *server.get("args", [])])
    given: list[Json] = server.get("env") or server.get("headers") or []
    names = [str(entry.get("name")) for entry in given]
    extra = f" [{', '.join(names)}]" if names else ""
    return f"{server.get('name')} ({kind}): {where}{extra}"
