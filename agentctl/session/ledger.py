"""Owns what is known of one session: its runs, approvals and questions, kept in receive order.

Nothing here awaits: each call fills a `Writes` that its caller commits. It refuses to know
processes, connections and timers; what must happen after the commit goes through `Hooks`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft, Draft, QuestionAnswer, TurnEnded
from agentctl.core.cleaning import cleaned
from agentctl.core.events import (
    Complete,
    Event,
    FileChange,
    Git,
    Message,
    MessageChunk,
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
from agentctl.core.limits import short
from agentctl.core.parts import RunError
from agentctl.core.spec import PromptSpec
from agentctl.core.state import FINAL_RUN, RUN_MOVES, SESSION_MOVES, move
from agentctl.core.turns import Turns
from agentctl.core.words import (
    FINAL_TOOL,
    DecidedBy,
    Origin,
    Outcome,
    RunChange,
    RunState,
    SessionChange,
    SessionState,
)
from agentctl.session.hooks import HOLDING, Hooks, as_blocks
from agentctl.session.ids import mint
from agentctl.session.links import Links
from agentctl.session.permissions import Verdict
from agentctl.session.progress import FOLDS, Facts
from agentctl.session.records import RunRecord, SessionRecord
from agentctl.session.requests import Requests
from agentctl.session.rules import StandingRules
from agentctl.session.writes import Writes

# After kill -9 the facts are counted again from the last time that they were stored: so many events.
REMEMBER_EVENTS = 10_000

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
        first_message: int = 1,
        standing: StandingRules | None = None,
    ) -> None:
        self.record = record
        self.turns = Turns(mint=mint, first_message=first_message)
        self.requests = Requests(
            record, hooks, self.turns, self, approval_ms, standing or StandingRules()
        )
        self.runs: dict[str, RunRecord] = {}
        self.ending: dict[str, RunRecord] = {}
        """Ended in memory, and not yet in the journal."""
        self.options = SessionOptions()
        self.verdicts: dict[str, tuple[Outcome, RunError]] = {}
        """How a run ends whatever its agent says: it took too long, or the disk is full."""
        self.ends: dict[str, int] = {}
        """When the agent ended runs whose end waits for their artifacts, Unix ms."""
        self.last_event = 0
        self.facts = Facts(record)
        self.links = Links(self.add)
        self._unseen = 0
        self._hooks = hooks
        self._expose_reasoning = expose_reasoning
        self._keep_raw = keep_raw
        self.approvals = self.requests.approvals
        self.questions = self.requests.questions
        self.cancelling = self.requests.cancelling

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
        before = self.requests.open_now() if isinstance(draft, TurnEnded) else None
        events = self.turns.apply(draft)
        if not events:
            return
        if self._keep_raw and isinstance(draft, Draft) and draft.raw is not None:
            events[0].raw = orjson.dumps(cleaned(draft.raw, self._hooks.redact))
        self.add(events, writes)
        self.requests.answer_dropped(before, writes)

    def add(self, events: Sequence[Event], writes: Writes) -> None:
        """Stamps events, notes what they change, and puts them into the transaction."""
        record = self.record
        self.last_event = record.last_active_at = writes.now
        observers, facts = _OBSERVERS, self.facts
        for event in events:
            event.ts = writes.now
            event.session_id = record.id
            event.agent_id = record.agent_id or None
            event.session_key = record.key or None
            if event.whole is not None:
                self._hooks.made(event)
            payload = event.payload
            if isinstance(payload, MessageChunk):
                writes.events.append(event)
                if payload.message_id != facts.done_with:
                    facts.chunk(event, payload)
                self.links.chunk(event, payload, writes)
                continue
            kind = type(payload)
            if kind is Reasoning and not self._expose_reasoning:
                continue
            writes.events.append(event)
            observer = observers.get(kind)
            if observer is not None:
                observer(self, event, writes)
            fold = FOLDS.get(kind)
            if fold is not None:
                fold(facts, event, payload)
            if kind is Complete:
                self.remember(writes)
        self._unseen += len(events)
        if self._unseen > REMEMBER_EVENTS:
            self.remember(writes)

    def remember(self, writes: Writes) -> None:
        """Stores what was done so far, as of the last event of this transaction."""
        self._unseen = 0
        record, facts = self.record, self.facts
        facts.seen.open = record.state is not SessionState.CLOSED
        for tally in facts.changed.values():
            writes.touch(tally)
        facts.changed.clear()
        writes.touch(facts.seen)
        writes.touch(record)

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
            if state not in _RESTING and state is not SessionState.STARTING:
                self.remember(writes)

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
        prompt = short(run.prompt.blocks) or [*as_blocks(run.prompt)]
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
            before = self.requests.open_now()
            self.add(self.turns.end(run.id, outcome, error=error), writes)
            self.requests.answer_dropped(before, writes)
        else:
            self.add([Event(Complete(outcome, error=error), run_id=run.id)], writes)

    def end_everything(
        self, outcome: Outcome, writes: Writes, *, error: RunError | None = None
    ) -> None:
        """Ends what runs and closes every open request; the queue stays."""
        before = self.requests.open_now()
        self.add(self.turns.end_all(outcome, error=error), writes)
        self.requests.answer_dropped(before, writes)
        self.settle(writes)

    @property
    def over(self) -> bool:
        """Nothing begins any more: the session closes or rests."""
        return self.requests.over

    def finish(self, outcome: Outcome, writes: Writes, *, error: RunError | None = None) -> None:
        """Ends everything for good: what the agent asks from now on is answered as cancelled."""
        self.requests.over = True
        self.end_everything(outcome, writes, error=error)

    def drop_queue(self, writes: Writes) -> None:
        for run in self.queue:
            self.end(run, Outcome.CANCELLED, writes)

    def resolve(self, approval_id: str, verdict: Verdict, writes: Writes) -> bool:
        """Decides an open approval; False when somebody was first."""
        return self.requests.resolve(approval_id, verdict, writes)

    def resolve_question(
        self, question_id: str, answer: QuestionAnswer, by: DecidedBy, writes: Writes
    ) -> bool:
        """Answers an open question; False when somebody was first."""
        return self.requests.resolve_question(question_id, answer, by, writes)

    def cancel_requests(self, writes: Writes) -> None:
        """Answers every open request as cancelled, to us and to the agent."""
        self.requests.cancel_requests(writes)

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

    def on_made(self, event: Event, writes: Writes) -> None:
        self._hooks.made(event)

    def on_status(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, SessionStatus)
        if payload.title and payload.title != self.record.title:
            self.record.title = payload.title
            writes.touch(self.record)
        native = payload.native_session_id
        if native and self.record.native_session_id and native != self.record.native_session_id:
            # The agent goes on under another name (it was told to clear): that one is resumed.
            self.record.native_session_id = native
            writes.touch(self.record)

    def on_run(self, event: Event, writes: Writes) -> None:
        payload, run_id = event.payload, event.run_id
        assert isinstance(payload, RunStatus) and run_id
        run = self.runs.get(run_id)
        if run is None:
            prompt = PromptSpec(blocks=tuple(payload.prompt or ()))
            origin = payload.origin or Origin.AGENT
            run = RunRecord(run_id, self.record.id, prompt, origin=origin, created_at=writes.now)
            run.session_key = self.record.key
            self.runs[run_id] = run
        if payload.status is RunChange.STARTED:
            run.state = move(RUN_MOVES, run.state, RunState.RUNNING)
            run.started_at = writes.now
            writes.after.append(lambda: self._hooks.started(run))
        writes.touch(run)
        self.settle(writes)

    def on_tool(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, ToolCall | ToolUpdate)
        reads = self.links.tool(event, payload, writes)
        run = self.runs.get(event.run_id or "")
        if run is None:
            return
        tool = payload.tool_call_id
        self.requests.tool_paths(payload)
        if payload.status is None:
            return
        background = isinstance(payload, ToolUpdate) and payload.background
        if payload.status in FINAL_TOOL or background:
            self.requests.forget_tool(tool)
            if not reads:
                self._hooks.tool_ended(run.id)
            if tool in run.open_tools:
                run.open_tools.remove(tool)
                writes.touch(run)
        elif tool not in run.open_tools:
            run.open_tools.append(tool)
            writes.touch(run)

    def on_complete(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, Complete)
        run = self.runs.pop(event.run_id or "", None)
        if run is None:
            return
        self.cancelling.discard(run.id)
        self.links.flush(writes, after_run_id=run.id)
        if (verdict := self.verdicts.pop(run.id, None)) is not None:
            payload.outcome, payload.error = verdict
        run.state = move(RUN_MOVES, run.state, RunState(payload.outcome.value))
        run.ended_at = payload.ended_at = self.ends.pop(run.id, writes.now)
        payload.started_at = run.started_at
        run.stop_reason, run.usage = payload.stop_reason, payload.usage
        run.cost_usd, run.error = payload.cost_usd, payload.error
        run.folded_into = payload.folded_into
        for tool in run.open_tools:
            self.requests.forget_tool(tool)
        run.open_tools = []
        writes.touch(run)
        self.settle(writes)
        failed = payload.error is not None and payload.outcome is Outcome.FAILED
        if failed and payload.error and payload.error.code in HOLDING and self.queue:
            self.hold(True, writes)
        self.ending[run.id] = run
        writes.after.append(lambda: self._ended(run))

    def _ended(self, run: RunRecord) -> None:
        del self.ending[run.id]
        self._hooks.ended(run)


_OBSERVERS: Mapping[type[Any], Callable[[Ledger, Event, Writes], None]] = {
    SessionOptions: Ledger.on_options,
    SessionStatus: Ledger.on_status,
    RunStatus: Ledger.on_run,
    ToolCall: Ledger.on_tool,
    ToolUpdate: Ledger.on_tool,
    PermissionRequest: lambda ledger, event, writes: ledger.requests.on_permission(event, writes),
    PermissionResolved: lambda ledger, event, writes: ledger.requests.on_permission_end(
        event, writes
    ),
    QuestionRequest: lambda ledger, event, writes: ledger.requests.on_question(event, writes),
    QuestionResolved: lambda ledger, event, writes: ledger.requests.on_question_end(event, writes),
    Complete: Ledger.on_complete,
    Message: lambda ledger, event, writes: ledger.links.message(event, writes),
    FileChange: Ledger.on_made,
    Git: Ledger.on_made,
}
