"""Which code of the tool each of our reasons is."""

import pytest

from agentctl.core.errors import AgentctlError, Invalid, NotFound, Unauthenticated
from agentctl.gateway.tool.errors import CODES, ToolError, refusal
from agentctl.rpc.status import CODES as REASONS

PUBLISHED = {
    "ECONNREFUSED",
    "TIMEOUT",
    "AUTH_FAILED",
    "PROJECT_NOT_FOUND",
    "INVALID_MODEL",
    "SESSION_LIMIT",
    "INSTANCE_NOT_CONNECTED",
    "SESSION_NOT_FOUND",
    "SESSION_BUSY",
    "PERMISSION_DENIED",
    "INVALID_PARAMETERS",
    "SERVER_ERROR",
}


@pytest.mark.proves("TL3")
def test_every_reason_has_a_published_code() -> None:
    assert set(CODES) == {*REASONS, "PERMISSION_DENIED"}
    assert set(CODES.values()) <= PUBLISHED


@pytest.mark.proves("TL3")
@pytest.mark.parametrize("reason", CODES)
def test_a_reason_that_has_the_name_of_a_code_is_that_code(reason: str) -> None:
    assert CODES[reason] == reason or reason not in PUBLISHED


def test_a_refusal_keeps_our_own_reason_where_the_code_is_another_word() -> None:
    told = refusal(AgentctlError("no", reason="APPROVAL_NOT_FOUND")).response()
    assert told == {
        "success": False,
        "error": {
            "code": "INVALID_PARAMETERS",
            "message": "no",
            "details": {"reason": "APPROVAL_NOT_FOUND", "parameters": ["request_id"]},
        },
    }


def test_a_field_that_the_daemon_names_is_the_parameter() -> None:
    error = Invalid("too long", metadata={"field": "name"})
    assert refusal(error).details["parameters"] == ["name"]
    assert refusal(Invalid("wrong")).details["parameters"] == []


def test_a_reason_of_a_newer_daemon_is_a_server_error() -> None:
    error = refusal(AgentctlError("?", reason="NEW_REASON"))
    assert (error.code, error.details) == ("SERVER_ERROR", {"reason": "NEW_REASON"})


@pytest.mark.proves("TL3")
def test_a_refused_token_is_told_apart_while_connecting() -> None:
    error = Unauthenticated("no token")
    assert refusal(error).code == "PERMISSION_DENIED"
    assert refusal(error, connecting=True).code == "AUTH_FAILED"


def test_an_error_without_details_has_none() -> None:
    assert refusal(NotFound("gone")).response()["error"].keys() == {"code", "message"}
    assert ToolError("TIMEOUT", "late").response()["error"] == {
        "code": "TIMEOUT",
        "message": "late",
    }
