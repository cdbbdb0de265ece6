"""Owns the runs of one session: the only author of run events, of closed tools and of `complete`.

It takes what we did (`begin`, `cancel_sent`, `resolve_*`, `end`) and what the agent said (drafts), in
order, and gives events. Pure: it mints ids through a function and reads no clock. Times, session and
agent ids are stamped by its owner. It refuses to know which protocol the drafts came from.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentctl.core.adapter import (
    AnyDraft,
    CancelSent,
    Draft,
    PermissionAnswered,
    ProcessGone,
    ProcessStarted,
    QuestionAnswered,
    TurnEnded,
    TurnStarted,
)
from agentctl.core.asks import Asks, OpenPermission, OpenQuestion
from agentctl.core.events import (
    Complete,
    ContextWindow,
    Error,
    Event,
    FileChange,
    Log,
    Message,
    MessageChunk,
    Payload,
    PermissionRequest,
    PermissionResolved,
    Plan,
    QuestionRequest,
    QuestionResolved,
    RateLimit,
    Reasoning,
    RunStatus,
    SessionOptions,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.ids import NativeRequestId, NativeTurnId
from agentctl.core.limits import SURELY_SMALL_CHARS, bound
from agentctl.core.parts import Answer, RunError
from agentctl.core.runs import EndedTurns, Run, death, told
from agentctl.core.toolbox import Toolbox
from agentctl.core.words import (
    DecidedBy,
    Decision,
    Origin,
    Outcome,
    QuestionOutcome,
    RunChange,
)


class Turns:
    """The runs of one session, from drafts to events."""

    def __init__(self, *, mint: Callable[[str], str], first_message: int = 1) -> None:
        """`mint("run" | "apr" | "qst")` makes an id; `first_message` numbers messages without one."""
        self._mint = mint
        self._message = first_message - 1
        self._runs: list[Run] = []
        self._run_id: str | None = None
        self._last: str | None = None
        self._ended = EndedTurns()
        self._texts: dict[str | None, tuple[Any, str]] = {}
        self._asks = Asks()
        self._tools = self.toolbox = Toolbox()
        self._drafts: Mapping[type, Callable[[Any], list[Event]]] = {
            TurnStarted: self._turn_started,
            TurnEnded: self._turn_ended,
            CancelSent: self._cancel,
            PermissionAnswered: self._permission_answered,
            QuestionAnswered: self._question_answered,
            ProcessStarted: self._process_started,
            ProcessGone: self._process_gone,
        }
        self._payloads: Mapping[type, Callable[[Draft, Any], list[Event]]] = {
            Reasoning: self._reasoning,
            Message: self._whole_message,
            ToolCall: self._tool_call,
            ToolUpdate: self._tool_update,
            PermissionRequest: self._permission,
            QuestionRequest: self._question,
            SessionOptions: self._outside,
            SessionStatus: self._outside,
            Log: self._log,
            Plan: self._content,
            FileChange: self._content,
            ContextWindow: self._content,
            RateLimit: self._content,
            Error: self._content,
        }

    @property
    def open_runs(self) -> Sequence[str]:
        """Ids of the open runs, the oldest first: updates belong to that one."""
        return [run.id for run in self._runs]

    @property
    def open_permissions(self) -> Mapping[str, OpenPermission]:
        return self._asks.permissions

    @property
    def open_questions(self) -> Mapping[str, OpenQuestion]:
        return self._asks.questions

    @property
    def tools_open(self) -> int:
        return self._tools.open_count

    def run_of(self, turn: NativeTurnId) -> str | None:
        """The open run that is this turn of the agent."""
        return next((run.id for run in self._runs if run.turn == turn), None)

    def begin(self, run_id: str, *, origin: Origin = Origin.CLIENT) -> list[Event]:
        """Our prompt is about to be written: the next client TurnStarted is this run."""
        self._open(Run(run_id, None))
        return [Event(RunStatus(RunChange.STARTED, origin=origin), run_id)]

    def apply(self, draft: AnyDraft) -> list[Event]:
        """One draft in receive order. The text of a model's answer takes the short way."""
        if not isinstance(draft, Draft):
            handle = self._drafts.get(type(draft))
            return handle(draft) if handle is not None else []
        payload = draft.payload
        if not isinstance(payload, MessageChunk):
            handle_payload = self._payloads.get(type(payload), self._plain)
            events = handle_payload(draft, payload)
            return [small for event in events for small in bound(event)]
        parent = draft.parent_tool_call_id
        if not payload.message_id:
            payload.message_id = self._message_id(payload.role, parent)
        elif self._texts:
            self._texts.pop(parent, None)
        if draft.turn is None:
            run_id = self._run_id
            after = None if run_id is not None else self._last
        else:
            run_id, after = self._place(draft)
        text = payload.text
        event = Event(payload, run_id, after, parent)
        if text is None or len(text) > SURELY_SMALL_CHARS:
            return bound(event)
        return [event]

    def cancel_sent(self) -> None:
        """We told the agent to cancel: any end of what is open now is `cancelled`."""
        for run in self._runs:
            run.cancelled = True

    def resolve_permission(
        self,
        approval_id: str,
        decision: Decision,
        *,
        option_id: str | None = None,
        by: DecidedBy,
        reason: str | None = None,
        rule_id: str | None = None,
    ) -> list[Event]:
        """Decides an open approval; [] when somebody was first."""
        ask = self._asks.take_permission(approval_id)
        if ask is None:
            return []
        resolved = PermissionResolved(approval_id, decision, option_id, by, reason, rule_id)
        events = [Event(resolved, ask.run_id, ask.after_run_id, ask.parent)]
        if ask.payload.tool_call_id is not None:
            events += self._tools.answered(
                ask.payload.tool_call_id, decision is Decision.APPROVED, self._open_ids()
            )
        return events

    def resolve_question(
        self,
        question_id: str,
        outcome: QuestionOutcome,
        *,
        answers: list[Answer] | None = None,
        content_json: bytes | None = None,
        by: DecidedBy,
        reason: str | None = None,
    ) -> list[Event]:
        """Answers an open question; [] when somebody was first."""
        ask = self._asks.take_question(question_id)
        if ask is None:
            return []
        resolved = QuestionResolved(question_id, outcome, answers, content_json, by, reason)
        return bound(Event(resolved, ask.run_id, ask.after_run_id, ask.parent))

    def end(
        self,
        run_id: str,
        outcome: Outcome,
        *,
        error: RunError | None = None,
        stop_reason: str | None = None,
    ) -> list[Event]:
        """Ends an open run by our own word; what the agent says of it afterwards is late."""
        run = next((run for run in self._runs if run.id == run_id), None)
        if run is None:
            return []
        return self._finish(run, Complete(outcome, stop_reason=stop_reason, error=error))

    def end_all(self, outcome: Outcome, *, error: RunError | None = None) -> list[Event]:
        """Ends every run, and closes what was asked or still runs outside of one."""
        events: list[Event] = []
        for run in [*self._runs]:
            events += self._finish(run, Complete(outcome, error=error))
        return events + self._close_rest(outcome)

    def _turn_started(self, draft: TurnStarted) -> list[Event]:
        if any(run.turn == draft.turn for run in self._runs):
            return []
        if draft.origin is Origin.CLIENT:
            begun = next((run for run in self._runs if run.turn is None), None)
            if begun is not None:
                begun.turn = draft.turn
                return []
            if self._ended.claim(draft.turn):
                return []
        run = Run(self._mint("run"), draft.turn)
        self._open(run)
        created = RunStatus(RunChange.CREATED, origin=draft.origin, prompt=draft.prompt)
        started = RunStatus(RunChange.STARTED, origin=draft.origin)
        return [*bound(Event(created, run.id)), Event(started, run.id)]

    def _turn_ended(self, draft: TurnEnded) -> list[Event]:
        run = next((run for run in self._runs if run.turn == draft.turn), None)
        if run is None:
            return []
        return self._finish(run, told(draft, self._runs, self._ended))

    def _cancel(self, _draft: CancelSent) -> list[Event]:
        self.cancel_sent()
        return []

    def _permission_answered(self, draft: PermissionAnswered) -> list[Event]:
        own = self._asks.own_id(draft.request)
        if own is None:
            return []
        return self.resolve_permission(
            own, draft.decision, option_id=draft.option_id, by=draft.by, reason=draft.reason
        )

    def _question_answered(self, draft: QuestionAnswered) -> list[Event]:
        own = self._asks.own_id(draft.request)
        if own is None:
            return []
        return self.resolve_question(
            own, draft.outcome, answers=draft.answers, content_json=draft.content_json, by=draft.by
        )

    def _process_started(self, _draft: ProcessStarted) -> list[Event]:
        return self._process_gone(ProcessGone(), spare_unwritten=True)

    def _process_gone(self, draft: ProcessGone, *, spare_unwritten: bool = False) -> list[Event]:
        events: list[Event] = []
        for run in [*self._runs]:
            if spare_unwritten and run.turn is None:
                continue
            events += self._finish(run, Complete(Outcome.FAILED, error=death(draft)))
        self._ended.forget()
        return events + self._close_rest(Outcome.FAILED)

    def _close_rest(self, outcome: Outcome) -> list[Event]:
        events = [e for ask in self._asks.all() if ask.run_id is None for e in self._drop(ask)]
        closed = self._tools.close_all(outcome, spare=self._open_ids())
        return events + [small for event in closed for small in bound(event)]

    def _finish(self, run: Run, complete: Complete) -> list[Event]:
        run.judge(complete)
        by = DecidedBy.CLIENT if run.cancelled else DecidedBy.AGENT
        events = [e for ask in self._asks.of_run(run.id) for e in self._drop(ask, by)]
        events += self._tools.close_run(run.id, complete.outcome)
        events.append(Event(complete, run.id))
        self._runs.remove(run)
        self._run_id = self._runs[0].id if self._runs else None
        self._last = run.id
        self._texts.clear()
        self._ended.note(run)
        return [small for event in events for small in bound(event)]

    def _drop(
        self, ask: OpenPermission | OpenQuestion, by: DecidedBy = DecidedBy.AGENT
    ) -> list[Event]:
        if isinstance(ask, OpenPermission):
            return self.resolve_permission(ask.payload.approval_id, Decision.CANCELLED, by=by)
        return self.resolve_question(ask.payload.question_id, QuestionOutcome.CANCELLED, by=by)

    def _open(self, run: Run) -> None:
        self._runs.append(run)
        self._run_id = self._runs[0].id
        self._texts.clear()
        self._tools.forget_old()

    def _open_ids(self) -> set[str]:
        return {run.id for run in self._runs}

    def _place(self, draft: Draft) -> tuple[str | None, str | None]:
        """The (run_id, after_run_id) of a draft."""
        if draft.turn is not None:
            for run in self._runs:
                if run.turn == draft.turn:
                    return run.id, None
            if (ended := self._ended.get(draft.turn)) is not None:
                return None, ended
        return (self._run_id, None) if self._run_id is not None else (None, self._last)

    def _message_id(self, role: object, parent: str | None) -> str:
        before = self._texts.get(parent)
        if before is not None and before[0] is role:
            return before[1]
        self._message += 1
        made = f"m{self._message}"
        self._texts[parent] = (role, made)
        return made

    def _event(self, draft: Draft, payload: Payload) -> Event:
        run_id, after = self._place(draft)
        return Event(payload, run_id, after, draft.parent_tool_call_id)

    def _plain(self, draft: Draft, payload: Payload) -> list[Event]:
        return [self._event(draft, payload)]

    def _content(self, draft: Draft, payload: Payload) -> list[Event]:
        self._texts.pop(draft.parent_tool_call_id, None)
        return [self._event(draft, payload)]

    def _outside(self, draft: Draft, payload: Payload) -> list[Event]:
        return [Event(payload, parent_tool_call_id=draft.parent_tool_call_id)]

    def _log(self, draft: Draft, payload: Log) -> list[Event]:
        if draft.session is None:
            return [Event(payload)]
        run_id, _ = self._place(draft)
        return [Event(payload, run_id, None, draft.parent_tool_call_id)]

    def _reasoning(self, draft: Draft, payload: Reasoning) -> list[Event]:
        if payload.message_id:
            self._texts.pop(draft.parent_tool_call_id, None)
        else:
            payload.message_id = self._message_id(Reasoning, draft.parent_tool_call_id)
        return [self._event(draft, payload)]

    def _whole_message(self, draft: Draft, payload: Message) -> list[Event]:
        if not payload.message_id:
            payload.message_id = self._message_id(payload.role, draft.parent_tool_call_id)
        self._texts.pop(draft.parent_tool_call_id, None)
        return [self._event(draft, payload)]

    def _tool_call(self, draft: Draft, payload: ToolCall) -> list[Event]:
        self._texts.pop(draft.parent_tool_call_id, None)
        run_id, after = self._place(draft)
        events = self._tools.call(payload, run_id, after, draft.parent_tool_call_id)
        return self._late_tools(events)

    def _tool_update(self, draft: Draft, payload: ToolUpdate) -> list[Event]:
        self._texts.pop(draft.parent_tool_call_id, None)
        run_id, after = self._place(draft)
        events = self._tools.update(payload, run_id, after, draft.parent_tool_call_id)
        return self._late_tools(events)

    def _late_tools(self, events: list[Event]) -> list[Event]:
        """A tool belongs to its own run; once that is over its events are late."""
        for event in events:
            if event.run_id is not None and all(run.id != event.run_id for run in self._runs):
                event.after_run_id, event.run_id = event.run_id, None
        return events

    def _permission(self, draft: Draft, payload: PermissionRequest) -> list[Event]:
        self._texts.pop(draft.parent_tool_call_id, None)
        request = draft.request or NativeRequestId(payload.native_request_id or "")
        if self._asks.is_open(request):
            return []
        run_id, after = self._place(draft)
        payload.approval_id = payload.approval_id or self._mint("apr")
        parent = draft.parent_tool_call_id or self._tools.parent_of(payload.tool_call_id)
        self._asks.add(OpenPermission(request, run_id, payload, after, parent))
        events = self._tools.asked(payload, run_id, parent)
        return [*self._late_tools(events), Event(payload, run_id, after, parent)]

    def _question(self, draft: Draft, payload: QuestionRequest) -> list[Event]:
        self._texts.pop(draft.parent_tool_call_id, None)
        request = draft.request or NativeRequestId(payload.native_request_id or "")
        if self._asks.is_open(request):
            return []
        run_id, after = self._place(draft)
        payload.question_id = payload.question_id or self._mint("qst")
        parent = draft.parent_tool_call_id
        self._asks.add(OpenQuestion(request, run_id, payload, after, parent))
        return [Event(payload, run_id, after, parent)]
