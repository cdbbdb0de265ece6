"""Where turns of Claude Code begin and end, which prompts they answer, and how they fail."""

from typing import Any

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import (
    Complete,
    ContextWindow,
    Error,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    RateLimit,
    RunStatus,
    SessionOptions,
    SessionStatus,
)
from agentctl.core.words import Decision, Origin, Outcome, RunChange, SessionChange
from tests.adapters.claude.talk import Talk, shown
from tests.replaying import one, payloads


@pytest.mark.proves("T1", "T8")
def test_prompts_that_are_taken_together_end_together() -> None:
    talk = Talk()
    first = talk.begin()
    waiting = [talk.prompt("b"), talk.prompt("c")]
    talk.text("a")
    talk.end(first)
    assert len(talk.ends) == 1
    talk.init(*waiting)
    talk.text("bc", "msg2")
    talk.end(*waiting)
    assert [end.outcome for end in talk.ends] == [Outcome.COMPLETED] * 3
    assert [end.folded_into for end in talk.ends] == [None, None, "run_2"]
    runs = [e.run_id for e in talk.events if isinstance(e.payload, MessageChunk)]
    assert runs == ["run_1", "run_2"]


def test_a_prompt_that_the_running_turn_takes_in_is_folded_into_it() -> None:
    talk = Talk()
    first = talk.begin()
    second = talk.prompt("more")
    talk.hear("command_lifecycle", command_uuid=second, state="started")
    talk.system("status", status="requesting", user_message_uuids=[first, second])
    talk.hear("command_lifecycle", command_uuid=second, state="completed")
    assert talk.ends == []
    talk.end(first, second)
    assert [end.folded_into for end in talk.ends] == [None, "run_1"]


@pytest.mark.proves("T3")
def test_a_turn_that_nobody_asked_for_is_the_agents_own() -> None:
    talk = Talk()
    talk.end(talk.begin())
    talk.init()
    talk.text("done", "msg2")
    talk.end(origin={"kind": "task-notification"})
    starts = [r for r in payloads(talk.events, RunStatus) if r.status is RunChange.CREATED]
    assert [start.origin for start in starts] == [Origin.CLIENT, Origin.AGENT]
    assert len(talk.ends) == 2


def test_a_prompt_that_waits_while_the_agent_begins_a_turn_of_its_own_is_not_that_turn() -> None:
    talk = Talk()
    talk.end(talk.begin())
    waiting = talk.prompt("next")
    talk.init()
    talk.text("mine", "msg2")
    talk.end(origin={"kind": "task-notification"})
    talk.init(waiting)
    talk.text("yours", "msg3")
    talk.end(waiting)
    texts = {e.payload.text: e.run_id for e in talk.events if isinstance(e.payload, MessageChunk)}
    assert texts == {"mine": "run_3", "yours": "run_2"}
    assert len(talk.ends) == 3


def test_a_uuid_that_was_sent_before_opens_nothing() -> None:
    talk = Talk()
    uuid = talk.begin()
    talk.prompt("again", uuid)
    talk.end(uuid)
    talk.prompt("again", uuid)
    assert len(talk.ends) == len(payloads(talk.events, RunStatus)) / 2 == 1


def test_a_program_that_names_no_prompts_answers_them_in_order() -> None:
    talk = Talk()
    for words in ("a", "b"):
        talk.prompt(words)
        talk.init()
        talk.text(words, words)
        talk.end()
    assert [end.outcome for end in talk.ends] == [Outcome.COMPLETED] * 2
    assert shown(talk.events) == "ab"


@pytest.mark.proves("T6", "T7")
def test_an_interrupt_ends_the_turn_and_what_waits_behind_it_runs() -> None:
    talk = Talk()
    first = talk.begin()
    second = talk.prompt("next")
    talk.ask_control("interrupt")
    talk.end(first, is_error=True, terminal_reason="aborted_streaming")
    talk.init(second)
    talk.end(second)
    assert [end.outcome for end in talk.ends] == [Outcome.CANCELLED, Outcome.COMPLETED]


def test_prompts_that_are_dropped_with_an_interrupt_are_cancelled_too() -> None:
    talk = Talk()
    first = talk.begin()
    second = talk.prompt("next")
    talk.ask_control("interrupt", cancel_queued=True)
    talk.hear("command_lifecycle", command_uuid=second, state="cancelled")
    talk.end(first, is_error=True, terminal_reason="aborted_tools")
    assert [end.outcome for end in talk.ends] == [Outcome.CANCELLED] * 2


def test_a_turn_that_a_more_urgent_prompt_cut_is_cancelled() -> None:
    talk = Talk()
    first = talk.begin()
    talk.end(first, terminal_reason="aborted_streaming")
    assert talk.ends[0].outcome is Outcome.CANCELLED


