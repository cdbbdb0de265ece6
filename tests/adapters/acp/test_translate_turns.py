"""Where ACP turns begin and end, what they cost, and what may be chosen in a session."""

from typing import Any

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import (
    Complete,
    ContextWindow,
    Event,
    MessageChunk,
    RunStatus,
    SessionOptions,
)
from agentctl.core.parts import Choice, McpServerState, Usage
from agentctl.core.words import ContentType, Outcome, RunChange
from agentctl_adapters.acp.translate import AcpTranslator
from tests.replaying import Acp, one, payloads


def prompted(agent: str = "some-agent") -> tuple[Acp, int]:
    acp = Acp(agent)
    acp.session()
    return acp, acp.prompt()


def complete(events: list[Event]) -> Any:
    return one(events, Complete)


@pytest.mark.proves("T1")
@pytest.mark.parametrize(
    ("stop", "outcome"),
    [
        ("end_turn", Outcome.COMPLETED),
        ("max_tokens", Outcome.COMPLETED),
        ("max_turn_requests", Outcome.COMPLETED),
        ("refusal", Outcome.COMPLETED),
        ("something_new", Outcome.COMPLETED),
        ("cancelled", Outcome.CANCELLED),
    ],
)
def test_a_run_ends_with_the_answer_and_its_stop_reason(stop: str, outcome: Outcome) -> None:
    acp, run = prompted()
    end = complete(acp.end(run, stop))
    assert (end.outcome, end.stop_reason) == (outcome, stop)


def test_a_prompt_of_many_parts_is_told_in_full() -> None:
    acp = Acp()
    acp.session()
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image", "mimeType": "image/png", "data": "aGk="},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "b"}},
        {"type": "audio", "mimeType": "audio/wav", "data": "%%%"},
        {"type": "video"},
    ]
    acp.ask("session/prompt", sessionId="s", prompt=parts)
    created = payloads(acp.events, RunStatus)[0]
    assert created.status is RunChange.CREATED
    assert [block.type for block in created.prompt] == [
        ContentType.TEXT,
        ContentType.IMAGE,
        ContentType.RESOURCE_LINK,
        ContentType.RESOURCE,
        ContentType.AUDIO,
        ContentType.TEXT,
    ]


ERRORS: list[tuple[int, str, dict[str, Any], str]] = [
    (-32000, "Authentication required", {}, "AUTH_REQUIRED"),
    (401, '{"error":{"code":401,"message":"bad key"}}', {}, "AUTH_REQUIRED"),
    (403, "no", {}, "AUTH_REQUIRED"),
    (429, "slow down", {}, "RATE_LIMITED"),
    (500, "terminated", {}, "MODEL_ERROR"),
    (-32603, "Internal error", {"details": "400 scripted"}, "MODEL_ERROR"),
    (-32603, "Internal error: oops", {"errorKind": "authentication_failed"}, "AUTH_REQUIRED"),
    (-32603, "Internal error: oops", {"statusCode": 429}, "RATE_LIMITED"),
    (-32602, "Session not found: s", {}, "MODEL_ERROR"),
]


@pytest.mark.proves("T9", "T10")
@pytest.mark.parametrize(("code", "message", "data", "reason"), ERRORS)
def test_a_refused_prompt_is_a_run_that_fails_at_the_answer(
    code: int, message: str, data: dict[str, Any], reason: str
) -> None:
    acp, run = prompted()
    end = complete(acp.refuse(run, code, message, **data))
    assert (end.outcome, end.error.code) == (Outcome.FAILED, reason)
    assert str(code).encode() in end.error.detail_json
    assert end.error.message.endswith(".")
    assert "{" not in end.error.message


@pytest.mark.proves("T6")
def test_any_answer_after_a_cancel_is_a_cancelled_run() -> None:
    for answer in ("end_turn", "error"):
        acp, run = prompted()
        acp.send(method="session/cancel", params={"sessionId": "s"})
        events = (
            acp.refuse(run, -32603, "Request was aborted.")
            if answer == "error"
            else acp.end(run, answer)
        )
        assert complete(events).outcome is Outcome.CANCELLED


@pytest.mark.proves("T6")
def test_a_cancel_of_one_session_leaves_the_other_alone() -> None:
    acp, run = prompted()
    acp.session("t")
    other = acp.prompt(session="t")
    acp.send(method="session/cancel", params={"sessionId": "s"})
    assert complete(acp.end(other)).outcome is Outcome.COMPLETED
    assert complete(acp.end(run)).outcome is Outcome.CANCELLED


