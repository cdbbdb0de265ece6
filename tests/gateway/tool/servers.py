"""HTTP servers with one fault each, for what `connect` must tell apart."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import SocketAttribute, SocketStream

Answer = Callable[[str, dict[str, str]], tuple[int, str, str] | None]
"""Path and headers to status, content type and body; None: never an answer."""

JSON = "application/json"


def healthy(version: str) -> Answer:
    return lambda path, _: (200, JSON, f'{{"healthy": true, "version": "{version}"}}')


def aged(path: str, headers: dict[str, str]) -> tuple[int, str, str]:
    """A server from before there was a health."""
    return (200, JSON, "{}") if path == "/config" else (404, JSON, "{}")


def web_page(path: str, headers: dict[str, str]) -> tuple[int, str, str]:
    return 200, "text/html", "<html>hello</html>"


def broken(path: str, headers: dict[str, str]) -> tuple[int, str, str]:
    return 502, "text/plain", "bad gateway"


def silent(path: str, headers: dict[str, str]) -> None:
    return None


def guarded(wanted: str) -> Answer:
    """Lets in who sends exactly this `authorization`."""

    def answer(path: str, headers: dict[str, str]) -> tuple[int, str, str]:
        if headers.get("authorization") != wanted:
            return 401, JSON, '{"error": "Unauthorized"}'
        return 200, JSON, '{"healthy": true, "version": "1.18.33"}'

    return answer


@asynccontextmanager
async def server(answer: Answer) -> AsyncGenerator[str]:
    """The URL of a server that answers so."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.listeners[0].extra(SocketAttribute.local_port)

    async def serve(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await converse(stream)

    async def converse(stream: SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        lines = data.decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}
        told = answer(lines[0].split()[1], headers)
        if told is None:
            await anyio.sleep_forever()
            return
        status, kind, body = told
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}"
        await stream.send(f"{head}\r\nconnection: close\r\n\r\n{body}".encode())

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, serve)
            yield f"http://127.0.0.1:{port}"
            group.cancel_scope.cancel()
    finally:
        await listener.aclose()