def test_a_turn_without_a_result_ends_when_the_agent_is_idle() -> None:
    talk = Talk()
    talk.begin()
    talk.system("session_state_changed", state="idle")
    assert talk.ends[0].outcome is Outcome.COMPLETED
    talk.system("session_state_changed", state="idle")
    assert len(talk.ends) == 1


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ({"terminal_reason": "api_error", "api_error_status": 500}, "MODEL_ERROR"),
        ({"terminal_reason": "api_error", "api_error_status": 429}, "RATE_LIMITED"),
        ({"terminal_reason": "api_error", "api_error_status": 403}, "AUTH_REQUIRED"),
        ({"terminal_reason": "blocking_limit"}, "CONTEXT_FULL"),
        ({"terminal_reason": "max_turns", "subtype": "error_max_turns"}, "LIMIT_REACHED"),
        ({"terminal_reason": "budget_exhausted"}, "LIMIT_REACHED"),
        ({"terminal_reason": None, "errors": ["odd"]}, "AGENT_FAILED"),
    ],
)
def test_an_end_that_calls_itself_a_success_fails_with_its_reason(
    result: dict[str, Any], code: str
) -> None:
    talk = Talk()
    talk.end(talk.begin(), is_error=True, **result)
    end = talk.ends[0]
    assert end.outcome is Outcome.FAILED and end.error is not None and end.error.code == code


def test_an_api_error_is_no_text_of_the_model() -> None:
    talk = Talk()
    uuid = talk.begin()
    talk.text("no such model", error="model_not_found", is_api_error_message=True)
    talk.end(uuid, is_error=True, terminal_reason="api_error", api_error_status=404)
    error = talk.ends[0].error
    assert error is not None and error.code == "INVALID_MODEL" and "no such model" in error.message
    assert shown(talk.events) == ""


def test_an_api_error_that_was_overcome_is_told_and_fails_nothing() -> None:
    talk = Talk()
    uuid = talk.begin()
    talk.text("hiccup", error="server_error", is_api_error_message=True)
    talk.end(uuid)
    assert talk.ends[0].outcome is Outcome.COMPLETED
    assert one(talk.events, Error).code == "MODEL_ERROR"


@pytest.mark.proves("T9")
def test_a_retry_is_told_and_a_refused_key_fails_the_run_at_once() -> None:
    talk = Talk()
    uuid = talk.begin()
    retry = {"attempt": 1, "max_retries": 10, "retry_delay_ms": 536}
    talk.system("api_retry", error_status=529, error="overloaded", **retry)
    limit = one(talk.events, RateLimit)
    assert limit.attempt == 1 and "0.5 s" in limit.message and "529" in limit.message
    assert talk.ends == []
    talk.system("api_retry", error_status=401, error="authentication_failed", **retry)
    error = talk.ends[0].error
    assert error is not None and error.code == "AUTH_REQUIRED"
    talk.ask_control("interrupt")
    talk.end(uuid, is_error=True, terminal_reason="aborted_streaming")
    assert len(talk.ends) == 1


def test_a_login_whose_token_is_being_renewed_gets_a_second_try() -> None:
    talk = Talk(apiKeySource="none")
    talk.begin()
    talk.system("api_retry", error_status=401, error="authentication_failed", attempt=1)
    assert talk.ends == []
    talk.system("api_retry", error_status=401, error="authentication_failed", attempt=2)
    assert len(talk.ends) == 1


def test_a_limit_that_is_near_is_told_with_its_reset() -> None:
    talk = Talk()
    talk.begin()
    near = {"status": "allowed_warning", "resetsAt": 1796038501, "rateLimitType": "five_hour"}
    talk.hear("rate_limit_event", rate_limit_info={**near, "utilization": 0.91})
    talk.hear("rate_limit_event", rate_limit_info={"status": "allowed"})
    limit = one(talk.events, RateLimit)
    assert limit.resets_at == 1796038501000
    assert limit.message == "The five hour limit is near, 91% of it is used."


def test_usage_and_cost_are_of_the_turn_and_the_window_is_of_the_last_request() -> None:
    talk = Talk()
    for total in (0.25, 0.75):
        uuid = talk.begin()
        usage = {"input_tokens": 100, "cache_read_input_tokens": 20, "output_tokens": 1}
        talk.event("message_start", message={"id": "msg", "model": "m", "usage": usage})
        talk.event("message_delta", delta={}, usage={**usage, "output_tokens": 5})
        model = {"contextWindow": 1000, "inputTokens": 300, "outputTokens": 9}
        whole = {"m": model, "other": {**model, "contextWindow": 10}}
        talk.end(uuid, total_cost_usd=total, modelUsage=whole, usage={"input_tokens": 7})
    assert [end.cost_usd for end in talk.ends] == [None, 0.5]
    assert [end.usage and end.usage.input for end in talk.ends] == [7, 7]
    window = payloads(talk.events, ContextWindow)[-1]
    assert (window.used, window.size, window.remaining) == (125, 1000, 875)


