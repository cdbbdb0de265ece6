"""Owns what is asked in one session: its approvals and questions, their one answer each.

Half of the ledger. It refuses to know runs and queues, and how an answer reaches an agent.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agentctl.core.adapter import PermissionAnswer, QuestionAnswer
from agentctl.core.asks import OpenPermission, OpenQuestion
from agentctl.core.events import (
    Event,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.turns import Turns
from agentctl.core.words import DecidedBy, Decision, QuestionOutcome
from agentctl.session.hooks import Hooks
from agentctl.session.permissions import Verdict, assess, decide
from agentctl.session.records import ApprovalRecord, QuestionRecord, SessionRecord
from agentctl.session.rules import StandingRules, place_of
from agentctl.session.writes import Writes

Open = tuple[Mapping[str, OpenPermission], Mapping[str, OpenQuestion]]
CANCELLED = Verdict(Decision.CANCELLED, None, DecidedBy.CLIENT)


class Books(Protocol):
    """What the ledger does for this half of it."""

    def add(self, events: Sequence[Event], writes: Writes) -> None: ...

    def settle(self, writes: Writes) -> None: ...


class Requests:
    """Approvals and questions by our ids; `cancelling` are runs whose agent was told to stop."""

    def __init__(
        self,
        record: SessionRecord,
        hooks: Hooks,
        turns: Turns,
        books: Books,
        approval_ms: int | None,
        standing: StandingRules,
    ) -> None:
        self.approvals: dict[str, ApprovalRecord] = {}
        self.questions: dict[str, QuestionRecord] = {}
        self.cancelling: set[str] = set()
        self.over = False
        self._record = record
        self._hooks = hooks
        self._turns = turns
        self._books = books
        self._approval_ms = approval_ms
        self._standing = standing
        self._paths: dict[str, set[str]] = {}

    def open_now(self) -> Open | None:
        """What the agent waits for; None when it waits for nothing."""
        turns = self._turns
        if not turns.open_permissions and not turns.open_questions:
            return None
        return dict(turns.open_permissions), dict(turns.open_questions)

    def answer_dropped(self, before: Open | None, writes: Writes) -> None:
        """What was closed because its run ended is answered to the agent too: it may still wait."""
        for approval_id, permission in before[0].items() if before else ():
            if approval_id not in self._turns.open_permissions:
                self._answer(permission, PermissionAnswer(Decision.CANCELLED), writes)
        for question_id, question in before[1].items() if before else ():
            if question_id not in self._turns.open_questions:
                self._answer_question(question, QuestionAnswer(QuestionOutcome.CANCELLED), writes)

    def _answer(self, ask: OpenPermission, answer: PermissionAnswer, writes: Writes) -> None:
        writes.after.append(lambda: self._hooks.answer(ask.request, answer))

    def _answer_question(self, ask: OpenQuestion, answer: QuestionAnswer, writes: Writes) -> None:
        writes.after.append(lambda: self._hooks.answer_question(ask.request, answer))

    def resolve(self, approval_id: str, verdict: Verdict, writes: Writes) -> bool:
        """Decides an open approval; False when somebody was first."""
        open_one = self._turns.open_permissions.get(approval_id)
        if open_one is None:
            return False
        events = self._turns.resolve_permission(
            approval_id,
            verdict.decision,
            option_id=verdict.option_id,
            by=verdict.by,
            reason=verdict.reason,
            rule_id=verdict.rule_id,
        )
        if not events:
            return False
        self._books.add(events, writes)
        self._books.settle(writes)
        answer = PermissionAnswer(
            verdict.decision, verdict.option_id, verdict.reason, verdict.updated_input_json
        )
        self._answer(open_one, answer, writes)
        return True

    def resolve_question(
        self, question_id: str, answer: QuestionAnswer, by: DecidedBy, writes: Writes
    ) -> bool:
        """Answers an open question; False when somebody was first."""
        open_one = self._turns.open_questions.get(question_id)
        if open_one is None:
            return False
        events = self._turns.resolve_question(
            question_id,
            answer.outcome,
            answers=list(answer.answers) or None,
            content_json=answer.content_json,
            by=by,
        )
        if not events:
            return False
        self._books.add(events, writes)
        self._books.settle(writes)
        self._answer_question(open_one, answer, writes)
        return True

    def cancel_requests(self, writes: Writes) -> None:
        """Answers every open request as cancelled, to us and to the agent."""
        for approval_id in list(self._turns.open_permissions):
            self.resolve(approval_id, CANCELLED, writes)
        for question_id in list(self._turns.open_questions):
            answer = QuestionAnswer(QuestionOutcome.CANCELLED)
            self.resolve_question(question_id, answer, DecidedBy.CLIENT, writes)

    def tool_paths(self, tool: ToolCall | ToolUpdate) -> None:
        """What a tool that is under way will touch: a request may name only one file of it."""
        told = {*(tool.paths or ()), *(place.path for place in tool.locations or ())}
        if told:
            self._paths.setdefault(tool.tool_call_id, set()).update(told)

    def forget_tool(self, tool: str) -> None:
        self._paths.pop(tool, None)

    def on_permission(self, event: Event, writes: Writes) -> None:
        request = event.payload
        assert isinstance(request, PermissionRequest)
        assess(request, self._record.spec.workspace)
        approval = ApprovalRecord(
            request,
            self._record.id,
            event.run_id,
            self._record.agent_id,
            event.parent_tool_call_id,
            writes.now,
        )
        self.approvals[request.approval_id] = approval
        writes.touch(approval)
        record = self._record
        verdict = decide(
            request,
            record.policy,
            self._standing.behind(record.rules),
            place_of(
                record, writes.now, frozenset(self._paths.get(request.tool_call_id or "", ()))
            ),
            in_run=event.run_id is not None,
        )
        if self.over or event.run_id in self.cancelling:
            verdict = CANCELLED
        if verdict is not None:
            self.resolve(request.approval_id, verdict, writes)
            return
        if self._approval_ms is not None and request.expires_at is None:
            request.expires_at = writes.now + self._approval_ms
        if request.expires_at is not None:
            writes.after.append(lambda: self._hooks.asked(request.approval_id))
        self._books.settle(writes)

    def on_permission_end(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, PermissionResolved)
        approval = self.approvals.pop(payload.approval_id, None)
        if approval is not None:
            approval.resolved_at = writes.now
            approval.decision = payload.decision
            approval.option_id = payload.option_id
            approval.by = payload.by
            approval.reason = payload.reason
            approval.rule_id = payload.rule_id
            writes.touch(approval)
            writes.after.append(lambda: self._hooks.resolved(payload.approval_id))
        self._books.settle(writes)

    def on_question(self, event: Event, writes: Writes) -> None:
        request = event.payload
        assert isinstance(request, QuestionRequest)
        question = QuestionRecord(
            request, self._record.id, event.run_id, self._record.agent_id, writes.now
        )
        self.questions[request.question_id] = question
        writes.touch(question)
        if self.over or event.run_id in self.cancelling:
            cancelled = QuestionAnswer(QuestionOutcome.CANCELLED)
            self.resolve_question(request.question_id, cancelled, DecidedBy.CLIENT, writes)
        self._books.settle(writes)

    def on_question_end(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, QuestionResolved)
        question = self.questions.pop(payload.question_id, None)
        if question is not None:
            question.resolved_at = writes.now
            question.outcome = payload.outcome
            question.answers = payload.answers
            question.content_json = payload.content_json
            question.by = payload.by
            writes.touch(question)
        self._books.settle(writes)
