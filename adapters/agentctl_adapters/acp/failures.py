"""Owns how an ACP agent's refusals and deaths are worded for the caller. Pure.

Says what happened, to which agent, and what to do next. Knows no pipe.
"""

import shlex
from collections.abc import Sequence

import orjson

from agentctl.core.adapter import Launch
from agentctl.core.errors import AgentctlError, AgentFailed, Invalid, NotFound, Refused, Unsupported
from agentctl.transport.jsonrpc import RpcError
from agentctl_adapters.acp.handshake import AuthMethod
from agentctl_adapters.common.failures import (
    Death,
    command_line,
    facts,
    quoted,
)
from agentctl_adapters.common.shapes import as_object

METHOD_NOT_FOUND, BAD_PARAMS, INTERNAL_ERROR, REQUEST_CANCELLED = -32601, -32602, -32603, -32800
AUTH_REQUIRED, NOT_FOUND = -32000, -32002

_KEY_NAMES = ("_API_KEY", "_TOKEN", "_AUTH_TOKEN", "_SESSION_AUTH")


def wrong_version(launch: Launch, answered: object, version: str) -> AgentFailed:
    spoken = "no protocol version" if answered is None else f"ACP version {answered!r}"
    return AgentFailed(
        f"{launch.entry.id} {version} speaks {quoted(spoken)}, agentctl speaks ACP version 1:"
        f" install a version of the agent that does (command: {command_line(launch)})",
        metadata=facts(launch, Death(), version),
    )


def auth_required(launch: Launch, methods: Sequence[AuthMethod], said: str) -> Refused:
    """Refused AUTH_REQUIRED that names each way to log in and what to type."""
    ways = [_way(launch.entry.id, method) for method in methods]
    keys = [
        name
        for name in (*launch.entry.required_env, *launch.entry.env_passthrough)
        if name.endswith(_KEY_NAMES)
    ]
    if keys:
        ways.append(f"set {' or '.join(keys[:3])}")
    advice = "; or ".join(ways[:5]) or "log in with the agent's own program"
    return Refused(
        f"{launch.entry.id} is not logged in ({quoted(said, 120)}): {quoted(advice, 600)}",
        reason="AUTH_REQUIRED",
        metadata={"entry": launch.entry.id, "methods": ",".join(m.id for m in methods)},
    )


def _way(entry: str, method: AuthMethod) -> str:
    if method.run:
        return f"type `{shlex.join(method.run)}` in a terminal"
    name = f" ({method.name})" if method.name else ""
    return f"type `agentctl auth {entry} {method.id}`{name}"


def refusal(entry: str, method: str, error: RpcError) -> AgentctlError:
    """What an error answer means to the caller; -32000 is not handled here."""
    metadata = {"entry": entry, "method": method, "code": str(error.code)}
    said = words_of(error)
    if error.code == METHOD_NOT_FOUND:
        return Unsupported(f"{entry} cannot do this: it does not know {method}", metadata=metadata)
    if error.code == NOT_FOUND:
        return NotFound(f"{entry} answered {method}: {said}", metadata=metadata)
    if error.code == BAD_PARAMS:
        return Invalid(f"{entry} refused {method}: {said}", metadata=metadata)
    return AgentFailed(
        f"{entry} answered {method} with error {error.code}: {said}", metadata=metadata
    )


def words_of(error: RpcError) -> str:
    """The agent's message and, where it keeps the reason in `data`, that too."""
    data = as_object(error.data)
    detail = data.get("details") or data.get("message") or data.get("reason")
    if detail is None and error.data is not None and error.code != METHOD_NOT_FOUND:
        detail = orjson.dumps(error.data, default=str).decode()
    parts = [error.message or "no message", *([str(detail)] if detail else [])]
    return quoted(": ".join(dict.fromkeys(parts)))
