"""Owns one server as the tool knows it: its name, whether it is wanted and connected, its client.

It refuses to know how it is reached and which others there are.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import anyio

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import NotFound
from agentctl.gateway.tool import probe
from agentctl.gateway.tool.config import is_http
from agentctl.gateway.tool.errors import ToolError

OPENCODE = "opencode"
"""The entry of sessions on an OpenCode URL."""

LABEL = "agentctl.tool.url"
"""A session on an OpenCode URL carries it as a label, so that it is known again."""


@dataclass(slots=True)
class Instance:
    """One server. `wanted`: connected, or to be connected when it is needed."""

    name: str
    url: str
    token: str = ""
    default: bool = False
    wanted: bool = False
    up: bool = False
    lost: bool = False
    problem: ToolError | None = None
    tried_at: float = -math.inf
    found: probe.Found = field(default_factory=probe.Found)
    held: AgentCtl | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def client(self) -> AgentCtl:
        assert self.held is not None
        return self.held

    @property
    def http(self) -> bool:
        return is_http(self.url)

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.url} if self.http else {}


def one_each(instances: Iterable[Instance]) -> list[Instance]:
    """One instance of each daemon."""
    return list({id(each.held): each for each in instances}.values())


async def session_of(instance: Instance, session_id: str) -> v1.Session | None:
    try:
        return await instance.client.sessions.get(session_id)
    except NotFound:
        return None


def not_connected(name: str, why: str, *, cause: str = "") -> ToolError:
    what = f"Instance {name} is not connected" if name else "Nothing is connected"
    details = {key: value for key, value in (("instance", name), ("cause", cause)) if value}
    message = f"{what}: {why.rstrip('.')}. Use connect."
    return ToolError("INSTANCE_NOT_CONNECTED", message, details)