def test_what_is_in_force_is_told_when_it_changes() -> None:
    talk = Talk()
    own = talk.ask_control("initialize")
    models = [{"value": "opus", "displayName": "Opus"}]
    commands = [{"name": "compact", "argumentHint": "[words]"}]
    talk.reply(own, models=models, commands=commands, current_permission_mode="manual")
    talk.end(talk.begin())
    talk.end(talk.begin())
    talk.init(model="n", permissionMode="plan", mcp_servers=[{"name": "x", "status": "failed"}])
    first, second, third = payloads(talk.events, SessionOptions)
    assert first.models[0].id == "opus" and first.mode == "default" and len(first.modes) == 6
    assert (second.model, second.mode) == ("m", None)
    assert (third.model, third.mode) == ("n", "plan")
    assert third.mcp_servers[0].state == "failed"


def test_settings_that_were_set_are_told() -> None:
    talk = Talk()
    talk.reply(talk.ask_control("set_model", model="opus"), model="claude-opus")
    talk.reply(talk.ask_control("set_permission_mode", mode="plan"), mode="plan")
    talk.system("model_fallback", fallback_model="haiku", content="switched")
    told = [(o.model, o.mode) for o in payloads(talk.events, SessionOptions)]
    assert told == [("claude-opus", None), (None, "plan"), ("haiku", None)]


@pytest.mark.proves("S8")
def test_a_model_that_the_program_does_not_know_is_a_warning() -> None:
    talk = Talk()
    talk.begin()
    line = '[claude-code:unrecognized_model] {"model":"mine","query_source":"sdk"}'
    talk.frame(Frame("stderr", raw=line))
    talk.frame(Frame("stderr", raw="[claude-code:unrecognized_model] nonsense"))
    first, _ = payloads(talk.events, Error)
    assert first.code == "INVALID_MODEL" and "'mine'" in first.message and first.recoverable


@pytest.mark.proves("M5")
def test_frames_that_compaction_repeats_are_history() -> None:
    talk = Talk()
    uuid = talk.begin("/compact")
    kept = {"uuids": ["old-1"], "all_uuids": ["old-1"]}
    talk.system("compact_boundary", compact_metadata={"preserved_messages": kept})
    talk.text("from before", "old", uuid="old-1")
    talk.end(uuid)
    assert shown(talk.events) == ""
    assert one(talk.events, SessionStatus).status is SessionChange.COMPACTED


def test_another_id_after_a_clear_is_told_and_the_session_stays_one() -> None:
    talk = Talk()
    talk.end(talk.begin())
    uuid = talk.prompt("/clear")
    talk.hear("conversation_reset", trigger="clear")
    talk.init(uuid, session_id="another")
    talk.end(uuid, session_id="another")
    told = [s for s in payloads(talk.events, SessionStatus) if s.native_session_id]
    assert [s.native_session_id for s in told] == ["another"]
    assert len({event.session_id for event in talk.events}) == 1


@pytest.mark.proves("T5")
def test_a_death_ends_what_is_open_and_a_later_process_starts_afresh() -> None:
    talk = Talk()
    talk.begin()
    talk.tool(command="ls")
    talk.frame(Frame("stderr", raw="boom"))
    talk.frame(Frame("exit", {"code": None, "signal": 9}))
    error = talk.ends[0].error
    assert error is not None and (error.code, error.signal) == ("AGENT_EXITED", 9)
    assert error.stderr_tail == ["boom"]
    talk.frame(Frame("spawn"))
    talk.end(talk.begin())
    talk.finish()
    assert [type(e.payload) for e in talk.events].count(Complete) == 2


@pytest.mark.proves("A1", "M7")
def test_a_background_subagents_request_outlives_the_turn_outside_of_any_run() -> None:
    talk = Talk()
    uuid = talk.begin()
    talk.tool("agent", "Agent", prompt="p")
    talk.result("agent", "launched", told={"status": "async_launched"})
    talk.tool("inner", command="ls", parent="agent")
    talk.leave("inner", agent_id="k")
    talk.end(uuid)
    first, second = (e for e in talk.events if isinstance(e.payload, PermissionRequest))
    assert (first.run_id, second.run_id, second.after_run_id) == ("run_1", None, "run_1")
    assert second.parent_tool_call_id == "agent"
    talk.answer(behavior="allow")
    told = [(r.approval_id, r.decision) for r in payloads(talk.events, PermissionResolved)]
    assert told == [("apr_1", Decision.CANCELLED), ("apr_2", Decision.APPROVED)]
