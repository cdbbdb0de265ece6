"""Owns what makes one session go: a live agent when one is wanted, the next prompt when it is free.

    kick -> _drive -> _ensure_live (start or resume) -> _send (begin, journal, write) -> ended -> kick

One driver at a time and none while nothing waits. It refuses to know what runs and requests are
(`ledger.py`), how processes are shared (`pool.py`) and how a run is ended that does not (`ending.py`).
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from agentctl.core.adapter import Connection, Feature
from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    DaemonFailed,
    Exhausted,
    Refused,
    Unsupported,
)
from agentctl.core.events import Error, Event, SessionOptions
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import RunError, Setting
from agentctl.core.words import Outcome, RunState, SessionChange, SessionState
from agentctl.session.ids import now_ms
from agentctl.session.pool import Wanted
from agentctl.session.process import AgentProcess
from agentctl.session.records import RunRecord
from agentctl.session.stance import mode_in_force, stance_of, too_free
from agentctl.session.writes import Writes

if TYPE_CHECKING:
    from agentctl.session.session import Session

logger = logging.getLogger(__name__)

# A prompt that broke its pipe: the news of the death, with exit code and last words, is on its way.
DEATH_S = 0.8


class Driver:
    """The one task that starts, resumes and prompts for a session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self.start_error: AgentctlError | None = None
        self.wanted_agent = ""
        self.avoid: set[str] = set()
        self._retiring: list[AgentProcess] = []
        self._wanted = False
        self._scope: anyio.CancelScope | None = None
        self._done = anyio.Event()
        self._done.set()
        self._settled = anyio.Event()

    def want(self) -> None:
        """A live agent is wanted, prompt or not."""
        self._wanted = True
        self._unsettle()
        self.kick()

    def kick(self) -> None:
        """Sees to it that what waits gets done; cheap, and safe at any time."""
        session = self._session
        if self._scope is not None or session.closing or session.pausing:
            return
        if self._wanted or self.next_run():
            self._scope = scope = anyio.CancelScope()
            self._done = anyio.Event()
            session.deps.background(lambda: self._drive(scope))

    def next_run(self) -> RunRecord | None:
        """The prompt to send now."""
        session = self._session
        ledger = session.ledger
        if session.closing or session.pausing or session.record.queue_held:
            return None
        if ledger.turns.open_runs or session.gathering.busy:
            return None
        return next(iter(ledger.queue), None)

    async def halt(self) -> None:
        """Gives up a start under way; returns when nothing of it is left."""
        self._settled.set()
        if self._scope is not None:
            self._scope.cancel()
        await self._done.wait()

    def retire(self, agent: AgentProcess) -> None:
        """That process ends: the next one is not started before it has."""
        if agent not in self._retiring:
            self._retiring.append(agent)

    async def see_off(self) -> None:
        """Returns when the processes that this session has left are gone."""
        while self._retiring:
            await self._retiring[0].stop()
            del self._retiring[0]

    async def gone(self, seconds: float) -> None:
        """Waits that long for the processes that this session has left, and ends none of them."""
        with anyio.move_on_after(seconds):
            for agent in list(self._retiring):
                await agent.done.wait()

    async def wait_settled(self) -> None:
        """Waits until the start under way is over.

        Raises:
            AgentctlError: what the start raised.
        """
        session = self._session
        while not session.closing and (
            self._wanted or session.record.state is SessionState.STARTING
        ):
            await self._settled.wait()
        if self.start_error is not None:
            raise self.start_error
        if session.closing:
            raise Refused(f"session {session.id} was closed.", reason="SESSION_CLOSED")

    def _unsettle(self) -> None:
        if self._settled.is_set():
            self._settled = anyio.Event()

    async def _drive(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                while (self._wanted or self.next_run()) and await self._step():
                    pass
        finally:
            self._scope = None
            self._done.set()
        # What came while the last step was failing has found a driver at work.
        self.kick()

    async def _step(self) -> bool:
        try:
            await self._ensure_live()
        except AgentctlError as error:
            await self._start_failed(error)
            return False
        except Exception as error:
            # The adapter is foreign code; its defect must not leave the session in `starting`.
            logger.exception("session %s could not be started", self._session.id)
            await self._start_failed(_defect(error))
            return False
        self._wanted = False
        self._settled.set()
        if run := self.next_run():
            await self._send(run)
        return True

    async def _ensure_live(self) -> None:
        session = self._session
        if session.agent is not None and session.agent.alive:
            gone = self.next_run() is not None and await session.placing.lost()
            if not gone and not await too_free(session, session.agent):
                return
            with anyio.CancelScope(shield=True):
                await session.leave_agent(force=False)
        elif session.agent is not None:
            self.retire(session.agent)
        self.start_error = None
        # Before the process: what is put from here on is noticed at the next prompt.
        session.stance = stance_of(session)
        if session.record.state is not SessionState.STARTING or self._retiring:
            self._unsettle()
            await self.see_off()
            writes = Writes()
            session.ledger.become(SessionState.STARTING, writes)
            session.ledger.say(SessionChange.STARTING, writes)
            await session.commit(writes)
        await session.placing.enter()
        agent, connection = await session.deps.pool.acquire(self._needs(), self._found)
        try:
            await self._open_on(agent, connection)
        except BaseException:
            session.agent = None
            agent.unbind(session)
            await session.deps.pool.give_up(agent, session.id)
            raise

    async def _found(self, agent: AgentProcess) -> None:
        """Names the process while it starts: the journal shows followers of this session its events.

        One event with both ids makes that link, so that an agent_status exists once.
        """
        session = self._session
        session.record.agent_id = agent.id
        if not agent.alive:
            writes = Writes()
            session.ledger.say(SessionChange.STARTING, writes)
            await session.commit(writes)

    def _needs(self) -> Wanted:
        record = self._session.record
        return Wanted(
            session_id=record.id,
            spec=self._session.spec(),
            policy=record.policy,
            rules=self._session.deps.standing.narrows(record, now_ms()),
            agent_id=self.wanted_agent,
            avoid=frozenset(self.avoid),
            bind=self._session.placing.bind,
        )

    async def _open_on(self, agent: AgentProcess, connection: Connection) -> None:
        """Makes or resumes the conversation on a ready process and takes its events from there on.

        Raises:
            Unsupported: the agent cannot resume; a fresh session is never passed off as the old.
        """
        session = self._session
        record, native = session.record, NativeSessionId(session.record.native_session_id)
        record.agent_id = agent.id
        self.wanted_agent = ""
        entry, workspace = agent.launch.entry, record.spec.workspace
        carried = await anyio.to_thread.run_sync(session.deps.entries.carried, entry, workspace)
        if native and record.prompted:
            self._may_resume(connection)
            agent.bind(native, session)
            native = await connection.resume_session(native, session.spec())
            change = SessionChange.RESUMED
        elif record.fork_of:
            of = NativeSessionId(record.fork_of)
            native = await connection.fork_session(of, session.spec())
            change = SessionChange.FORKED
        else:
            native = await connection.new_session(session.spec())
            change = SessionChange.CREATED
        writes = session.adopt(agent, native, change)
        self._tell_carried(agent, carried, writes)
        await session.commit(writes)

    def _tell_carried(self, agent: AgentProcess, carried: Sequence[str], writes: Writes) -> None:
        """Names the settings that the workspace brings along, and says so when they stay in force."""
        if not carried:
            return
        trusted = agent.launch.trust_workspace
        settings = [Setting("workspace_config", path) for path in carried]
        settings.append(Setting("trust_workspace", str(trusted).lower()))
        ledger = self._session.ledger
        ledger.add([Event(SessionOptions(settings=settings))], writes)
        if not trusted and not agent.launch.entry.protocol_config.get("untrusted"):
            message = (
                f"{agent.record.entry_id} has no way to start without the workspace's own settings "
                f"({', '.join(carried)}). Look into them, or move them away, before you prompt."
            )
            ledger.add([Event(Error("WORKSPACE_TRUSTED", message))], writes)

    def _may_resume(self, connection: Connection) -> None:
        entry = self._session.deps.entries.get(self._session.record.spec.entry_id)
        if not entry.can_recover or Feature.RESUME not in connection.info.features:
            raise Unsupported(
                f"{entry.id} cannot resume a conversation. Start a new session: agentctl start "
                f"{entry.id}"
            )

    async def _start_failed(self, error: AgentctlError) -> None:
        session = self._session
        record, ledger = session.record, session.ledger
        self._wanted = False
        self.start_error = error
        writes = Writes(vital=True)
        ledger.become(SessionState.INTERRUPTED if record.prompted else SessionState.FAILED, writes)
        ledger.say(SessionChange.FAILED, writes, reason=error.message)
        if not record.queue_held and (run := next(iter(ledger.queue), None)):
            ledger.end(run, Outcome.FAILED, writes, error=as_run_error(error))
        if ledger.queue:
            ledger.hold(True, writes)
        self._settled.set()
        await session.commit(writes)

    async def _send(self, run: RunRecord) -> None:
        session = self._session
        agent = session.agent
        if agent is None or not agent.alive:
            return
        try:
            connection = await agent.ready()
            await self._prepare(agent, connection, run)
            await session.gathering.before(run.id)
        except AgentctlError as error:
            await self._fail(run, error)
            return
        except Exception as error:
            # The adapter is foreign code; its defect ends this run and not the driver.
            logger.exception("run %s could not be prepared", run.id)
            await self._fail(run, _defect(error))
            return
        if self.next_run() is not run or session.agent is not agent or not agent.alive:
            session.gathering.forget(run.id)
            return
        writes = Writes()
        session.record.prompted = True
        writes.touch(session.record)
        session.ledger.begin(run, writes)
        writes.after.append(lambda: self._write(agent, run))
        try:
            await session.commit(writes)
        except Exhausted as error:
            await self._fail(run, error)

    def _write(self, agent: AgentProcess, run: RunRecord) -> None:
        native = NativeSessionId(self._session.record.native_session_id)

        async def write(connection: Connection) -> None:
            if run.state is not RunState.RUNNING:
                return
            try:
                await connection.prompt(native, run.prompt)
            except AgentFailed as error:
                failed = error
                self._session.deps.background(lambda: self._died(run, failed))
            except AgentctlError as error:
                await self._fail(run, error)

        agent.post(write)

    async def _prepare(self, agent: AgentProcess, connection: Connection, run: RunRecord) -> None:
        record, prompt = self._session.record, run.prompt
        native = NativeSessionId(record.native_session_id)
        if prompt.model and prompt.model != record.model:
            await connection.set_model(native, prompt.model)
            record.model = prompt.model
        mode = mode_in_force(self._session, agent, prompt.mode or record.mode)
        if mode and mode != record.mode:
            await connection.set_mode(native, mode)
            record.mode = mode

    async def _died(self, run: RunRecord, error: AgentFailed) -> None:
        with anyio.move_on_after(DEATH_S):
            await self._session.waiter(run.id).wait()
            return
        await self._fail(run, error)

    async def _fail(self, run: RunRecord, error: AgentctlError) -> None:
        """Ends a run that could not be sent."""
        writes = Writes(vital=True)
        self._session.ledger.end(run, Outcome.FAILED, writes, error=as_run_error(error))
        await self._session.commit(writes)


def as_run_error(error: AgentctlError) -> RunError:
    """An error of a call as the error of a run."""
    recoverable = error.reason not in {"INVALID_PARAMETERS", "UNSUPPORTED", "INVALID_MODEL"}
    return RunError(error.reason, error.message, recoverable)


def _defect(error: Exception) -> AgentctlError:
    return DaemonFailed(f"a defect ({type(error).__name__}): see the daemon's log, then try again.")
