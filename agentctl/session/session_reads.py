"""Owns the finding of sessions: by id, by filter, by key; changes nothing."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio

from agentctl.core.errors import NotFound, TimedOut
from agentctl.core.words import SessionState
from agentctl.session.base import Base, page
from agentctl.session.records import SessionFilter, SessionRecord
from agentctl.session.store import load

# A walk over sessions reads this many documents at a time.
SCAN = 500


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
        found: list[SessionRecord] = []
        async with aclosing(self._walk(where, after)) as records:
            async for record in records:
                found.append(record)
                if len(found) > limit:
                    break
        return page(found, limit, lambda record: record.id)

    async def _walk(self, where: SessionFilter, after: str) -> AsyncGenerator[SessionRecord]:
        open_only = None if where.include_closed else True
        while True:
            docs = await self.deps.journal.docs(
                "session", open=open_only, after_id=after, limit=SCAN, newest_first=True
            )
            for doc in docs:
                live = self.sessions.get(doc.id)
                record = live.record if live else load(SessionRecord, doc)
                if _matches(record, where):
                    yield record
            if len(docs) < SCAN:
                return
            after = docs[-1].id

    async def resolve_session(
        self, *, key: str = "", native_session_id: str = "", name: str = "", project: str = ""
    ) -> SessionRecord:
        """The newest session that fits; open ones first."""
        closed: SessionRecord | None = None
        async with aclosing(self._walk(SessionFilter(key=key, project=project), "")) as records:
            async for record in records:
                if native_session_id and record.native_session_id != native_session_id:
                    continue
                if name and record.name != name:
                    continue
                if record.state is not SessionState.CLOSED:
                    return record
                closed = closed or record
        if closed is None:
            raise NotFound(
                "no session fits. See them with: agentctl session ls", reason="SESSION_NOT_FOUND"
            )
        return closed


def _matches(record: SessionRecord, where: SessionFilter) -> bool:
    if where.states and record.state not in where.states:
        return False
    if where.entry_id and record.spec.entry_id != where.entry_id:
        return False
    if where.project and record.project != where.project:
        return False
    if where.key and record.key != where.key:
        return False
    if not where.include_closed and record.state is SessionState.CLOSED:
        return False
    return all(record.labels.get(key) == value for key, value in where.labels)
