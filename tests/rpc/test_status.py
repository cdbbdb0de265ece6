"""What a client is told of an error: code, reason, message, and nothing too long for a trailer."""

import grpc
import pytest
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  its package ships none
    error_details_pb2,
    status_pb2,
)

from agentctl.core import errors
from agentctl.core.errors import AgentctlError, Forbidden, Invalid, NotFound, Unauthenticated
from agentctl.rpc.status import (
    CODES,
    MAX_DETAILS,
    MAX_MESSAGE,
    clip_status,
    code_of,
    from_status,
    to_status,
    wire_length,
)


def info_of(details: bytes) -> error_details_pb2.ErrorInfo:
    status = status_pb2.Status.FromString(details)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


@pytest.mark.parametrize("reason", CODES)
def test_each_reason_has_its_code_and_comes_back_as_its_error(reason: str) -> None:
    code, kind = CODES[reason]
    status = to_status(kind("what to do", reason=reason, metadata={"field": "x"}))
    assert status.code is code
    assert info_of(status.details).reason == reason
    assert info_of(status.details).domain == "agentctl"
    back = from_status(status.code, status.message, status.details)
    assert (type(back), back.reason, back.message) == (kind, reason, "what to do")
    assert back.metadata == {"field": "x"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unauthenticated("no token"), grpc.StatusCode.UNAUTHENTICATED),
        (Forbidden("no right"), grpc.StatusCode.PERMISSION_DENIED),
    ],
)
def test_a_denial_is_told_by_who_is_denied(error: AgentctlError, code: grpc.StatusCode) -> None:
    status = to_status(error)
    assert status.code is code
    back = from_status(status.code, status.message, status.details)
    assert type(back) is type(error)
    assert back.reason == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    "kind",
    [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, AgentctlError)
    ],
    ids=lambda kind: kind.__name__,
)
def test_every_class_of_error_has_a_code(kind: type[AgentctlError]) -> None:
    assert code_of(kind("x")) is not grpc.StatusCode.OK
    assert code_of(kind("x", reason="SOMETHING_NEW")) is not grpc.StatusCode.OK


@pytest.mark.parametrize("letter", ["x", "é", "語", "%", "\n", "\ud800"])
def test_a_long_message_is_cut_to_what_a_status_may_hold(letter: str) -> None:
    status = to_status(Invalid(letter * 5000))
    assert wire_length(status.message) <= MAX_MESSAGE
    assert status.message.endswith("...")
    assert len(status.details) <= MAX_DETAILS


def test_a_message_that_fits_is_not_touched() -> None:
    assert clip_status("x" * MAX_MESSAGE) == "x" * MAX_MESSAGE


def test_facts_that_are_too_long_are_cut_and_then_left_out() -> None:
    metadata = {f"key{number}": "語" * 4000 for number in range(20)} | {"field": "agent"}
    status = to_status(NotFound("x" * 1024, reason="AGENT_NOT_FOUND", metadata=metadata))
    info = info_of(status.details)
    assert len(status.details) <= MAX_DETAILS
    assert info.metadata["field"] == "agent"
    assert len(info.metadata) > 1


def test_a_status_without_our_reason_is_still_the_nearest_error() -> None:
    back = from_status(grpc.StatusCode.UNIMPLEMENTED, "Method not found!", None)
    assert (type(back), back.reason) == (errors.Unsupported, "UNSUPPORTED")
    back = from_status(grpc.StatusCode.INTERNAL, "", b"")
    assert (type(back), back.reason) == (errors.DaemonFailed, "SERVER_ERROR")
    foreign = status_pb2.Status(code=5, message="x").SerializeToString()
    assert type(from_status(grpc.StatusCode.NOT_FOUND, "x", foreign)) is NotFound


def test_a_reason_that_this_client_does_not_know_is_kept() -> None:
    status = to_status(Invalid("x", reason="SOMETHING_NEW"))
    back = from_status(status.code, status.message, status.details)
    assert (type(back), back.reason) == (Invalid, "SOMETHING_NEW")
