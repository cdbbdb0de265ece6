"""Owns what a client is told before it has a session: the agent, its logins, what the daemon can."""

import logging
from collections.abc import Sequence

import anyio

from agentctl import v1
from agentctl.core.adapter import Feature
from agentctl.core.errors import AgentctlError, NotFound
from agentctl.core.parts import Choice
from agentctl.gateway.acp.errors import Json
from agentctl.gateway.acp.host import Host

logger = logging.getLogger(__name__)

# An agent may have to be started to name its logins; a client that waits for its handshake gives up
# after some ten seconds, and the logins are only wanted when a session is refused.
LOGINS_S = 8.0


class Facts:
    """About the agent that sessions of this client have unless it chooses another."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._entry: v1.Entry | None = None
        self._offered: frozenset[str] = frozenset()
        self._features: frozenset[str] | None = None
        self.auth_methods: list[Json] = []

    async def learn(self) -> "Facts":
        """Asks the daemon.

        Raises:
            AgentctlError: there is no such entry, or no daemon.
        """
        client = self._host.client
        info = await client.daemon.get_info()
        self._offered = frozenset(info.capabilities)
        entry_id = await self.entry_id()
        self.auth_methods = await self._logins(entry_id)
        agents = (await client.agents.list(include_exited=True)).agents
        known = [each for each in agents if each.entry_id == entry_id and each.features]
        if known:
            self._features = frozenset(known[0].features)
        return self

    @property
    def title(self) -> str:
        entry = self._entry
        return f"{entry.display_name or entry.entry_id} (agentctl)" if entry else "agentctl"

    async def entry_id(self) -> str:
        """--agent, else the daemon's default, else the first that is installed, logged in if any is."""
        if self._entry is None:
            self._entry = await self._find()
        return self._entry.entry_id

    async def _find(self) -> v1.Entry:
        client = self._host.client
        if self._host.choices.agent:
            return await client.registry.get(self._host.choices.agent)
        default = (await client.daemon.get_info()).settings.get("default_agent")
        if default:
            return await client.registry.get(default)
        entries = (await client.registry.list(enabled_only=True)).entries
        found = (await client.registry.discover()).agents
        ready = {each.entry_id: each.authenticated for each in found if each.installed}
        installed = [each for each in entries if each.entry_id in ready]
        for entry in (*(each for each in installed if ready[each.entry_id]), *installed):
            return entry
        raise NotFound(
            "No agent is installed: `agentctl doctor` says how to get one.",
            reason="AGENT_NOT_FOUND",
        )

    async def choices(self) -> Sequence[Choice]:
        """The entries that a session may have."""
        entries = (await self._host.client.registry.list(enabled_only=True)).entries
        return [
            Choice(each.entry_id, each.display_name or None, each.description or None)
            for each in entries
        ]

    async def _logins(self, entry_id: str) -> list[Json]:
        """The agent's own logins; none where it is logged in and no process of it has told them."""
        client = self._host.client
        try:
            with anyio.move_on_after(LOGINS_S):
                agents = (await client.agents.list()).agents
                told = [each.auth_methods for each in agents if each.entry_id == entry_id]
                if told:
                    return _methods(told[0])
                states = (await client.models.auth_status([entry_id])).agents
                if not any(each.authenticated for each in states):
                    return _methods((await client.agents.auth_methods(entry_id)).methods)
        except AgentctlError as error:
            logger.info("the logins of %s are not known: %s", entry_id, error)
        return []

    def capabilities(self) -> Json:
        sessions: Json = {}
        for word in ("list", "resume", "fork", "close", "delete"):
            if f"sessions.{word}" in self._offered:
                sessions[word] = {}
        if not self._can(Feature.FORK):
            sessions.pop("fork", None)
        if self._can(Feature.ADDITIONAL_DIRECTORIES):
            sessions["additionalDirectories"] = {}
        return {
            "loadSession": "sessions.messages" in self._offered,
            "promptCapabilities": {
                "image": self._can(Feature.IMAGE),
                "audio": self._can(Feature.AUDIO, unknown=False),
                "embeddedContext": True,
            },
            "mcpCapabilities": {
                "http": self._can(Feature.MCP_HTTP),
                "sse": self._can(Feature.MCP_SSE),
            },
            "sessionCapabilities": sessions,
        }

    def _can(self, feature: str, *, unknown: bool = True) -> bool:
        """Whether the agent can; where it was never started, or may be changed, what most can."""
        if self._features is None or not self._host.choices.agent:
            return unknown
        return feature in self._features


def _methods(choices: Sequence[v1.Choice]) -> list[Json]:
    made: list[Json] = []
    for each in choices:
        row: Json = {"id": each.id, "name": each.name or each.id}
        made.append(row | {"description": each.description} if each.description else row)
    return made
