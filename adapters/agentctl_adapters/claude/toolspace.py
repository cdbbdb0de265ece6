"""Owns the tools that Claude Code says it has, from `system/init` before each turn. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from agentctl.core.toolspace import ToolOffer, unlisted
from agentctl.core.words import ToolKind, ToolSource
from agentctl_adapters.claude.tools import kind_of

# It lists the tool under the old name, and calls it by the new one.
_CALLED = {"Task": "Agent"}
_PLUGIN = "plugin_"
"""What the names of the servers that plugins bring begin with."""


def offers_of(names: Sequence[str]) -> list[ToolOffer]:
    """Tools of MCP servers are called `mcp__server__tool`; their schemas are not told."""
    found: list[ToolOffer] = []
    for name in names:
        kind = kind_of(name)
        known = None if kind is ToolKind.OTHER else kind
        offer = unlisted(_CALLED.get(name, name), known)
        if offer.server.startswith(_PLUGIN):
            offer = replace(offer, source=ToolSource.PLUGIN)
        found.append(offer)
    return found
