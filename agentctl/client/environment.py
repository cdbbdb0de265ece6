"""Owns an environment and a background task as an app sees them."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from agentctl.client.event import Event
from agentctl.client.results import EnvironmentInfo, environment_info

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl


class Environment:
    """A place where agents run: `local`, `worktree` …; it is made with a session and goes with it."""

    def __init__(self, client: "AgentCtl", name: str) -> None:
        self._client = client
        self.id = name

    async def status(self) -> EnvironmentInfo:
        """What it can, and whether it can be used here; INVALID_PARAMETERS for an unknown name."""
        return environment_info(await self._client.environments.status(self.id))

    async def create(self, config: Mapping[str, Any] | None = None) -> EnvironmentInfo:
        """Raises Unsupported: name it in `agent.run(environment=…)` instead."""
        made = await self._client.environments.create(self.id, orjson.dumps(dict(config or {})))
        return environment_info(made)

    async def delete(self) -> None:
        """Raises Unsupported: it goes with its session."""
        await self._client.environments.delete(self.id)

    def __repr__(self) -> str:
        return f"Environment({self.id!r})"


class Task:
    """A background task by its id. No daemon serves tasks: every call raises Unsupported."""

    def __init__(self, client: "AgentCtl", task_id: str) -> None:
        self._client = client
        self.id = task_id

    async def status(self) -> str:
        return str((await self._client.tasks.get(self.id)).status)

    async def cancel(self) -> None:
        await self._client.tasks.cancel(self.id)

    async def events(self, after: str = "") -> AsyncIterator[Event]:
        async for batch in self._client.tasks.events(self.id, after=after):
            for event in batch.events:
                yield Event(event)

    def __repr__(self) -> str:
        return f"Task({self.id!r})"
