"""Owns what the sessions of one client share: the daemon, the client's wire, its capabilities."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from agentctl.client import AgentCtl, Unreachable
from agentctl.gateway.acp.errors import Json
from agentctl.gateway.acp.params import as_object
from agentctl.gateway.acp.wire import Wire
from agentctl.transport.jsonrpc import Peer

T = TypeVar("T")

# A daemon that restarts is back within seconds; a client is not kept waiting for one that is gone.
AWAY_S = 60.0
FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 2.0


async def _no_env(_client: AgentCtl, _entry: str) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user of the command chose.

    Args:
        agent: the entry that every session has; "" lets the client choose before its first prompt.
        policy: ask, allow or deny; "" is the daemon's default.
        close_on_exit: close the sessions that were made here when the client leaves.
        env: the variables of the caller that an entry asks for.
        revive: starts the daemon again when it is away.
    """

    agent: str = ""
    policy: str = ""
    close_on_exit: bool = False
    env: Callable[[AgentCtl, str], Awaitable[dict[str, str]]] = _no_env
    revive: Callable[[], Awaitable[None]] | None = None


@dataclass(slots=True)
class Host:
    """One client's side of things."""

    client: AgentCtl
    wire: Wire
    group: TaskGroup
    choices: Choices
    capabilities: Json = field(default_factory=dict[str, Any])
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set when the client cannot be written to any more."""

    @property
    def peer(self) -> Peer:
        return self.wire.peer

    def can_ask(self, kind: str) -> bool:
        """Whether the client shows an elicitation of this kind: form or url."""
        return as_object(self.capabilities.get("elicitation")).get(kind) is not None

    @property
    def booleans(self) -> bool:
        session = as_object(self.capabilities.get("session"))
        return as_object(session.get("configOptions")).get("boolean") is not None

    async def lasting(self, call: Callable[[], Awaitable[T]]) -> T:
        """Makes a call that may be made twice; waits for a daemon that restarts meanwhile.

        Raises:
            AgentctlError: what it raised, or that the daemon stayed away.
        """
        pause = FIRST_PAUSE_S
        deadline = anyio.current_time() + AWAY_S
        while True:
            try:
                return await call()
            except Unreachable:
                if anyio.current_time() > deadline:
                    raise
            if self.choices.revive is not None:
                await self.choices.revive()
            await anyio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)
