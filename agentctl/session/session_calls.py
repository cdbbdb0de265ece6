"""Owns the calls about sessions: create, resume, fork, update, close, delete, find.

It refuses to know how a session gets its agent (`session.py`) and what runs in it.
"""

import dataclasses
import hashlib

import anyio
import orjson

from agentctl.core.adapter import Feature
from agentctl.core.errors import AgentctlError, Conflict, Exhausted, Invalid, NotFound, Unsupported
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import Entry, SessionSpec
from agentctl.core.words import SessionChange, SessionState
from agentctl.journal.store import Doc
from agentctl.session.base import closed, lasting, logger
from agentctl.session.ids import mint, now_ms
from agentctl.session.place_calls import PlaceCalls
from agentctl.session.recall import recall
from agentctl.session.records import (
    CreateSession,
    Progress,
    SessionFilter,
    SessionRecord,
    SessionUpdate,
)
from agentctl.session.rules import own_rules
from agentctl.session.session import Session
from agentctl.session.stance import mode_in_force
from agentctl.session.store import doc_of
from agentctl.session.writes import Writes

# Some agents must be started for it, from a cold cache; the session is closed already.
DISCARD_S = 30.0


class SessionCalls(PlaceCalls):
    @lasting
    async def create_session(self, request: CreateSession) -> SessionRecord:
        """Sessions.Create; returns at once in `starting`."""
        self.refuse_when_full()
        async with self._creating:
            if request.idempotency_key:
                known = await self._created_before(request)
                if known is not None:
                    return known
            session = await self._new_session(request)
        session.driver.want()
        return session.record

    def _refuse_many(self) -> None:
        if len(self.sessions) >= self.deps.max_sessions:
            raise Exhausted(
                f"{len(self.sessions)} sessions are open, which is the limit (max_sessions). Close "
                "some: agentctl session ls",
                reason="SESSION_LIMIT",
            )

    async def _refuse_unstartable(self, entry: Entry, spec: SessionSpec, *, rules: bool) -> None:
        """A missing program or variable is an error of the call, not of a session that it made."""
        entries = self.deps.entries
        attached = entries.attached(entry, spec)
        await anyio.to_thread.run_sync(
            lambda: entries.prepare(attached, spec, policy=spec.policy, rules=rules)
        )

    async def _new_session(
        self, request: CreateSession, *, native: str = "", made_at: int | None = None
    ) -> Session:
        self._refuse_many()
        spec, agent_id = self._resolve_agent(request)
        session_id = mint("session")
        entry = self.entry(spec.entry_id)
        self.deps.entries.adapter(entry.protocol)
        self._free_key(request.key)
        spec = dataclasses.replace(
            spec,
            entry_id=entry.id,
            workspace=await self._workspace(spec.workspace, spec.additional_directories),
        )
        spec, place = await self.place_of(session_id, spec)
        if not agent_id:
            await self._refuse_unstartable(entry, spec, rules=bool(request.rules))
        now = now_ms()
        record = SessionRecord(
            id=session_id,
            spec=spec,
            place=place,
            key=request.key,
            name=request.name,
            project=request.project,
            labels=dict(request.labels),
            rules=own_rules(request.rules, now),
            close_when_done=request.close_when_done,
            policy=spec.policy,
            native_session_id=native,
            native_created_at=made_at,
            prompted=bool(native),
            created_at=now,
            updated_at=now,
        )
        session = self.adopt(record)
        session.driver.wanted_agent = agent_id
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

    @lasting
    async def resume_session(
        self,
        session_id: str = "",
        *,
        entry_id: str = "",
        native_session_id: str = "",
        spec: SessionSpec | None = None,
    ) -> SessionRecord:
        """Brings a session back and lets its queue go; or adopts one that the agent kept.

        With `session_id` only env and auth of `spec` count: they are never kept on disk.
        """
        self.refuse_when_full()
        async with self._creating:
            if session_id:
                session = await self._reopen(session_id)
                if spec is not None:
                    own = session.record.spec
                    env, auth = spec.env or own.env, spec.auth or own.auth
                    session.record.spec = dataclasses.replace(own, env=env, auth=auth)
            else:
                session = await self._adopt_native(entry_id, native_session_id, spec)
        writes = Writes(vital=True)
        session.ledger.hold(False, writes)
        await session.commit(writes)
        session.driver.want()
        await session.driver.wait_settled()
        return session.record

    async def _reopen(self, session_id: str) -> Session:
        record = await self.get_session(session_id)
        self.entry(record.spec.entry_id)
        if record.state is not SessionState.CLOSED or record.id in self.sessions:
            return await self.open_session(record.id)
        if record.state_saved is False:
            raise closed(record)
        self._refuse_many()
        self._free_key(record.key)
        facts = await recall(self.deps.journal, self.deps.decode, [record])
        record.closed_at, record.close_when_done, record.state_saved = None, False, None
        self.closed_sessions -= 1
        return self.adopt(record, facts[record.id])

    async def _adopt_native(self, entry_id: str, native: str, spec: SessionSpec | None) -> Session:
        if not entry_id or not native or spec is None:
            raise Invalid("name a session, or an entry with a native session id and a workspace.")
        entry = self.entry(entry_id)
        for session in self.sessions.values():
            same = session.record.spec.entry_id == entry.id
            if same and session.record.native_session_id == native:
                return await self.open_session(session.id)
        made_at = await self._made_at(native)
        create = CreateSession(agent=entry.id, spec=spec)
        return await self._new_session(create, native=native, made_at=made_at)

    async def _made_at(self, native: str) -> int | None:
        """When a conversation that a closed session of ours began was made; others never tell."""
        try:
            return (
                await self.resolve_session(SessionFilter(native_session_id=native))
            ).native_created_at
        except NotFound:
            return None

    @lasting
    async def fork_session(self, session_id: str, *, name: str = "") -> SessionRecord:
        """A new session with the history of an old one, on the same process where that can hold both.

        Raises:
            Unsupported: the agent cannot fork.
        """
        self.refuse_when_full()
        self._refuse_many()
        source = await self.open_session((await self.get_session(session_id)).id)
        source.driver.want()
        await source.driver.wait_settled()
        agent = source.agent
        if agent is None or Feature.FORK not in agent.record.features:
            raise Unsupported(f"{source.record.spec.entry_id} cannot fork a conversation.")
        native = NativeSessionId(source.record.native_session_id)
        if Feature.MANY_SESSIONS not in agent.record.features or source.record.place is not None:
            return await self._fork_apart(source, native, name)
        connection = await agent.ready()
        native = await connection.fork_session(native, source.spec())
        fork = self.adopt(self._fork_record(source, name, prompted=True))
        try:
            writes = fork.adopt(agent, native, SessionChange.FORKED)
            agent.members.add(fork.id)
            await fork.commit(writes)
        except AgentctlError:
            self.sessions.pop(fork.id, None)
            agent.unbind(fork)
            agent.members.discard(fork.id)
            raise
        return fork.record

    async def _fork_apart(
        self, source: Session, native: NativeSessionId, name: str
    ) -> SessionRecord:
        """The fork starts by itself: its agent holds one conversation, or it works elsewhere."""
        record = self._fork_record(source, name, prompted=False)
        record.fork_of = native
        await self.place_fork(record, source.record)
        fork = self.adopt(record)
        fork.driver.want()
        try:
            await fork.driver.wait_settled()
        except AgentctlError:
            await fork.close(reason="the fork failed", force=True)
            raise
        return record

    @staticmethod
    def _fork_record(source: Session, name: str, *, prompted: bool) -> SessionRecord:
        now = now_ms()
        return dataclasses.replace(
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
            prompted=prompted,
            created_at=now,
            updated_at=now,
            last_active_at=now,
            progress=Progress(),
            usage=None,
            cost_usd=None,
            last_outcome=None,
            state_saved=None,
        )

    @lasting
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
            mode = mode_in_force(session, session.agent, change.mode)
            await connection.set_mode(native, mode)
        for option, value in (change.options or {}).items():
            await connection.set_option(native, option, value)

    async def close_session(
        self, session_id: str, *, reason: str = "", force: bool = False, save_state: bool = True
    ) -> SessionRecord:
        """Returns when its process is gone, or serves others. Closing twice is closing once.

        Without `save_state` it cannot be resumed, also when it had been closed before.
        """
        record = await self.get_session(session_id)
        session = self.sessions.get(record.id)
        if session is not None:
            await session.close(reason=reason, force=force, save=save_state)
            record = session.record
        if not save_state:
            await self._discard(record, asked=session is not None and session.forgotten is not None)
        return record

    @lasting
    async def _discard(self, record: SessionRecord, *, asked: bool) -> None:
        """Of a closed session: what its agent kept goes, unless it was asked already, and its place."""
        if record.state_saved is not False:
            record.state_saved = False
            await self.deps.journal.append([], [doc_of(record)])
            await self.delete_place(record)
        if record.native_session_id and not asked:
            with anyio.move_on_after(DISCARD_S):
                try:
                    await self._delete_native(record)
                except AgentctlError as error:
                    logger.warning("session %s: its agent kept its copy: %s", record.id, error)

    @lasting
    async def delete_session(self, session_id: str, *, native: bool = False) -> None:
        """Erases our rows; with `native` the agent's own copy as well."""
        record = await self.get_session(session_id)
        if native:
            await self._delete_native(record)
        await self.close_session(record.id, reason="deleted")
        await self.delete_place(record)
        store = self.deps.artifacts
        if store is None:
            await self.deps.journal.forget_session(record.id)
        else:
            await store.forget(record.id)
        self.closed_sessions -= 1

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


def _fingerprint(request: CreateSession) -> str:
    spec = dataclasses.replace(request.spec, env={}, auth={})
    plain = dataclasses.replace(request, spec=spec, idempotency_key="")
    return hashlib.sha256(repr(plain).encode()).hexdigest()
