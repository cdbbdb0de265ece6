"""Owns the calls about runs: the queue and its four answers to a busy session, wait, cancel.

It refuses to know how a prompt is sent (`session.py`) and how a run is ended (`ending.py`).
"""

import dataclasses
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import orjson

from agentctl.core.adapter import Feature
from agentctl.core.errors import (
    AgentctlError,
    Conflict,
    Exhausted,
    Invalid,
    NotFound,
    Refused,
    Unsupported,
)
from agentctl.core.events import Event, Message
from agentctl.core.ids import NativeSessionId
from agentctl.core.limits import short
from agentctl.core.state import FINAL_RUN
from agentctl.core.words import Role, RunState
from agentctl.journal.store import Doc
from agentctl.session.base import Base, lasting, page
from agentctl.session.ids import mint, now_ms
from agentctl.session.records import CreateRun, RunCreated, RunRecord
from agentctl.session.session import Session
from agentctl.session.store import load
from agentctl.session.writes import Writes

# A walk over runs reads this many documents at a time.
SCAN = 500


class RunCalls(Base):
    @lasting
    async def create_run(self, request: CreateRun) -> RunCreated:
        """Runs.Create: sends the prompt, or queues, refuses, interrupts or steers when busy."""
        # A key answers the same whatever became of its session since.
        if request.idempotency_key and (before := await self._run_before(request)) is not None:
            return before
        self.refuse_when_full()
        prompt = request.prompt
        if not (prompt.blocks or prompt.command or prompt.review or prompt.compact):
            raise Invalid("the prompt is empty. Say what the agent should do.")
        session = await self.open_session(request.session_id)
        request = dataclasses.replace(request, session_id=session.id)
        if not request.idempotency_key:
            return await self._create(session, request)
        async with self._one_at_a_time(_idem(request)):
            known = await self._run_before(request)
            return known or await self._create(session, request)

    @asynccontextmanager
    async def _one_at_a_time(self, key: str) -> AsyncGenerator[None]:
        """Calls with the same key wait for each other, and for nobody else: a steer may hang."""
        lock = self._keys.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._keys.pop(key, None)

    async def _run_before(self, request: CreateRun) -> RunCreated | None:
        doc = await self.deps.journal.doc("idem", _idem(request))
        if doc is None:
            return None
        known = orjson.loads(doc.body or b"{}")
        if known["hash"] != _fingerprint(request):
            raise Conflict(
                f'the idempotency key "{request.idempotency_key}" was used for another prompt '
                f"({known['id']}). Use a new key."
            )
        run = await self.get_run(known["id"])
        return RunCreated(run, self.queue_position(run), steered=bool(known.get("steered")))

    async def _create(self, session: Session, request: CreateRun) -> RunCreated:
        ledger = session.ledger
        running, queue = ledger.running, ledger.queue
        busy = running is not None or bool(queue)
        if busy and request.if_busy == "reject":
            raise Refused(
                f"session {session.id} is busy with {(running or queue[0]).id}. Wait for it, or "
                "queue behind it (--if-busy queue).",
                reason="SESSION_BUSY",
            )
        if running is not None and request.if_busy == "steer":
            steered = await self._steer(session, running, request)
            if steered is not None:
                return steered
        if len(queue) >= session.deps.limits.max_queue:
            raise Exhausted(
                f"{len(queue)} prompts wait in session {session.id}, which is the limit "
                "(max_queue). Wait, or cancel some.",
                reason="QUEUE_FULL",
            )
        run = RunRecord(
            id=mint("run"),
            session_id=session.id,
            prompt=request.prompt,
            order=queue[-1].order + 1 if queue else 0,
            timeout_ms=request.timeout_ms,
            labels=dict(request.labels),
            idempotency_key=request.idempotency_key,
            created_at=now_ms(),
            session_key=session.record.key,
        )
        interrupts = busy and request.if_busy == "interrupt"
        if interrupts and queue:
            run.order = queue[0].order - 1
        position = (1 if interrupts else len(queue) + 1) if busy else None
        await self._commit_run(session, run, position, request)
        if interrupts and running is not None:
            await session.ending.cancel(running)
        session.driver.kick()
        return RunCreated(run, position)

    async def _commit_run(
        self, session: Session, run: RunRecord, position: int | None, request: CreateRun
    ) -> None:
        writes, held = Writes(), session.record.queue_held
        session.ledger.create(run, position, writes)
        session.ledger.hold(False, writes)
        _remember(request, run, writes)
        try:
            await session.commit(writes)
        except AgentctlError:
            session.ledger.runs.pop(run.id, None)
            session.ledger.facts.forget_run(run.id)
            session.record.queue_held = held
            raise

    async def _steer(
        self, session: Session, running: RunRecord, request: CreateRun
    ) -> RunCreated | None:
        agent = session.agent
        if agent is None or Feature.STEER not in agent.record.features:
            raise Unsupported(
                f"{session.record.spec.entry_id} cannot be steered while it works. Queue the "
                "prompt, or interrupt (--if-busy interrupt)."
            )
        connection = await agent.ready()
        native = NativeSessionId(session.record.native_session_id)
        if not await connection.steer(native, request.prompt) or running.state in FINAL_RUN:
            return None
        message = Message(mint("run"), Role.USER, short(request.prompt.blocks))
        writes = Writes()
        session.ledger.add([Event(message, run_id=running.id)], writes)
        _remember(request, running, writes, steered=True)
        await session.commit(writes)
        return RunCreated(running, steered=True)

    def queue_position(self, run: RunRecord) -> int | None:
        """From 1; None when it does not wait."""
        session = self.sessions.get(run.session_id)
        if session is None or run.state in FINAL_RUN or run.state is RunState.RUNNING:
            return None
        ids = [waiting.id for waiting in session.ledger.queue]
        return ids.index(run.id) + 1 if run.id in ids else None

    def _open_run(self, run_id: str) -> tuple[Session, RunRecord] | None:
        for session in self.sessions.values():
            for key, run in session.ledger.runs.items():
                if key == run_id or (len(run_id) > 3 and key.endswith(run_id)):
                    return session, run
        return None

    async def get_run(self, run_id: str) -> RunRecord:
        """Open or ended, by id (or tail of an open one)."""
        found = self._open_run(run_id)
        if found is not None:
            return found[1]
        for session in self.sessions.values():
            if (ending := session.ledger.ending.get(run_id)) is not None:
                return ending
        record = await self.fetch(RunRecord, "run", run_id)
        if record is None:
            raise NotFound(
                f'there is no run "{run_id}". See them with: agentctl runs ls',
                reason="RUN_NOT_FOUND",
            )
        return record

    async def list_runs(
        self,
        *,
        session_id: str = "",
        states: frozenset[RunState] = frozenset(),
        after: str = "",
        limit: int = 100,
    ) -> tuple[list[RunRecord], str]:
        """Newest first."""
        found: list[RunRecord] = []
        while len(found) <= limit:
            docs = await self.deps.journal.docs(
                "run", session_id=session_id or None, after_id=after, limit=SCAN, newest_first=True
            )
            for doc in docs:
                live = self._open_run(doc.id) if doc.open else None
                record = live[1] if live else load(RunRecord, doc)
                if not states or record.state in states:
                    found.append(record)
            if len(docs) < SCAN:
                break
            after = docs[-1].id
        return page(found, limit, lambda record: record.id)

    async def wait_run(self, run_id: str, timeout_ms: int | None) -> tuple[RunRecord, bool]:
        """(record, ended); `ended` False when the time was up first."""
        run = await self.get_run(run_id)
        session = self.sessions.get(run.session_id)
        if session is None:
            return run, run.state in FINAL_RUN
        with anyio.move_on_after(None if timeout_ms is None else timeout_ms / 1000):
            await session.waiter(run.id).wait()
        return run, run.state in FINAL_RUN

    @lasting
    async def cancel_run(
        self, run_id: str, *, drop_queue: bool = False, force: bool = False
    ) -> RunRecord:
        """Cancels a run that waits or runs; returns once the agent is being told.

        Raises:
            Refused: it had ended otherwise than cancelled.
        """
        found = self._open_run(run_id)
        if found is None:
            run = await self.get_run(run_id)
            if run.state is RunState.CANCELLED:
                return run
            raise Refused(
                f"run {run.id} has ended already ({run.state}). See how: agentctl runs show {run.id}",
                reason="RUN_FINISHED",
            )
        session, run = found
        await session.ending.cancel(run, drop_queue=drop_queue, force=force)
        session.driver.kick()
        return run

    @lasting
    async def cancel_session(
        self, session_id: str, *, drop_queue: bool = False, force: bool = False
    ) -> RunRecord | None:
        """Cancels what runs in the session (else the prompt that would run next); None: nothing."""
        session = await self.open_session(session_id)
        run = session.ledger.running or next(iter(session.ledger.queue), None)
        if run is None:
            return None
        await session.ending.cancel(run, drop_queue=drop_queue, force=force)
        session.driver.kick()
        return run


def _idem(request: CreateRun) -> str:
    return f"run:{request.session_id}:{request.idempotency_key}"


def _remember(request: CreateRun, run: RunRecord, writes: Writes, *, steered: bool = False) -> None:
    """The same key answers the same from now on."""
    if request.idempotency_key:
        known = {"id": run.id, "hash": _fingerprint(request), "steered": steered}
        writes.docs.append(Doc("idem", _idem(request), orjson.dumps(known), request.session_id))


def _fingerprint(request: CreateRun) -> str:
    return hashlib.sha256(repr(request.prompt).encode()).hexdigest()
