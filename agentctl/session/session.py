"""Owns one session: its record, its place on an agent, its end.

Drafts go to its ledger, the rest is said by others. It refuses to know how it is made to go
(`driver.py`), how processes are shared, what clients may ask (`manager.py`), and how a run is ended
that does not end (`ending.py`).
"""

import dataclasses
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import anyio

from agentctl.core.adapter import (
    AnyDraft,
    Feature,
    PermissionAnswer,
    ProcessGone,
    QuestionAnswer,
    TurnEnded,
    TurnStarted,
)
from agentctl.core.errors import AgentctlError, AgentFailed
from agentctl.core.events import Event
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.spec import SessionSpec
from agentctl.core.words import Outcome, SessionChange, SessionState
from agentctl.session.driver import Driver
from agentctl.session.ending import Ending, Limits
from agentctl.session.gathering import Gathering
from agentctl.session.keeping import GatherDeps
from agentctl.session.ledger import Ledger
from agentctl.session.placing import Placing
from agentctl.session.pool import Background, Pool
from agentctl.session.ports import Entries, JournalPort
from agentctl.session.process import AgentProcess
from agentctl.session.records import RunRecord, SessionRecord
from agentctl.session.rules import StandingRules
from agentctl.session.stance import Stance, stance_of
from agentctl.session.watching import Watching
from agentctl.session.writes import Writes
from agentctl.workspace.providers import Environments
from agentctl.workspace.watch import Watchers

logger = logging.getLogger(__name__)

# An agent's own close is a courtesy: the conversation is ours to forget after this long.
CLOSE_S = 2.0
# An agent deletes a few files; one that takes longer hangs, and the session must close all the same.
DELETE_S = 5.0


@dataclass(frozen=True, slots=True)
class SessionDeps:
    """What the manager gives each session."""

    journal: JournalPort
    pool: Pool
    entries: Entries
    background: Background
    limits: Limits
    on_closed: Callable[[str], None]
    standing: StandingRules = field(default_factory=StandingRules)
    expose_reasoning: bool = True
    keep_raw: bool = False
    gather: GatherDeps | None = None
    watchers: Watchers | None = None
    environments: Environments = field(default_factory=Environments)


