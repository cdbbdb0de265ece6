"""What the tool takes: every parameter, its default, and how a wrong one is refused."""

from typing import Any

import pytest

from agentctl.gateway.tool.actions import ACTIONS, read, schema
from agentctl.gateway.tool.errors import ToolError

Json = dict[str, Any]

PARAMETERS: dict[str, Json] = {
    "connect": {"url": ..., "name": None, "auth_token": None, "timeout_ms": 5000},
    "disconnect": {"instance": None},
    "create_session": {
        "instance": None,
        "project": ...,
        "message": None,
        "model": None,
        "agent": None,
        "session_name": None,
        "resume": False,
        "timeout_ms": 10000,
    },
    "list_sessions": {"instance": None, "project": None, "status": None, "limit": 50},
    "attach_session": {"session_id": ..., "subscribe": True, "timeout_ms": None},
    "send_message": {
        "session_id": ...,
        "message": ...,
        "wait_for_completion": False,
        "timeout_ms": None,
    },
    "get_status": {"session_id": ...},
    "get_messages": {"session_id": ..., "limit": 50, "since": None, "role": None},
    "terminate_session": {"session_id": ..., "reason": None, "save_state": True},
    "export_session": {
        "session_id": ...,
        "format": "json",
        "include_messages": True,
        "include_files": False,
        "include_stats": True,
    },
    "get_stats": {"session_id": None, "instance": None},
    "approve_permission": {"session_id": ..., "request_id": ..., "approved": ..., "reason": None},
}
"""Action -> parameter -> default; `...` is required."""

VALUES: Json = {
    "url": "http://localhost:3333",
    "project": "/p",
    "session_id": "ses_1",
    "request_id": "apr_1",
    "message": "go",
    "approved": True,
}


def least(action: str) -> Json:
    """The shortest request of an action."""
    needed = [name for name, default in PARAMETERS[action].items() if default is ...]
    return {"action": action, **{name: VALUES[name] for name in needed}}


def refused(request: Json) -> list[str]:
    with pytest.raises(ToolError) as caught:
        read(request)
    assert caught.value.code == "INVALID_PARAMETERS"
    assert all(name in caught.value.message for name in caught.value.details["parameters"])
    return caught.value.details["parameters"]


@pytest.mark.proves("TL1")
def test_there_are_exactly_the_twelve_actions() -> None:
    assert list(ACTIONS) == list(PARAMETERS)


@pytest.mark.proves("TL1")
@pytest.mark.parametrize("action", PARAMETERS)
def test_what_is_left_out_has_its_published_default(action: str) -> None:
    defaults = {n: VALUES[n] if d is ... else d for n, d in PARAMETERS[action].items()}
    assert dict(read(least(action)).args) == defaults


@pytest.mark.parametrize("action", PARAMETERS)
def test_a_null_is_a_parameter_that_is_left_out(action: str) -> None:
    nulls = {name: None for name, default in PARAMETERS[action].items() if default is not ...}
    assert read({**least(action), **nulls}) == read(least(action))


@pytest.mark.proves("TL2")
@pytest.mark.parametrize("action", PARAMETERS)
def test_each_missing_parameter_is_named(action: str) -> None:
    needed = [name for name, default in PARAMETERS[action].items() if default is ...]
    if needed:
        assert refused({"action": action}) == needed
    else:
        assert read({"action": action}).action == action


