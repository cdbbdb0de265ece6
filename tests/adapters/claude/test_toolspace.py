"""The tools that Claude Code lists at the beginning of each turn."""

from pathlib import Path

import pytest

from agentctl_adapters.claude.toolspace import offers_of
from tests.adapters.claude.claude_harness import Seen, faulty, say, spec


def test_names_say_server_and_kind() -> None:
    found = {offer.name: offer for offer in offers_of(["Task", "Bash", "mcp__gh__pr", "Skill"])}
    assert set(found) == {"Agent", "Bash", "mcp__gh__pr", "Skill"}
    assert found["Agent"].kind == "subagent" and found["Bash"].kind == "execute"
    assert (found["mcp__gh__pr"].source, found["mcp__gh__pr"].server) == ("mcp", "gh")
    (plugin,) = offers_of(["mcp__plugin_kit_db__query"])
    assert (plugin.source, plugin.server) == ("plugin", "plugin_kit_db")
    assert found["Skill"].kind is None and found["Skill"].source == "runtime"


@pytest.mark.anyio
async def test_they_are_known_from_the_first_prompt_on(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        assert await connection.tools(native) is None
        await say(connection, seen, native, "say one")
        told = await connection.tools(native)
    assert told and [tool.name for tool in told] == ["Bash", "mcp__gh__pr"]
