"""A client of the `mcp` package lists and calls the tool: by stdio and HTTP, in both eras of MCP."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    EmptyResult,
    LoggingMessageNotificationParams,
    SetLevelRequest,
    SetLevelRequestParams,
)

from agentctl.gateway.tool import OpenCodeTool, mcpserver, serving
from agentctl.gateway.tool.run import serve_mcp
from tests.gateway.tool.conftest import PATIENCE_S, Served

pytestmark = pytest.mark.anyio
Json = dict[str, Any]

ERAS = ("legacy", "auto")
WAYS = [(way, era) for way in ("stdio", "http") for era in ERAS]


@asynccontextmanager
async def http(
    served: Served, tmp_path: Path, tool: OpenCodeTool | None = None
) -> AsyncGenerator[tuple[str, str]]:
    """The MCP server at a free port, in this process: its URL and its token."""
    listening = await anyio.to_thread.run_sync(serving.listen, "127.0.0.1:0")
    told: list[tuple[str, Path]] = []
    up = anyio.Event()

    def ready(url: str, token: Path) -> None:
        told.append((f"{url}{mcpserver.PATH}", token))
        up.set()

    async def run() -> None:
        async with tool or served.tool() as own:
            await serve_mcp(own, listening, data_dir=tmp_path, ready=ready)

    with listening:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            with anyio.fail_after(PATIENCE_S):
                await up.wait()
            (url, file) = told[0]
            yield url, (await anyio.Path(file).read_text()).strip()
            group.cancel_scope.cancel()


@asynccontextmanager
async def client(
    way: str, era: str, served: Served, tmp_path: Path, **how: Any
) -> AsyncGenerator[Client]:
    """A connected client."""
    if way == "stdio":
        env = {**served.env, "AGENTCTL_ADDRESS": served.address}
        argv = ["-m", "agentctl", "mcp"]
        target = StdioServerParameters(command=sys.executable, args=argv, env=env)
        async with Client(target, mode=era, **how) as made:
            yield made
        return
    async with http(served, tmp_path) as (url, token):
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as web:
            transport = streamable_http_client(url, http_client=web)
            async with Client(transport, mode=era, **how) as made:
                yield made


async def called(made: Client, **request: Any) -> Json:
    """What a call answers; as structure and as text it is the same."""
    result = await made.call_tool("opencode", request)
    answer = _same(result)
    assert answer["success"] is True, answer
    return answer


def _same(result: CallToolResult) -> Json:
    (block,) = result.content
    assert block.type == "text" and json.loads(block.text) == result.structured_content
    assert result.is_error is not result.structured_content["success"]
    return result.structured_content


@pytest.mark.proves("TL9")
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_a_client_lists_and_calls_the_tool(
    served: Served, tmp_path: Path, way: str, era: str
) -> None:
    with anyio.fail_after(PATIENCE_S * 2):
        async with client(way, era, served, tmp_path) as made:
            (tool,) = (await made.list_tools()).tools
            assert tool.name == "opencode" and tool.description
            assert tool.input_schema["type"] == "object"
            assert set(tool.input_schema["$defs"]) == set(
                tool.input_schema["properties"]["action"]["enum"]
            )
            session = await called(
                made, action="create_session", project=served.project(f"{way}-{era}")
            )
            answer = await called(
                made,
                action="send_message",
                session_id=session["session_id"],
                message="say hello",
                wait_for_completion=True,
            )
            assert answer["response"] == "hello"
            refused = _same(await made.call_tool("opencode", {"action": "nope"}))
            assert refused["error"]["code"] == "INVALID_PARAMETERS"
            with pytest.raises(MCPError, match="no tool other"):
                await made.call_tool("other", {})


@pytest.mark.proves("TL9")
@pytest.mark.parametrize(("way", "era"), WAYS)
async def test_a_client_that_asks_for_progress_hears_the_turn_that_it_waits_for(
    served: Served, tmp_path: Path, way: str, era: str
) -> None:
    told: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    with anyio.fail_after(PATIENCE_S * 2):
        async with client(way, era, served, tmp_path) as made:
            project = served.project(f"progress-{way}-{era}")
            session = await called(made, action="create_session", project=project)
            request = {
                "action": "send_message",
                "session_id": session["session_id"],
                "message": "plan || run! true || say done",
                "wait_for_completion": True,
            }
            result = await made.call_tool("opencode", request, progress_callback=progress)
            assert _same(result)["response"] == "done"
    assert [number for number, _ in told] == [1, 2, 3, 4]
    kinds = [(message or "").split(":")[0] for _, message in told]
    assert kinds == ["progress", "command_run", "message", "complete"]


@pytest.mark.proves("TL9")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_client_that_asks_for_logs_hears_the_events_themselves(
    served: Served, tmp_path: Path, way: str
) -> None:
    heard: list[Json] = []

    async def log(params: LoggingMessageNotificationParams) -> None:
        assert params.logger == "opencode"
        heard.append(params.data)

    with anyio.fail_after(PATIENCE_S * 2):
        how = {"logging_callback": log, "log_level": "info"}
        async with client(way, "auto", served, tmp_path, **how) as made:
            project = served.project(f"logs-{way}")
            session = await called(made, action="create_session", project=project)
            attached = await called(made, action="attach_session", session_id=session["session_id"])
            assert attached["subscribed"] is False, "nothing may be sent between calls"
            await called(
                made,
                action="send_message",
                session_id=session["session_id"],
                message="say hello",
                wait_for_completion=True,
            )
    assert [row["type"] for row in heard] == ["agent.message", "agent.complete"]
    assert heard[0].keys() == {"type", "session_id", "content", "timestamp"}


@pytest.mark.proves("TL9")
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_after_attach_a_connection_that_may_be_written_to_hears_what_happens(
    served: Served, tmp_path: Path, way: str
) -> None:
    heard: list[Json] = []
    over = anyio.Event()

    async def log(params: LoggingMessageNotificationParams) -> None:
        heard.append(params.data)
        if params.data["type"] == "agent.complete":
            over.set()

    with anyio.fail_after(PATIENCE_S * 2):
        async with client(way, "legacy", served, tmp_path, logging_callback=log) as made:
            project = served.project(f"attach-{way}")
            session = await called(made, action="create_session", project=project)
            named = {"session_id": session["session_id"]}
            silent = await called(made, action="attach_session", **named)
            assert silent["subscribed"] is False, "it did not ask for logs"
            await made.session.send_request(_level("info"), EmptyResult)
            attached = await called(made, action="attach_session", **named)
            assert attached["subscribed"] is True
            await called(made, action="send_message", message="say hello", **named)
            await over.wait()
    assert [row["type"] for row in heard] == ["agent.message", "agent.complete"]


@pytest.mark.proves("TL9")
async def test_what_a_client_attached_ends_with_its_connection(
    served: Served, tmp_path: Path
) -> None:
    tool = served.tool()
    async with http(served, tmp_path, tool) as (url, token):
        headers = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as web:
            transport = streamable_http_client(url, http_client=web)
            async with Client(transport, mode="legacy") as made:
                await made.session.send_request(_level("info"), EmptyResult)
                session = await called(
                    made, action="create_session", project=served.project("gone")
                )
                named = {"action": "attach_session", "session_id": session["session_id"]}
                assert (await called(made, **named))["subscribed"] is True
        with anyio.fail_after(PATIENCE_S):
            while (await tool(**named))["subscribed"]:
                await anyio.lowlevel.checkpoint()


def _level(level: Any) -> Any:
    return SetLevelRequest(params=SetLevelRequestParams(level=level))


@pytest.mark.proves("TL7")
async def test_over_http_no_client_comes_in_without_the_token(
    served: Served, tmp_path: Path
) -> None:
    async with http(served, tmp_path) as (url, token):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        kinds = {"accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient() as web:
            for headers in ({}, {"authorization": "Bearer wrong"}):
                told = await web.post(url, json=body, headers={**kinds, **headers})
                assert told.status_code == 401
            foreign = {"authorization": f"Bearer {token}", "origin": "https://evil.example"}
            told = await web.post(url, json=body, headers={**kinds, **foreign})
            assert told.status_code == 403


async def test_an_input_that_ends_ends_the_server(served: Served, tmp_path: Path) -> None:
    env = {**served.env, "AGENTCTL_ADDRESS": served.address}
    argv = [sys.executable, "-m", "agentctl", "mcp", "--data-dir", str(tmp_path)]
    with anyio.fail_after(PATIENCE_S):
        done = await anyio.run_process(argv, input=b"", env=env, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
