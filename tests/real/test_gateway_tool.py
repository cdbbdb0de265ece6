"""The `opencode` tool on real agents: sessions, turns, permissions, events and exports, as published."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl import v1
from agentctl.gateway.tool import OpenCodeTool
from agentctl.gateway.tool.config import ToolConfig
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.openai import OpenAiEndpoint
from tests.gateway.tool.conftest import SETTINGS, completes, ok, refused, serving, until
from tests.gateway.tool.shapes import ROW, shaped
from tests.gateway.tool.test_events import COMMON, EVENTS
from tests.real import opencode
from tests.real.agents import AGENTS
from tests.real.harness import Home, Model, age_gemini_sessions, make_home
from tests.real.served import Served
from tests.real.test_opencode_server import somebodys

pytestmark = [pytest.mark.anyio, pytest.mark.real]
Json = dict[str, Any]

# A real agent starts in seconds, on a loaded machine in more.
LONG_MS = 60_000


@pytest.fixture(params=["gemini", "opencode", "claude", "codex"])
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with AGENTS[request.param].serving(tmp_path) as it:
        yield it


def tool(served: Served, tmp_path: Path) -> OpenCodeTool:
    return OpenCodeTool(ToolConfig(), address=served.daemon.address, data_dir=tmp_path / "tool")


async def made_of(served: Served, tool: OpenCodeTool) -> str:
    made = await ok(
        tool,
        action="create_session",
        project=str(served.home.workspace),
        agent=served.entry,
        session_name="real",
        timeout_ms=LONG_MS,
    )
    assert made["status"] == "created" and made["project"] == str(served.home.workspace)
    return str(made["session_id"])


@pytest.mark.proves("TL1", "TL4")
async def test_a_session_of_a_real_agent_from_its_start_to_its_export(
    served: Served, tmp_path: Path
) -> None:
    # Something may be refused: then each of them asks before it runs a command.
    rule = v1.Rule(decision=v1.Policy.POLICY_DENY, command="never")
    await served.client.approvals.put_rule("", rule)
    async with tool(served, tmp_path) as at:
        found = await made_of(served, at)
        answer = await ok(
            at,
            action="send_message",
            session_id=found,
            message="SAYTEXT hello",
            wait_for_completion=True,
            timeout_ms=LONG_MS,
        )
        assert (answer["status"], answer["response"]) == ("completed", "hello")
        rows = await commanded(at, found)
        assert (served.home.workspace / "made.txt").exists()
        for row in rows:
            optional = ("exit_code", "percent")
            shaped(row, {**COMMON, **EVENTS[row["type"]]}, optional)
        kinds = [row["type"] for row in rows]
        assert {"agent.permission_request", "agent.command_run"} <= set(kinds)
        assert rows[-1]["outcome"] == "success" and rows[-1]["summary"] == "finished"
        status = await ok(at, action="get_status", session_id=found)
        assert status["status"] == "active" and status["progress"]["commands_run"] == 1
        assert "touch made.txt" in status["progress"]["last_command"]
        told = await ok(at, action="get_messages", session_id=found, role="agent")
        assert told["messages"][0]["content"] == "hello"
        listed = await ok(at, action="list_sessions", status="active")
        (row,) = listed["sessions"]
        shaped(row, ROW)
        assert (row["session_id"], row["name"]) == (found, "real")
        ended = await ok(at, action="terminate_session", session_id=found)
        assert ended["saved_state"] is True
        data = (await ok(at, action="export_session", session_id=found))["data"]
        assert data["outcome"] == "success" and data["completed"]
        assert data["messages"][0]["content"] == "SAYTEXT hello"
        stats = await ok(at, action="get_stats", session_id=found)
        assert stats["stats"]["sessions_total"] == 1


async def commanded(at: OpenCodeTool, found: str) -> list[Json]:
    """The events of a turn with a command that is allowed."""
    rows: list[Json] = []
    async with at.events(found) as feed:
        prompt = "TOOL touch made.txt || SAYTEXT finished"
        await ok(at, action="send_message", session_id=found, message=prompt)
        with anyio.fail_after(LONG_MS / 1000):
            async for event in feed:
                rows.append(event)
                if event["type"] == "agent.permission_request":
                    assert event["action"] == "execute_command"
                    assert "touch made.txt" in event["details"]["command"]
                    asked = {"session_id": found, "request_id": event["request_id"]}
                    await ok(at, action="approve_permission", approved=True, **asked)
                if completes(event):
                    break
    return rows


@pytest.mark.proves("TL11")
async def test_a_paused_session_of_a_real_agent_is_attached_and_goes_on(
    served: Served, tmp_path: Path
) -> None:
    async with tool(served, tmp_path) as at:
        found = await made_of(served, at)
        async with at.events(found) as feed:
            await ok(at, action="send_message", session_id=found, message="SAYTEXT one")
            await until(feed, completes)

        def rest() -> None:
            if served.entry == "gemini":
                age_gemini_sessions(served.home)

        await served.restart(meanwhile=rest)
        assert (await ok(at, action="get_status", session_id=found))["status"] == "paused"
        attached = await ok(
            at, action="attach_session", session_id=found, subscribe=False, timeout_ms=LONG_MS
        )
        assert attached["status"] == "active" and attached["last_message"] == "one"
        answer = await ok(
            at,
            action="send_message",
            session_id=found,
            message="HISTORY",
            wait_for_completion=True,
            timeout_ms=LONG_MS,
        )
        assert "HISTORY 2" in answer["response"]


STATS = 'CALL {} {{"action": "get_stats"}}'
CALLS = {
    "gemini": STATS.format("mcp_agentctl_opencode"),
    "opencode": STATS.format("agentctl_opencode"),
    "claude": STATS.format("mcp__agentctl__opencode"),
    "codex": "MCP agentctl/opencode hello",
}
"""Codex is only asked to pass a parameter that the tool does not have, which it is told."""


@pytest.mark.proves("TL9")
async def test_a_real_agent_has_the_tool_of_the_mcp_server_and_calls_it(
    served: Served, tmp_path: Path
) -> None:
    env = {
        "AGENTCTL_ADDRESS": served.daemon.address,
        "AGENTCTL_DATA_DIR": str(tmp_path / "tool"),
        "HOME": str(served.home.root),
    }
    argv = ["-m", "agentctl", "mcp"]
    server = v1.McpServer(name="agentctl", command=sys.executable, args=argv, env=env)
    session = await served.session(mcp_servers=[server], policy="allow")
    if served.entry == "codex":
        # It takes a prompt before its servers are there.
        up = {"name": "agentctl", "state": "connected"}
        await served.until(
            lambda: any(up in row["data"].get("mcp_servers", ()) for row in served.rows)
        )
    turn = await served.ask(session, CALLS[served.entry])
    assert turn.outcome == "completed"
    answer = "success" if served.entry != "codex" else "INVALID_PARAMETERS"
    assert answer in turn.text or answer in str(turn.of("tool_update"))


@pytest.fixture
def place(tmp_path: Path) -> Home:
    home = make_home(tmp_path)
    opencode.make_repository(home.workspace)
    return home


@pytest.mark.proves("TL10")
async def test_a_real_opencode_server_is_an_instance(place: Home) -> None:
    project = str(place.workspace)
    with in_thread(OpenAiEndpoint()) as model_url, serving(SETTINGS) as daemon:
        async with (
            somebodys(place, Model(model_url), "open sesame") as url,
            daemon.tool() as at,
        ):
            error = await refused(at, action="connect", url=url, auth_token="wrong")
            assert error["code"] == "AUTH_FAILED"
            token = {"auth_token": "open sesame", "timeout_ms": LONG_MS}
            made = await ok(at, action="connect", url=url, name="vps", **token)
            assert made["server_version"].startswith("1.")
            asked = {"action": "create_session", "instance": "vps", "project": project}
            error = await refused(at, **asked, model="nobody/nothing", timeout_ms=LONG_MS)
            assert error["code"] == "INVALID_MODEL"
            created = await ok(at, **asked, timeout_ms=LONG_MS)
            assert created["instance"] == "vps"
            rows = await commanded(at, created["session_id"])
            assert rows[-1]["summary"] == "finished"
            listed = await ok(at, action="list_sessions", instance="vps", status="active")
            assert [row["session_id"] for row in listed["sessions"]] == [created["session_id"]]
            assert (await ok(at, action="list_sessions", instance="local"))["total"] == 0
    assert (place.workspace / "made.txt").exists()
