"""Owns one connection to a daemon: address, token, keep-alive, and errors as AgentctlError.

It refuses to know any service: a call is a path, a request and the class of its answer.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import anyio.lowlevel
import grpc
import grpc.aio
from google.protobuf.message import Message

from agentctl.core.errors import AgentctlError, DaemonFailed, Invalid
from agentctl.rpc.status import DETAILS_KEY, from_status

T = TypeVar("T", bound=Message)

PACKAGE = "agentctl.v1"

# A daemon that hangs is noticed within half a minute: a ping after 20 s without traffic, 10 s to answer it.
KEEPALIVE_MS = 20_000
KEEPALIVE_TIMEOUT_MS = 10_000

# A daemon that restarts is back within a second: gRPC's own back-off would wait up to two minutes.
RECONNECT_MIN_MS = 100
RECONNECT_MAX_MS = 2_000

# A socket that nobody serves refuses at once; a daemon on a loaded machine takes a moment to speak.
CONNECT_MS = 5_000

OPTIONS: Sequence[tuple[str, Any]] = (
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_MIN_MS),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MAX_MS),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class Unreachable(DaemonFailed):
    """No daemon answers at the address: nothing was asked of it, or the answer was lost."""


def parse_address(address: str) -> str:
    """Checks `unix:PATH` or `HOST:PORT` and returns it as gRPC takes it.

    Raises:
        Invalid: it is neither.
    """
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if path:
            return f"unix:{path}"
    else:
        host, colon, port = address.rpartition(":")
        if colon and host and port.isdecimal() and int(port) < 65536:
            return f"dns:///{host}:{port}"
    raise Invalid(
        f"{address!r} is no address of a daemon: write unix:PATH or HOST:PORT.",
        metadata={"field": "address"},
    )


class Connection:
    """A channel that opens by itself at the first call."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._closed = False
        self._channel = grpc.aio.insecure_channel(parse_address(address), options=OPTIONS)

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("this client is closed: connect another one.")

    def _check_open_unless_cancelled(self) -> None:
        """A channel that is closed cancels its calls, though nobody has cancelled who waits."""
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            self._check_open()

    async def unary(
        self, method: str, request: Message, answer: type[T], *, timeout_s: float | None = None
    ) -> T:
        """Makes a call that has one answer. `method` is `Service/Method`."""
        self._check_open()
        call = self._channel.unary_unary(f"/{PACKAGE}.{method}", _serialize, _parser(answer))(
            request, timeout=timeout_s, metadata=self._metadata
        )
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from None
        except asyncio.CancelledError:
            await _raise_our_own_cancellation()
            self._check_open_unless_cancelled()
            raise

    async def stream(self, method: str, request: Message, answer: type[T]) -> AsyncGenerator[T]:
        """Makes a call that has many answers; closing the iterator ends it."""
        self._check_open()
        call = self._channel.unary_stream(f"/{PACKAGE}.{method}", _serialize, _parser(answer))(
            request, metadata=self._metadata
        )
        try:
            async for message in call:
                yield message
        except grpc.aio.AioRpcError as error:
            raise self._error(error) from None
        except asyncio.CancelledError:
            await _raise_our_own_cancellation()
            self._check_open_unless_cancelled()
            raise
        finally:
            with suppress(grpc.aio.UsageError):
                call.cancel()

    def _error(self, error: grpc.aio.AioRpcError) -> AgentctlError:
        details = dict(error.trailing_metadata()).get(DETAILS_KEY)
        data = details if isinstance(details, bytes) else None
        told = error.details() or ""
        if data is None and error.code() is grpc.StatusCode.UNAVAILABLE:
            return Unreachable(
                f"No daemon answers at {self.address}: start one with `agentctl up`. ({told})",
                metadata={"address": self.address},
            )
        if data is None and error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            # No daemon of ours says this without a reason: gRPC found a message too large.
            return Invalid(f"The call is too large: send less, or ask for less. ({told})")
        return from_status(error.code(), told, data)


async def _raise_our_own_cancellation() -> None:
    """grpc raises a CancelledError of its own, which no anyio scope knows as the one it asked for."""
    await anyio.lowlevel.checkpoint_if_cancelled()


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _parser(answer: type[T]) -> Callable[[bytes], T]:
    return answer.FromString