def test_a_cancelled_request_is_a_cancelled_run_and_an_ignored_cancel_is_none() -> None:
    acp, run = prompted()
    acp.send(method="$/cancel_request", params={"requestId": run})
    assert complete(acp.refuse(run, -32800, "Request cancelled")).outcome is Outcome.CANCELLED
    run = acp.prompt()
    acp.send(method="$/cancel_request", params={"requestId": run})
    assert complete(acp.end(run)).outcome is Outcome.COMPLETED


@pytest.mark.proves("T5")
def test_a_death_tells_signal_and_stderr_and_the_next_process_starts_afresh() -> None:
    acp, _ = prompted()
    acp.frame(Frame("stderr", raw="panic"))
    end = complete(acp.frame(Frame("exit", {"code": None, "signal": 9})))
    assert (end.error.code, end.error.signal) == ("AGENT_EXITED", 9)
    assert end.error.stderr_tail == ["panic"]
    acp.frame(Frame("spawn"))
    acp.text("history?")
    assert payloads(acp.events, MessageChunk) == []
    assert complete(acp.end(acp.prompt())).outcome is Outcome.COMPLETED


USAGE = {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110}
QUOTA = {"quota": {"token_count": {"input_tokens": 7, "output_tokens": 2}}}


@pytest.mark.parametrize(
    ("more", "usage"),
    [
        ({"usage": USAGE}, Usage(100, 10, total=110)),
        ({"_meta": QUOTA}, Usage(7, 2)),
        (
            {"usage": {**USAGE, "cachedReadTokens": 0, "thoughtTokens": 4}},
            Usage(100, 10, 0, None, 4, 110),
        ),
        ({"usage": None}, None),
        ({}, None),
    ],
)
def test_a_turns_usage_is_found_in_its_answer(more: dict[str, Any], usage: Usage | None) -> None:
    acp, run = prompted()
    assert complete(acp.end(run, **more)).usage == usage


def test_copilots_usage_of_the_session_is_told_per_run() -> None:
    acp, run = prompted("Copilot")
    totals = [{"inputTokens": n, "outputTokens": n // 10} for n in (100, 300, 50)]
    told = [complete(acp.end(run, usage=totals[0])).usage]
    told += [complete(acp.end(acp.prompt(), usage=total)).usage for total in totals[1:]]
    assert told == [Usage(100, 10), Usage(200, 20), Usage(50, 5)]


def test_opencodes_usage_of_the_last_request_is_the_runs_only_without_tools() -> None:
    acp, run = prompted("OpenCode")
    events = acp.end(run, usage=USAGE)
    assert complete(events).usage == one(events, ContextWindow).usage == Usage(100, 10, total=110)
    run = acp.prompt()
    acp.update("tool_call", toolCallId="c", title="t", status="completed")
    events = acp.end(run, usage=USAGE)
    assert complete(events).usage is None
    assert one(events, ContextWindow).usage == Usage(100, 10, total=110)


def test_qwens_usage_per_request_in_empty_chunks_adds_up_and_is_no_text() -> None:
    acp, run = prompted("qwen-code")
    for _ in range(2):
        acp.text("", _meta={"usage": USAGE})
    assert payloads(acp.events, MessageChunk) == []
    assert complete(acp.end(run)).usage == Usage(200, 20, total=220)


@pytest.mark.proves("M10")
def test_the_context_window_is_the_largest_seen_until_the_model_changes() -> None:
    acp, _ = prompted()
    acp.update("config_option_update", configOptions=[model_option("big")])
    windows = [
        acp.update("usage_update", used=used, size=size)
        for used, size in ((10, 200), (20, 1000), (30, 200), (30, 200), (0, 0))
    ]
    told = [one(events, ContextWindow) for events in windows[:3]]
    assert [(w.used, w.size, w.remaining) for w in told] == [
        (10, 200, 190),
        (20, 1000, 980),
        (30, 1000, 970),
    ]
    assert windows[3:] == [[], []]
    acp.update("config_option_update", configOptions=[model_option("small")])
    assert one(acp.update("usage_update", used=30, size=200), ContextWindow).size == 200


def test_the_cost_of_a_run_is_what_it_added_to_its_session() -> None:
    acp, run = prompted()
    ends: list[float | None] = []
    for amount in (0.5, 0.75):
        acp.update("usage_update", used=1, size=2, cost={"amount": amount, "currency": "USD"})
        ends.append(complete(acp.end(run)).cost_usd)
        run = acp.prompt()
    assert ends == [0.5, 0.25]
    assert [w.cost_usd for w in payloads(acp.events, ContextWindow)] == [0.5, 0.75]


def test_the_cost_before_a_load_is_not_known_and_not_invented() -> None:
    acp = Acp()
    acp.answer(acp.ask("session/load", sessionId="s", cwd="/code"), {})
    run = acp.prompt()
    acp.update("usage_update", used=1, size=2, cost={"amount": 3.0, "currency": "USD"})
    assert complete(acp.end(run)).cost_usd is None


def model_option(value: str) -> dict[str, Any]:
    choices = [{"value": "big", "name": "Big"}, {"value": "small", "name": "Small"}]
    option = {"id": "model", "category": "model", "type": "select", "currentValue": value}
    return {**option, "options": choices}


def test_modes_models_and_options_are_told_once_and_then_their_changes() -> None:
    acp = Acp()
    modes = {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "yolo"}],
    }
    models = {
        "currentModelId": "a",
        "availableModels": [{"modelId": "a", "_meta": {"contextLimit": 9}}],
    }
    told = one(acp.session(modes=modes, models=models), SessionOptions)
    assert (told.modes, told.mode) == ([Choice("ask", "Ask"), Choice("yolo")], "ask")
    assert [(m.id, m.context_window) for m in told.models] == [("a", 9)]
    assert told.model == "a"
    assert acp.update("current_mode_update", currentModeId="ask") == []
    changed = one(acp.update("current_mode_update", currentModeId="yolo"), SessionOptions)
    assert changed == SessionOptions(mode="yolo")


