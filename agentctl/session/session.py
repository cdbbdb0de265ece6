"""Owns one session: bringing its agent up, sending its prompts in order, closing it.

    kick -> _drive -> _ensure_live (start or resume) -> _send (begin, journal, write)
    drafts -> take -> Ledger -> ended -> kick

One driver at a time and none while nothing waits. It refuses to know how processes are shared, what
clients may ask (`manager.py`), and how a run is ended that does not end (`ending.py`).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from agentctl.core.adapter import (
    AnyDraft,
    Connection,
    Feature,
    PermissionAnswer,
    ProcessGone,
    QuestionAnswer,
)
from agentctl.core.errors import AgentctlError, AgentFailed, Exhausted, Unsupported
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import RunError
from agentctl.core.spec import SessionSpec
from agentctl.core.words import Outcome, SessionChange, SessionState
from agentctl.session.ending import Ending, Limits
from agentctl.session.ledger import Ledger
from agentctl.session.pool import Background, Pool, Wanted
from agentctl.session.ports import Entries, JournalPort
from agentctl.session.process import AgentProcess
from agentctl.session.records import RunRecord, SessionRecord
from agentctl.session.writes import Writes

# An agent's own close is a courtesy: the conversation is ours to forget after this long.
CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class SessionDeps:
    """What the manager gives each session."""

    journal: JournalPort
    pool: Pool
    entries: Entries
    background: Background
    limits: Limits
    on_closed: Callable[[str], None]
    expose_reasoning: bool = True
    keep_raw: bool = False


class Session:
    """A session that is open (closed ones are documents only)."""

    def __init__(self, record: SessionRecord, deps: SessionDeps) -> None:
        self.id = record.id
        self.record = record
        self.deps = deps
        self.agent: AgentProcess | None = None
        self.start_error: AgentctlError | None = None
        self.closing = False
        self.pausing = ""
        self.ledger = Ledger(
            record,
            self,
            expose_reasoning=deps.expose_reasoning,
            keep_raw=deps.keep_raw,
            approval_ms=deps.limits.approval_ms,
        )
        self.ending = Ending(self)
        self.retiring: AgentProcess | None = None
        self.wanted_agent = ""
        self._wanted = False
        self._driving: anyio.CancelScope | None = None
        self._drive_done = anyio.Event()
        self._drive_done.set()
        self._settled = anyio.Event()
        self._waiters: dict[str, anyio.Event] = {}
        self._adopted = Writes()

    # What the process and the ledger call.

    def take(self, draft: AnyDraft, writes: Writes) -> None:
        self.ledger.take(draft, writes)
        if isinstance(draft, ProcessGone):
            self._lost(draft, writes)

    def answer(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        if self.agent is not None:
            self.agent.post(lambda connection: connection.answer_permission(request, answer))

    def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        if self.agent is not None:
            self.agent.post(lambda connection: connection.answer_question(request, answer))

    def asked(self, approval_id: str) -> None:
        self.ending.watch_approval(approval_id)

    def ended(self, run: RunRecord) -> None:
        self.ending.forget(run.id)
        if waiter := self._waiters.pop(run.id, None):
            waiter.set()
        if self.closing:
            return
        if self.record.close_when_done and not self.ledger.runs:
            self.deps.background(lambda: self.close(reason="done"))
        else:
            self.kick()

    def _lost(self, gone: ProcessGone, writes: Writes) -> None:
        agent, self.agent = self.agent, None
        if agent is None:
            return
        agent.members.discard(self.id)
        if self.closing or self.record.state is SessionState.STARTING:
            return
        if self.pausing:
            self.ledger.become(SessionState.ASLEEP, writes)
            self.ledger.say(SessionChange.ASLEEP, writes, reason=self.pausing)
            return
        how = f"signal {gone.signal}" if gone.signal else f"code {gone.exit_code}"
        known = gone.signal is not None or gone.exit_code is not None
        self.ledger.become(SessionState.INTERRUPTED, writes)
        reason = f"the agent exited with {how}" if known else "the agent exited"
        self.ledger.say(SessionChange.INTERRUPTED, writes, reason=reason)

    # What makes it go.

    async def commit(self, writes: Writes) -> None:
        await writes.commit(self.deps.journal)

    def want(self) -> None:
        """A live agent is wanted, prompt or not."""
        self._wanted = True
        self._settled = anyio.Event()
        self.kick()

    def kick(self) -> None:
        """Sees to it that what waits gets done; cheap, and safe at any time."""
        if self._driving is None and not self.closing and (self._wanted or self._next()):
            self._driving = anyio.CancelScope()
            self._drive_done = anyio.Event()
            self.deps.background(self._drive)

    def _next(self) -> RunRecord | None:
        if self.ledger.turns.open_runs or self.record.queue_held or self.closing:
            return None
        return next(iter(self.ledger.queue), None)

    async def _drive(self) -> None:
        scope = self._driving
        assert scope is not None
        try:
            with scope:
                while (self._next() or self._wanted) and await self._step():
                    pass
        finally:
            self._driving = None
            self._drive_done.set()

    async def _step(self) -> bool:
        try:
            await self._ensure_live()
        except AgentctlError as error:
            await self._start_failed(error)
            return False
        self._wanted = False
        self._settled.set()
        if run := self._next():
            await self._send(run)
        return True

    async def _ensure_live(self) -> None:
        if self.agent is not None and self.agent.alive:
            return
        if self.retiring is not None:
            await self.retiring.stop()
            self.retiring = None
        writes = Writes()
        self.start_error = None
        if self.record.state is not SessionState.STARTING:
            self.ledger.become(SessionState.STARTING, writes)
            self.ledger.say(SessionChange.STARTING, writes)
            await self.commit(writes)
        wanted = Wanted(
            self.id,
            self.spec(),
            self.record.policy,
            bool(self.record.rules),
            self.wanted_agent,
            self.record.native_created_at,
        )
        agent, connection = await self.deps.pool.acquire(wanted)
        try:
            await self.open_on(agent, connection)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.deps.pool.release(agent, self.id)
            raise

    async def open_on(self, agent: AgentProcess, connection: Connection) -> None:
        """Makes or resumes the conversation on a ready process and takes its events from there on.

        Raises:
            Unsupported: the agent cannot resume; a fresh session is never passed off as the old.
        """
        record, native = self.record, NativeSessionId(self.record.native_session_id)
        record.agent_id = agent.id
        self.wanted_agent = ""
        if native and record.prompted:
            self._may_resume(connection)
            agent.bind(native, self)
            native = await connection.resume_session(native, self.spec())
            change = SessionChange.RESUMED
        else:
            native = await connection.new_session(self.spec())
            change = SessionChange.CREATED
        self.adopt(agent, native, change)
        await self.commit_adopted()

    async def commit_adopted(self) -> None:
        """Makes durable what `adopt` noted."""
        await self.commit(self._adopted)

    def adopt(self, agent: AgentProcess, native: NativeSessionId, change: SessionChange) -> None:
        """The conversation `native` of `agent` is ours from now on; `commit_adopted` follows."""
        if agent.stopping:
            raise agent.failure or AgentFailed(
                f"{self.record.spec.entry_id}: it exited in its start."
            )
        record = self.record
        writes = self._adopted = Writes()
        early = agent.bind(native, self)
        self.agent = agent
        record.agent_id = agent.id
        if record.native_session_id != native or record.native_created_at is None:
            record.native_created_at = writes.now
        record.native_session_id = native
        self.ledger.become(SessionState.IDLE, writes)
        self.ledger.say(change, writes)
        for draft in early:
            self.take(draft, writes)

    def _may_resume(self, connection: Connection) -> None:
        entry = self.deps.entries.get(self.record.spec.entry_id)
        if not entry.can_recover or Feature.RESUME not in connection.info.features:
            raise Unsupported(
                f"{entry.id} cannot resume a conversation. Start a new session: agentctl start "
                f"{entry.id}"
            )

    def spec(self) -> SessionSpec:
        """What was asked for, with the model and mode that are in force by now."""
        spec = self.record.spec
        return dataclasses.replace(
            spec,
            model=self.record.model or spec.model,
            mode=self.record.mode or spec.mode,
            policy=self.record.policy,
        )

    async def _start_failed(self, error: AgentctlError) -> None:
        self._wanted = False
        self.start_error = error
        writes = Writes(vital=True)
        state = SessionState.INTERRUPTED if self.record.prompted else SessionState.FAILED
        self.ledger.become(state, writes)
        self.ledger.say(SessionChange.FAILED, writes, reason=error.message)
        if run := next(iter(self.ledger.queue), None):
            self.ledger.end(run, Outcome.FAILED, writes, error=as_run_error(error))
        self._settled.set()
        await self.commit(writes)

    async def _send(self, run: RunRecord) -> None:
        agent = self.agent
        assert agent is not None
        try:
            connection = await agent.ready()
            await self._prepare(connection, run)
        except AgentctlError as error:
            await self.fail(run, error)
            return
        if run.id not in self.ledger.runs or self._next() is not run:
            return
        native = NativeSessionId(self.record.native_session_id)
        writes = Writes()
        self.record.prompted = True
        writes.touch(self.record)
        self.ledger.begin(run, writes)

        async def write(live: Connection) -> None:
            try:
                await live.prompt(native, run.prompt)
            except AgentctlError as error:
                await self.fail(run, error)

        writes.after.append(lambda: agent.post(write))
        writes.after.append(lambda: self.ending.watch(run))
        try:
            await self.commit(writes)
        except Exhausted as error:
            await self.fail(run, error)

    async def _prepare(self, connection: Connection, run: RunRecord) -> None:
        native, prompt = NativeSessionId(self.record.native_session_id), run.prompt
        if prompt.model and prompt.model != self.record.model:
            await connection.set_model(native, prompt.model)
        if prompt.mode and prompt.mode != self.record.mode:
            await connection.set_mode(native, prompt.mode)
        if prompt.effort:
            await connection.set_option(native, "effort", prompt.effort)

    async def fail(self, run: RunRecord, error: AgentctlError) -> None:
        """Ends a run that could not be sent."""
        writes = Writes(vital=True)
        self.ledger.end(run, Outcome.FAILED, writes, error=as_run_error(error))
        await self.commit(writes)

    # What callers wait for.

    async def wait_settled(self) -> None:
        """Waits until the start under way is over.

        Raises:
            AgentctlError: what the start raised.
        """
        while self.record.state is SessionState.STARTING or (self._wanted and not self.closing):
            await self._settled.wait()
        if self.start_error is not None:
            raise self.start_error

    def waiter(self, run_id: str) -> anyio.Event:
        """An event that is set once the run has ended."""
        if run_id not in self.ledger.runs:
            done = anyio.Event()
            done.set()
            return done
        return self._waiters.setdefault(run_id, anyio.Event())

    async def close(self, *, reason: str = "", force: bool = False) -> None:
        """Ends what runs, says goodbye, and returns when its process is gone or others need it."""
        if self.closing:
            return
        self.closing = True
        self._settled.set()
        if self._driving is not None:
            self._driving.cancel()
            await self._drive_done.wait()
        if not force:
            await self.ending.wind_down()
        writes = Writes(vital=True)
        self.ledger.end_everything(Outcome.CANCELLED, writes)
        self.ledger.drop_queue(writes)
        await self.commit(writes)
        await self.leave_agent()
        writes = Writes(vital=True)
        self.ledger.become(SessionState.CLOSED, writes)
        self.record.closed_at = writes.now
        self.ledger.say(SessionChange.CLOSED, writes, reason=reason or None)
        await self.commit(writes)
        self.deps.on_closed(self.id)

    async def leave_agent(self) -> None:
        """Gives the process back; it stops when nobody else needs it."""
        agent, self.agent = self.agent, None
        if agent is not None:
            if agent.alive and Feature.CLOSE in agent.record.features:
                await self._close_native(agent)
            agent.unbind(self)
            await self.deps.pool.release(agent, self.id)
        if self.retiring is not None:
            await self.retiring.stop()
            self.retiring = None

    async def _close_native(self, agent: AgentProcess) -> None:
        with anyio.move_on_after(CLOSE_S):
            try:
                connection = await agent.ready()
                await connection.close_session(NativeSessionId(self.record.native_session_id))
            except AgentctlError:
                return


def as_run_error(error: AgentctlError) -> RunError:
    """An error of a call as the error of a run."""
    recoverable = error.reason not in {"INVALID_PARAMETERS", "UNSUPPORTED", "INVALID_MODEL"}
    return RunError(error.reason, error.message, recoverable)
