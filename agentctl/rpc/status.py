"""Owns the one map between the errors of `core/errors` and gRPC: codes, ErrorInfo and their sizes.

The server uses it one way, the client the other. It refuses to know who raised what.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc
from google.protobuf import any_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  its package ships none
    error_details_pb2,
    status_pb2,
)

from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    CallerError,
    Conflict,
    DaemonFailed,
    Exhausted,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    TimedOut,
    Unauthenticated,
    Unsupported,
)

DOMAIN = "agentctl"
DETAILS_KEY = "grpc-status-details-bin"

MAX_MESSAGE = 1024
"""Bytes of a status message on the wire, where what is not ASCII is percent-encoded."""

MAX_DETAILS = 4096
"""Bytes of the status details: longer trailers break the call in most clients."""

MAX_VALUE = 512
"""Bytes of one metadata value of ErrorInfo."""

_Code = grpc.StatusCode

CODES: Mapping[str, tuple[grpc.StatusCode, type[AgentctlError]]] = {
    **{
        f"{kind}_NOT_FOUND": (_Code.NOT_FOUND, NotFound)
        for kind in ("AGENT", "SESSION", "RUN", "APPROVAL", "QUESTION", "ARTIFACT", "PROJECT")
    },
    "INVALID_PARAMETERS": (_Code.INVALID_ARGUMENT, Invalid),
    "INVALID_MODEL": (_Code.INVALID_ARGUMENT, Invalid),
    "INVALID_CURSOR": (_Code.INVALID_ARGUMENT, Invalid),
    "REGISTRY_INVALID": (_Code.INVALID_ARGUMENT, Invalid),
    "OPTION_NOT_OFFERED": (_Code.INVALID_ARGUMENT, Invalid),
    "AGENT_NOT_INSTALLED": (_Code.FAILED_PRECONDITION, Refused),
    "AGENT_DISABLED": (_Code.FAILED_PRECONDITION, Refused),
    "AUTH_REQUIRED": (_Code.FAILED_PRECONDITION, Refused),
    "SESSION_BUSY": (_Code.FAILED_PRECONDITION, Refused),
    "SESSION_CLOSED": (_Code.FAILED_PRECONDITION, Refused),
    "RUN_FINISHED": (_Code.FAILED_PRECONDITION, Refused),
    "ALREADY_RESOLVED": (_Code.FAILED_PRECONDITION, Refused),
    "INSTANCE_NOT_CONNECTED": (_Code.FAILED_PRECONDITION, Refused),
    "SESSION_LIMIT": (_Code.RESOURCE_EXHAUSTED, Exhausted),
    "QUEUE_FULL": (_Code.RESOURCE_EXHAUSTED, Exhausted),
    "DISK_FULL": (_Code.RESOURCE_EXHAUSTED, Exhausted),
    "IDEMPOTENCY_CONFLICT": (_Code.ALREADY_EXISTS, Conflict),
    "UNSUPPORTED": (_Code.UNIMPLEMENTED, Unsupported),
    "TIMEOUT": (_Code.DEADLINE_EXCEEDED, TimedOut),
    "AGENT_FAILED": (_Code.UNAVAILABLE, AgentFailed),
    "SERVER_ERROR": (_Code.UNAVAILABLE, DaemonFailed),
}
"""Each reason has one code and one class; PERMISSION_DENIED has two and is decided by class."""

BY_CLASS: Mapping[type[AgentctlError], grpc.StatusCode] = {
    NotFound: _Code.NOT_FOUND,
    Invalid: _Code.INVALID_ARGUMENT,
    Refused: _Code.FAILED_PRECONDITION,
    Conflict: _Code.ALREADY_EXISTS,
    Unauthenticated: _Code.UNAUTHENTICATED,
    Forbidden: _Code.PERMISSION_DENIED,
    Unsupported: _Code.UNIMPLEMENTED,
    CallerError: _Code.INVALID_ARGUMENT,
    Exhausted: _Code.RESOURCE_EXHAUSTED,
    TimedOut: _Code.DEADLINE_EXCEEDED,
    AgentFailed: _Code.UNAVAILABLE,
    DaemonFailed: _Code.UNAVAILABLE,
    AgentctlError: _Code.UNAVAILABLE,
}

_PLAIN: Mapping[grpc.StatusCode, type[AgentctlError]] = {
    _Code.NOT_FOUND: NotFound,
    _Code.INVALID_ARGUMENT: Invalid,
    _Code.OUT_OF_RANGE: Invalid,
    _Code.FAILED_PRECONDITION: Refused,
    _Code.ALREADY_EXISTS: Conflict,
    _Code.UNAUTHENTICATED: Unauthenticated,
    _Code.PERMISSION_DENIED: Forbidden,
    _Code.UNIMPLEMENTED: Unsupported,
    _Code.RESOURCE_EXHAUSTED: Exhausted,
    _Code.DEADLINE_EXCEEDED: TimedOut,
}


@dataclass(frozen=True, slots=True)
class Status:
    """What goes into the trailers of a failed call."""

    code: grpc.StatusCode
    message: str
    details: bytes


def code_of(error: AgentctlError) -> grpc.StatusCode:
    """The gRPC code of an error: by its reason, else by its class."""
    known = CODES.get(error.reason)
    if known is not None:
        return known[0]
    return next(BY_CLASS[kind] for kind in type(error).__mro__ if kind in BY_CLASS)


def to_status(error: AgentctlError) -> Status:
    """Turns an error into what travels of it."""
    code = code_of(error)
    message = clip_status(error.message or error.reason)
    return Status(code, message, _details(code, message, error))


def unexpected() -> DaemonFailed:
    """What a client is told of an error that is not its business; the log has the rest."""
    return DaemonFailed(
        "The daemon failed to answer this call: its log says why. Try again, and report it when "
        "it happens twice."
    )


def clip_status(message: str) -> str:
    """Cuts a message so that it takes at most MAX_MESSAGE bytes on the wire."""
    message = message.encode("utf-8", "replace").decode("utf-8")
    encoded = 0
    for index, character in enumerate(message):
        plain = " " <= character <= "~" and character != "%"
        encoded += 1 if plain else 3 * len(character.encode())
        if encoded > MAX_MESSAGE:
            return clip_status(message[: index - 3]) + "..."
    return message


def _details(code: grpc.StatusCode, message: str, error: AgentctlError) -> bytes:
    metadata = {clip(key, 64): clip(value, MAX_VALUE) for key, value in error.metadata.items()}
    while True:
        info = error_details_pb2.ErrorInfo(
            reason=clip(error.reason, 64), domain=DOMAIN, metadata=metadata
        )
        packed = any_pb2.Any()
        packed.Pack(info)
        number: Any = code.value
        status = status_pb2.Status(code=number[0], message=message, details=[packed])
        data = status.SerializeToString()
        if len(data) <= MAX_DETAILS:
            return data
        del metadata[max(metadata, key=lambda key: len(metadata[key]))]


def clip(text: str, limit: int) -> str:
    """Cuts a text to at most `limit` bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "..."


def from_status(code: grpc.StatusCode, message: str, details: bytes | None) -> AgentctlError:
    """Makes the error again that the daemon raised, or the nearest one when it said no reason."""
    info = _error_info(details)
    if info is None:
        kind = _PLAIN.get(code, DaemonFailed)
        return kind(message or code.name, metadata={"grpc": code.name})
    known = CODES.get(info.reason)
    kind = known[1] if known is not None else _PLAIN.get(code, DaemonFailed)
    return kind(message, reason=info.reason, metadata=dict(info.metadata))


def _error_info(details: bytes | None) -> error_details_pb2.ErrorInfo | None:
    if not details:
        return None
    status = status_pb2.Status.FromString(details)
    info = error_details_pb2.ErrorInfo()
    for each in status.details:
        if each.Unpack(info) and info.domain == DOMAIN:
            return info
    return None


def wire_length(message: str) -> int:
    """Bytes that a status message takes on the wire (percent-encoded)."""
    return len(quote(message, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"))
