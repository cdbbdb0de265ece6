"""Owns what happens around every call: errors become a status, changes finish whoever leaves.

It refuses to know what a call does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import anyio
import grpc
import grpc.aio

from agentctl.core.errors import AgentctlError, DaemonFailed, Unsupported
from agentctl.rpc.status import DETAILS_KEY, to_status, unexpected

T = TypeVar("T")

logger = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Unary = Callable[[Any, Context], Awaitable[Any]]
"""A call with one answer."""

Streaming = Callable[[Any, Context], Awaitable[None]]
"""A call that writes its answers to the context."""

# Starts of agents are bounded by their own deadlines; what takes longer is cut off at shutdown.
DRAIN_S = 5.0


class Calls:
    """The calls under way. At shutdown streams are told so, and changes get time to finish."""

    def __init__(self) -> None:
        self._changes: set[asyncio.Task[Any]] = set()
        self._streams: set[anyio.CancelScope] = set()
        self.stopping = False

    async def change(self, call: Coroutine[Any, Any, T]) -> T:
        """Runs a call that changes something; it goes on when the caller leaves."""
        if self.stopping:
            call.close()
            raise stopping()
        task = asyncio.ensure_future(call)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_log_unseen)
            raise

    async def stream(self, call: Awaitable[None]) -> None:
        """Runs a stream until it ends, its caller leaves or the daemon stops."""
        with anyio.CancelScope() as scope:
            self._streams.add(scope)
            try:
                if self.stopping:
                    scope.cancel()
                await call
            finally:
                self._streams.discard(scope)
        if scope.cancelled_caught:
            raise stopping()

    async def stop(self) -> None:
        """Ends the streams at once and the changes within DRAIN_S."""
        self.stopping = True
        for scope in tuple(self._streams):
            scope.cancel()
        if self._changes:
            _, late = await asyncio.wait(tuple(self._changes), timeout=DRAIN_S)
            for task in late:
                logger.warning("a call did not end in %s s and is cut off: %r", DRAIN_S, task)
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=DRAIN_S)


def _log_unseen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.info("a call whose caller had left failed: %s", task.exception())


def stopping() -> DaemonFailed:
    return DaemonFailed("The daemon is stopping: call again when it is back.")


def unary(implementation: Unary) -> Unary:
    """Puts the error map around a call."""

    async def call(request: Any, context: Context) -> Any:
        try:
            return await implementation(request, context)
        except AgentctlError as error:
            await fail(context, error)
        except Exception:
            logger.exception("a call failed for a reason of our own")
            await fail(context, unexpected())

    return call


async def fail(context: Context, error: AgentctlError) -> None:
    """Ends a call with the status of an error."""
    status = to_status(error)
    await context.abort(status.code, status.message, ((DETAILS_KEY, status.details),))


def unsupported(name: str) -> Unary:
    """The call that exists and is not served."""

    async def call(request: Any, context: Context) -> Any:
        raise Unsupported(
            f"{name} is not served by this daemon. Daemon.GetInfo lists what is, in `capabilities`.",
            metadata={"method": name},
        )

    return unary(call)
