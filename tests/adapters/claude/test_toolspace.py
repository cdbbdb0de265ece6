"""The tools that Claude Code lists at the beginning of each turn."""

from agentctl_adapters.claude.toolspace import offers_of


def test_names_say_server_and_kind() -> None:
    found = {offer.name: offer for offer in offers_of(["Task", "Bash", "mcp__gh__pr", "Skill"])}
    assert set(found) == {"Agent", "Bash", "mcp__gh__pr", "Skill"}
    assert found["Agent"].kind == "subagent" and found["Bash"].kind == "execute"
    assert (found["mcp__gh__pr"].source, found["mcp__gh__pr"].server) == ("mcp", "gh")
    (plugin,) = offers_of(["mcp__plugin_kit_db__query"])
    assert (plugin.source, plugin.server) == ("plugin", "plugin_kit_db")
    assert found["Skill"].kind is None and found["Skill"].source == "runtime"
