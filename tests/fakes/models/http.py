"""A small HTTP/1.1 server on loopback for model endpoints that must also misbehave.

Owns requests, whole and chunked replies, cut connections and clients that go away. Knows no model,
no route and no JSON shape. Standard library only, so that a fake starts at once.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_LOOPBACK = "127.0.0.1"
_HEAD_LIMIT = 1 << 20
_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 404: "Not Found"}


@dataclass(slots=True)
class Request:
    """One request; header names are lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON, {} when there is none or it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}


@dataclass(slots=True)
class Reply:
    """The answer to one request: `send` for a whole one, else `start`, `write` and `end`."""

    _writer: asyncio.StreamWriter
    started: bool = False
    ended: bool = False
    headers: dict[str, str] = field(default_factory=dict[str, str])

    async def send(self, status: int, value: object) -> None:
        """Answers with `value` as JSON; bytes go as they are."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._head(status, "application/json", f"Content-Length: {len(body)}")
        self._writer.write(body)
        self.ended = True
        await self._writer.drain()

    async def start(self, status: int = 200, content_type: str = "text/event-stream") -> None:
        """Sends the head of a chunked answer."""
        self._head(status, content_type, "Transfer-Encoding: chunked")
        await self._writer.drain()

    async def write(self, data: bytes) -> None:
        """Sends one chunk; an empty one would end the answer and is left out."""
        if data:
            self._writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self._writer.drain()

    async def end(self) -> None:
        """Ends a chunked answer."""
        self._writer.write(b"0\r\n\r\n")
        self.ended = True
        await self._writer.drain()

    def cut(self) -> None:
        """Breaks the connection where it is."""
        self.ended = True
        self._writer.transport.abort()

    def _head(self, status: int, content_type: str, length: str) -> None:
        if self.started:
            raise RuntimeError("the reply has already started")
        self.started = True
        lines = [
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}",
            f"Content-Type: {content_type}",
            length,
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())


Handler = Callable[[Request, Reply], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(handler: Handler, port: int = 0) -> AsyncGenerator[str]:
    """Serves on loopback until left and yields the base URL.

    A handler whose client goes away is cancelled, so it sees `asyncio.CancelledError`.
    """
    connections: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a connection is served by a task")
        connections.add(task)
        try:
            await _converse(handler, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # Not raised on: a stream callback that ends cancelled is reported as an error.
            pass
        finally:
            connections.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(accept, _LOOPBACK, port, limit=_HEAD_LIMIT)
    try:
        host, bound = server.sockets[0].getsockname()[:2]
        yield f"http://{host}:{bound}"
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await server.wait_closed()


async def _converse(
    handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    ahead = b""
    while (request := await _read_request(reader, ahead)) is not None:
        reply = Reply(writer)
        ahead = await _handle(handler, request, reply, reader)
        if not reply.ended or writer.transport.is_closing():
            return
        if request.headers.get("connection", "").lower() == "close":
            return


async def _handle(
    handler: Handler, request: Request, reply: Reply, reader: asyncio.StreamReader
) -> bytes:
    """Runs the handler while watching for the client to leave; returns a byte read ahead."""
    work = asyncio.ensure_future(handler(request, reply))
    watch = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and (watch.exception() is not None or not watch.result()):
            work.cancel()
        await work
    finally:
        work.cancel()
        watch.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)
    return watch.result() if not watch.cancelled() and watch.exception() is None else b""


async def _read_request(reader: asyncio.StreamReader, ahead: bytes) -> Request | None:
    try:
        head = ahead + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    url = urlsplit(target)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _read_chunked(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length") or 0))
    return Request(method, url.path, dict(parse_qsl(url.query)), headers, body)


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b"".join(parts)
