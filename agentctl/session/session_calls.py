"""Owns the calls about sessions: create, resume, fork, update, close, delete, find.

It refuses to know how a session gets its agent (`session.py`) and what runs in it.
"""

import dataclasses
import hashlib
from pathlib import Path

import anyio
import orjson

from agentctl.core.adapter import Feature
from agentctl.core.errors import (
    AgentctlError,
    Conflict,
    Exhausted,
    Invalid,
    NotFound,
    TimedOut,
    Unsupported,
)
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import SessionSpec
from agentctl.core.words import SessionChange, SessionState
from agentctl.journal.store import Doc
from agentctl.session.base import Base, page
from agentctl.session.ids import mint, now_ms
from agentctl.session.records import CreateSession, SessionFilter, SessionRecord, SessionUpdate
from agentctl.session.session import Session
from agentctl.session.store import load
from agentctl.session.writes import Writes

# A walk over closed sessions reads this many documents at a time.
SCAN = 500


class SessionCalls(Base):
    async def create_session(self, request: CreateSession) -> SessionRecord:
        """Sessions.Create; returns at once in `starting`."""
        self.refuse_when_full()
        async with self._creating:
            if request.idempotency_key:
                known = await self._created_before(request)
                if known is not None:
                    return known
            session = await self._new_session(request)
        session.want()
        return session.record

    async def _new_session(self, request: CreateSession) -> Session:
        if len(self.sessions) >= self.deps.max_sessions:
            raise Exhausted(
                f"{len(self.sessions)} sessions are open, which is the limit (max_sessions). Close "
                "some: agentctl session ls",
                reason="SESSION_LIMIT",
            )
        spec, agent_id = self._resolve_agent(request)
        entry = self.entry(spec.entry_id)
        self.deps.entries.adapter(entry.protocol)
        self._free_key(request.key)
        spec = dataclasses.replace(
            spec, entry_id=entry.id, workspace=await self._workspace(spec.workspace)
        )
        now = now_ms()
        record = SessionRecord(
            id=mint("session"),
            spec=spec,
            key=request.key,
            name=request.name,
            project=request.project,
            labels=dict(request.labels),
            rules=list(request.rules),
            close_when_done=request.close_when_done,
            policy=spec.policy,
            created_at=now,
            updated_at=now,
        )
        session = self.adopt(record)
        session.wanted_agent = agent_id
        writes = Writes()
        session.ledger.say(SessionChange.STARTING, writes)
        if request.idempotency_key:
            body = orjson.dumps({"id": record.id, "hash": _fingerprint(request)})
            writes.docs.append(Doc("idem", f"session:{request.idempotency_key}", body, record.id))
        try:
            await session.commit(writes)
        except AgentctlError:
            self.sessions.pop(record.id, None)
            raise
        return session

    def _resolve_agent(self, request: CreateSession) -> tuple[SessionSpec, str]:
        if not request.agent.startswith("agt_"):
            return dataclasses.replace(request.spec, entry_id=request.agent), ""
        agent = self.pool.get(request.agent)
        return dataclasses.replace(request.spec, entry_id=agent.record.entry_id), agent.id

    def _free_key(self, key: str) -> None:
        if key and (
            taken := next((s for s in self.sessions.values() if s.record.key == key), None)
        ):
            raise Conflict(
                f'the key "{key}" belongs to open session {taken.id}. Close that one, or choose '
                "another key."
            )

    async def _workspace(self, told: str) -> str:
        path = Path(told)
        if not path.is_absolute():
            root = self.deps.workspace_root
            if root is None:
                raise Invalid(
                    f'the workspace "{told}" is relative, and no workspace_root is set. Send an '
                    "absolute path."
                )
            path = root / path
        kind = await anyio.to_thread.run_sync(lambda: _kind_of(path))
        if kind != "directory":
            what = "is a file" if kind == "file" else "does not exist"
            raise Invalid(f"the workspace {path} {what}. Name an existing directory.")
        return str(path)

    async def _created_before(self, request: CreateSession) -> SessionRecord | None:
        doc = await self.deps.journal.doc("idem", f"session:{request.idempotency_key}")
        if doc is None:
            return None
        known = orjson.loads(doc.body or b"{}")
        if known["hash"] != _fingerprint(request):
            raise Conflict(
                f'the idempotency key "{request.idempotency_key}" was used for another session '
                f"({known['id']}). Use a new key."
            )
        return await self.get_session(known["id"])

    async def wait_ready(self, session_id: str, timeout_ms: int | None) -> SessionRecord:
        """Waits until the start is over; raises what it raised, or TimedOut."""
        session = self.sessions.get(session_id)
        if session is None:
            return await self.get_session(session_id)
        seconds = None if timeout_ms is None else timeout_ms / 1000
        with anyio.move_on_after(seconds):
            await session.wait_settled()
            return session.record
        raise TimedOut(
            f"session {session_id} has been starting for {timeout_ms} ms and goes on. Look again: "
            f"agentctl session show {session_id}"
        )

    async def resume_session(
        self,
        session_id: str = "",
        *,
        entry_id: str = "",
        native_session_id: str = "",
        spec: SessionSpec | None = None,
    ) -> SessionRecord:
        """Brings a session back and lets its queue go; or adopts one that the agent kept."""
        self.refuse_when_full()
        if session_id:
            session = await self._reopen(session_id)
        else:
            session = await self._adopt_native(entry_id, native_session_id, spec)
        writes = Writes()
        session.ledger.hold(False, writes)
        await session.commit(writes)
        session.want()
        await session.wait_settled()
        return session.record

    async def _reopen(self, session_id: str) -> Session:
        record = await self.get_session(session_id)
        self.entry(record.spec.entry_id)
        if record.state is not SessionState.CLOSED:
            return await self.open_session(record.id)
        self._free_key(record.key)
        record.closed_at, record.close_when_done = None, False
        return self.adopt(record)

    async def _adopt_native(self, entry_id: str, native: str, spec: SessionSpec | None) -> Session:
        if not entry_id or not native or spec is None:
            raise Invalid("name a session, or an entry with a native session id and a workspace.")
        for session in self.sessions.values():
            same = session.record.spec.entry_id == entry_id
            if same and session.record.native_session_id == native:
                return session
        created = CreateSession(agent=entry_id, spec=spec)
        session = await self._new_session(created)
        session.record.native_session_id, session.record.prompted = native, True
        return session

    async def fork_session(self, session_id: str, *, name: str = "") -> SessionRecord:
        """A new session with the history of an old one, on the same process.

        Raises:
            Unsupported: the agent cannot fork.
        """
        source = await self.open_session((await self.get_session(session_id)).id)
        source.want()
        await source.wait_settled()
        agent = source.agent
        if agent is None or Feature.FORK not in agent.record.features:
            raise Unsupported(f"{source.record.spec.entry_id} cannot fork a conversation.")
        connection = await agent.ready()
        native = await connection.fork_session(
            NativeSessionId(source.record.native_session_id), source.spec()
        )
        now = now_ms()
        record = dataclasses.replace(
            source.record,
            id=mint("session"),
            key="",
            name=name,
            labels=dict(source.record.labels),
            rules=list(source.record.rules),
            native_session_id="",
            native_created_at=None,
            forked_from=source.id,
            state=SessionState.STARTING,
            queue_held=False,
            prompted=True,
            created_at=now,
            updated_at=now,
        )
        fork = self.adopt(record)
        agent.members.add(fork.id)
        fork.adopt(agent, native, SessionChange.FORKED)
        await fork.commit_adopted()
        return record

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
        open_only = None if where.include_closed else True
        while len(found) <= limit:
            docs = await self.deps.journal.docs(
                "session", open=open_only, after_id=after, limit=SCAN, newest_first=True
            )
            for doc in docs:
                live = self.sessions.get(doc.id)
                record = live.record if live else load(SessionRecord, doc)
                if _matches(record, where):
                    found.append(record)
            if len(docs) < SCAN:
                break
            after = docs[-1].id
        return page(found, limit, lambda record: record.id)

    async def resolve_session(
        self, *, key: str = "", native_session_id: str = "", name: str = "", project: str = ""
    ) -> SessionRecord:
        """The newest session that fits; open ones first."""
        pages, _ = await self.list_sessions(SessionFilter(key=key, project=project), limit=1000)
        fits = [
            record
            for record in pages
            if (not native_session_id or record.native_session_id == native_session_id)
            and (not name or record.name == name)
        ]
        fits.sort(key=lambda record: record.state is SessionState.CLOSED)
        if not fits:
            raise NotFound(
                "no session fits. See them with: agentctl session ls", reason="SESSION_NOT_FOUND"
            )
        return fits[0]

    async def update_session(self, session_id: str, change: SessionUpdate) -> SessionRecord:
        """Title, name, labels and policy at once; model, mode and options through the agent."""
        session = await self.open_session(session_id)
        await self._update_live(session, change)
        record = session.record
        for field in ("title", "name", "model", "mode", "policy"):
            if (value := getattr(change, field)) is not None:
                setattr(record, field, value)
        if change.labels is not None:
            record.labels = dict(change.labels)
        if change.options is not None:
            options = {**record.spec.options, **change.options}
            record.spec = dataclasses.replace(record.spec, options=options)
        writes = Writes()
        session.ledger.say(SessionChange.UPDATED, writes)
        await session.commit(writes)
        return record

    async def _update_live(self, session: Session, change: SessionUpdate) -> None:
        if session.agent is None or not session.agent.alive:
            return
        connection = await session.agent.ready()
        native = NativeSessionId(session.record.native_session_id)
        if change.model is not None:
            await connection.set_model(native, change.model)
        if change.mode is not None:
            await connection.set_mode(native, change.mode)
        for option, value in (change.options or {}).items():
            await connection.set_option(native, option, value)

    async def close_session(
        self, session_id: str, *, reason: str = "", force: bool = False
    ) -> SessionRecord:
        """Returns when its process is gone, or serves others. Closing twice is closing once."""
        record = await self.get_session(session_id)
        session = self.sessions.get(record.id)
        if session is not None:
            await session.close(reason=reason, force=force)
        return record

    async def delete_session(self, session_id: str, *, native: bool = False) -> None:
        """Erases our rows; with `native` the agent's own copy as well."""
        record = await self.get_session(session_id)
        if native:
            await self._delete_native(record)
        await self.close_session(record.id, reason="deleted")
        await self.deps.journal.forget_session(record.id)

    async def _delete_native(self, record: SessionRecord) -> None:
        session = self.sessions.get(record.id)
        agent = session.agent if session else self.pool.running(record.spec.entry_id)
        own = agent is None
        if agent is None:
            agent = await self.pool.start(record.spec)
        try:
            if Feature.DELETE not in agent.record.features:
                raise Unsupported(
                    f"{record.spec.entry_id} cannot delete its copy. Delete ours only: leave out "
                    "--native."
                )
            connection = await agent.ready()
            await connection.delete_session(NativeSessionId(record.native_session_id))
        finally:
            if own:
                with anyio.CancelScope(shield=True):
                    await agent.stop()


def _kind_of(path: Path) -> str:
    if path.is_dir():
        return "directory"
    return "file" if path.exists() else ""


def _fingerprint(request: CreateSession) -> str:
    spec = dataclasses.replace(request.spec, env={})
    plain = dataclasses.replace(request, spec=spec, idempotency_key="")
    return hashlib.sha256(repr(plain).encode()).hexdigest()


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
