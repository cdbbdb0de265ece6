"""Owns what a live app-server tells of itself once: its models, and what its user has configured."""

import logging

import anyio

from agentctl.core.errors import AgentctlError
from agentctl.core.spec import Entry
from agentctl_adapters.codex.calls import Calls
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

logger = logging.getLogger(__name__)

# Answered from a bundled list and one file; without them a session still works.
LOOK_TIMEOUT_S = 15.0
MAX_PAGES = 200
_CHOSEN = ("sandbox_mode", "approval_policy", "default_permissions")


class Known:
    """`models` are the names that the bundled list has, hidden ones included."""

    def __init__(self, entry: Entry, calls: Calls) -> None:
        self._entry = entry
        self._calls = calls
        self.models: list[str] = []
        self.default_mode = ""
        self.network = False
        """Whether commands of the workspace's sandbox may reach the network, by its user's choice."""

    async def look(self) -> None:
        """Asks for what a session may need later; what it does not get is left as it was."""
        try:
            with anyio.move_on_after(LOOK_TIMEOUT_S):
                rows = await self.pages("model/list", {"includeHidden": True})
                self.models = [as_text(row.get("model")) for row in rows]
                await self._read_config()
        except AgentctlError as error:
            logger.debug("%s does not tell all of itself: %s", self._entry.id, error)

    async def pages(self, method: str, asked: Json) -> list[Json]:
        """All rows of a list; one that pages for ever is not followed."""
        found: list[Json] = []
        for _ in range(MAX_PAGES):
            result = await self._calls.call(method, asked)
            found += as_objects(result.get("data"))
            cursor = as_text(result.get("nextCursor"))
            if not cursor or cursor == asked.get("cursor"):
                break
            asked = {**asked, "cursor": cursor}
        return found

    async def _read_config(self) -> None:
        """Where its user has chosen no sandbox Codex would only read: the entry names the mode."""
        result = await self._calls.call("config/read", {})
        config = as_object(result.get("config"))
        workspace = as_object(config.get("sandbox_workspace_write"))
        self.network = workspace.get("network_access") is True
        if not any(config.get(name) for name in _CHOSEN):
            self.default_mode = as_text(self._entry.protocol_config.get("default_mode"))
