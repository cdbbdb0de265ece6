"""Owns the tools that an OpenCode server says it has: with schemas for a model, else their names.

Tools of MCP servers stand in neither list. What a server lacks leaves the tools unknown.
"""

from collections.abc import Sequence
from typing import Any, cast

from agentctl.core.ids import NativeSessionId
from agentctl.core.toolspace import ToolOffer
from agentctl.core.words import ToolSource
from agentctl_adapters.opencode.host import Host
from agentctl_adapters.opencode.shapes import as_object, as_objects, as_text
from agentctl_adapters.opencode.tools import INVALID, KINDS


class ToolCalls:
    """A part of the connection; `_host` is set by it."""

    _host: Host

    async def tools(self, native: NativeSessionId) -> Sequence[ToolOffer] | None:
        """As the model of the session is given them; None where the server has no such list."""
        session = self._host.session(native)
        offer = self._host.catalog.known(session.directory)
        model = session.chosen.model or offer.default_model
        provider, _, name = model.partition("/")
        how: dict[str, Any] = {"directory": session.directory, "quiet": True}
        if name:
            query = {"provider": provider, "model": name}
            answer = await self._host.api.call("GET", "/experimental/tool", query=query, **how)
            if answer.ok and (rows := offers_of(answer.body)):
                return rows
        answer = await self._host.api.call("GET", "/experimental/tool/ids", **how)
        return (names_of(answer.body) or None) if answer.ok else None


def offers_of(body: object) -> list[ToolOffer]:
    """The answer to GET /experimental/tool."""
    return [
        ToolOffer(
            name,
            ToolSource.RUNTIME,
            KINDS.get(name),
            description=as_text(row.get("description")),
            input_schema=as_object(row.get("parameters")) or None,
            hidden=name == INVALID,
        )
        for row in as_objects(body)
        if (name := as_text(row.get("id")))
    ]


def names_of(body: object) -> list[ToolOffer]:
    """The answer to GET /experimental/tool/ids."""
    names = cast(list[Any], body) if isinstance(body, list) else []
    return [
        ToolOffer(name, ToolSource.RUNTIME, KINDS.get(name), hidden=name == INVALID)
        for name in names
        if isinstance(name, str) and name
    ]
