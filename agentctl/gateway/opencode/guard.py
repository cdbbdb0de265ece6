"""Owns who may speak to the server: password, Host, Origin, size of a body, and the headers for browsers.

Without a password everybody on this machine may, but no web page: a page of another site is known by its
Origin, one that has got itself a name for this address (DNS rebinding) by its Host.
"""

import base64
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# A prompt with some images fits. The daemon takes less than this in one call.
MAX_BODY = 16 << 20

# A client that sends too much is listened to so far, so that it can read why; what it sends is dropped.
MAX_DROPPED = 256 << 20

METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
ALLOWED = "Content-Type, Authorization, x-opencode-directory, x-opencode-sync, x-opencode-workspace"
EXPOSED = "x-opencode-sync, x-next-cursor, link"
REALM = 'Basic realm="agentctl"'
BODIES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

Headers = list[tuple[bytes, bytes]]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server. `origins`: pages of other sites that may call; "*" is all of them."""

    username: str = "opencode"
    password: str = ""
    origins: Sequence[str] = ()
    hosts: frozenset[str] = field(default_factory=frozenset[str])

    def knows(self, header: str | None, tokens: Iterable[str]) -> bool:
        """Whether the password came, in the header or in the query."""
        wanted = f"{self.username}:{self.password}".encode()
        given = [token for token in tokens if token]
        scheme, _, rest = (header or "").partition(" ")
        if scheme.lower() == "basic":
            given.append(rest.strip())
        known = False
        for token in given:
            known |= hmac.compare_digest(_decoded(token), wanted)
        return known

    def allows_origin(self, origin: str) -> bool:
        if "*" in self.origins or origin in self.origins:
            return True
        scheme, name = _place(origin)
        return scheme in ("http", "https") and is_loopback(name)

    def allows_host(self, host: str) -> bool:
        """With a password any name will do: a page that lies about its name does not have it."""
        if self.password:
            return True
        _, name = _place(f"//{host}")
        return is_loopback(name) or name in self.hosts


def _place(url: str) -> tuple[str, str]:
    """(scheme, host) of a URL; empty where it has none that can be read."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or ""
    except ValueError:
        return "", ""


def _decoded(token: str) -> bytes:
    try:
        padded = token + "=" * (-len(token) % 4)
        return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        return b""


class Guard:
    """Stands before the routes."""

    def __init__(self, app: ASGIApp, access: Access, max_body: int = MAX_BODY) -> None:
        self._app = app
        self._access = access
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": ""})
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get(b"origin", "")
        friendly = bool(origin) and self._access.allows_origin(origin)
        cross = _cross(origin) if friendly else []
        if origin and not friendly:
            return await _answer(send, 403, {"error": f"Origin {origin} is not allowed"}, cross)
        if not self._access.allows_host(headers.get(b"host", "")):
            return await _answer(send, 403, {"error": "Host is not allowed"}, cross)
        if scope["method"] == "OPTIONS":
            return await _answer(send, 204, None, [*cross, *_PREFLIGHT] if friendly else [])
        if self._access.password and not self._known(scope, headers):
            challenge = (b"www-authenticate", REALM.encode())
            return await _answer(send, 401, {"error": "Unauthorized"}, [*cross, challenge])
        try:
            body = await self._body(receive) if scope["method"] in BODIES else b""
        except ConnectionError:
            return None
        if body is None:
            words = f"The body is larger than {self._max_body >> 20} MB: send less."
            return await _answer(send, 413, {"error": words}, [*cross, (b"connection", b"close")])

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and cross:
                message["headers"] = [*message.get("headers", ()), *cross]
            await send(message)

        await self._app(scope, _Body(body, receive), tell)

    def _known(self, scope: Scope, headers: dict[bytes, str]) -> bool:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return self._access.knows(headers.get(b"authorization"), query.get("auth_token", ()))

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None when it is too large, of which nothing is kept.

        Raises:
            ConnectionError: the client left before its end.
        """
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size <= self._max_body:
                pieces.append(piece)
            else:
                pieces.clear()
            if not message.get("more_body") or size > MAX_DROPPED:
                return b"".join(pieces) if size <= self._max_body else None


class _Body:
    """Hands a body that was read already to the route, then whatever comes."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


_PREFLIGHT: Headers = [
    (b"access-control-allow-methods", METHODS.encode()),
    (b"access-control-allow-headers", ALLOWED.encode()),
    (b"access-control-max-age", b"600"),
]


def _cross(origin: str) -> Headers:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", EXPOSED.encode()),
        (b"vary", b"Origin"),
    ]


async def _answer(send: Send, status: int, body: object, more: Headers) -> None:
    data = b"" if body is None else orjson.dumps(body)
    headers: Headers = [(b"content-length", str(len(data)).encode()), *more]
    if body is not None:
        headers.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
