"""Owns one journal transaction in the making: events, the records they changed, what follows.

Whoever changes state fills one of these without awaiting, then commits it: so the order of calls is
the order in the journal, and nothing is told to an agent or a waiter before it is durable.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import anyio

from agentctl.core.events import Complete, Event, ToolUpdate
from agentctl.core.parts import RunError
from agentctl.core.words import EventType, Outcome, RunState
from agentctl.journal.store import Doc
from agentctl.session.ids import now_ms
from agentctl.session.ports import JournalPort
from agentctl.session.records import RunRecord
from agentctl.session.store import Record, doc_of

DISK_FULL = RunError("DISK_FULL", "The disk is full. Free some space, then prompt again.", True)

# What a client must see of a run even when there is no room for what the agent said in it.
_ENDS = frozenset(
    {
        EventType.AGENT_STATUS,
        EventType.SESSION_STATUS,
        EventType.RUN_STATUS,
        EventType.TOOL_CALL,
        EventType.PERMISSION_REQUEST,
        EventType.PERMISSION_RESOLVED,
        EventType.QUESTION_REQUEST,
        EventType.QUESTION_RESOLVED,
        EventType.ERROR,
        EventType.COMPLETE,
    }
)


@dataclass(slots=True)
class Writes:
    """`dirty` maps a record's identity to it, so that a batch stores each record once."""

    now: int = field(default_factory=now_ms)
    events: list[Event] = field(default_factory=list[Event])
    dirty: dict[int, Record] = field(default_factory=dict[int, Record])
    docs: list[Doc] = field(default_factory=list[Doc])
    after: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    vital: bool = False

    def touch(self, record: Record) -> None:
        self.dirty[id(record)] = record

    async def commit(self, journal: JournalPort) -> None:
        """Appends all of it at once, then runs what follows; a cancel waits until both are done.

        Raises:
            Exhausted: the disk is full and this was not vital; what follows did not run.
        """
        docs = self.docs + [doc_of(record) for record in self.dirty.values()]
        if self.events or docs:
            # The append happens whoever leaves: an answer journalled and never sent would hang.
            with anyio.CancelScope(shield=True):
                await journal.append(self.events, docs, vital=self.vital)
        for step in self.after:
            step()

    async def commit_ends(self, journal: JournalPort, open_runs: Collection[str]) -> None:
        """With the disk full: state has moved on, so its marks are kept and the bulk is dropped.

        What belongs to none of `open_runs` is late: a vital commit has overtaken this one.
        """
        self.vital = True
        ending = {event.run_id for event in self.events if isinstance(event.payload, Complete)}
        for event in self.events:
            if event.run_id not in ending and event.run_id not in open_runs:
                event.after_run_id, event.run_id = event.run_id or event.after_run_id, None
        kept = [event for event in self.events if _ends(event)]
        if len(kept) < len(self.events):
            self._fail_runs(kept)
        self.events = kept
        await self.commit(journal)

    def _fail_runs(self, events: list[Event]) -> None:
        """A run whose last words were lost did not complete, whatever its agent says."""
        for event in events:
            event.raw = None
            if isinstance(event.payload, Complete) and event.payload.outcome is Outcome.COMPLETED:
                event.payload.outcome, event.payload.error = Outcome.FAILED, DISK_FULL
        for record in self.dirty.values():
            if isinstance(record, RunRecord) and record.state is RunState.COMPLETED:
                record.state, record.error = RunState.FAILED, DISK_FULL


def _ends(event: Event) -> bool:
    if isinstance(event.payload, ToolUpdate):
        return event.payload.status is not None
    return event.type in _ENDS
