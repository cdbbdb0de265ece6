"""Each promise about runs, messages and requests, with drafts written by hand."""

from typing import Any, cast

import pytest

from agentctl.core.adapter import (
    CancelSent,
    PermissionAnswered,
    ProcessGone,
    ProcessStarted,
    QuestionAnswered,
    TurnEnded,
    TurnStarted,
)
from agentctl.core.events import (
    Complete,
    ContextWindow,
    Event,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    Plan,
    QuestionRequest,
    QuestionResolved,
    Reasoning,
    RunStatus,
    SessionOptions,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock, RunError
from agentctl.core.turns import Turns
from agentctl.core.words import (
    ContentType,
    DecidedBy,
    Decision,
    Origin,
    Outcome,
    QuestionOutcome,
    Role,
    RunChange,
    ToolStatus,
)
from tests.replaying import one, payloads, say, turns

S: Any = "s"


def start(key: str = "1", **more: Any) -> TurnStarted:
    return TurnStarted(S, cast(Any, key), **more)


def end(key: str = "1", outcome: Outcome = Outcome.COMPLETED, **more: Any) -> TurnEnded:
    return TurnEnded(S, cast(Any, key), outcome, **more)


def chunk(text: str = "a", own: str = "", role: Role = Role.ASSISTANT) -> Any:
    return say(MessageChunk(own, role, text))


def ask(turns: Turns, request: str = "r", tool: str | None = None) -> list[Event]:
    return turns.apply(say(PermissionRequest("", tool_call_id=tool), request=request))


def completes(events: list[Event]) -> list[tuple[str | None, Outcome]]:
    return [(e.run_id, e.payload.outcome) for e in events if isinstance(e.payload, Complete)]


def test_a_prompt_opens_a_run_and_tells_the_prompt_once() -> None:
    prompt = [ContentBlock(ContentType.TEXT, text="hi")]
    created, started = turns().apply(start(prompt=prompt))
    assert (created.run_id, started.run_id) == ("run_1", "run_1")
    assert created.payload == RunStatus(RunChange.CREATED, origin=Origin.CLIENT, prompt=prompt)
    assert started.payload == RunStatus(RunChange.STARTED, origin=Origin.CLIENT)


def test_a_run_begun_by_us_is_the_one_that_the_prompt_opens() -> None:
    t = turns()
    (started,) = t.begin("run_x")
    assert started.payload == RunStatus(RunChange.STARTED, origin=Origin.CLIENT)
    assert t.apply(start()) == []
    assert completes(t.apply(end())) == [("run_x", Outcome.COMPLETED)]
    assert t.open_runs == []


def test_a_prompt_that_was_given_up_before_it_was_written_opens_nothing() -> None:
    t = turns()
    t.begin("run_x")
    assert completes(t.end("run_x", Outcome.FAILED)) == [("run_x", Outcome.FAILED)]
    assert t.apply(start()) == []
    assert t.open_runs == []


@pytest.mark.proves("T3")
def test_a_turn_that_the_agent_begins_is_a_run_of_its_own() -> None:
    t = turns()
    t.begin("run_x")
    created, _ = t.apply(start("2", origin=Origin.AGENT))
    assert (created.run_id, created.payload.origin) == ("run_1", Origin.AGENT)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # the payload is a run status
    assert t.open_runs == ["run_x", "run_1"]


@pytest.mark.proves("T1", "E1")
def test_a_run_ends_once_however_often_the_agent_says_so() -> None:
    t = turns()
    t.apply(start())
    assert completes(t.apply(end())) == [("run_1", Outcome.COMPLETED)]
    assert t.apply(end(outcome=Outcome.FAILED)) == []


@pytest.mark.proves("T1")
def test_updates_of_concurrent_prompts_belong_to_the_oldest_open_one() -> None:
    t = turns()
    t.apply(start("1"))
    t.apply(start("2"))
    assert [e.run_id for e in t.apply(chunk())] == ["run_1"]
    t.apply(end("1"))
    assert [e.run_id for e in t.apply(chunk())] == ["run_2"]


def test_an_update_that_names_its_turn_belongs_to_that_one() -> None:
    t = turns()
    t.apply(start("1"))
    t.apply(start("2"))
    (event,) = t.apply(say(MessageChunk("", text="b"), turn="2"))
    assert event.run_id == "run_2"
    t.apply(end("2"))
    (late,) = t.apply(say(MessageChunk("", text="b"), turn="2"))
    assert (late.run_id, late.after_run_id) == (None, "run_2")


@pytest.mark.proves("T2")
def test_what_comes_after_the_end_is_late_and_opens_nothing() -> None:
    t = turns()
    t.apply(start())
    t.apply(end())
    late = [chunk(), say(Reasoning("", "hm")), say(ContextWindow(used=1)), say(ToolCall("c"))]
    events = [event for draft in late for event in t.apply(draft)]
    assert [(e.run_id, e.after_run_id) for e in events] == [(None, "run_1")] * 4
    assert t.open_runs == []


def test_a_session_that_never_ran_has_nothing_to_be_late_of() -> None:
    (event,) = turns().apply(chunk())
    assert (event.run_id, event.after_run_id) == (None, None)


def test_what_may_be_chosen_belongs_to_no_run() -> None:
    t = turns()
    t.apply(start())
    (event,) = t.apply(say(SessionOptions(mode="plan")))
    assert (event.run_id, event.after_run_id) == (None, None)


@pytest.mark.proves("T6")
@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED])
def test_any_end_after_a_cancel_is_cancelled(outcome: Outcome) -> None:
    t = turns()
    t.apply(start())
    assert t.apply(CancelSent(S)) == []
    t.cancel_sent()
    error = RunError("MODEL_ERROR", "no") if outcome is Outcome.FAILED else None
    complete = one(t.apply(end(outcome=outcome, error=error)), Complete)
    assert (complete.outcome, complete.error) == (Outcome.CANCELLED, None)


