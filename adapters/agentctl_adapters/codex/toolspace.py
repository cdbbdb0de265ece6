"""Owns the tools that Codex tells of: those of its MCP servers. Its own it names nowhere. Pure."""

from agentctl.core.toolspace import ToolOffer
from agentctl.core.words import ToolAccess, ToolKind, ToolSource
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text


def offers_of(result: Json) -> list[ToolOffer]:
    """The answer to mcpServerStatus/list."""
    found: list[ToolOffer] = []
    for server in as_objects(result.get("data")):
        name, plugin = as_text(server.get("name")), as_text(server.get("pluginId"))
        tools = (as_object(tool) for tool in as_object(server.get("tools")).values())
        found += [offer for tool in tools if (offer := _offer(name, plugin, tool))]
    return found


def _offer(server: str, plugin: str, tool: Json) -> ToolOffer | None:
    own = as_text(tool.get("name"))
    if not own:
        return None
    reads = as_object(tool.get("annotations")).get("readOnlyHint") is True
    return ToolOffer(
        f"mcp__{server}__{own}",
        ToolSource.PLUGIN if plugin else ToolSource.MCP,
        ToolKind.MCP,
        title=as_text(tool.get("title")),
        description=as_text(tool.get("description")),
        server=plugin or server,
        input_schema=as_object(tool.get("inputSchema")) or None,
        access=ToolAccess.READ_ONLY if reads else None,
    )
