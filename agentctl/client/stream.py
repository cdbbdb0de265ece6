"""Owns reading the event stream for good: it reconnects, resumes after the last cursor, and so
neither loses nor doubles an event. It refuses to know what the events say.
"""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import anyio

from agentctl import v1
from agentctl.client.channel import Connection, Unreachable
from agentctl.core.errors import AgentctlError, DaemonFailed

# Between two tries to reconnect: short at first because a restart takes under a second.
FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 2.0

# A daemon that is away for longer is not being restarted; the caller is told.
DEFAULT_PATIENCE_S = 300.0


def retryable(error: AgentctlError) -> bool:
    """Whether the same subscription may succeed later."""
    return isinstance(error, Unreachable) or (
        isinstance(error, DaemonFailed) and error.reason == "SERVER_ERROR"
    )


class Subscription:
    """Reads batches; `cursor` is where to go on."""

    def __init__(
        self,
        connection: Connection,
        request: v1.SubscribeRequest,
        *,
        patience_s: float = DEFAULT_PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._request = request
        self._patience_s = patience_s
        self._clock = clock
        self.reached: bool = False
        """Whether a daemon answered so far; before that, one that is away is told at once."""

    @property
    def cursor(self) -> str:
        """The cursor after the last batch that was handed out."""
        return self._request.after

    async def batches(self) -> AsyncGenerator[v1.EventBatch]:
        """Yields batches until the stream ends.

        Raises:
            AgentctlError: the first connection failed, the daemon refused, or it stayed away for
                longer than the patience.
        """
        failing_since: float | None = None
        pause = FIRST_PAUSE_S
        while True:
            try:
                await self._pin_now()
                stream = self._connection.stream("Events/Subscribe", self._request, v1.EventBatch)
                async with aclosing(stream) as batches:
                    async for batch in batches:
                        self.reached, failing_since, pause = True, None, FIRST_PAUSE_S
                        if batch.cursor:
                            self._request.after = batch.cursor
                        yield batch
                return
            except AgentctlError as error:
                now = self._clock()
                failing_since = now if failing_since is None else failing_since
                given_up = now - failing_since >= self._patience_s
                if not self.reached or given_up or not retryable(error):
                    raise
            await anyio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)

    async def _pin_now(self) -> None:
        """Names the event that `now` stands after, so that a reconnect does not skip any."""
        if self._request.after == "now":
            info = await self._connection.unary(
                "Daemon/GetInfo", v1.GetInfoRequest(), v1.GetInfoResponse
            )
            self._request.after = info.head_cursor
