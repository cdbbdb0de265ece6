"""Owns the connections that read and the threads they read on; knows no SQL of its own."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from agentctl.core.errors import DaemonFailed
from agentctl.journal import schema

READERS = 4
"""Enough that a scan of an old journal does not keep a page of a live one waiting."""

# A reader is at work for milliseconds, in a long scan for seconds; a thread that hangs in a dead
# disk must not keep the daemon from leaving.
CLOSE_TIMEOUT_S = 5.0

T = TypeVar("T")


class Readers:
    """A pool of read-only connections, each used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._limiter = anyio.CapacityLimiter(READERS)
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` on a thread with a connection of its own.

        Raises:
            DaemonFailed: the journal is closed, or cannot be read.
        """
        if self._closed:
            raise DaemonFailed("The journal is closed: the daemon is stopping.")
        return await anyio.to_thread.run_sync(self._work, work, limiter=self._limiter)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            conn = self._idle.pop() if self._idle else schema.connect(self._path, readonly=True)
            try:
                return work(conn)
            finally:
                self._idle.append(conn)
        except sqlite3.Error as error:
            raise schema.explained(error, self._path) from error

    async def close(self) -> None:
        """Waits for the threads at work, then closes all connections."""
        self._closed = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_TIMEOUT_S):
            for _ in range(READERS):
                await self._limiter.acquire_on_behalf_of(object())
        while self._idle:
            self._idle.pop().close()
