"""Owns what is known of one session: its runs, approvals and questions, kept in receive order.

Nothing here awaits: each call fills a `Writes` that its caller commits. It refuses to know
processes, connections and timers; what must happen after the commit goes through `Hooks`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft, Draft, PermissionAnswer, QuestionAnswer
from agentctl.core.events import (
    Complete,
    Event,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    Reasoning,
    RunStatus,
    SessionOptions,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import RunError
from agentctl.core.spec import PromptSpec
from agentctl.core.state import FINAL_RUN, RUN_MOVES, SESSION_MOVES, move
from agentctl.core.turns import Turns
from agentctl.core.words import (
    FINAL_TOOL,
    DecidedBy,
    Decision,
    Origin,
    Outcome,
    QuestionOutcome,
    RunChange,
    RunState,
    SessionChange,
    SessionState,
)
from agentctl.session.hooks import HOLDING, Hooks, as_blocks
from agentctl.session.ids import mint
from agentctl.session.permissions import Verdict, assess, decide
from agentctl.session.records import ApprovalRecord, QuestionRecord, RunRecord, SessionRecord
from agentctl.session.writes import Writes

_RESTING = frozenset({SessionState.ACTIVE, SessionState.AWAITING, SessionState.IDLE})


class Ledger:
    """The bookkeeping of one session."""

    def __init__(
        self,
        record: SessionRecord,
        hooks: Hooks,
        *,
        expose_reasoning: bool = True,
        keep_raw: bool = False,
        approval_ms: int | None = None,
    ) -> None:
        self.record = record
        self.turns = Turns(mint=mint)
        self.runs: dict[str, RunRecord] = {}
        self.approvals: dict[str, ApprovalRecord] = {}
        self.questions: dict[str, QuestionRecord] = {}
        self.options = SessionOptions()
        self.timed_out: set[str] = set()
        self.last_event = 0
        self._hooks = hooks
        self._expose_reasoning = expose_reasoning
        self._keep_raw = keep_raw
        self._approval_ms = approval_ms

    @property
    def queue(self) -> list[RunRecord]:
        """The prompts that wait, next first."""
        waiting = [r for r in self.runs.values() if r.state is not RunState.RUNNING]
        return sorted(waiting, key=lambda run: (run.order, run.id))

    @property
    def running(self) -> RunRecord | None:
        """The run whose turn it is."""
        return next((self.runs[r] for r in self.turns.open_runs if r in self.runs), None)

    def take(self, draft: AnyDraft, writes: Writes) -> None:
        """One draft of the agent, in receive order."""
        events = self.turns.apply(draft)
        if not events:
            return
        if self._keep_raw and isinstance(draft, Draft) and draft.raw is not None:
            events[0].raw = orjson.dumps(draft.raw)
        self.add(events, writes)

    def add(self, events: Sequence[Event], writes: Writes) -> None:
        """Stamps events, notes what they change, and puts them into the transaction."""
        record = self.record
        self.last_event = writes.now
        observers = _OBSERVERS
        for event in events:
            event.ts = writes.now
            event.session_id = record.id
            event.agent_id = record.agent_id or None
            event.session_key = record.key or None
            kind = type(event.payload)
            if kind is Reasoning and not self._expose_reasoning:
                continue
            writes.events.append(event)
            observer = observers.get(kind)
            if observer is not None:
                observer(self, event, writes)

    def say(self, change: SessionChange, writes: Writes, *, reason: str | None = None) -> None:
        """A session_status event with what is in force."""
        record = self.record
        status = SessionStatus(
            change,
            reason=reason,
            title=record.title or None,
            native_session_id=record.native_session_id or None,
            model=record.model or None,
            mode=record.mode or None,
            queue_held=record.queue_held if record.queue_held or self.queue else None,
        )
        record.updated_at = writes.now
        writes.touch(record)
        self.add([Event(status)], writes)

    def become(self, state: SessionState, writes: Writes) -> None:
        """Moves the session; the table of core/state.py decides whether it may."""
        if self.record.state is not state:
            self.record.state = move(SESSION_MOVES, self.record.state, state)
            self.record.updated_at = writes.now
            writes.touch(self.record)

    def settle(self, writes: Writes) -> None:
        """active, awaiting or idle, from what is open; other states stay."""
        if self.record.state not in _RESTING:
            return
        if self.turns.open_permissions or self.turns.open_questions:
            self.become(SessionState.AWAITING, writes)
        elif self.turns.open_runs:
            self.become(SessionState.ACTIVE, writes)
        else:
            self.become(SessionState.IDLE, writes)

    def hold(self, held: bool, writes: Writes) -> None:
        """Holds the queue, or lets it go, and says so."""
        if self.record.queue_held != held:
            self.record.queue_held = held
            self.say(
                SessionChange.UPDATED, writes, reason="queue_held" if held else "queue_released"
            )

    def create(self, run: RunRecord, position: int | None, writes: Writes) -> None:
        """A prompt of a client: run_status created, then queued when it must wait."""
        self.runs[run.id] = run
        prompt = list(run.prompt.blocks) or [*as_blocks(run.prompt)]
        created = RunStatus(RunChange.CREATED, origin=run.origin, prompt=prompt)
        self.add([Event(created, run_id=run.id)], writes)
        if position is not None:
            run.state = move(RUN_MOVES, run.state, RunState.QUEUED)
            queued = RunStatus(RunChange.QUEUED, position=position)
            self.add([Event(queued, run_id=run.id)], writes)
        writes.touch(run)

    def begin(self, run: RunRecord, writes: Writes) -> None:
        """The prompt is about to be written to the agent."""
        self.add(self.turns.begin(run.id, origin=run.origin), writes)
        self.settle(writes)

    def end(
        self, run: RunRecord, outcome: Outcome, writes: Writes, *, error: RunError | None = None
    ) -> None:
        """Ends a run by our own word, whether it waits or runs."""
        if run.state in FINAL_RUN:
            return
        if run.id in self.turns.open_runs:
            self.add(self.turns.end(run.id, outcome, error=error), writes)
        else:
            self.add([Event(Complete(outcome, error=error), run_id=run.id)], writes)

    def end_everything(
        self, outcome: Outcome, writes: Writes, *, error: RunError | None = None
    ) -> None:
        """Ends what runs and closes every open request; the queue stays."""
        self.add(self.turns.end_all(outcome, error=error), writes)
        self.settle(writes)

    def drop_queue(self, writes: Writes) -> None:
        for run in self.queue:
            self.end(run, Outcome.CANCELLED, writes)

    def resolve(self, approval_id: str, verdict: Verdict, writes: Writes) -> bool:
        """Decides an open approval; False when somebody was first."""
        open_one = self.turns.open_permissions.get(approval_id)
        if open_one is None:
            return False
        events = self.turns.resolve_permission(
            approval_id,
            verdict.decision,
            option_id=verdict.option_id,
            by=verdict.by,
            reason=verdict.reason,
            rule_id=verdict.rule_id,
        )
        if not events:
            return False
        self.add(events, writes)
        self.settle(writes)
        answer = PermissionAnswer(
            verdict.decision, verdict.option_id, verdict.reason, verdict.updated_input_json
        )
        writes.after.append(lambda: self._hooks.answer(open_one.request, answer))
        return True

    def resolve_question(
        self, question_id: str, answer: QuestionAnswer, by: DecidedBy, writes: Writes
    ) -> bool:
        """Answers an open question; False when somebody was first."""
        open_one = self.turns.open_questions.get(question_id)
        if open_one is None:
            return False
        events = self.turns.resolve_question(
            question_id,
            answer.outcome,
            answers=list(answer.answers) or None,
            content_json=answer.content_json,
            by=by,
        )
        if not events:
            return False
        self.add(events, writes)
        self.settle(writes)
        writes.after.append(lambda: self._hooks.answer_question(open_one.request, answer))
        return True

    def cancel_requests(self, writes: Writes) -> None:
        """Answers every open request as cancelled, to us and to the agent."""
        for approval_id in list(self.turns.open_permissions):
            verdict = Verdict(Decision.CANCELLED, None, DecidedBy.CLIENT)
            self.resolve(approval_id, verdict, writes)
        for question_id in list(self.turns.open_questions):
            answer = QuestionAnswer(QuestionOutcome.CANCELLED)
            self.resolve_question(question_id, answer, DecidedBy.CLIENT, writes)

    def on_options(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, SessionOptions)
        for name in SessionOptions.__slots__:
            if (value := getattr(payload, name)) is not None:
                setattr(self.options, name, value)
        if payload.model is not None or payload.mode is not None:
            self.record.model = payload.model or self.record.model
            self.record.mode = payload.mode or self.record.mode
            writes.touch(self.record)

    def on_status(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, SessionStatus)
        if payload.title and payload.title != self.record.title:
            self.record.title = payload.title
            writes.touch(self.record)

    def on_run(self, event: Event, writes: Writes) -> None:
        payload, run_id = event.payload, event.run_id
        assert isinstance(payload, RunStatus) and run_id
        run = self.runs.get(run_id)
        if run is None:
            prompt = PromptSpec(blocks=tuple(payload.prompt or ()))
            origin = payload.origin or Origin.AGENT
            run = RunRecord(run_id, self.record.id, prompt, origin=origin, created_at=writes.now)
            self.runs[run_id] = run
        if payload.status is RunChange.STARTED:
            run.state = move(RUN_MOVES, run.state, RunState.RUNNING)
            run.started_at = writes.now
        writes.touch(run)
        self.settle(writes)

    def on_tool(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, ToolCall | ToolUpdate)
        run = self.runs.get(event.run_id or "")
        if run is None or payload.status is None:
            return
        tool = payload.tool_call_id
        background = isinstance(payload, ToolUpdate) and payload.background
        if payload.status in FINAL_TOOL or background:
            if tool in run.open_tools:
                run.open_tools.remove(tool)
                writes.touch(run)
        elif tool not in run.open_tools:
            run.open_tools.append(tool)
            writes.touch(run)

    def on_permission(self, event: Event, writes: Writes) -> None:
        request = event.payload
        assert isinstance(request, PermissionRequest)
        assess(request, self.record.spec.workspace)
        approval = ApprovalRecord(
            request,
            self.record.id,
            event.run_id,
            self.record.agent_id,
            event.parent_tool_call_id,
            writes.now,
        )
        self.approvals[request.approval_id] = approval
        writes.touch(approval)
        verdict = decide(
            request, self.record.policy, self.record.rules, in_run=event.run_id is not None
        )
        if verdict is not None:
            self.resolve(request.approval_id, verdict, writes)
            return
        if self._approval_ms is not None and request.expires_at is None:
            request.expires_at = writes.now + self._approval_ms
        if request.expires_at is not None:
            writes.after.append(lambda: self._hooks.asked(request.approval_id))
        self.settle(writes)

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
            writes.touch(approval)
        self.settle(writes)

    def on_question(self, event: Event, writes: Writes) -> None:
        request = event.payload
        assert isinstance(request, QuestionRequest)
        question = QuestionRecord(
            request, self.record.id, event.run_id, self.record.agent_id, writes.now
        )
        self.questions[request.question_id] = question
        writes.touch(question)
        self.settle(writes)

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
        self.settle(writes)

    def on_complete(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, Complete)
        run = self.runs.pop(event.run_id or "", None)
        if run is None:
            return
        if run.id in self.timed_out:
            self.timed_out.discard(run.id)
            payload.outcome = Outcome.TIMED_OUT
            payload.error = RunError("TIMEOUT", f"The run took longer than {run.timeout_ms} ms.")
        run.state = move(RUN_MOVES, run.state, RunState(payload.outcome.value))
        run.ended_at = payload.ended_at = writes.now
        payload.started_at = run.started_at
        run.stop_reason, run.usage = payload.stop_reason, payload.usage
        run.cost_usd, run.error = payload.cost_usd, payload.error
        run.folded_into = payload.folded_into
        run.open_tools = []
        writes.touch(run)
        self.settle(writes)
        failed = payload.error is not None and payload.outcome is Outcome.FAILED
        if failed and payload.error and payload.error.code in HOLDING and self.queue:
            self.hold(True, writes)
        writes.after.append(lambda: self._hooks.ended(run))


_OBSERVERS: dict[type[Any], Callable[[Ledger, Event, Writes], None]] = {
    SessionOptions: Ledger.on_options,
    SessionStatus: Ledger.on_status,
    RunStatus: Ledger.on_run,
    ToolCall: Ledger.on_tool,
    ToolUpdate: Ledger.on_tool,
    PermissionRequest: Ledger.on_permission,
    PermissionResolved: Ledger.on_permission_end,
    QuestionRequest: Ledger.on_question,
    QuestionResolved: Ledger.on_question_end,
    Complete: Ledger.on_complete,
}
