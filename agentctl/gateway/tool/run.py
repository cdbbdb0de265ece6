"""Owns bringing the tool's servers up: token, guard, routes, socket. It refuses to know the routes."""

import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from starlette.types import ASGIApp

from agentctl.gateway.tool import http, mcpserver
from agentctl.gateway.tool.guard import Guard, hosts_of, token_of
from agentctl.gateway.tool.serving import serve, url_of
from agentctl.gateway.tool.tool import OpenCodeTool

Ready = Callable[[str, Path], None]
"""Told the URL and the file of the token once it serves."""


async def serve_http(
    tool: OpenCodeTool,
    listening: socket.socket,
    *,
    data_dir: Path,
    token_file: Path | None = None,
    hosts: Iterable[str] = (),
    ready: Ready,
) -> None:
    """Serves `POST /tool` and the WebSocket `/events`."""
    await _serve(http.application(tool), listening, data_dir, token_file, hosts, ready)


async def serve_mcp(
    tool: OpenCodeTool,
    listening: socket.socket,
    *,
    data_dir: Path,
    token_file: Path | None = None,
    hosts: Iterable[str] = (),
    ready: Ready,
) -> None:
    """Serves MCP over streamable HTTP at `/mcp`."""
    await _serve(mcpserver.application(tool), listening, data_dir, token_file, hosts, ready)


async def _serve(
    app: ASGIApp,
    listening: socket.socket,
    data_dir: Path,
    token_file: Path | None,
    hosts: Iterable[str],
    ready: Ready,
) -> None:
    token, path = await token_of(token_file, data_dir)
    url = url_of(listening)
    host: str = listening.getsockname()[0]
    guarded = Guard(app, token=token, hosts=hosts_of(host, hosts))
    await serve(guarded, listening, lambda: ready(url, path))
