"""Owns what one tool holds together: configuration, servers, open streams; and one call of it.

It refuses to know what the actions do.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentctl import v1
from agentctl.gateway.tool.config import ToolConfig
from agentctl.gateway.tool.feed import Feed
from agentctl.gateway.tool.instance import Instance
from agentctl.gateway.tool.instances import Instances

Json = dict[str, Any]
Attach = Callable[[str], Awaitable[bool]]
"""Begins to show a session's events to the caller; whether they really are shown."""


@dataclass(slots=True)
class House:
    config: ToolConfig
    instances: Instances
    feeds: list[Feed] = field(default_factory=list[Feed])

    def heard(self, session_id: str) -> bool:
        """Whether an open stream shows the events of a session."""
        return any(each.hears(session_id) for each in self.feeds)


@dataclass(frozen=True, slots=True)
class Ask:
    """One call: its parameters, its own idempotency key, and until when it is waited for."""

    house: House
    args: Mapping[str, Any]
    key: str
    deadline: float
    attach: Attach | None = None

    @property
    def instances(self) -> Instances:
        return self.house.instances

    @property
    def left_ms(self) -> int:
        """What is left of the time, less what the answer needs to travel."""
        return max(int((self.deadline - anyio.current_time()) * 1000) - TRAVEL_MS, 1)

    async def session(self, *, adopt: bool = False) -> tuple[Instance, v1.Session]:
        """The session that the call names, and whose it is; see `Instances.of_session`."""
        return await self.instances.of_session(self.args["session_id"], adopt=adopt)


# The daemon's own limit comes just before ours, so that it is the one that says what happened.
TRAVEL_MS = 100
