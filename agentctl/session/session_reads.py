"""Owns the finding of sessions: by id, by filter, by key; changes nothing."""

import dataclasses
from collections import Counter
from collections.abc import AsyncGenerator, Sequence

import anyio

from agentctl.core.errors import NotFound, TimedOut
from agentctl.core.words import SessionPhase, SessionState
from agentctl.journal.store import Where
from agentctl.session.base import Base, page
from agentctl.session.progress import phase_of
from agentctl.session.records import (
    SessionCounts,
    SessionFilter,
    SessionRecord,
    TallyRecord,
    places,
)
from agentctl.session.store import label, load, load_many, load_tally

# Runs that are counted in one go: a few milliseconds, in which nobody else is served.
TALLIES = 500


class SessionReads(Base):
    async def wait_ready(self, session_id: str, timeout_ms: int | None) -> SessionRecord:
        """Waits until the start is over; raises what it raised, or TimedOut."""
        session = self.sessions.get(session_id) or self._by_tail(session_id)
        if session is None:
            return await self.get_session(session_id)
        seconds = None if timeout_ms is None else timeout_ms / 1000
        with anyio.move_on_after(seconds):
            await session.driver.wait_settled()
            return session.record
        raise TimedOut(
            f"session {session_id} has been starting for {timeout_ms} ms and goes on. Look again: "
            f"agentctl session show {session_id}"
        )

    async def get_session(self, session_id: str) -> SessionRecord:
        """Open or closed, by id or unique tail of an open one."""
        session = self.sessions.get(session_id) or self._by_tail(session_id)
        if session is not None:
            return session.record
        record = await self.fetch(SessionRecord, "session", session_id)
        if record is None:
            raise NotFound(
                f'there is no session "{session_id}". See them with: agentctl session ls',
                reason="SESSION_NOT_FOUND",
            )
        return record

    async def list_sessions(
        self, where: SessionFilter, *, after: str = "", limit: int = 100
    ) -> tuple[list[SessionRecord], str]:
        """Newest first."""
        where = self._placed(where)
        here = self._in_memory(where)
        but = list(self.sessions)
        found = [record for record in here if not after or record.id < after]
        if where.include_closed:
            docs = await self.deps.journal.briefed(
                "session", _conditions(where), but=but, before_id=after, limit=limit + 1
            )
            found += await load_many(SessionRecord, docs)
        found.sort(key=lambda record: record.id, reverse=True)
        return page(found[: limit + 1], limit, lambda record: record.id)

    async def count_sessions(self, where: SessionFilter) -> int:
        """How many fit."""
        where = self._placed(where)
        here = len(self._in_memory(where))
        if not where.include_closed:
            return here
        but = list(self.sessions)
        return here + await self.deps.journal.count_briefed("session", _conditions(where), but=but)

    async def count_by_entry(self, where: SessionFilter) -> dict[str, SessionCounts]:
        """How many fit, by registry entry."""
        here = self._in_memory(where)
        counts = Counter(record.spec.entry_id for record in here)
        active = Counter(
            record.spec.entry_id
            for record in here
            if phase_of(record.state, record.last_outcome) is SessionPhase.ACTIVE
        )
        if where.include_closed:
            counts.update(
                await self.deps.journal.count_by(
                    "session", "entry", _conditions(where), but=list(self.sessions)
                )
            )
        return {entry: SessionCounts(counts[entry], active[entry]) for entry in counts}

    async def tallies(self, session_id: str = "") -> AsyncGenerator[Sequence[TallyRecord]]:
        """What each kept run did; of open sessions as it is known at this moment."""
        live = {
            run_id: tally
            for session in self.sessions.values()
            if session_id in ("", session.id)
            for run_id, tally in session.ledger.facts.tallies.items()
        }
        after = ""
        while True:
            docs = await self.deps.journal.docs(
                "tally", session_id=session_id or None, after_id=after, limit=TALLIES
            )
            yield [live.pop(doc.id, None) or load_tally(doc) for doc in docs]
            if len(docs) < TALLIES:
                break
            after = docs[-1].id
        yield list(live.values())

    def _placed(self, where: SessionFilter) -> SessionFilter:
        root, path = self.deps.workspace_root, where.workspace
        if not path or root is None:
            return where
        return dataclasses.replace(where, workspace=str(root / path))

    def _in_memory(self, where: SessionFilter) -> list[SessionRecord]:
        return [s.record for s in self.sessions.values() if _matches(s.record, where)]

    async def resolve_session(self, where: SessionFilter) -> SessionRecord:
        """The newest session that fits; open ones first, then those that can be resumed.

        Raises:
            NotFound: none fits.
        """
        where = self._placed(where)
        here = self._in_memory(dataclasses.replace(where, include_closed=False))
        if here:
            return max(here, key=lambda record: record.id)
        fit, but = _conditions(where), list(self.sessions)
        for conditions in ([*fit, Where("saved", ("yes",))], fit):
            docs = await self.deps.journal.briefed("session", conditions, but=but, limit=1)
            if docs:
                return load(SessionRecord, docs[0])
        raise NotFound(
            "no session fits. See them with: agentctl session ls", reason="SESSION_NOT_FOUND"
        )


def _matches(record: SessionRecord, where: SessionFilter) -> bool:
    if where.states and record.state not in where.states:
        return False
    if where.phases and phase_of(record.state, record.last_outcome) not in where.phases:
        return False
    if where.entry_id and record.spec.entry_id != where.entry_id:
        return False
    for name in ("project", "key", "name", "native_session_id"):
        wanted = getattr(where, name)
        if wanted and getattr(record, name) != wanted:
            return False
    if where.workspace and where.workspace not in places(record):
        return False
    if not where.include_closed and record.state is SessionState.CLOSED:
        return False
    return all(record.labels.get(key) == value for key, value in where.labels)


def _conditions(where: SessionFilter) -> list[Where]:
    """The same for the briefs of closed sessions."""
    told = {
        "state": tuple(where.states),
        "phase": tuple(where.phases),
        "entry": _one(where.entry_id),
        "project": _one(where.project),
        "key": _one(where.key),
        "name": _one(where.name),
        "native": _one(where.native_session_id),
        "places": _one(where.workspace),
    }
    found = [Where(name, values) for name, values in told.items() if values]
    return found + [Where("labels", (label(*each),)) for each in where.labels]


def _one(value: str) -> tuple[str, ...]:
    return (value,) if value else ()
