"""One card for each tool, its end always told once, its output within bounds."""

from typing import Any, cast

import pytest

from agentctl.core.adapter import PermissionAnswered, ProcessGone, TurnEnded, TurnStarted
from agentctl.core.events import Event, PermissionRequest, ToolCall, ToolUpdate
from agentctl.core.parts import PermissionDetails
from agentctl.core.toolbox import TOOLS_KEPT, UNTOLD
from agentctl.core.tools import OUTPUT_BYTES, TAIL_BYTES
from agentctl.core.turns import Turns
from agentctl.core.words import Decision, Outcome, ToolKind, ToolStatus
from tests.replaying import one, payloads, say, turns

S: Any = "s"
RUNNING, DONE = ToolStatus.RUNNING, ToolStatus.COMPLETED


def opened(key: str = "1", t: Turns | None = None) -> Turns:
    t = t or turns()
    t.apply(TurnStarted(S, cast(Any, key)))
    return t


def end(t: Turns, outcome: Outcome = Outcome.COMPLETED, key: str = "1") -> list[Event]:
    return t.apply(TurnEnded(S, cast(Any, key), outcome))


def update(t: Turns, **fields: Any) -> list[Event]:
    return t.apply(say(ToolUpdate("c", **fields)))


def call(t: Turns, **fields: Any) -> list[Event]:
    return t.apply(say(ToolCall("c", **fields)))


def test_a_second_card_for_the_same_call_is_an_update_of_what_is_new() -> None:
    t = opened()
    call(t, title="a")
    events = call(t, title="b", status=RUNNING, kind=ToolKind.READ)
    assert one(events, ToolUpdate) == ToolUpdate("c", RUNNING, title="b", kind=ToolKind.READ)
    assert call(t, title="b") == []


def test_the_first_word_about_a_tool_may_be_its_end() -> None:
    events = update(opened(), status=ToolStatus.FAILED, title="read", error="outside")
    assert one(events, ToolCall).status is RUNNING
    assert one(events, ToolUpdate) == ToolUpdate("c", ToolStatus.FAILED, error="outside")


@pytest.mark.proves("E2")
def test_a_final_status_is_final_and_later_words_only_add() -> None:
    t = opened()
    call(t)
    update(t, status=DONE)
    assert update(t, status=RUNNING) == []
    late = one(update(t, status=ToolStatus.FAILED, exit_code=1, output_delta="x"), ToolUpdate)
    assert (late.status, late.exit_code, late.output_delta) == (None, 1, "x")


@pytest.mark.proves("M8")
def test_an_exit_code_that_is_not_zero_is_a_failure_whatever_the_status_says() -> None:
    t = opened()
    call(t)
    update(t, exit_code=2)
    assert one(update(t, status=DONE), ToolUpdate).status is ToolStatus.FAILED
    t = opened()
    call(t)
    assert one(update(t, status=DONE, exit_code=0), ToolUpdate).status is DONE
    assert one(call(opened(), status=RUNNING), ToolCall).status is RUNNING


@pytest.mark.proves("M9")
@pytest.mark.parametrize(
    ("outcome", "status"),
    [(Outcome.FAILED, ToolStatus.FAILED), (Outcome.CANCELLED, ToolStatus.CANCELLED)],
)
def test_a_tool_that_never_ended_is_closed_as_its_run_ends(
    outcome: Outcome, status: ToolStatus
) -> None:
    t = opened()
    call(t, status=RUNNING)
    assert t.tools_open == 1
    assert one(end(t, outcome), ToolUpdate) == ToolUpdate("c", status)
    assert t.tools_open == 0


@pytest.mark.proves("M9")
def test_nobody_claims_that_a_tool_of_unknown_end_completed() -> None:
    t = opened()
    call(t, status=RUNNING)
    assert one(end(t), ToolUpdate) == ToolUpdate("c", ToolStatus.CANCELLED, error=UNTOLD)


@pytest.mark.proves("A3")
def test_a_request_may_be_the_first_word_about_its_tool() -> None:
    t = opened()
    request = PermissionRequest(
        "", tool_call_id="c", title="rm x", details=PermissionDetails(command="rm x")
    )
    events = t.apply(say(request, request="r"))
    card = one(events, ToolCall)
    assert (card.status, card.command) == (ToolStatus.AWAITING_APPROVAL, "rm x")
    assert one(call(t, title="remove x", status=RUNNING), ToolUpdate).title == "remove x"


@pytest.mark.proves("A3")
def test_a_tool_waits_while_it_is_asked_for_and_runs_once_allowed() -> None:
    t = opened()
    call(t, status=RUNNING)
    events = t.apply(say(PermissionRequest("", tool_call_id="c"), request="r"))
    assert one(events, ToolUpdate).status is ToolStatus.AWAITING_APPROVAL
    assert update(t, status=RUNNING) == []
    events = t.apply(PermissionAnswered(cast(Any, "r"), Decision.APPROVED, S))
    assert one(events, ToolUpdate) == ToolUpdate("c", RUNNING)


@pytest.mark.proves("A1")
def test_a_tool_with_two_requests_waits_for_both() -> None:
    t = opened()
    for request in ("r1", "r2"):
        t.apply(say(PermissionRequest("", tool_call_id="c"), request=request))
    events = t.apply(PermissionAnswered(cast(Any, "r1"), Decision.APPROVED, S))
    assert payloads(events, ToolUpdate) == []
    events = t.apply(PermissionAnswered(cast(Any, "r2"), Decision.APPROVED, S))
    assert one(events, ToolUpdate).status is RUNNING


