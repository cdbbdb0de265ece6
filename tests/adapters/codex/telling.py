"""Owns how tests of the Codex translator tell a conversation by hand, or replay a recorded one."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentctl.core.adapter import Frame
from agentctl.core.events import Complete, Event
from agentctl.core.replay import Replayer, frame_of
from agentctl_adapters.codex.translate import CodexTranslator

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "transcripts/codex").glob("*.jsonl"))


def replayed(lines: Iterable[dict[str, Any]]) -> list[Event]:
    replayer = Replayer(CodexTranslator())
    events: list[Event] = []
    for line in lines:
        if (frame := frame_of(line)) is not None:
            events += replayer.feed(line["t"], frame)
    return events + replayer.finish()


class Codex:
    """A conversation with one thread `t`: the other half of a test's sentence."""

    def __init__(self) -> None:
        self.translator = CodexTranslator()
        self.replayer = Replayer(self.translator)
        self.events: list[Event] = []
        self._t = 0
        self._id = 0
        self.answer(self.ask("thread/start", cwd="/w"), thread={"id": "t"}, model="m")
        self.events.clear()

    def frame(self, frame: Frame) -> list[Event]:
        self._t += 1
        events = self.replayer.feed(self._t, frame)
        self.events += events
        return events

    def ask(self, method: str, **params: Any) -> int:
        """A request of ours; its id."""
        self._id += 1
        self.frame(Frame("to_agent", {"id": self._id, "method": method, "params": params}))
        return self._id

    def answer(self, request: int, **result: Any) -> list[Event]:
        return self.frame(Frame("from_agent", {"id": request, "result": result}))

    def refuse(self, request: int, message: str) -> list[Event]:
        error = {"code": -32600, "message": message}
        return self.frame(Frame("from_agent", {"id": request, "error": error}))

    def hear(self, method: str, **params: Any) -> list[Event]:
        told = {"threadId": "t", **params}
        return self.frame(Frame("from_agent", {"method": method, "params": told}))

    def asked(self, request: int, method: str, **params: Any) -> list[Event]:
        """A request of the agent."""
        told = {"threadId": "t", "turnId": "T", **params}
        return self.frame(Frame("from_agent", {"id": request, "method": method, "params": told}))

    def reply(self, request: int, **result: Any) -> list[Event]:
        return self.frame(Frame("to_agent", {"id": request, "result": result}))

    def prompt(self, turn: str = "T", words: str = "hi", thread: str = "t") -> int:
        """A prompt that becomes the turn at once."""
        block = {"type": "text", "text": words}
        request = self.ask("turn/start", threadId=thread, input=[block])
        self.answer(request, turn={"id": turn, "rootTurnId": turn})
        self.hear("turn/started", threadId=thread, turn={"id": turn, "rootTurnId": turn})
        return request

    def item(self, what: str, turn: str = "T", thread: str = "t", **item: Any) -> list[Event]:
        return self.hear(f"item/{what}", threadId=thread, turnId=turn, item=item)

    def delta(self, text: str, item: str = "m1", turn: str = "T") -> list[Event]:
        return self.hear("item/agentMessage/delta", turnId=turn, itemId=item, delta=text)

    def end(self, status: str = "completed", turn: str = "T", **more: Any) -> list[Event]:
        return self.hear("turn/completed", turn={"id": turn, "status": status, **more})

    def gone(self) -> list[Event]:
        return self.frame(Frame("stdout_end"))

    def ends(self) -> list[Complete]:
        return [e.payload for e in self.events if isinstance(e.payload, Complete)]

    def of(self, kind: type) -> list[Any]:
        return [e.payload for e in self.events if isinstance(e.payload, kind)]
