"""The tools of a session as each real agent tells them, or as it was seen to use them."""

import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.client import Tool
from tests.real.agents import AGENTS
from tests.real.harness import TURN_TIMEOUT_S
from tests.real.served import Served

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.proves("D5")]

MCP_SERVER = Path(__file__).parents[1] / "fakes/mcp_server.py"
SHELLS = {"gemini": "", "claude": "Bash", "codex": "", "opencode": "bash"}


async def tools(served: Served, script: Mapping[str, object], line: str) -> dict[str, Tool]:
    """What the session has after a turn that ran a command with leave."""
    server = v1.McpServer(name="fake", command=sys.executable, args=[str(MCP_SERVER)])
    session = await served.client.agent(served.entry).session(
        workspace=served.home.workspace, session={"mcp_servers": [server], **script}
    )
    with anyio.fail_after(TURN_TIMEOUT_S * 2):
        before = await session.tool_space()
        assert all(not tool.calls for tool in before)
        run = await session.send(line)
        run.on_approval(lambda request: request.approve_once())
        assert (await run.wait()).status == "completed"
        told = {tool.name: tool for tool in await run.tool_space()}
    await session.close()
    closed = {tool.name: tool for tool in await session.tool_space()}
    assert {name for name, tool in closed.items() if tool.calls} == {
        name for name, tool in told.items() if tool.calls
    }
    return told


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_tools_of_a_session_are_told_with_what_they_can_do(
    tmp_path: Path, agent: str
) -> None:
    real = AGENTS[agent]
    async with real.serving(tmp_path) as served:
        script = real.script(served.home)
        line = script.run("touch made.txt")
        told = await tools(served, script.create(), line.prompt)
        protocol = (await served.client.agent(served.entry).info()).protocol
    (shell,) = [tool for tool in told.values() if tool.calls]
    assert (shell.kind, shell.access, shell.source) == ("execute", "host", "runtime")
    assert shell.requires_approval is True and shell.runtimes == (protocol,)
    assert SHELLS[agent] in ("", shell.name)
    match agent:
        case "claude":
            assert {"Read", "Write", "Edit"} <= told.keys()
            assert told["Read"].access == "read_only" and told["Write"].access == "write"
            assert {tool.server for tool in told.values() if tool.source == "mcp"} == {"fake"}
        case "codex":
            mcp = [tool for tool in told.values() if tool.source == "mcp"]
            assert mcp and {tool.server for tool in mcp} == {"fake"}
            assert any(tool.input_schema and tool.schema_summary for tool in mcp)
        case "opencode":
            assert {"read", "edit", "write"} & told.keys()
            assert shell.input_schema["properties"]["command"]
            assert shell.schema_summary and "command: string" in shell.schema_summary
        case _:
            assert shell.calls == 1