def test_a_denied_tool_of_which_the_agent_says_nothing_more_was_cancelled() -> None:
    t = opened()
    t.apply(say(PermissionRequest("", tool_call_id="c"), request="r"))
    t.apply(PermissionAnswered(cast(Any, "r"), Decision.DENIED, S))
    assert one(end(t), ToolUpdate) == ToolUpdate("c", ToolStatus.CANCELLED)


def test_a_request_outside_any_run_makes_no_card() -> None:
    events = turns().apply(say(PermissionRequest("", tool_call_id="c"), request="r"))
    assert payloads(events, ToolCall) == []


@pytest.mark.proves("M7")
def test_a_request_belongs_to_the_subagent_whose_tool_it_is_for() -> None:
    t = opened()
    t.apply(say(ToolCall("c"), parent_tool_call_id="agent"))
    events = t.apply(say(PermissionRequest("", tool_call_id="c"), request="r"))
    assert {event.parent_tool_call_id for event in events} == {"agent"}


@pytest.mark.proves("T2")
def test_a_tools_late_words_name_its_own_run_also_within_the_next() -> None:
    t = opened()
    call(t, status=RUNNING)
    end(t)
    opened("2", t)
    (event,) = update(t, exit_code=0)
    assert (event.run_id, event.after_run_id) == (None, "run_1")


def test_background_work_outlives_its_run_and_gets_its_real_end() -> None:
    t = opened()
    call(t, status=RUNNING)
    update(t, background=True)
    assert payloads(end(t), ToolUpdate) == []
    (event,) = update(t, status=DONE)
    assert (event.run_id, event.after_run_id) == (None, "run_1")


def test_background_work_ends_with_the_process() -> None:
    t = opened()
    call(t, status=RUNNING)
    update(t, background=True)
    end(t)
    (event,) = t.apply(ProcessGone(1))
    assert (event.after_run_id, event.payload) == ("run_1", ToolUpdate("c", ToolStatus.FAILED))


def test_a_call_id_that_the_next_turn_uses_again_is_another_tool() -> None:
    t = opened()
    call(t, status=RUNNING)
    update(t, status=DONE)
    end(t)
    opened("2", t)
    (event,) = call(t, status=RUNNING)
    assert (event.run_id, type(event.payload)) == ("run_2", ToolCall)


def test_a_very_long_session_forgets_its_oldest_tools() -> None:
    t = opened()
    for number in range(TOOLS_KEPT + 5):
        t.apply(say(ToolCall(f"c{number}")))
        t.apply(say(ToolUpdate(f"c{number}", status=DONE)))
    end(t)
    opened("2", t)
    assert isinstance(t.apply(say(ToolUpdate("c0", exit_code=0)))[0].payload, ToolCall)
    assert isinstance(t.apply(say(ToolUpdate("c9", exit_code=0)))[0].payload, ToolUpdate)


@pytest.mark.proves("M8")
def test_output_told_whole_each_time_is_streamed_as_what_was_added() -> None:
    t = opened()
    call(t, status=RUNNING)
    told = ["tick1\n", "tick1\ntick2\n", "tick1\ntick2\n", "tick1\ntick2\ntick3\n"]
    deltas = [
        u.output_delta
        for text in told
        for u in payloads(update(t, output_replace=text), ToolUpdate)
    ]
    assert deltas == ["tick1\n", "tick2\n", "tick3\n"]


def test_output_that_was_rewritten_replaces_what_was_shown() -> None:
    t = opened()
    call(t, status=RUNNING)
    update(t, output_replace="10 %")
    changed = one(update(t, output_replace="20 %"), ToolUpdate)
    assert (changed.output_delta, changed.output_replace) == (None, "20 %")


def test_output_told_in_pieces_and_then_whole_is_told_once() -> None:
    t = opened()
    call(t, status=RUNNING)
    update(t, output_delta="one\n")
    assert one(update(t, output_replace="one\ntwo\n"), ToolUpdate).output_delta == "two\n"


def streamed(events: list[Event]) -> tuple[str, ToolUpdate]:
    """What a reader has shown after these events, and the last of them."""
    shown = ""
    for told in payloads(events, ToolUpdate):
        shown = told.output_replace if told.output_replace is not None else shown
        shown += told.output_delta or ""
    return shown, payloads(events, ToolUpdate)[-1]


@pytest.mark.proves("M8")
@pytest.mark.parametrize("whole", [False, True])
def test_of_endless_output_only_the_end_is_held_and_sent_once(whole: bool) -> None:
    t = opened()
    call(t, status=RUNNING)
    piece, text, events = "0123456789abcde\n" * 512, "", list[Event]()
    for _ in range(100):
        text += piece
        events += update(t, **{"output_replace": text} if whole else {"output_delta": piece})
    sent = sum(len(u.output_delta or "") for u in payloads(events, ToolUpdate))
    assert sent == OUTPUT_BYTES
    events = update(t, status=DONE)
    shown, last = streamed(events)
    assert shown == text[-TAIL_BYTES:]
    assert (last.truncated, last.output_size, last.status) == (True, len(text), DONE)
    assert payloads(end(t), ToolUpdate) == []


@pytest.mark.proves("M8")
def test_the_held_end_is_sent_though_the_agent_never_ended_the_tool() -> None:
    t = opened()
    call(t, status=RUNNING)
    update(t, output_delta="x" * (OUTPUT_BYTES + 10))
    last = one(end(t, Outcome.CANCELLED), ToolUpdate)
    assert last.output_replace == "x" * TAIL_BYTES
    assert (last.truncated, last.output_size) == (True, OUTPUT_BYTES + 10)
