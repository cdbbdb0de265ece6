"""The part of every fake agent that is right: an ACP agent of one thread over its own pipes.

Owns framing, ids, sessions and the faultless turn. A fault is a subclass in another file which
overrides the one thing it does wrong.
"""

import json
import os
import select
import sys
import time
from collections.abc import Iterator
from typing import Any, ClassVar, cast

Json = dict[str, Any]
# A forgotten fake must not live for ever, whatever it ignores.
LIFETIME_S = 600.0

ALLOW_ONCE: Json = {"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"}
ALLOW_ALWAYS: Json = {"optionId": "proceed_always", "name": "Always", "kind": "allow_always"}
REJECT_ONCE: Json = {"optionId": "cancel", "name": "Reject", "kind": "reject_once"}
REJECT_ALWAYS: Json = {"optionId": "never", "name": "Never", "kind": "reject_always"}

FAULTS: "dict[str, type[Fake]]" = {}


class Fake:
    """An agent without a fault; `fault` in a subclass names the one it has."""

    fault: ClassVar[str] = ""
    info: ClassVar[Json] = {"name": "fake", "title": "Fake agent", "version": "1.0.0"}
    capabilities: ClassVar[Json] = {
        "loadSession": True,
        "promptCapabilities": {"image": True, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True},
        "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
    }

    def __init_subclass__(cls) -> None:
        if "fault" in cls.__dict__:
            FAULTS[cls.fault] = cls

    def __init__(self, argument: str = "") -> None:
        self.argument = argument
        self.cancelled = False
        self.turns = 0
        self.session_id = ""
        self.prompt_id: Any = None
        self._buffer = b""
        self._backlog: list[Json] = []
        self._sessions = 0
        self._next_id = 0
        self._ends_at = time.monotonic() + LIFETIME_S

    # What a fault overrides.

    def begin(self) -> None:
        """Before the first message is read."""

    def initialize(self, request_id: Any) -> None:
        self.answer(
            request_id,
            {
                "protocolVersion": 1,
                "agentCapabilities": self.capabilities,
                "authMethods": [{"id": "login", "name": "Log in"}],
                "agentInfo": self.info,
            },
        )

    def authenticate(self, request_id: Any) -> None:
        self.answer(request_id, {})

    def new_session(self, request_id: Any) -> None:
        self._sessions += 1
        self.session_id = f"fake-{os.getpid()}-{self._sessions}"
        self.answer(request_id, {"sessionId": self.session_id, "modes": self.modes("default")})

    def load_session(self, request_id: Any) -> None:
        self.replay()
        self.answer(request_id, {"modes": self.modes("default")})

    def resume_session(self, request_id: Any) -> None:
        self.answer(request_id, {"modes": self.modes("default")})

    def set_mode(self, request_id: Any, mode: str) -> None:
        self.answer(request_id, {})
        self.update("current_mode_update", currentModeId=mode)

    def turn(self, text: str) -> None:
        self.say(f"hello, turn {self.turns}")
        self.end()

    def end_of_input(self) -> None:
        raise SystemExit(0)

    # What a fault is built from.

    def raw(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(1, view) :]
            except BrokenPipeError:
                raise SystemExit(0) from None

    def send(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
        self.raw(line.encode() + b"\n")

    def answer(self, request_id: Any, result: Json) -> None:
        self.send({"id": request_id, "result": result})

    def refuse(self, request_id: Any, code: int, message: str, **data: Any) -> None:
        error: Json = {"code": code, "message": message}
        self.send({"id": request_id, "error": {**error, "data": data} if data else error})

    def notify(self, method: str, params: Json) -> None:
        self.send({"method": method, "params": params})

    def update(self, kind: str, /, **fields: Any) -> None:
        body = {"sessionUpdate": kind, **fields}
        self.notify("session/update", {"sessionId": self.session_id, "update": body})

    def say(self, text: str, **more: Any) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **more)

    def tool(self, call_id: str, **fields: Any) -> None:
        fields = {"title": "make", "kind": "execute", "status": "in_progress", **fields}
        self.update("tool_call", toolCallId=call_id, **fields)

    def tool_update(self, call_id: str, text: str | None = None, **fields: Any) -> None:
        if text is not None:
            fields["content"] = [{"type": "content", "content": {"type": "text", "text": text}}]
        self.update("tool_call_update", toolCallId=call_id, **fields)

    def end(self, stop_reason: str = "end_turn", **more: Any) -> None:
        usage = {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}
        self.answer(self.prompt_id, {"stopReason": stop_reason, "usage": usage, **more})

    def modes(self, current: str) -> Json:
        known = [{"id": mode, "name": mode} for mode in ("default", "yolo")]
        return {"currentModeId": current, "availableModes": known}

    def replay(self) -> None:
        """One old turn, as session/load shows it."""
        self.update("user_message_chunk", content={"type": "text", "text": "old question"})
        self.say("old answer")
        self.tool("old-call", status="completed")

    def request(self, method: str, params: Json) -> int:
        """Send a request of ours without waiting; ids start at 0, as real agents have it."""
        request_id, self._next_id = self._next_id, self._next_id + 1
        self.send({"id": request_id, "method": method, "params": params})
        return request_id

    def wait_answer(self, request_id: int) -> Json | None:
        """The response to one of our requests; None when the turn was cancelled meanwhile."""
        for message in self.arriving():
            if "method" not in message and message.get("id") == request_id:
                return message
            if self.cancelled:
                return None
        return None

    def permission(self, call_id: str, options: list[Json], **fields: Any) -> int:
        call = {"toolCallId": call_id, "title": "make", "kind": "execute", "status": "pending"}
        call.update(fields)
        params = {"sessionId": self.session_id, "toolCall": call, "options": options}
        return self.request("session/request_permission", params)

    def wait_choice(self, request_id: int) -> str:
        """The chosen option id, or "cancelled" or "error"."""
        answer = self.wait_answer(request_id)
        if answer is None or "result" not in answer:
            return "error" if answer is not None else "cancelled"
        outcome: Json = answer["result"]["outcome"]
        return str(outcome.get("optionId", outcome["outcome"]))

    def wait_cancel(self) -> None:
        for _ in self.arriving():
            if self.cancelled:
                return

    def rest(self, seconds: float) -> bool:
        """Wait, noting what arrives; true when the turn has been cancelled."""
        until = time.monotonic() + seconds
        while not self.cancelled and (left := until - time.monotonic()) > 0:
            message = self._receive(left)
            if message is not None:
                self._note(message)
        return self.cancelled

    # The loop.

    def arriving(self) -> Iterator[Json]:
        """Messages that arrive during a turn; requests among them are kept for later."""
        while True:
            message = self._receive(None)
            if message is not None:
                self._note(message)
                yield message

    def serve(self) -> None:
        self.begin()
        while True:
            message = self._backlog.pop(0) if self._backlog else self._receive(None)
            if message is not None:
                self.dispatch(message)

    def dispatch(self, message: Json) -> None:
        request_id, params = message.get("id"), cast(Json, message.get("params") or {})
        if "sessionId" in params:
            self.session_id = params["sessionId"]
        match message.get("method"):
            case "initialize":
                self.initialize(request_id)
            case "authenticate":
                self.authenticate(request_id)
            case "session/new":
                self.new_session(request_id)
            case "session/load":
                self.load_session(request_id)
            case "session/resume":
                self.resume_session(request_id)
            case "session/list":
                self.answer(request_id, {"sessions": []})
            case "session/close":
                self.answer(request_id, {})
            case "session/set_mode":
                self.set_mode(request_id, params["modeId"])
            case "session/prompt":
                self.prompt_id, self.cancelled, self.turns = request_id, False, self.turns + 1
                blocks = cast("list[Json]", params["prompt"])
                self.turn("".join(str(block.get("text", "")) for block in blocks))
            case str(method) if request_id is not None:
                self.refuse(request_id, -32601, f"Method not found: {method}")
            case _:
                pass

    def _note(self, message: Json) -> None:
        if message.get("method") == "session/cancel":
            self.cancelled = True
        elif "method" in message and "id" in message:
            self._backlog.append(message)

    def _receive(self, seconds: float | None) -> Json | None:
        """One message; None when the time is over."""
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = self._ends_at - time.monotonic()
            if left <= 0:
                raise SystemExit(1)
            if until is not None:
                left = min(left, max(0.0, until - time.monotonic()))
            readable, _, _ = select.select([0], [], [], left)
            if not readable:
                if until is not None:
                    return None
                continue
            data = os.read(0, 1 << 20)
            if not data:
                self.end_of_input()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return cast(Json, json.loads(line))


class Plain(Fake):
    """No fault at all: the control."""

    fault = "plain"


def log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
