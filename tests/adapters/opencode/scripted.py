"""Owns an OpenCode conversation written by hand: requests, answers and events of one server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentctl.core.adapter import Frame, StartTimer
from agentctl.core.events import Complete, Event, Message, MessageChunk
from agentctl.core.replay import Replayer, frame_of
from agentctl_adapters.opencode.translate import OpenCodeTranslator
from tests.replaying import TRANSCRIPTS, Line, lines_of

S = "ses_1"
OPENCODE = sorted((TRANSCRIPTS / "opencode").glob("*.jsonl"))


class Scripted:
    """One server; times and ids are counted."""

    def __init__(self) -> None:
        self.translator = OpenCodeTranslator()
        self.replayer = Replayer(self.translator)
        self.events: list[Event] = []
        self.timers: dict[str, int] = {}
        self._t = 0
        self._id = 0
        feed = self.translator.feed

        def noted(frame: Frame) -> Sequence[Any]:
            drafts = feed(frame)
            self.timers |= {d.key: d.ms for d in drafts if isinstance(d, StartTimer)}
            return drafts

        self.translator.feed = noted

    def frame(self, frame: Frame) -> list[Event]:
        self._t += 1
        events = self.replayer.feed(self._t, frame)
        self.events += events
        return events

    def fire(self, what: str) -> list[Event]:
        """The timer of that kind goes off."""
        (key,) = [key for key in self.timers if key.startswith(what)]
        return self.frame(Frame("timer", raw=key))

    def finish(self) -> list[Event]:
        events = self.replayer.finish()
        self.events += events
        return events

    # HTTP

    def request(self, method: str, path: str, body: Any = None, **more: Any) -> int:
        self._id += 1
        msg: Line = {"id": self._id, "method": method, "path": path, **more}
        if body is not None:
            msg["body"] = body
        self.frame(Frame("http_request", msg))
        return self._id

    def answer(self, request: int, response: Any = "", status: int = 200, **more: Any) -> None:
        ctype = more.pop("ctype", "application/json")
        msg = {"id": request, "status": status, "ctype": ctype, "response": response, **more}
        self.frame(Frame("http_response", msg))

    def get(self, path: str, response: Any, **more: Any) -> list[Event]:
        before = len(self.events)
        self.answer(self.request("GET", path, **more), response)
        return self.events[before:]

    def session(self, own: str = S, **info: Any) -> None:
        told = {"id": own, "directory": "/code", "title": "t", "time": {"created": 100}, **info}
        self.answer(self.request("POST", "/session", {}), told)
        self.say("session.created", sessionID=own, info=told)

    def prompt(
        self,
        text: str = "hi",
        message: str = "msg_u",
        session: str = S,
        route: str = "prompt_async",
    ) -> int:
        body: Line = {"parts": [{"type": "text", "text": text}]}
        if message:
            body["messageID"] = message
        request = self.request("POST", f"/session/{session}/{route}", body)
        if route == "prompt_async":
            self.answer(request, status=204)
        return request

    # Events

    def say(self, kind: str, **properties: Any) -> list[Event]:
        return self.frame(Frame("sse", {"id": "evt", "type": kind, "properties": properties}))

    def user(self, own: str = "msg_u", session: str = S, **info: Any) -> list[Event]:
        told = {"id": own, "sessionID": session, "role": "user", "time": {"created": 200}, **info}
        return self.say("message.updated", sessionID=session, info=told)

    def open(
        self, own: str = "msg_a", parent: str = "msg_u", session: str = S, **info: Any
    ) -> list[Event]:
        told = {
            "id": own,
            "sessionID": session,
            "role": "assistant",
            "parentID": parent,
            "time": {"created": 201},
            **info,
        }
        return self.say("message.updated", sessionID=session, info=told)

    def done(self, own: str = "msg_a", parent: str = "msg_u", **info: Any) -> list[Event]:
        info = {"finish": "stop", **info}
        return self.open(own, parent, time={"created": 201, "completed": 300}, **info)

    def part(self, own: str, kind: str, message: str = "msg_a", **part: Any) -> list[Event]:
        session = part.pop("session", S)
        delta = part.pop("delta", None)
        told = {"id": own, "sessionID": session, "messageID": message, "type": kind, **part}
        extra = {} if delta is None else {"delta": delta}
        return self.say("message.part.updated", sessionID=session, part=told, **extra)

    def delta(self, own: str, text: str, message: str = "msg_a", session: str = S) -> list[Event]:
        return self.say(
            "message.part.delta",
            sessionID=session,
            messageID=message,
            partID=own,
            field="text",
            delta=text,
        )

    def tool(self, call: str, status: str, tool: str = "bash", **more: Any) -> list[Event]:
        message, session = more.pop("message", "msg_a"), more.pop("session", S)
        state = {"status": status, **more}
        return self.part(
            f"prt_{call}", "tool", message, session=session, callID=call, tool=tool, state=state
        )

    def status(self, word: str, session: str = S) -> list[Event]:
        return self.say("session.status", sessionID=session, status={"type": word})

    def idle(self, session: str = S) -> list[Event]:
        """Both words that the server has for it."""
        return self.status("idle", session) + self.say("session.idle", sessionID=session)

    def begin(self, text: str = "hi") -> None:
        """A prompt that the server took, and its answer that begins."""
        self.session()
        self.prompt(text)
        self.user()
        self.part("prt_u", "text", "msg_u", text=text)
        self.status("busy")
        self.open()

    def texts(self) -> list[str]:
        return [e.payload.text or "" for e in self.events if isinstance(e.payload, MessageChunk)]

    def completes(self) -> list[Complete]:
        return [e.payload for e in self.events if isinstance(e.payload, Complete)]


def shown(events: Sequence[Event]) -> str:
    """The assistant's text as a reader sees it, subagents left out."""
    parts: dict[str, str] = {}
    for event in events:
        if event.parent_tool_call_id is not None:
            continue
        match event.payload:
            case MessageChunk(message_id=own, text=text):
                parts[own] = parts.get(own, "") + (text or "")
            case Message(message_id=own, retracted=True):
                parts[own] = ""
            case Message(message_id=own, content=content):
                parts[own] = "".join(block.text or "" for block in content)
            case _:
                pass
    return "".join(parts.values())


def replayed(path: Path) -> list[Event]:
    replayer = Replayer(OpenCodeTranslator())
    events: list[Event] = []
    for line in lines_of(path):
        frame = frame_of(line)
        if frame is not None:
            events += replayer.feed(line["t"], frame)
    return events + replayer.finish()
