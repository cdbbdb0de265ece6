"""Owns what a client is told when something is wrong: a status and a JSON object. Knows no route."""

from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    CallerError,
    Conflict,
    Exhausted,
    Forbidden,
    NotFound,
    Refused,
    TimedOut,
    Unauthenticated,
)
from agentctl.gateway.opencode.words import Json

_STATUS: tuple[tuple[type[AgentctlError], int], ...] = (
    (NotFound, 404),
    (Refused, 409),
    (Conflict, 409),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (CallerError, 400),
    (Exhausted, 429),
    (TimedOut, 504),
    (AgentFailed, 502),
)


class HttpError(Exception):
    """Ends a request with this status and this body."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(str(body))
        self.status = status
        self.body = body


def plain(status: int, message: str) -> HttpError:
    return HttpError(status, {"error": message})


def no_session() -> HttpError:
    return plain(404, "Session not found")


def no_message() -> HttpError:
    return plain(404, "Message not found")


def _missing(tag: str, key: str, own: str, what: str) -> HttpError:
    return HttpError(404, {"_tag": tag, key: own, "message": f"{what} not found: {own}"})


def no_permission(own: str) -> HttpError:
    return _missing("PermissionNotFoundError", "requestID", own, "Permission request")


def no_question(own: str) -> HttpError:
    return _missing("QuestionNotFoundError", "requestID", own, "Question request")


def no_mcp_server(name: str) -> HttpError:
    return _missing("McpServerNotFoundError", "name", name, "MCP server")


def of_daemon(error: AgentctlError) -> HttpError:
    """What the daemon said, for a client of HTTP."""
    if error.reason == "SESSION_NOT_FOUND":
        return no_session()
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 503)
    return HttpError(status, {"error": error.message, "reason": error.reason})
