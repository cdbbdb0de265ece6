"""Owns the tool over HTTP: `POST /tool` runs an action, the WebSocket `GET /events` tells what happens.

It refuses to know who may come in (`guard`) and what the actions do.
"""

import json
from typing import Any, cast

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentctl.core.errors import AgentctlError
from agentctl.gateway.tool.actions import schema
from agentctl.gateway.tool.errors import ToolError, invalid, refusal
from agentctl.gateway.tool.feed import Feed
from agentctl.gateway.tool.guard import PROTOCOL
from agentctl.gateway.tool.tool import OpenCodeTool

Json = dict[str, Any]

MAX_BODY = 4 << 20
"""Bytes of a request; a prompt is far smaller."""

# A reader who neither takes anything nor answers the server's pings was told so after two thirds of this.
SLOW_S = 60.0


_STATUS = {
    "SESSION_NOT_FOUND": 404,
    "PERMISSION_DENIED": 403,
    "INSTANCE_NOT_CONNECTED": 503,
    "SERVER_ERROR": 502,
}
"""Why a WebSocket is not opened; else its request is wrong: 400."""


def application(tool: OpenCodeTool) -> Starlette:
    """The routes; whoever serves them puts a guard before."""

    async def call(request: Request) -> JSONResponse:
        try:
            told = _object(await _body(request))
        except ToolError as error:
            status = 413 if "limit" in error.details else 400
            return JSONResponse(error.response(), status)
        return JSONResponse(await tool.call(told))

    async def about(request: Request) -> JSONResponse:
        return JSONResponse(schema())

    async def events(socket: WebSocket) -> None:
        await _events(tool, socket)

    return Starlette(
        routes=[
            Route("/tool", call, methods=["POST"]),
            Route("/tool", about, methods=["GET"]),
            WebSocketRoute("/events", events),
        ]
    )


async def _body(request: Request) -> bytes:
    """The body, read no further than is allowed."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY:
            message = f"The request is larger than {MAX_BODY} bytes."
            raise ToolError("INVALID_PARAMETERS", message, {"limit": MAX_BODY})
    return bytes(data)


def _object(data: bytes) -> Json:
    try:
        told: Any = json.loads(data)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise invalid('The body must be one JSON object, as {"action": "list_sessions"}.')
    return cast(Json, told)


async def _events(tool: OpenCodeTool, socket: WebSocket) -> None:
    query = socket.query_params
    chosen = PROTOCOL if PROTOCOL in socket.scope.get("subprotocols", ()) else None
    try:
        async with tool.events(query.get("session_id", ""), after=query.get("after")) as feed:
            await socket.accept(chosen)
            await _tell(socket, feed)
    except ToolError as error:
        await _refuse(socket, error)
    except AgentctlError as error:
        await _refuse(socket, refusal(error))
    except WebSocketDisconnect:
        return


async def _refuse(socket: WebSocket, error: ToolError) -> None:
    status = _STATUS.get(error.code, 400)
    await socket.send_denial_response(JSONResponse(error.response(), status))


async def _tell(socket: WebSocket, feed: Feed) -> None:
    """Sends events until the reader leaves; a slow one is waited for, and loses nothing."""
    async with anyio.create_task_group() as group:

        async def listen() -> None:
            try:
                while True:
                    await socket.receive_text()
            except (WebSocketDisconnect, KeyError):
                group.cancel_scope.cancel()

        group.start_soon(listen)
        async for event in feed:
            text = json.dumps(event, ensure_ascii=False)
            with anyio.move_on_after(SLOW_S) as patience:
                await socket.send_text(text)
            if patience.cancelled_caught:
                break
        group.cancel_scope.cancel()
