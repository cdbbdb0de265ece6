"""Owns how tests replay a transcript: lines, events, and events as plain rows to compare."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from agentctl.core.adapter import Draft, Frame
from agentctl.core.events import Event
from agentctl.core.replay import Replayer, frame_of
from agentctl.core.turns import Turns
from agentctl_adapters.acp.translate import AcpTranslator

Line = dict[str, Any]
TRANSCRIPTS = Path(__file__).parent / "transcripts"
GOLDEN = TRANSCRIPTS / "golden"
ACP = sorted(TRANSCRIPTS.glob("acp-*/*.jsonl"))
ACP_IDS = [f"{path.parent.name}/{path.stem}" for path in ACP]


def lines_of(path: Path) -> list[Line]:
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


def replayed(lines: Iterable[Line]) -> list[Event]:
    """The events of an ACP transcript."""
    replayer = Replayer(AcpTranslator())
    events: list[Event] = []
    for line in lines:
        frame = frame_of(line)
        if frame is not None:
            events += replayer.feed(line["t"], frame)
    return events + replayer.finish()


def row(event: Event) -> Line:
    """An event as JSON, what is absent left out."""
    told: Line = {"seq": event.seq, "ts": event.ts, "type": event.type.value}
    for name in ("session_id", "run_id", "after_run_id", "parent_tool_call_id"):
        if (value := getattr(event, name)) is not None:
            told[name] = value
    return {**told, "data": plain(event.payload)}


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told: Line = {}
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if inner is None or inner == []:
                continue
            if field.name.endswith("_json"):
                told[field.name.removesuffix("_json")] = json.loads(inner)
            else:
                told[field.name] = plain(inner)
        return told
    if isinstance(value, list):
        return [plain(item) for item in cast(list[Any], value)]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value


class Acp:
    """An ACP conversation written by hand: the other half of a test's sentence."""

    def __init__(self, agent: str = "some-agent") -> None:
        self.replayer = Replayer(AcpTranslator())
        self.events: list[Event] = []
        self._t = 0
        self._id = 0
        self.answer(self.ask("initialize"), {"agentInfo": {"name": agent}})

    def frame(self, frame: Frame) -> list[Event]:
        self._t += 1
        events = self.replayer.feed(self._t, frame)
        self.events += events
        return events

    def send(self, **message: Any) -> list[Event]:
        return self.frame(Frame("to_agent", {"jsonrpc": "2.0", **message}))

    def hear(self, **message: Any) -> list[Event]:
        return self.frame(Frame("from_agent", {"jsonrpc": "2.0", **message}))

    def ask(self, method: str, **params: Any) -> int:
        """A request of ours; its id."""
        self._id += 1
        self.send(id=self._id, method=method, params=params)
        return self._id

    def answer(self, request: int, result: Any) -> list[Event]:
        return self.hear(id=request, result=result)

    def refuse(self, request: int, code: int, message: str, **data: Any) -> list[Event]:
        error = {"code": code, "message": message, **({"data": data} if data else {})}
        return self.hear(id=request, error=error)

    def session(self, name: str = "s", **offers: Any) -> list[Event]:
        request = self.ask("session/new", cwd="/code", mcpServers=[])
        return self.answer(request, {"sessionId": name, **offers})

    def prompt(self, text: str = "hi", session: str = "s") -> int:
        block = {"type": "text", "text": text}
        return self.ask("session/prompt", sessionId=session, prompt=[block])

    def end(self, request: int, stop: str = "end_turn", **more: Any) -> list[Event]:
        return self.answer(request, {"stopReason": stop, **more})

    def update(self, word: str, /, session: str = "s", **fields: Any) -> list[Event]:
        update = {"sessionUpdate": word, **fields}
        return self.hear(method="session/update", params={"sessionId": session, "update": update})

    def text(self, text: str, session: str = "s", **more: Any) -> list[Event]:
        content = {"type": "text", "text": text}
        return self.update("agent_message_chunk", session, content=content, **more)

    def permission(
        self, request: Any, call: Line | None = None, session: str = "s", **kinds: str
    ) -> list[Event]:
        kinds = kinds or {"yes": "allow_once", "no": "reject_once"}
        options = [{"optionId": o, "name": o, "kind": kind} for o, kind in kinds.items()]
        params = {"sessionId": session, "toolCall": call or {}, "options": options}
        return self.hear(id=request, method="session/request_permission", params=params)

    def choose(self, request: Any, option: str) -> list[Event]:
        outcome = {"outcome": "selected", "optionId": option}
        return self.send(id=request, result={"outcome": outcome})

    def finish(self) -> list[Event]:
        events = self.replayer.finish()
        self.events += events
        return events


def payloads(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    """The payloads of one kind, in order."""
    return [event.payload for event in events if isinstance(event.payload, kind)]


def one(events: Sequence[Event], kind: type[Any]) -> Any:
    """The only payload of a kind."""
    (found,) = payloads(events, kind)
    return found


def counted_mint() -> Any:
    """Ids run_1, run_2, apr_1 …"""
    counts: dict[str, int] = {}

    def mint(kind: str) -> str:
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}_{counts[kind]}"

    return mint


def turns() -> Turns:
    return Turns(mint=counted_mint())


def say(payload: Any, **more: Any) -> Draft:
    """A draft of the session "s"."""
    return Draft(payload, cast(Any, "s"), **more)