@pytest.mark.proves("TL2")
@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({}, ["action"]),
        ({"action": 7}, ["action"]),
        ({"action": "conect"}, ["action"]),
        ({"action": "connect", "url": 1}, ["url"]),
        ({"action": "connect", "url": ""}, ["url"]),
        ({"action": "connect", "url": "http://h", "timeout_ms": 0}, ["timeout_ms"]),
        ({"action": "connect", "url": "http://h", "timeout_ms": "5"}, ["timeout_ms"]),
        ({"action": "connect", "url": "http://h", "timeout_ms": True}, ["timeout_ms"]),
        ({"action": "connect", "url": "http://h", "timeout_ms": 1.5}, ["timeout_ms"]),
        ({"action": "connect", "url": "http://h", "timeout_ms": float("nan")}, ["timeout_ms"]),
        ({"action": "connect", "url": "http://h", "timeout_ms": 10**12}, ["timeout_ms"]),
        ({"action": "list_sessions", "status": "done"}, ["status"]),
        ({"action": "list_sessions", "limit": 1001}, ["limit"]),
        ({"action": "list_sessions", "limit": -1, "status": 3}, ["status", "limit"]),
        ({"action": "get_messages", "session_id": "s", "role": "assistant"}, ["role"]),
        ({"action": "get_messages", "session_id": "s", "since": "yesterday"}, ["since"]),
        ({"action": "get_messages", "session_id": "s", "since": 5}, ["since"]),
        ({"action": "get_status", "sesion_id": "s"}, ["session_id", "sesion_id"]),
        ({"action": "get_status", "session_id": "s", "x": 1}, ["x"]),
        ({"action": "get_status", "session_id": "a\0b"}, ["session_id"]),
        ({"action": "get_status", "session_id": "\ud800"}, ["session_id"]),
        ({"action": "get_status", "session_id": "s", "\ud800": 1}, ["?"]),
        ({"action": "create_session", "project": "/p", "resume": "yes"}, ["resume"]),
        ({"action": "create_session", "project": ["/p"]}, ["project"]),
        ({"action": "export_session", "session_id": "s", "format": "html"}, ["format"]),
        (
            {
                "action": "approve_permission",
                "session_id": "s",
                "request_id": "r",
                "approved": "true",
            },
            ["approved"],
        ),
    ],
)
def test_each_wrong_parameter_is_named(request_: Json, named: list[str]) -> None:
    assert refused(request_) == named


def test_a_name_of_any_length_is_refused_in_a_few_words() -> None:
    for request in ({"action": "x" * 4_000_000}, {"action": "get_stats", "x" * 4_000_000: 1}):
        with pytest.raises(ToolError) as caught:
            read(request)
        assert len(str(caught.value.response())) < 1_000


def test_a_misspelt_word_is_set_right() -> None:
    with pytest.raises(ToolError, match="did you mean connect"):
        read({"action": "conect"})
    with pytest.raises(ToolError, match="did you mean session_id"):
        read({"action": "get_status", "sesion_id": "s"})


@pytest.mark.parametrize(
    ("told", "ms"),
    [
        ("2026-02-12T07:45:00Z", 1770882300000),
        ("2026-02-12T07:45:00.250+01:00", 1770878700250),
        ("2026-02-12T07:45:00", 1770882300000),
    ],
)
def test_a_time_without_a_zone_is_utc(told: str, ms: int) -> None:
    call = read({"action": "get_messages", "session_id": "s", "since": told})
    assert call.args["since"] == ms


@pytest.mark.proves("TL9")
@pytest.mark.parametrize("action", PARAMETERS)
def test_the_schema_tells_each_action_by_itself(action: str) -> None:
    told = schema()
    assert told["discriminator"]["mapping"][action] == f"#/$defs/{action}"
    one = told["$defs"][action]
    assert one["properties"]["action"]["const"] == action
    assert [*one["properties"]] == ["action", *PARAMETERS[action]]
    assert one["required"] == [*least(action)]
    assert one["additionalProperties"] is False
    for name, default in PARAMETERS[action].items():
        shown = default if default not in (..., None) else None
        assert one["properties"][name].get("default") == shown
        assert one["properties"][name]["description"]


def test_the_schema_is_flat_on_top_where_models_refuse_a_union() -> None:
    told = schema()
    assert told["type"] == "object" and told["required"] == ["action"]
    assert not {"oneOf", "anyOf", "allOf", "enum", "not"} & told.keys()
    every = {name for names in PARAMETERS.values() for name in names}
    assert set(told["properties"]) == {"action", *every}
    assert "default" not in told["properties"]["timeout_ms"]
