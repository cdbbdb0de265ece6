"""Owns the tool as an MCP server: one tool named `opencode`, over stdio or streamable HTTP.

A client that asked for progress or logs hears the session's events while a call of its runs, and, on a
connection that can be written to at any time, after `attach_session` too. It refuses to know what the
actions do.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, get_args

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette

from agentctl.core.errors import AgentctlError
from agentctl.gateway.tool.actions import schema
from agentctl.gateway.tool.errors import ToolError
from agentctl.gateway.tool.http import MAX_BODY
from agentctl.gateway.tool.tool import OpenCodeTool

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

NAME = "opencode"
PATH = "/mcp"

# The end of a run is told to streams a moment after it is told to who waits for it.
LAST_EVENTS_S = 1.0

_LEVEL, _STREAMS = "agentctl.level", "agentctl.streams"
_LEVELS = get_args(types.LoggingLevel)
_LEVEL_OF = {"agent.error": "error", "agent.permission_request": "notice"}
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, MCPError)

_OUTPUT: Json = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
            "required": ["code", "message"],
        },
    },
    "required": ["success"],
}


@dataclass(frozen=True, slots=True)
class _Room:
    """What outlives one call: the group in which streams go on."""

    group: anyio.abc.TaskGroup


def server(tool: OpenCodeTool) -> Server[Any]:
    """The server of one tool."""

    @asynccontextmanager
    async def lifespan(_: Server[Any]) -> AsyncGenerator[_Room]:
        async with anyio.create_task_group() as group:
            yield _Room(group)
            group.cancel_scope.cancel()

    async def list_tools(
        ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        about = types.Tool(
            name=NAME,
            title="Coding agents",
            description="Runs sessions of coding agents: create, prompt, watch, approve, export.",
            input_schema=schema(),
            output_schema=_OUTPUT,
        )
        return types.ListToolsResult(tools=[about])

    async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name != NAME:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name}; use {NAME}.")
        answer = await _called(tool, ctx, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(text=json.dumps(answer, ensure_ascii=False))],
            structured_content=answer,
            is_error=not answer["success"],
        )

    made = Server[Any](
        NAME,
        version=version("agentctl"),
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )

    async def set_level(ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        _connection(ctx).state[_LEVEL] = params.level
        return types.EmptyResult()

    made.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    return made


async def stdio(tool: OpenCodeTool) -> None:
    """Serves standard input and output until the input ends."""
    made = server(tool)
    async with stdio_server() as (reader, writer):
        await made.run(reader, writer, made.create_initialization_options())


def application(tool: OpenCodeTool) -> Starlette:
    """The routes of streamable HTTP; whoever serves them puts a guard before, which checks names."""
    unguarded = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server(tool).streamable_http_app(
        streamable_http_path=PATH, transport_security=unguarded, max_request_body_size=MAX_BODY
    )


async def _called(tool: OpenCodeTool, ctx: Context, arguments: Json) -> Json:
    tell = _teller(ctx, request=True)
    session_id = arguments.get("session_id")

    async def attach(session: str) -> bool:
        return await _stay(tool, ctx, session)

    waits = arguments.get("action") == "send_message" and arguments.get("wait_for_completion")
    if tell is None or not waits or not isinstance(session_id, str):
        return await tool.call(arguments, attach=attach)
    return await _while_waiting(tool, tell, session_id, arguments)


Tell = Callable[[Json], Awaitable[None]]


async def _while_waiting(tool: OpenCodeTool, tell: Tell, session_id: str, arguments: Json) -> Json:
    """The call, and the session's events beside it up to the end of its run."""
    answers: list[Json] = []
    over = anyio.Event()

    async def forward(task_status: anyio.abc.TaskStatus[None]) -> None:
        try:
            async with tool.events(session_id) as feed:
                task_status.started()
                async for event in feed:
                    await tell(event)
                    if event["type"] == "agent.complete":
                        over.set()
        except (ToolError, AgentctlError):
            # The call itself says what is wrong; nobody listens to events then.
            over.set()
            task_status.started()

    async with anyio.create_task_group() as group:
        await group.start(forward)
        answers.append(await tool.call(arguments))
        if answers[0].get("status") == "completed":
            with anyio.move_on_after(LAST_EVENTS_S):
                await over.wait()
        group.cancel_scope.cancel()
    return answers[0]


async def _stay(tool: OpenCodeTool, ctx: Context, session_id: str) -> bool:
    """Tells a session's events from now on, where the connection takes what it did not ask for."""
    tell = _teller(ctx, request=False)
    if tell is None:
        return False
    connection = _connection(ctx)
    streams: set[str] = connection.state.setdefault(_STREAMS, set())
    if session_id in streams:
        return True
    scope = anyio.CancelScope()

    async def forward(task_status: anyio.abc.TaskStatus[bool]) -> None:
        with scope:
            try:
                async with tool.events(session_id) as feed:
                    task_status.started(True)
                    async for event in feed:
                        await tell(event)
            except (ToolError, AgentctlError):
                task_status.started(False)
            except _GONE:
                pass
            finally:
                streams.discard(session_id)

    streams.add(session_id)
    connection.exit_stack.callback(scope.cancel)
    room: _Room = ctx.lifespan_context
    return bool(await room.group.start(forward))


def _connection(ctx: Context) -> Connection:
    """What lasts as long as a client is connected: its state, and what is to end with it."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]  a handler is given no other way to it


def _teller(ctx: Context, *, request: bool) -> Tell | None:
    """How the client wants to hear events, None when it does not.

    Args:
        request: beside the call; else whenever something happens.
    """
    meta: Any = ctx.meta or {}
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    state = _connection(ctx).state
    asked = meta.get(types.LOG_LEVEL_META_KEY) if modern else state.get(_LEVEL)
    floor = _LEVELS.index(asked) if asked in _LEVELS else None
    token = meta.get("progress_token") if request else None
    if (modern and not request) or (floor is None and token is None):
        return None
    related: Any = ctx.request_id if request else None
    told = 0

    async def tell(event: Json) -> None:
        nonlocal told
        if floor is not None:
            level: Any = _LEVEL_OF.get(event["type"], "info")
            if _LEVELS.index(level) >= floor:
                params = types.LoggingMessageNotificationParams(
                    level=level, data=event, logger=NAME
                )
                note = types.LoggingMessageNotification(params=params)
                await ctx.session.send_notification(note, related)
        if token is not None:
            told += 1
            await ctx.session.send_progress_notification(
                token, told, message=_brief(event), related_request_id=related
            )

    return tell


_BRIEF = ("content", "path", "command", "task", "error", "summary", "action")


def _brief(event: Json) -> str:
    """An event in one line."""
    what = next((str(event[name]) for name in _BRIEF if event.get(name)), "")
    kind = event["type"].removeprefix("agent.")
    return f"{kind}: {what}" if what else kind