class Session:
    """A session that is open (closed ones are documents only)."""

    def __init__(self, record: SessionRecord, deps: SessionDeps) -> None:
        self.id = record.id
        self.record = record
        self.deps = deps
        self.agent: AgentProcess | None = None
        self.stance: Stance | None = None
        """What its agent was told to ask when the conversation was opened."""
        self.closing = False
        self.forgotten: bool | None = None
        """Whether the agent has deleted its copy; None: it was not asked."""
        self.closed = anyio.Event()
        self.pausing = ""
        """Why its agent is being stopped under it, when we do that: no failure of the agent."""
        self.ledger = Ledger(
            record,
            self,
            expose_reasoning=deps.expose_reasoning,
            keep_raw=deps.keep_raw,
            approval_ms=deps.limits.approval_ms,
            # Numbers of messages without an id do not come back after a restart.
            first_message=deps.journal.head + 1 if record.prompted else 1,
            standing=deps.standing,
        )
        self.driver = Driver(self)
        self.ending = Ending(self)
        self.gathering = Gathering(self, deps.gather)
        self.watching = Watching(self, deps.watchers)
        self.placing = Placing(self, deps.environments)
        self._waiters: dict[str, anyio.Event] = {}

    # What the process and the ledger call.

    def take(self, draft: AnyDraft, writes: Writes) -> None:
        gathering = self.gathering
        ends = type(draft) is TurnEnded
        if ends:
            run_id = self.ledger.turns.run_of(draft.turn)
            self.ledger.links.flush(writes, run_id=run_id)
            self.watching.turn_ends()
        waits = ends or gathering.held is not None
        if waits and gathering.hold(draft, writes):
            return
        if self.ledger.over and isinstance(draft, TurnStarted):
            # A prompt on its way when all was ended: its run has had its end.
            return
        self.ledger.take(draft, writes)
        if isinstance(draft, ProcessGone):
            self._lost(draft, writes)

    def redact(self, text: str) -> str:
        """The text without the secrets that its agent was started with."""
        return text if self.agent is None else self.agent.launch.redact(text)

    def open_runs(self) -> Collection[str]:
        return self.ledger.runs.keys()

    def answer(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        if self.agent is not None:
            self.agent.post(lambda connection: connection.answer_permission(request, answer))

    def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        if self.agent is not None:
            self.agent.post(lambda connection: connection.answer_question(request, answer))

    def asked(self, approval_id: str) -> None:
        self.ending.watch_approval(approval_id)

    def resolved(self, approval_id: str) -> None:
        self.ending.forget(approval_id)

    def made(self, event: Event) -> None:
        self.gathering.made(event)

    def tool_ended(self, run_id: str) -> None:
        self.watching.tool_ended(run_id)

    def started(self, run: RunRecord) -> None:
        self.gathering.started(run)
        self.ending.watch(run)

    def ended(self, run: RunRecord) -> None:
        self.ending.forget(run.id)
        self.gathering.ended(run)
        if waiter := self._waiters.pop(run.id, None):
            waiter.set()
        if self.closing:
            return
        if self.record.close_when_done and not self.ledger.runs:
            self.deps.background(self._close_when_done)
        else:
            self.driver.kick()

    async def _close_when_done(self) -> None:
        if not self.ledger.runs:
            await self.close(reason="done")

    def _lost(self, gone: ProcessGone, writes: Writes) -> None:
        agent, self.agent = self.agent, None
        if agent is None:
            return
        agent.members.discard(self.id)
        self.driver.retire(agent)
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

    # What its agent is.

    async def commit(self, writes: Writes) -> None:
        await writes.commit(self.deps.journal)

    def adopt(self, agent: AgentProcess, native: NativeSessionId, change: SessionChange) -> Writes:
        """The conversation `native` of `agent` is ours from now on; commit what this returns.

        Raises:
            AgentFailed: the agent has ended meanwhile.
        """
        if agent.stopping:
            raise agent.failure or AgentFailed(
                f"{self.record.spec.entry_id}: it exited in its start. Prompt again to try once more."
            )
        record, writes = self.record, Writes()
        early = agent.bind(native, self)
        self.agent = agent
        self.gathering.learn(agent.secrets)
        if self.stance is None:
            self.stance = stance_of(self)
        record.agent_id = agent.id
        if record.native_session_id != native or record.native_created_at is None:
            record.native_created_at = writes.now
        record.native_session_id = native
        self.ledger.become(SessionState.IDLE, writes)
        self.ledger.say(change, writes)
        for draft in early:
            self.take(draft, writes)
        self.ledger.settle(writes)
        self.watching.begin()
        return writes

    def desert(self) -> None:
        """Leaves a process that does not listen; this session does not use it again."""
        agent, self.agent = self.agent, None
        if agent is None:
            return
        agent.unbind(self)
        agent.members.discard(self.id)
        self.driver.avoid.add(agent.id)
        if not agent.members:
            self.driver.retire(agent)
            agent.request_stop()

    def spec(self) -> SessionSpec:
        """What was asked for, with the model and mode that are in force by now."""
        spec = self.record.spec
        return dataclasses.replace(
            spec,
            model=self.record.model or spec.model,
            mode=self.record.mode or spec.mode,
            policy=self.record.policy,
            native_created_at=self.record.native_created_at,
            guarded=tuple(sorted(stance_of(self).guarded)),
        )

    # What callers wait for.

    def waiter(self, run_id: str) -> anyio.Event:
        """An event that is set once the end of the run is durable."""
        if run_id not in self.ledger.runs and run_id not in self.ledger.ending:
            done = anyio.Event()
            done.set()
            return done
        return self._waiters.setdefault(run_id, anyio.Event())

    async def close(self, *, reason: str = "", force: bool = False, save: bool = True) -> None:
        """Ends what runs, says goodbye, and returns when its process is gone or others need it.

        Whoever calls second waits for the first; a caller that leaves does not stop it. Without
        `save` it cannot be taken up again: the agent's copy and its place go too.
        """
        if not self.closing:
            self.closing, self.record.state_saved = True, save
            self.deps.background(lambda: self._close(reason, force))
        await self.closed.wait()

    async def _close(self, reason: str, force: bool) -> None:
        try:
            await self.driver.halt()
            if not force:
                await self.ending.wind_down()
            writes = Writes(vital=True)
            self.gathering.let_go(writes)
            self.ledger.drop_queue(writes)
            self.ledger.finish(Outcome.CANCELLED, writes)
            await self.commit(writes)
            if not self.record.state_saved:
                await self._forget_native()
            await self.leave_agent(force)
            await self.watching.last()
            self.watching.close()
            await self.gathering.wind_up(before_end=self.placing.leave)
            writes = Writes(vital=True)
            self.ledger.become(SessionState.CLOSED, writes)
            self.record.closed_at = writes.now
            self.ledger.say(SessionChange.CLOSED, writes, reason=reason or None)
            await self.commit(writes)
        finally:
            self.watching.close()
            self.ending.forget_all()
            self.deps.on_closed(self.id)
            self.closed.set()

    async def _forget_native(self) -> None:
        """Has a live agent delete its copy, where it can."""
        agent, native = self.agent, self.record.native_session_id
        if agent is None or not agent.alive or not native:
            return
        self.forgotten = False
        if Feature.DELETE not in agent.record.features:
            return
        with anyio.move_on_after(DELETE_S):
            try:
                connection = await agent.ready()
                await connection.delete_session(NativeSessionId(native))
                self.forgotten = True
            except AgentctlError as error:
                logger.warning("session %s: its agent kept its copy: %s", self.id, error)

    async def leave_agent(self, force: bool) -> None:
        """Gives the process back; it stops when nobody else needs it."""
        agent = self.agent
        if agent is not None:
            closes = Feature.CLOSE in agent.record.features and not self.forgotten
            if not force and agent.alive and closes:
                await self._close_native(agent)
            self.agent = None
            agent.unbind(self)
            await self.deps.pool.release(agent, self.id)
        await self.driver.see_off()

    async def _close_native(self, agent: AgentProcess) -> None:
        with anyio.move_on_after(CLOSE_S):
            try:
                connection = await agent.ready()
                await connection.close_session(NativeSessionId(self.record.native_session_id))
            except AgentctlError:
                return
