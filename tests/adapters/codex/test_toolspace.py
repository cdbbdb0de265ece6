"""The tools of MCP servers as Codex lists them."""

import pytest

from agentctl_adapters.codex.toolspace import offers_of
from tests.adapters.codex.harness import fake, running, spec


def test_tools_of_servers_and_plugins_come_with_schema_and_access() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    tools = {
        "echo": {"name": "echo", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
        "write": {"name": "write", "description": "Writes", "annotations": {"readOnlyHint": False}},
        "bad": {},
    }
    data = [
        {"name": "fake", "pluginId": None, "tools": tools},
        {"name": "p", "pluginId": "plug", "tools": {"t": {"name": "t", "title": "T"}}},
        {"name": "none"},
    ]
    echo, write, plugin = offers_of({"data": data, "nextCursor": None})
    assert (echo.name, echo.server, echo.access) == ("mcp__fake__echo", "fake", "read_only")
    assert echo.input_schema == schema and echo.source == "mcp"
    assert (write.description, write.access, write.input_schema) == ("Writes", None, None)
    assert (plugin.source, plugin.server, plugin.title) == ("plugin", "plug", "T")


def test_an_answer_of_another_shape_is_no_tool() -> None:
    assert offers_of({}) == [] and offers_of({"data": "x"}) == []


@pytest.mark.anyio
async def test_all_pages_are_asked_for() -> None:
    async with running(fake()) as (codex, seen):
        native = await codex.new_session(spec())
        told = await codex.tools(native)
        asked = seen.sent("mcpServerStatus/list")
    assert [tool.name for tool in told] == ["mcp__one__look", "mcp__two__look"]
    assert [each["threadId"] for each in asked] == [native, native]
