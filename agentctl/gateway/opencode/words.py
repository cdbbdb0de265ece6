"""Owns the tables between our words and OpenCode's: tools, states, permissions, errors. Pure."""

from typing import Any

Json = dict[str, Any]

STATES = {
    "pending": "pending",
    "awaiting_approval": "running",
    "running": "running",
    "completed": "completed",
    "failed": "error",
    "cancelled": "error",
}
"""Our status of a tool: OpenCode's. A tool that waits for leave is shown with its arguments."""

TOOLS = {"execute": "bash", "read": "read", "edit": "edit", "fetch": "webfetch"}
"""Kinds whose tools clients draw in a way of their own, and the names by which they know them."""

PERMISSIONS = {
    "read": "read",
    "edit": "edit",
    "delete": "edit",
    "move": "edit",
    "search": "grep",
    "execute": "bash",
    "fetch": "webfetch",
    "subagent": "task",
}
"""Kind of a tool: the permission that is asked for."""

KINDS = {
    "read": "read",
    "edit": "edit",
    "write": "edit",
    "bash": "execute",
    "grep": "search",
    "glob": "search",
    "webfetch": "fetch",
    "websearch": "fetch",
    "task": "subagent",
}
"""The other way, for the rules that a client gives a session."""

_DRAWN = frozenset(
    {"bash", "read", "edit", "write", "glob", "grep", "webfetch", "websearch", "list"}
)
_NAMED = frozenset({"todowrite", "todoread", "task", "question", "apply_patch", "skill"})
_FINISHES = {"max_tokens": "length", "length": "length", "refusal": "content-filter"}
_API_ERRORS = frozenset({"MODEL_ERROR", "RATE_LIMITED"})


def tool_name(name: str, kind: str) -> str:
    """The name under which a client draws a tool: OpenCode's where it has one for it, else its own."""
    lower = name.lower()
    if lower in _DRAWN or lower in _NAMED:
        return lower
    return TOOLS.get(kind) or name or kind or "tool"


def permission_name(name: str, kind: str, asked: str) -> str:
    """What leave is asked for, in OpenCode's word."""
    lower = name.lower()
    if lower in _DRAWN:
        return "edit" if lower == "write" else lower
    if "websearch" in lower or (kind == "fetch" and lower.endswith("search")):
        return "websearch"
    if "skill" in lower:
        return "skill"
    if "glob" in lower:
        return "glob"
    return PERMISSIONS.get(kind) or lower or asked or "tool"


def run_error(outcome: str, error: Json, provider: str) -> Json | None:
    """Why a run did not complete, as the error of its message; None when it did."""
    message = str(error.get("message") or "")
    match outcome:
        case "completed":
            return None
        case "cancelled":
            return {"name": "MessageAbortedError", "data": {"message": message or "Aborted"}}
        case "timed_out":
            words = message or "The run took longer than its limit."
            return {"name": "UnknownError", "data": {"message": words}}
        case _:
            return session_error(str(error.get("code") or ""), message, provider, error)


def session_error(code: str, message: str, provider: str, error: Json) -> Json:
    """An error of ours in OpenCode's kinds."""
    words = message or "The agent failed and did not say why."
    if code == "AUTH_REQUIRED":
        return {"name": "ProviderAuthError", "data": {"providerID": provider, "message": words}}
    if code in _API_ERRORS:
        again = bool(error.get("recoverable"))
        return {"name": "APIError", "data": {"message": words, "isRetryable": again}}
    return {"name": "UnknownError", "data": {"message": words}}


def finish(stop_reason: str) -> str:
    """Why a model stopped, in the words that clients know."""
    return _FINISHES.get(stop_reason, "stop")


def tokens(usage: Json | None, used: int | None = None) -> Json:
    """Token counts; with `used` they sum up to it, since clients show their sum as the context."""
    told = usage or {}
    out = int(told.get("output") or 0)
    reasoning = int(told.get("reasoning") or 0)
    read, write = int(told.get("cache_read") or 0), int(told.get("cache_write") or 0)
    given = int(told.get("input") or 0)
    if used is not None:
        given = max(0, used - out - reasoning - read - write)
    cache = {"read": read, "write": write}
    return {"input": given, "output": out, "reasoning": reasoning, "cache": cache}
