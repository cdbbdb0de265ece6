"""Owns the calls of Daemon, Agents, Registry and Models in Python's terms.

Every method raises AgentctlError.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import orjson

from agentctl import v1
from agentctl.client.channel import Connection


class Daemon:
    """The daemon itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get_info(self, *, timeout_s: float | None = None) -> v1.GetInfoResponse:
        """Version, journal, counts and capabilities; `timeout_s` bounds a try to reach it."""
        return await self._connection.unary(
            "Daemon/GetInfo", v1.GetInfoRequest(), v1.GetInfoResponse, timeout_s=timeout_s
        )


class Agents:
    """Running processes of agents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def start(self, entry_id: str, *, workspace: str | None = None) -> v1.Agent:
        request = v1.StartAgentRequest(entry_id=entry_id, workspace=workspace)
        return await self._connection.unary("Agents/Start", request, v1.Agent)

    async def stop(
        self, agent_id: str = "", *, force: bool = False, stop_all: bool = False
    ) -> v1.StopAgentResponse:
        """Stops one process, or with `stop_all` every one; nothing of them is left then."""
        request = v1.StopAgentRequest(agent_id=agent_id, force=force, all=stop_all)
        return await self._connection.unary("Agents/Stop", request, v1.StopAgentResponse)

    async def restart(self, agent_id: str) -> v1.Agent:
        request = v1.RestartAgentRequest(agent_id=agent_id)
        return await self._connection.unary("Agents/Restart", request, v1.Agent)

    async def get(self, agent_id: str) -> v1.Agent:
        """A process by its `agt_` id; or of an entry: its newest, or the entry without one."""
        if agent_id.startswith("agt_"):
            request = v1.GetAgentRequest(agent_id=agent_id)
            return await self._connection.unary("Agents/Get", request, v1.Agent)
        entry = await self._connection.unary(
            "Registry/Get", v1.GetEntryRequest(entry_id=agent_id), v1.Entry
        )
        running = [each for each in (await self.list()).agents if each.entry_id == entry.entry_id]
        return max(
            running,
            key=lambda each: each.started_at,
            default=v1.Agent(entry_id=entry.entry_id, name=entry.display_name),
        )

    async def create(self, entry: Mapping[str, Any]) -> v1.Entry:
        """Adds an entry to the registry; refused (REGISTRY_INVALID) when its `id` exists."""
        request = v1.PutEntryRequest(entry_json=orjson.dumps(dict(entry)), create_only=True)
        return await self._connection.unary("Registry/Put", request, v1.Entry)

    async def update(self, entry_id: str, changes: Mapping[str, Any]) -> v1.Entry:
        """Changes fields of an entry; what is left out keeps its value."""
        whole = {**changes, "id": entry_id}
        request = v1.PutEntryRequest(entry_json=orjson.dumps(whole))
        return await self._connection.unary("Registry/Put", request, v1.Entry)

    async def list(
        self,
        *,
        include_exited: bool = False,
        known: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListAgentsResponse:
        """Processes; with `known` also the entries of which none runs, without an agent_id."""
        told = await self._list(include_exited, page_size, page_token)
        if known and not told.next_page_token:
            listed = await self._connection.unary(
                "Registry/List", v1.ListEntriesRequest(page_size=1000), v1.ListEntriesResponse
            )
            running = {each.entry_id for each in told.agents}
            told.agents.extend(
                v1.Agent(entry_id=each.entry_id, name=each.display_name)
                for each in listed.entries
                if each.entry_id not in running
            )
        return told

    async def _list(
        self, include_exited: bool, page_size: int, page_token: str
    ) -> v1.ListAgentsResponse:
        request = v1.ListAgentsRequest(
            include_exited=include_exited, page_size=page_size, page_token=page_token
        )
        return await self._connection.unary("Agents/List", request, v1.ListAgentsResponse)

    async def auth_methods(self, agent: str) -> v1.AuthMethodsResponse:
        request = v1.AuthMethodsRequest(agent=agent)
        return await self._connection.unary("Agents/AuthMethods", request, v1.AuthMethodsResponse)

    async def authenticate(self, agent: str, method: str) -> v1.AuthenticateResponse:
        request = v1.AuthenticateRequest(agent=agent, method=method)
        return await self._connection.unary("Agents/Authenticate", request, v1.AuthenticateResponse)


class Registry:
    """The agents that agents.json knows."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, *, enabled_only: bool = False, page_size: int = 0, page_token: str = ""
    ) -> v1.ListEntriesResponse:
        request = v1.ListEntriesRequest(
            enabled_only=enabled_only, page_size=page_size, page_token=page_token
        )
        return await self._connection.unary("Registry/List", request, v1.ListEntriesResponse)

    async def get(self, entry_id: str) -> v1.Entry:
        request = v1.GetEntryRequest(entry_id=entry_id)
        return await self._connection.unary("Registry/Get", request, v1.Entry)

    async def put(self, entry_json: bytes, *, create_only: bool = False) -> v1.Entry:
        """Adds or changes the entry whose `id` stands in the JSON object."""
        request = v1.PutEntryRequest(entry_json=entry_json, create_only=create_only)
        return await self._connection.unary("Registry/Put", request, v1.Entry)

    async def delete(self, entry_id: str) -> v1.DeleteEntryResponse:
        request = v1.DeleteEntryRequest(entry_id=entry_id)
        return await self._connection.unary("Registry/Delete", request, v1.DeleteEntryResponse)

    async def enable(self, entry_id: str, enabled: bool = True) -> v1.Entry:
        request = v1.EnableEntryRequest(entry_id=entry_id, enabled=enabled)
        return await self._connection.unary("Registry/Enable", request, v1.Entry)

    async def validate(self, document_json: bytes | None = None) -> v1.ValidateResponse:
        """Checks a whole agents.json or one entry; None checks the files in force."""
        request = v1.ValidateRequest(document_json=document_json)
        return await self._connection.unary("Registry/Validate", request, v1.ValidateResponse)

    async def discover(self, entry_ids: Sequence[str] = ()) -> v1.DiscoverResponse:
        request = v1.DiscoverRequest(entry_ids=entry_ids)
        return await self._connection.unary("Registry/Discover", request, v1.DiscoverResponse)

    def watch(self) -> AsyncIterator[v1.RegistrySnapshot]:
        """The registry now, and again after each change."""
        return self._connection.stream(
            "Registry/Watch", v1.WatchRegistryRequest(), v1.RegistrySnapshot
        )


class Models:
    """The models that agents offer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        agent: str = "",
        session_id: str = "",
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListModelsResponse:
        request = v1.ListModelsRequest(
            agent=agent, session_id=session_id, page_size=page_size, page_token=page_token
        )
        return await self._connection.unary("Models/List", request, v1.ListModelsResponse)

    async def status(self, entry_ids: Sequence[str] = ()) -> v1.AuthStatusResponse:
        """Which agents are logged in; the same as `auth_status`."""
        return await self.auth_status(entry_ids)

    async def auth_status(self, entry_ids: Sequence[str] = ()) -> v1.AuthStatusResponse:
        request = v1.AuthStatusRequest(entry_ids=entry_ids)
        return await self._connection.unary("Models/AuthStatus", request, v1.AuthStatusResponse)
