"""Owns the replay of a recording: transcript lines to frames, and frames to stamped events.

Pure: the same translator and turns as live, with ids `run_1` … and the recording's own clock. It
refuses to open files and to know a protocol. No timer fires here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from agentctl.core.adapter import (
    AnyDraft,
    Frame,
    PermissionAnswered,
    ProcessGone,
    ProcessStarted,
    QuestionAnswered,
    StartTimer,
    Translator,
)
from agentctl.core.events import Complete, Event, RunStatus
from agentctl.core.turns import Turns
from agentctl.core.words import RunChange

_LINES = frozenset({"to_agent", "from_agent", "http_request", "http_response", "sse"})


def frame_of(line: Mapping[str, Any]) -> Frame | None:
    """A transcript line as a frame; None for notes that no translator needs."""
    direction, msg = line.get("dir"), line.get("msg")
    if direction in _LINES:
        raw = line.get("raw")
        if isinstance(msg, dict) and "id" in line and direction.startswith("http_"):
            msg = {"id": line["id"], **cast(dict[str, Any], msg)}
        return Frame(direction, msg, raw if msg is None else None)
    facts = cast(dict[str, Any], msg) if isinstance(msg, dict) else {}
    if direction == "stderr":
        return Frame("stderr", raw=str(facts.get("text", line.get("raw") or "")))
    if direction != "note":
        return None
    match facts.get("event"):
        case "spawn":
            return Frame("spawn")
        case "stdout_end":
            return Frame("stdout_end")
        case "exit":
            return Frame("exit", _exit(facts))
        case _:
            return None


def _exit(facts: Mapping[str, Any]) -> dict[str, int | None]:
    code, signal = facts.get("code"), facts.get("signal")
    if isinstance(code, int) and code < 0:
        code, signal = None, -code
    return {
        "code": code if isinstance(code, int) else None,
        "signal": signal if isinstance(signal, int) else None,
    }


class Replayer:
    """Feeds one recording, line by line, and numbers what comes out."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._counts: Counter[str] = Counter()
        self._seq = 0
        self._turns: dict[str | None, Turns] = {}
        self._names: dict[str | None, str | None] = {None: None}
        self._started: dict[str, int] = {}
        self._t = 0

    def feed(self, t_ms: int, frame: Frame) -> list[Event]:
        """The events of one line, stamped with its time (ms)."""
        self._t = t_ms
        return self._take(self._translator.feed(frame))

    def finish(self) -> list[Event]:
        """The end of the file ends whatever is still open."""
        return self._take([*self._translator.flush(), ProcessGone()])

    def _take(self, drafts: Sequence[AnyDraft]) -> list[Event]:
        events: list[Event] = []
        for draft in drafts:
            if isinstance(draft, StartTimer):
                continue
            if isinstance(draft, ProcessStarted | ProcessGone) or _is_for_anyone(draft):
                for native in [*self._turns]:
                    events += self._stamp(native, self._turns[native].apply(draft))
                continue
            native = cast(Any, draft).session
            events += self._stamp(native, self._of(native).apply(draft))
        return events

    def _of(self, native: str | None) -> Turns:
        turns = self._turns.get(native)
        if turns is None:
            turns = self._turns[native] = Turns(mint=self._mint)
            if native is not None:
                self._names[native] = self._mint("ses")
        return turns

    def _mint(self, kind: str) -> str:
        self._counts[kind] += 1
        return f"{kind}_{self._counts[kind]}"

    def _stamp(self, native: str | None, events: list[Event]) -> list[Event]:
        for event in events:
            self._seq += 1
            event.seq = self._seq
            event.ts = self._t
            event.session_id = self._names[native]
            match event.payload:
                case RunStatus(status=RunChange.STARTED) if event.run_id is not None:
                    self._started[event.run_id] = self._t
                case Complete() as complete if event.run_id is not None:
                    complete.started_at = self._started.pop(event.run_id, None)
                    complete.ended_at = self._t
                case _:
                    pass
        return events


def _is_for_anyone(draft: AnyDraft) -> bool:
    """An answer whose request named no session: whoever asked knows it."""
    answered = isinstance(draft, PermissionAnswered | QuestionAnswered)
    return answered and draft.session is None