def test_config_options_supersede_modes_and_may_be_grouped_or_boolean() -> None:
    acp = Acp()
    grouped = [{"name": "Fast", "options": [{"value": "x", "name": "X"}]}]
    mode = {"id": "m", "category": "mode", "currentValue": "x", "options": grouped}
    flag = {"id": "f", "type": "boolean", "currentValue": True}
    told = one(
        acp.session(modes={"availableModes": []}, configOptions=[mode, flag]), SessionOptions
    )
    assert (told.modes, told.mode) == ([Choice("x", "X", group="Fast")], "x")
    assert [(option.boolean, option.value) for option in told.config_options] == [
        (None, "x"),
        (True, "true"),
    ]


def test_what_we_set_is_in_force_once_the_agent_agreed_and_it_is_offered() -> None:
    acp = Acp()
    acp.session(modes={"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}]})

    def set_(method: str, **params: Any) -> list[Event]:
        return acp.answer(acp.ask(f"session/{method}", sessionId="s", **params), {})

    assert one(set_("set_mode", modeId="b"), SessionOptions).mode == "b"
    assert set_("set_mode", modeId="none-such") == []
    assert one(set_("set_model", modelId="any"), SessionOptions).model == "any"
    request = acp.ask("session/set_config_option", sessionId="s", configId="model", value="big")
    told = one(acp.answer(request, {"configOptions": [model_option("big")]}), SessionOptions)
    assert told.config_options[0].value == "big"


def test_commands_may_come_before_their_session_is_known_and_twice() -> None:
    acp = Acp()
    commands = [{"name": "plan", "description": "d", "input": {"hint": "what"}}]
    told = one(acp.update("available_commands_update", availableCommands=commands), SessionOptions)
    assert [(c.name, c.description, c.hint) for c in told.commands] == [("plan", "d", "what")]
    acp.session()
    assert acp.update("available_commands_update", availableCommands=commands) == []


def test_a_session_tells_its_mcp_servers_and_what_a_prompt_may_hold() -> None:
    acp = Acp()
    able = {"promptCapabilities": {"image": True}}
    acp.answer(acp.ask("initialize"), {"agentCapabilities": able})
    request = acp.ask("session/new", cwd="/code", mcpServers=[{"name": "docs"}])
    told = one(acp.answer(request, {"sessionId": "s"}), SessionOptions)
    assert told.mcp_servers == [McpServerState("docs")]
    assert (told.prompt_capabilities.image, told.prompt_capabilities.audio) == (True, False)


def test_unknown_updates_are_counted() -> None:
    translator = AcpTranslator()
    update = {"sessionId": "s", "update": {"sessionUpdate": "dance"}}
    for _ in range(3):
        translator.feed(Frame("from_agent", {"method": "session/update", "params": update}))
    assert translator.unknown == {"dance": 3}
