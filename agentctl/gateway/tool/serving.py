"""Owns listening on TCP for the gateways of the tool: the socket, the server, its end.

It refuses to know what is served.
"""

import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import anyio
import uvicorn
from starlette.types import ASGIApp

from agentctl.core.errors import Invalid

# Open streams would go on for ever; a call that runs in the daemon goes on without its caller.
LEAVE_S = 3

# Readers that are gone without a word are noticed within this and as much again.
PING_S = 20.0

MAX_MESSAGE = 64 << 10
"""Bytes of what a WebSocket's reader may send us: it has nothing to say."""


def parse(address: str) -> tuple[str, int]:
    """Reads HOST:PORT.

    Raises:
        Invalid: it is none.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"{address!r} is no address: write HOST:PORT, as 127.0.0.1:3333.")
    return host.strip("[]"), int(port)


def listen(address: str) -> socket.socket:
    """A socket that listens at HOST:PORT; port 0 takes a free one.

    Raises:
        Invalid: the address is malformed, not ours, or in use.
    """
    host, port = parse(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise Invalid(f"Cannot listen at {address}: {error.strerror or error}.") from error


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again after its end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(app: ASGIApp, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serves until SIGINT, SIGTERM, or until it is cancelled; then connections get LEAVE_S to end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        timeout_graceful_shutdown=LEAVE_S,
        server_header=False,
    )
    server = _Server(config, ready)

    async def stop() -> None:
        try:
            if threading.current_thread() is not threading.main_thread():
                await anyio.sleep_forever()
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    return
        finally:
            server.should_exit = True

    logging.getLogger("uvicorn.error").addFilter(_is_news)
    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        with anyio.CancelScope(shield=True):
            await server.serve([listening])
        group.cancel_scope.cancel()


def _is_news(record: logging.LogRecord) -> bool:
    """A refused WebSocket has its answer; the server logs it as an error all the same."""
    return "without completing handshake" not in record.getMessage()
