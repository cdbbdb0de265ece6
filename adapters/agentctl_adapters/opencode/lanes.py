"""Owns the order of what is done for one session: one thing after the other, in a task of its own.

A server that is slow for one session holds up neither the others nor the caller. Knows no protocol.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from agentctl.core.errors import AgentctlError

logger = logging.getLogger(__name__)

Job = Callable[[], Awaitable[None]]


class Lane:
    """The jobs of one session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: deque[Job] = deque()
        self._wake = anyio.Event()
        self._scope = anyio.CancelScope()

    def put(self, job: Job) -> None:
        """Has it done after all that was put before; never waits."""
        self._jobs.append(job)
        self._wake.set()

    def close(self) -> None:
        """Gives up what is not done."""
        self._scope.cancel()

    async def run(self) -> None:
        """Does the jobs; a failed one is logged and holds up no other."""
        with self._scope:
            while True:
                while self._jobs:
                    await self._do(self._jobs.popleft())
                self._wake = anyio.Event()
                await self._wake.wait()

    async def _do(self, job: Job) -> None:
        try:
            await job()
        except AgentctlError as error:
            logger.warning("session %s: %s", self._name, error)
        except Exception:
            # The edge of a task for one session: its defect must not end the whole server.
            logger.exception("session %s: a job failed", self._name)
