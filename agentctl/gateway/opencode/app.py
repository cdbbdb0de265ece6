"""Owns the whole server as an ASGI application: rooms, routes, what is not there, and the guard before it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agentctl.client import AgentCtl
from agentctl.gateway.opencode import routes_asks, routes_server, routes_session
from agentctl.gateway.opencode.catalog import Catalog
from agentctl.gateway.opencode.chat import Chat
from agentctl.gateway.opencode.context import Rooms, answer, route
from agentctl.gateway.opencode.guard import MAX_BODY, Access, Guard
from agentctl.gateway.opencode.places import Places
from agentctl.gateway.opencode.pump import Pump
from agentctl.gateway.opencode.roster import Roster

ROUTES = [*routes_server.ROUTES, *routes_asks.ROUTES, *routes_session.ROUTES]


@asynccontextmanager
async def rooms(client: AgentCtl, directory: Path | None = None) -> AsyncGenerator[Rooms]:
    """Everything behind the routes, reading the daemon's stream; leaving ends all event streams.

    Args:
        client: A client of a running daemon.
        directory: What a request means that names none, where the daemon has no workspace_root.

    Raises:
        AgentctlError: the daemon cannot be reached.
    """
    info = await client.daemon.get_info()
    root = info.settings.get("workspace_root") or str(directory or Path.cwd())
    places = Places(str(await anyio.Path(root).resolve()))
    catalog = Catalog(client, default_agent=info.settings.get("default_agent", ""))
    roster = Roster(client)
    pump = Pump(client, roster, catalog)
    chat = Chat(client, roster, catalog, pump)
    await pump.begin()
    async with anyio.create_task_group() as group:
        group.start_soon(pump.run)
        try:
            yield Rooms(client, places, catalog, roster, pump, chat, info.version)
        finally:
            pump.stop()
            group.cancel_scope.cancel()


def application(behind: Rooms, access: Access, max_body: int = MAX_BODY) -> Guard:
    """The application over its rooms."""
    routes = [route(behind, method, path, handler) for method, path, handler in ROUTES]
    handlers = {HTTPException: _refused}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access, max_body)


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "Not found", 405: "Method not allowed"}
    return answer({"error": words.get(status, str(error))}, status)
