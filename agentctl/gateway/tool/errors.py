"""Owns the tool's error codes: which reason of ours becomes which code, and the shape of a refusal.

It refuses to know who raised what.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agentctl.core.errors import AgentctlError

Json = dict[str, Any]

CODES: Mapping[str, str] = {
    "AGENT_NOT_FOUND": "INVALID_PARAMETERS",
    "SESSION_NOT_FOUND": "SESSION_NOT_FOUND",
    "RUN_NOT_FOUND": "INVALID_PARAMETERS",
    "APPROVAL_NOT_FOUND": "INVALID_PARAMETERS",
    "QUESTION_NOT_FOUND": "INVALID_PARAMETERS",
    "ARTIFACT_NOT_FOUND": "INVALID_PARAMETERS",
    "PROJECT_NOT_FOUND": "PROJECT_NOT_FOUND",
    "INVALID_PARAMETERS": "INVALID_PARAMETERS",
    "INVALID_MODEL": "INVALID_MODEL",
    "INVALID_CURSOR": "INVALID_PARAMETERS",
    "REGISTRY_INVALID": "SERVER_ERROR",
    "OPTION_NOT_OFFERED": "INVALID_PARAMETERS",
    "AGENT_NOT_INSTALLED": "SERVER_ERROR",
    "AGENT_DISABLED": "INVALID_PARAMETERS",
    "AUTH_REQUIRED": "PERMISSION_DENIED",
    "SESSION_BUSY": "SESSION_BUSY",
    "SESSION_CLOSED": "INVALID_PARAMETERS",
    "RUN_FINISHED": "INVALID_PARAMETERS",
    "ALREADY_RESOLVED": "INVALID_PARAMETERS",
    "INSTANCE_NOT_CONNECTED": "INSTANCE_NOT_CONNECTED",
    "SESSION_LIMIT": "SESSION_LIMIT",
    "QUEUE_FULL": "SESSION_BUSY",
    "DISK_FULL": "SERVER_ERROR",
    "IDEMPOTENCY_CONFLICT": "INVALID_PARAMETERS",
    "UNSUPPORTED": "INVALID_PARAMETERS",
    "TIMEOUT": "TIMEOUT",
    "AGENT_FAILED": "SERVER_ERROR",
    "SERVER_ERROR": "SERVER_ERROR",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
}
"""Our reason -> the tool's code. A reason that is not here is the server's: SERVER_ERROR."""

CONNECT_CODES: Mapping[str, str] = {
    "PERMISSION_DENIED": "AUTH_FAILED",
    "AUTH_REQUIRED": "AUTH_FAILED",
}
"""What differs while `connect` is asked: a refused token is told as such."""

PARAMETERS: Mapping[str, str] = {
    "AGENT_NOT_FOUND": "agent",
    "AGENT_DISABLED": "agent",
    "APPROVAL_NOT_FOUND": "request_id",
    "ALREADY_RESOLVED": "request_id",
    "OPTION_NOT_OFFERED": "request_id",
    "SESSION_CLOSED": "session_id",
}
"""The parameter that is wrong, where a reason says it."""


class ToolError(Exception):
    """A refusal with a code of the tool and a message for people."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Json = dict(details or {})

    def response(self) -> Json:
        """The standard error response."""
        error: Json = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = self.details
        return {"success": False, "error": error}


def invalid(message: str, *parameters: str, **details: Any) -> ToolError:
    """INVALID_PARAMETERS, naming the parameters that are wrong."""
    named: Sequence[str] = list(parameters)
    return ToolError("INVALID_PARAMETERS", message, {"parameters": named, **details})


def away(error: AgentctlError) -> str:
    """What is said of a daemon that does not answer, without what gRPC says of a socket."""
    address = error.metadata.get("address", "")
    if not address:
        return error.message
    return f"No daemon answers at {address}: start one with `agentctl up`."


def refusal(error: AgentctlError, *, connecting: bool = False) -> ToolError:
    """The tool's word for an error of ours; `details.reason` keeps our own where it differs."""
    code = CODES.get(error.reason, "SERVER_ERROR")
    if connecting:
        code = CONNECT_CODES.get(error.reason, code)
    details: Json = dict(error.metadata)
    if code != error.reason:
        details["reason"] = error.reason
    if code == "INVALID_PARAMETERS":
        named = PARAMETERS.get(error.reason) or details.get("field")
        details["parameters"] = [named] if named else []
    return ToolError(code, error.message, details)
