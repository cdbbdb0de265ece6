"""Owns one journal transaction in the making: events, the records they changed, what follows.

Whoever changes state fills one of these without awaiting, then commits it: so the order of calls is
the order in the journal, and nothing is told to an agent or a waiter before it is durable.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from agentctl.core.events import Event
from agentctl.journal.store import Doc
from agentctl.session.ids import now_ms
from agentctl.session.ports import JournalPort
from agentctl.session.store import Record, doc_of


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
        """Appends all of it at once, then runs what follows.

        Raises:
            Exhausted: the disk is full and this was not vital; what follows did not run.
        """
        docs = self.docs + [doc_of(record) for record in self.dirty.values()]
        if self.events or docs:
            await journal.append(self.events, docs, vital=self.vital)
        for step in self.after:
            step()
