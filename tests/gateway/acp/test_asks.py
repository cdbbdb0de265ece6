"""Requests to a client and what its answers mean, without a daemon."""

import json
from typing import Any

import pytest

from agentctl import v1
from agentctl.core.errors import (
    AgentctlError,
    Exhausted,
    Invalid,
    NotFound,
    Refused,
    Unsupported,
)
from agentctl.core.events import Complete, PermissionRequest, QuestionRequest
from agentctl.core.parts import (
    Choice,
    PermissionDetails,
    PermissionOption,
    Question,
    RunError,
    Usage,
)
from agentctl.core.words import OptionKind, Outcome, PermissionKind, ToolKind
from agentctl.gateway.acp import asks
from agentctl.gateway.acp.errors import Refusal, end_of, refusal
from agentctl.gateway.acp.session import complete_of, usage_of
from tests.demo.driver import Json
from tests.gateway.acp.client import conforms, model_of

DIFF = "--- /dev/null\n+++ /w/a.txt\n@@ -0,0 +1,1 @@\n+hi\n"


def checked(ask: asks.Ask | None) -> asks.Ask:
    assert ask is not None
    conforms(model_of({"method": ask.method, "params": ask.params}), ask.params)
    return ask


def selected(option: str) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": option}}


@pytest.mark.proves("GA3")
def test_a_request_shows_what_is_asked_with_the_agents_own_options() -> None:
    request = PermissionRequest(
        "apr_1",
        tool_call_id="t1",
        title="Write a.txt",
        tool_name="Write",
        tool_kind=ToolKind.EDIT,
        details=PermissionDetails(file="/w/a.txt", diff=DIFF, reason="needed"),
        options=[PermissionOption("yes", "Yes", OptionKind.ALLOW_ONCE)],
    )
    ask = checked(asks.permission("s", request, {"rawInput": {"a": 1}}))
    call = ask.params["toolCall"]
    assert (call["toolCallId"], call["kind"], call["rawInput"]) == ("t1", "edit", {"a": 1})
    assert [part["type"] for part in call["content"]] == ["diff", "content"]
    assert asks.picked(ask, selected("yes")) == "yes"
    assert asks.picked(ask, selected("no")) is None
    assert asks.picked(ask, {"outcome": {"outcome": "cancelled"}}) is None
    assert asks.picked(ask, None) is None


@pytest.mark.proves("GA3")
def test_an_option_of_an_unknown_kind_comes_last_and_is_no_policys_choice() -> None:
    options = [
        PermissionOption("odd", "Odd", OptionKind.OTHER),
        PermissionOption("yes", "Yes", OptionKind.ALLOW_ONCE),
        PermissionOption("no", "No", OptionKind.REJECT_ONCE),
    ]
    ask = checked(asks.permission("s", PermissionRequest("apr_1", options=options), {}))
    assert [(o["optionId"], o["kind"]) for o in ask.params["options"]] == [
        ("yes", "allow_once"),
        ("no", "reject_once"),
        ("odd", "reject_once"),
    ]


@pytest.mark.proves("GA3")
def test_a_request_without_options_gets_ours() -> None:
    request = PermissionRequest("apr_1", PermissionKind.PLAN, document="# Plan")
    ask = checked(asks.permission("s", request, {}))
    assert {o["optionId"] for o in ask.params["options"]} == {asks.APPROVE, asks.DENY}
    assert ask.params["toolCall"]["kind"] == "switch_mode"
    assert ask.params["toolCall"]["content"][0]["content"]["text"] == "# Plan"


CHOICES = [Choice("r", "Red"), Choice("b", "Blue")]


@pytest.mark.proves("GA4")
def test_questions_become_fields_of_a_form() -> None:
    request = QuestionRequest(
        "qst_1",
        questions=[
            Question("Which colour?", "Colour", CHOICES),
            Question("Which ones?", options=CHOICES, multiple=True, custom=True),
            Question("Why?", custom=True),
        ],
    )
    ask = checked(asks.question("s", request, form=True, url=False))
    fields = ask.params["requestedSchema"]["properties"]
    assert list(fields) == ["answer_1", "answer_2", "answer_2_other", "answer_3"]
    assert fields["answer_1"]["oneOf"][0] == {"const": "r", "title": "Red"}
    content = {"answer_1": "b", "answer_2": ["r"], "answer_2_other": "Pink", "answer_3": ""}
    answer = asks.answered(ask, {"action": "accept", "content": content})
    assert answer is not None and answer.values == [["b"], ["r", "Pink"], []]
    assert asks.answered(ask, {"action": "decline"}) is None
    assert asks.answered(ask, None) is None


@pytest.mark.proves("GA4")
def test_a_flat_schema_of_the_agent_goes_as_it_is_and_a_deep_one_as_questions() -> None:
    flat = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    request = QuestionRequest("qst_1", "How many?", schema_json=json.dumps(flat).encode())
    ask = checked(asks.question("s", request, form=True, url=False))
    assert ask.params["requestedSchema"] == flat
    answer = asks.answered(ask, {"action": "accept", "content": {"n": 3}})
    assert answer is not None and answer.content_json == b'{"n":3}'
    deep = {"properties": {"n": {"type": "object"}}}
    request = QuestionRequest("qst_1", schema_json=json.dumps(deep).encode())
    assert asks.question("s", request, form=True, url=False) is None


