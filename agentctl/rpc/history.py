"""Owns the reading of a session back from the journal, up to its head at the call.

It decodes what the hub serves; what the events mean is the business of `conversation` and `tally`.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from agentctl import v1
from agentctl.core.words import EventType
from agentctl.rpc.ports import HubApi
from agentctl.session.hub import Query


@dataclass(frozen=True, slots=True)
class Piece:
    """Some events in order, and the cursor behind them."""

    events: Sequence[v1.AgentEvent]
    cursor: str

    @property
    def seq(self) -> int:
        """The place in the journal behind these events."""
        return int(self.cursor.rpartition(":")[2])


TURN = 250
"""Events that are worked on in one go: a few milliseconds, in which nobody else is served."""


def portions(events: Sequence[v1.AgentEvent]) -> Iterator[Sequence[v1.AgentEvent]]:
    """The events in order, TURN at a time; whoever takes them lets others go between."""
    for start in range(0, len(events), TURN):
        yield events[start : start + TURN]


async def read(
    hub: HubApi,
    *,
    sessions: frozenset[str] = frozenset(),
    runs: frozenset[str] = frozenset(),
    types: frozenset[EventType] = frozenset(),
    upto: int | None = None,
) -> AsyncGenerator[Piece]:
    """The kept events of sessions (all when empty) and types; close it when done.

    Args:
        hub: where they are.
        sessions: only of these.
        runs: only of these.
        types: only these; empty = all but log.
        upto: the last place to read; None = the head at this call.
    """
    query = Query(sessions=sessions, runs=runs, types=types, follow=False)
    async with aclosing(hub.subscribe(query)) as batches:
        async for batch in batches:
            events: Sequence[v1.AgentEvent] = v1.EventBatch.FromString(batch.data).events
            if upto is not None and events and events[-1].seq > upto:
                yield Piece([each for each in events if each.seq <= upto], batch.cursor)
                return
            yield Piece(events, batch.cursor)
