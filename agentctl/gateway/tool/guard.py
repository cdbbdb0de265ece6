"""Owns who may come in over HTTP: the bearer token, the names that this address answers to, origins.

It stands before every route and every WebSocket. It refuses to know what is behind it.
"""

import hmac
import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from agentctl.gateway.tool.errors import ToolError
from agentctl.rpc.auth import read_token

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
TOKEN_NAME = "tool.token"
PROTOCOL = "agentctl.tool"
"""The subprotocol of the WebSocket; a browser sends the token beside it as `bearer.TOKEN`."""

_BEARER = "bearer."


async def token_of(file: Path | None, data_dir: Path) -> tuple[str, Path]:
    """The token that callers must send and where it is; without a file one is made, once.

    Raises:
        Invalid: the file cannot be read, or its token is too short.
    """
    path = file or data_dir / TOKEN_NAME

    def read() -> str:
        if file is None:
            _make(path)
        return read_token(path)

    return await anyio.to_thread.run_sync(read), path


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    with os.fdopen(handle, "w") as file:
        file.write(f"{secrets.token_urlsafe(32)}\n")


def hosts_of(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """The names that a request may call us by: those of loopback, our own, and those that were named."""
    return LOOPBACK | {each.lower() for each in (host.strip("[]"), *more)}


class Guard:
    """Lets in whoever has the token, calls us by a name of ours and is no foreign page."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = self._look(scope)
        if refused is None:
            await self._app(scope, receive, send)
            return
        status, error = refused
        headers = {"www-authenticate": "Bearer"} if status == 401 else None
        response = JSONResponse(error.response(), status, headers=headers)
        if scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(response)
        else:
            await response(scope, receive, send)

    def _look(self, scope: Scope) -> tuple[int, ToolError] | None:
        headers = Headers(scope=scope)
        host = name_of(f"//{headers.get('host', '')}")
        if host not in self._hosts:
            message = (
                f"This address is not called {host or 'that'}: use localhost, or --allow-host."
            )
            return 421, ToolError("PERMISSION_DENIED", message)
        origin = headers.get("origin")
        if origin is not None and name_of(origin) not in self._hosts:
            return 403, ToolError("PERMISSION_DENIED", "A page of another site may not call this.")
        for each in tokens(scope, headers):
            if hmac.compare_digest(each.encode(), self._token):
                return None
        message = "This address wants its token: send it as `Authorization: Bearer TOKEN`."
        return 401, ToolError("PERMISSION_DENIED", message)


def name_of(url: str) -> str:
    """The host of a URL in lower case, "" when it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def tokens(scope: Scope, headers: Headers) -> Sequence[str]:
    """The tokens that a request brings; in a query and a subprotocol only for a WebSocket."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    found = [value.strip()] if kind.lower() == "bearer" else []
    if scope["type"] == "websocket":
        query: bytes = scope["query_string"]
        found += parse_qs(query.decode("latin-1")).get("token", [])
        offered: Sequence[str] = scope.get("subprotocols", ())
        found += [each.removeprefix(_BEARER) for each in offered if each.startswith(_BEARER)]
    return found
