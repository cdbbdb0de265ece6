"""Owns how refusals become JSON-RPC errors (ACP v1): our reason stands in `data.reason`. Pure."""

from dataclasses import dataclass, field
from typing import Any

import orjson

from agentctl.core.errors import AgentctlError
from agentctl.core.events import Complete
from agentctl.core.words import Outcome

Json = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
BAD_PARAMS, INTERNAL_ERROR = -32602, -32603
AUTH_REQUIRED, NOT_FOUND, REQUEST_CANCELLED = -32000, -32002, -32800

_BY_REASON = {
    "AUTH_REQUIRED": AUTH_REQUIRED,
    "INVALID_PARAMETERS": BAD_PARAMS,
    "INVALID_MODEL": BAD_PARAMS,
    "OPTION_NOT_OFFERED": BAD_PARAMS,
    "REGISTRY_INVALID": BAD_PARAMS,
    "UNSUPPORTED": METHOD_NOT_FOUND,
}
# What a run's end is called in ACP, by the agent's own word for it.
_STOPS = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "length": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "max_turn_requests": "max_turn_requests",
    "max_turns": "max_turn_requests",
    "error_max_turns": "max_turn_requests",
    "refusal": "refusal",
    "content-filter": "refusal",
    "content_filter": "refusal",
}


@dataclass(slots=True, eq=False)
class Refusal(Exception):
    """An error answer to a request of the client."""

    code: int
    message: str
    data: Json = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


def bad(message: str, name: str) -> Refusal:
    """Params that are not of the shape of their method; `name` is the field."""
    return Refusal(BAD_PARAMS, message, {"reason": "INVALID_PARAMETERS", "field": name})


def refusal(error: AgentctlError) -> Refusal:
    """What an error of the daemon is to the client."""
    code = _BY_REASON.get(error.reason, INTERNAL_ERROR)
    if error.reason.endswith("_NOT_FOUND"):
        code = NOT_FOUND
    return Refusal(code, error.message or error.reason, {**error.metadata, "reason": error.reason})


def end_of(complete: Complete) -> str:
    """The stopReason of a run's end.

    Raises:
        Refusal: it failed, or passed its time limit.
    """
    if complete.outcome is Outcome.CANCELLED:
        return "cancelled"
    stop = _STOPS.get((complete.stop_reason or "").lower())
    if complete.outcome is Outcome.COMPLETED:
        return stop or "end_turn"
    if stop not in (None, "end_turn"):
        return stop
    error = complete.error
    if error is None:
        word = "TIMED_OUT" if complete.outcome is Outcome.TIMED_OUT else "AGENT_FAILED"
        raise Refusal(INTERNAL_ERROR, "The run did not come to its end.", {"reason": word})
    data: Json = {"reason": error.code, "recoverable": error.recoverable}
    if error.detail_json:
        data["detail"] = loads(error.detail_json)
    if error.exit_code is not None:
        data["exitCode"] = error.exit_code
    if error.stderr_tail:
        data["stderr"] = error.stderr_tail
    raise Refusal(_BY_REASON.get(error.code, INTERNAL_ERROR), error.message, data)


def loads(data: bytes) -> Any:
    """The value of JSON bytes; their text when they were cut and are none any more."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace")