@pytest.mark.proves("T6")
def test_a_cancel_when_idle_does_not_cancel_the_next_run() -> None:
    t = turns()
    t.cancel_sent()
    t.apply(start())
    assert completes(t.apply(end())) == [("run_1", Outcome.COMPLETED)]


@pytest.mark.proves("T6")
def test_a_cancel_right_behind_the_prompt_reaches_the_run_we_began() -> None:
    t = turns()
    t.begin("run_x")
    t.cancel_sent()
    t.apply(start())
    assert completes(t.apply(end())) == [("run_x", Outcome.CANCELLED)]


def test_a_run_out_of_time_stays_timed_out_though_it_was_cancelled() -> None:
    t = turns()
    t.begin("run_x")
    t.cancel_sent()
    assert completes(t.end("run_x", Outcome.TIMED_OUT)) == [("run_x", Outcome.TIMED_OUT)]


@pytest.mark.proves("T5")
def test_a_dead_agent_fails_its_run_with_exit_code_and_last_words() -> None:
    t = turns()
    t.apply(start())
    t.apply(say(ToolCall("c", status=ToolStatus.RUNNING)))
    ask(t)
    events = t.apply(ProcessGone(3, None, ["boom"]))
    complete = one(events, Complete)
    assert complete.outcome is Outcome.FAILED
    assert (complete.error.code, complete.error.exit_code) == ("AGENT_EXITED", 3)
    assert complete.error.stderr_tail == ["boom"]
    assert one(events, PermissionResolved).decision is Decision.CANCELLED
    assert one(events, ToolUpdate).status is ToolStatus.FAILED
    assert isinstance(events[-1].payload, Complete)
    assert t.apply(ProcessGone(3)) == []


@pytest.mark.proves("T5", "T6")
def test_an_agent_that_dies_of_a_cancel_leaves_a_cancelled_run() -> None:
    t = turns()
    t.apply(start())
    t.cancel_sent()
    assert completes(t.apply(ProcessGone(None, 15))) == [("run_1", Outcome.CANCELLED)]


def test_a_new_process_ends_what_an_old_one_left_open_but_not_an_unwritten_prompt() -> None:
    t = turns()
    t.apply(start())
    t.begin("run_x")
    assert completes(t.apply(ProcessStarted())) == [("run_1", Outcome.FAILED)]
    assert t.open_runs == ["run_x"]


def test_a_failure_without_a_reason_gets_one() -> None:
    t = turns()
    t.apply(start())
    assert one(t.apply(end(outcome=Outcome.FAILED)), Complete).error.code == "AGENT_FAILED"


def test_an_end_by_our_own_word_makes_the_agents_word_late() -> None:
    t = turns()
    t.begin("run_x")
    t.apply(start())
    assert completes(t.end("run_x", Outcome.CANCELLED)) == [("run_x", Outcome.CANCELLED)]
    assert t.end("run_x", Outcome.CANCELLED) == []
    assert [e.after_run_id for e in t.apply(chunk())] == ["run_x"]
    assert t.apply(end()) == []


def test_end_all_also_closes_what_is_open_outside_any_run() -> None:
    t = turns()
    ask(t, "outside")
    t.apply(start())
    ask(t, "inside")
    events = t.end_all(Outcome.FAILED, error=RunError("DAEMON_RESTARTED", "again"))
    assert [e.run_id for e in events if isinstance(e.payload, PermissionResolved)] == [
        "run_1",
        None,
    ]
    assert one(events, Complete).error.code == "DAEMON_RESTARTED"
    assert (t.open_permissions, t.open_runs) == ({}, [])


@pytest.mark.proves("M6")
def test_text_without_ids_is_one_message_until_something_else_comes() -> None:
    t = turns()
    t.apply(start())
    told = [chunk("a"), chunk(" "), say(Plan()), chunk("b"), say(Reasoning("", "t"))]
    told += [say(Reasoning("", "u")), chunk("c"), chunk("d", role=Role.USER), chunk("e")]
    events = [event for draft in told for event in t.apply(draft)]
    ids = [e.payload.message_id for e in events if isinstance(e.payload, MessageChunk | Reasoning)]
    assert ids == ["m1", "m1", "m2", "m3", "m3", "m4", "m5", "m6"]


