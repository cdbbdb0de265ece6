"""Owns the session room as a whole: what survived the last daemon, and the way down.

The calls live beside it (`*_calls.py`); it refuses to know any of them.
"""

from types import TracebackType
from typing import Self

import anyio

from agentctl.core.errors import AgentctlError
from agentctl.core.events import (
    Complete,
    Event,
    PermissionResolved,
    QuestionResolved,
    ToolUpdate,
)
from agentctl.core.parts import RunError
from agentctl.core.spec import Rule
from agentctl.core.words import (
    DecidedBy,
    Decision,
    Outcome,
    QuestionOutcome,
    RunState,
    SessionChange,
    SessionState,
    ToolStatus,
)
from agentctl.session.agent_calls import AgentCalls
from agentctl.session.approval_calls import ApprovalCalls
from agentctl.session.artifact_calls import ArtifactCalls
from agentctl.session.base import logger
from agentctl.session.history_calls import HistoryCalls
from agentctl.session.recall import fill_in, recall
from agentctl.session.records import ApprovalRecord, QuestionRecord, RunRecord, SessionRecord
from agentctl.session.rule_calls import RuleCalls
from agentctl.session.session import Session
from agentctl.session.session_calls import SessionCalls
from agentctl.session.store import load
from agentctl.session.tool_reads import ToolReads
from agentctl.session.writes import Writes

RESTARTED = RunError(
    "DAEMON_RESTARTED",
    "The daemon stopped in this run. Prompt again: the session resumes where it was.",
    recoverable=True,
)
# All agents get their stop ladder at once; a defect in one must not keep the daemon up.
SHUTDOWN_S = 20.0


class Manager(
    SessionCalls, HistoryCalls, ApprovalCalls, RuleCalls, AgentCalls, ArtifactCalls, ToolReads
):
    """Use as an async context manager: entering recovers, leaving stops every agent."""

    async def __aenter__(self) -> Self:
        self._group = group = anyio.create_task_group()
        await group.__aenter__()
        try:
            await self._recover()
        except BaseException:
            self._group = None
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)
            raise
        self.background(self._count_closed)
        self.background(self._fill_in)
        self.background(self.recover_places)
        if self.deps.artifacts is not None:
            self.background(self.deps.artifacts.run)
        return self

    async def _count_closed(self) -> None:
        """How many sessions are kept beside the open ones."""
        but = list(self.sessions)
        kept = await self.deps.journal.count_briefed("session", (), but=but)
        self.closed_sessions += kept

    async def _fill_in(self) -> None:
        await fill_in(self.deps.journal, self.deps.decode, self.sessions)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        group = self._group
        assert group is not None
        with anyio.move_on_after(SHUTDOWN_S, shield=True):
            await self._shut_down()
        self._group = None
        group.cancel_scope.cancel()
        # What ended the body goes on as it is, not wrapped into a group.
        await group.__aexit__(None, None, None)

    async def _recover(self) -> None:
        """Ends what the last daemon left running; queues stay, and wait for a client."""
        journal = self.deps.journal
        for doc in await journal.docs("rule", limit=1_000_000):
            self.standing.put(load(Rule, doc))
        docs = await journal.docs("session", open=True, limit=1_000_000)
        records = [load(SessionRecord, doc) for doc in docs]
        facts = await recall(journal, self.deps.decode, records)
        for record in records:
            self.adopt(record, facts[record.id])
        for doc in await journal.docs("run", open=True, limit=1_000_000):
            run = load(RunRecord, doc)
            if session := self.sessions.get(run.session_id):
                session.ledger.runs[run.id] = run
        for doc in await journal.docs("approval", open=True, limit=1_000_000):
            approval = load(ApprovalRecord, doc)
            if session := self.sessions.get(approval.session_id):
                session.ledger.approvals[doc.id] = approval
        for doc in await journal.docs("question", open=True, limit=1_000_000):
            question = load(QuestionRecord, doc)
            if session := self.sessions.get(question.session_id):
                session.ledger.questions[doc.id] = question
        for session in self.sessions.values():
            await session.commit(_recovered(session))

    async def _shut_down(self) -> None:
        resting = [session for session in self.sessions.values() if not session.closing]
        for session in resting:
            session.pausing, session.closing = "the daemon stopped", True
            session.ending.forget_all()
        if self.watchers is not None:
            self.watchers.close()
        async with anyio.create_task_group() as group:
            group.start_soon(self.pool.stop_all)
            for session in resting:
                group.start_soon(self._rest, session)
        async with anyio.create_task_group() as group:
            # What runs had made until now, once nobody changes it any more.
            for session in resting:
                group.start_soon(session.gathering.wind_up)

    async def _rest(self, session: Session) -> None:
        try:
            await session.commit(_paused(session))
            await session.driver.halt()
            await session.driver.see_off()
        except AgentctlError:
            logger.exception("session %s could not be put to rest", session.id)
        finally:
            session.closed.set()


def _paused(session: Session) -> Writes:
    """The daemon's own stop is no failure of the agent: it is told as what it is."""
    writes, ledger, state = Writes(vital=True), session.ledger, session.record.state
    session.gathering.let_go(writes)
    ledger.finish(Outcome.FAILED, writes, error=RESTARTED)
    _interrupt(session, "the daemon stopped", writes, told=state)
    ledger.remember(writes)
    return writes


def _recovered(session: Session) -> Writes:
    writes, ledger, record = Writes(vital=True), session.ledger, session.record
    for approval in list(ledger.approvals.values()):
        id_ = approval.request.approval_id
        resolved = PermissionResolved(id_, Decision.CANCELLED, by=DecidedBy.AGENT)
        resolved.reason = "the daemon restarted"
        ledger.add([Event(resolved, run_id=approval.run_id)], writes)
    for question in list(ledger.questions.values()):
        gone = QuestionResolved(question.request.question_id, QuestionOutcome.CANCELLED)
        gone.by, gone.reason = DecidedBy.AGENT, "the daemon restarted"
        ledger.add([Event(gone, run_id=question.run_id)], writes)
    for run in list(ledger.runs.values()):
        if run.state is RunState.RUNNING:
            for tool in list(run.open_tools):
                closed = ToolUpdate(tool, ToolStatus.FAILED, error="the daemon restarted")
                ledger.add([Event(closed, run_id=run.id)], writes)
            ended = Complete(Outcome.FAILED, error=RESTARTED)
            ledger.add([Event(ended, run_id=run.id)], writes)
    _interrupt(session, "the daemon restarted", writes, told=record.state)
    record.agent_id = ""
    ledger.remember(writes)
    # Nobody waits yet, and nothing starts by itself: not the queue, and no close_when_done.
    writes.after.clear()
    ledger.ending.clear()
    return writes


def _interrupt(session: Session, reason: str, writes: Writes, *, told: SessionState) -> None:
    """A session that rests already stays what it is; only its queue is held in any case."""
    ledger, record = session.ledger, session.record
    if told in {SessionState.INTERRUPTED, SessionState.FAILED, SessionState.ASLEEP}:
        if ledger.queue:
            ledger.hold(True, writes)
        return
    record.queue_held = bool(ledger.queue)
    ledger.become(SessionState.INTERRUPTED, writes)
    ledger.say(SessionChange.INTERRUPTED, writes, reason=reason)