@pytest.mark.proves("GA4")
def test_one_choice_is_asked_as_a_request_where_there_are_no_forms() -> None:
    request = QuestionRequest("qst_1", questions=[Question("Which?", options=CHOICES)])
    ask = checked(asks.question("s", request, form=False, url=False))
    assert ask.method == "session/request_permission"
    assert [o["optionId"] for o in ask.params["options"]] == ["r", "b", asks.SKIP]
    answer = asks.answered(ask, selected("b"))
    assert answer is not None and answer.values == [["b"]]
    assert asks.answered(ask, selected(asks.SKIP)) is None
    many = QuestionRequest("qst_1", questions=[Question("?", options=CHOICES, multiple=True)])
    assert asks.question("s", many, form=False, url=False) is None
    free = QuestionRequest("qst_1", questions=[Question("?")])
    assert asks.question("s", free, form=False, url=False) is None


@pytest.mark.proves("GA4")
def test_a_page_to_open_goes_only_to_a_client_that_opens_pages() -> None:
    request = QuestionRequest("qst_1", "Log in", url="https://example.test/login")
    ask = checked(asks.question("s", request, form=True, url=True))
    assert (ask.params["mode"], ask.params["elicitationId"]) == ("url", "qst_1")
    assert asks.question("s", request, form=True, url=False) is None


@pytest.mark.proves("GA5")
@pytest.mark.parametrize(
    ("end", "stop"),
    [
        (Complete(Outcome.COMPLETED), "end_turn"),
        (Complete(Outcome.COMPLETED, "end_turn"), "end_turn"),
        (Complete(Outcome.COMPLETED, "stop_sequence"), "end_turn"),
        (Complete(Outcome.COMPLETED, "max_tokens"), "max_tokens"),
        (Complete(Outcome.COMPLETED, "length"), "max_tokens"),
        (Complete(Outcome.COMPLETED, "refusal"), "refusal"),
        (Complete(Outcome.FAILED, "error_max_turns"), "max_turn_requests"),
        (Complete(Outcome.CANCELLED, "end_turn"), "cancelled"),
    ],
)
def test_the_end_of_a_run_is_a_stop_reason(end: Complete, stop: str) -> None:
    assert end_of(end) == stop


@pytest.mark.proves("GA5")
def test_a_failed_run_is_refused_with_all_that_is_known() -> None:
    error = RunError(
        "AGENT_EXITED", "It died.", True, detail_json=b'{"a":1}', exit_code=3, stderr_tail=["x"]
    )
    with pytest.raises(Refusal) as told:
        end_of(Complete(Outcome.FAILED, error=error))
    assert told.value.code == -32603
    assert told.value.data == {
        "reason": "AGENT_EXITED",
        "recoverable": True,
        "detail": {"a": 1},
        "exitCode": 3,
        "stderr": ["x"],
    }
    with pytest.raises(Refusal) as late:
        end_of(Complete(Outcome.TIMED_OUT))
    assert late.value.data == {"reason": "TIMED_OUT"}


@pytest.mark.proves("GA6")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("x", reason="AUTH_REQUIRED"), -32000),
        (NotFound("x", reason="AGENT_NOT_FOUND"), -32002),
        (Invalid("x", reason="INVALID_MODEL", metadata={"field": "model"}), -32602),
        (Unsupported("x"), -32601),
        (Exhausted("x", reason="QUEUE_FULL"), -32603),
        (Refused("x", reason="SESSION_BUSY"), -32603),
    ],
)
def test_every_refusal_of_the_daemon_keeps_its_reason(error: AgentctlError, code: int) -> None:
    told = refusal(error)
    assert (told.code, told.data["reason"]) == (code, error.reason)
    assert told.data.items() >= error.metadata.items()


@pytest.mark.proves("GA10")
def test_the_record_of_a_run_tells_its_end_when_the_event_is_gone() -> None:
    usage = v1.Usage(input=1, output=2)
    error = v1.RunError(code="AGENT_EXITED", message="It died.", recoverable=True)
    run = v1.Run(run_id="run_1", usage=usage, error=error, cost_usd=0.5)
    end = complete_of(run, Outcome.FAILED)
    assert (end.outcome, end.usage, end.cost_usd) == (Outcome.FAILED, Usage(1, 2), 0.5)
    with pytest.raises(Refusal, match="It died"):
        end_of(end)


@pytest.mark.proves("GA5")
@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (None, None),
        (Usage(total=5), None),
        (Usage(2, 3), {"inputTokens": 2, "outputTokens": 3, "totalTokens": 5}),
        (
            Usage(2, 3, cache_read=10, reasoning=1, total=9),
            {
                "inputTokens": 2,
                "outputTokens": 3,
                "totalTokens": 9,
                "thoughtTokens": 1,
                "cachedReadTokens": 10,
            },
        ),
    ],
)
def test_usage_is_told_when_both_sides_are_known(usage: Usage | None, told: Any) -> None:
    assert usage_of(usage) == told