@pytest.mark.proves("M7")
def test_a_subagents_text_does_not_split_its_parents() -> None:
    t = turns()
    t.apply(start())
    child = say(MessageChunk("", text="x"), parent_tool_call_id="c")
    events = [e for draft in (chunk(), child, chunk()) for e in t.apply(draft)]
    assert [e.payload.message_id for e in events] == ["m1", "m2", "m1"]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # chunks only
    assert [e.parent_tool_call_id for e in events] == [None, "c", None]


def test_the_agents_own_message_id_is_kept() -> None:
    t = turns()
    t.apply(start())
    assert one(t.apply(chunk(own="msg_7")), MessageChunk).message_id == "msg_7"


def test_a_runs_first_text_is_a_new_message() -> None:
    t = turns()
    t.apply(start())
    t.apply(chunk())
    t.apply(end())
    t.apply(start("2"))
    assert one(t.apply(chunk()), MessageChunk).message_id == "m2"


@pytest.mark.proves("A1")
def test_several_approvals_are_answered_in_any_order_and_one_answer_wins() -> None:
    t = turns()
    t.apply(start())
    ask(t, "r1")
    ask(t, "r2")
    assert list(t.open_permissions) == ["apr_1", "apr_2"]
    (second,) = t.resolve_permission("apr_2", Decision.DENIED, by=DecidedBy.CLIENT)
    assert second.payload == PermissionResolved("apr_2", Decision.DENIED, by=DecidedBy.CLIENT)
    assert t.resolve_permission("apr_2", Decision.APPROVED, by=DecidedBy.CLIENT) == []
    assert t.apply(PermissionAnswered(cast(Any, "r2"), Decision.APPROVED, S)) == []
    (first,) = t.apply(PermissionAnswered(cast(Any, "r1"), Decision.APPROVED, S, option_id="yes"))
    assert first.payload == PermissionResolved(
        "apr_1", Decision.APPROVED, "yes", by=DecidedBy.CLIENT
    )


@pytest.mark.proves("A5")
def test_the_end_of_a_run_cancels_its_open_requests_before_it_completes() -> None:
    t = turns()
    t.apply(start())
    ask(t)
    t.apply(say(QuestionRequest(""), request="q"))
    t.cancel_sent()
    events = t.apply(end())
    assert [type(e.payload) for e in events] == [PermissionResolved, QuestionResolved, Complete]
    assert one(events, PermissionResolved).by is DecidedBy.CLIENT
    assert (t.open_permissions, t.open_questions) == ({}, {})


def test_a_request_outside_any_run_stays_open_through_the_runs_of_others() -> None:
    t = turns()
    (event,) = ask(t, "r")
    assert event.run_id is None
    t.apply(start())
    t.apply(end())
    (resolved,) = t.apply(PermissionAnswered(cast(Any, "r"), Decision.DENIED, S))
    assert (resolved.run_id, resolved.after_run_id) == (None, None)


def test_a_request_that_is_announced_again_is_not_asked_twice() -> None:
    t = turns()
    t.apply(start())
    ask(t, "r")
    assert ask(t, "r") == []


@pytest.mark.proves("A6")
def test_an_expiry_is_told_as_such_with_its_reason_and_rule() -> None:
    t = turns()
    t.apply(start())
    ask(t)
    (event,) = t.resolve_permission(
        "apr_1", Decision.EXPIRED, by=DecidedBy.RULE, reason="late", rule_id="rul_1"
    )
    assert event.payload == PermissionResolved(
        "apr_1", Decision.EXPIRED, None, DecidedBy.RULE, "late", "rul_1"
    )


@pytest.mark.proves("A8", "E3")
def test_a_question_is_answered_once() -> None:
    t = turns()
    t.apply(start())
    t.apply(say(QuestionRequest("", message="which?"), request="q"))
    assert list(t.open_questions) == ["qst_1"]
    answer = QuestionAnswered(cast(Any, "q"), QuestionOutcome.ANSWERED, S, content_json=b"{}")
    (event,) = t.apply(answer)
    assert event.payload == QuestionResolved(
        "qst_1", QuestionOutcome.ANSWERED, content_json=b"{}", by=DecidedBy.CLIENT
    )
    assert t.resolve_question("qst_1", QuestionOutcome.REJECTED, by=DecidedBy.CLIENT) == []


def test_a_complete_is_always_the_last_event_of_its_run() -> None:
    t = turns()
    t.apply(start())
    t.apply(say(ToolCall("c", status=ToolStatus.RUNNING)))
    ask(t, "r", "c")
    events = t.apply(end())
    assert isinstance(events[-1].payload, Complete)
    assert len(payloads(events, Complete)) == 1
