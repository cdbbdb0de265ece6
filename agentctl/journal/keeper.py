"""Owns the thread that keeps the file in order: checkpoints, retention, and the end of a full disk.

It has a connection of its own for checkpoints; what changes rows it asks of the writer.
"""

import concurrent.futures
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentctl.core.errors import AgentctlError
from agentctl.journal import retention, schema
from agentctl.journal.names import Names
from agentctl.journal.retention import KEEP_ALL, Retention
from agentctl.journal.writer import Task, Writer

logger = logging.getLogger(__name__)

# A checkpoint inside a commit costs 5 ms at p99; every 4 MiB on this thread, the WAL stays small.
CHECKPOINT_BYTES = 4 * 1024 * 1024

COMMIT_BYTES = 16 * 1024
"""What the smallest commit adds to the WAL: a page each of block, index, meta and doc."""

# Under steady writing PASSIVE never gets to the WAL's end: here appends wait once for the rest.
WAL_BYTES = 64 * 1024 * 1024

# How long appends wait for readers of the old WAL to end; a page takes them a few ms. After a longer
# scan the next round tries again.
TRUNCATE_WAIT_MS = 100

# Retention is of days and gigabytes: a minute more or less is nothing to anybody.
RETENTION_INTERVAL_S = 60.0

# What somebody who frees the disk waits until prompts are taken again.
RECOVERY_INTERVAL_S = 5.0

# A step waits behind the writer's queue; a writer that slow has other troubles than old rows.
STEP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between the keeper's rounds, and the WAL's bound in bytes."""

    retention_s: float = RETENTION_INTERVAL_S
    recovery_s: float = RECOVERY_INTERVAL_S
    wal_bytes: int = WAL_BYTES


INTERVALS = Intervals()


class Keeper:
    def __init__(
        self,
        path: Path,
        writer: Writer,
        rule: Retention,
        intervals: Intervals,
        now_ms: Callable[[], int],
    ) -> None:
        self._path = path
        self._writer = writer
        self._rule = rule
        self._intervals = intervals
        self._now_ms = now_ms
        self._conn = schema.connect(path)
        self._page: int = self._conn.execute("PRAGMA page_size").fetchone()[0]
        self._written = 0
        self._wal = 0
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="journal-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def written(self, conn: sqlite3.Connection, size: int) -> None:
        """Hears from the writer, on its thread, how many bytes a transaction had."""
        size += COMMIT_BYTES
        self._written += size
        self._wal += size
        if self._wal >= 2 * self._intervals.wal_bytes:
            # The keeper does not keep up: the writer waits for the disk itself.
            self._truncate(conn)
        elif self._written >= CHECKPOINT_BYTES:
            self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Waits for the thread; whether it ended. Blocks."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = time.monotonic() + self._intervals.retention_s
        while not self._stopping:
            wait = self._intervals.recovery_s if self._writer.full else due - time.monotonic()
            woken = self._wake.wait(max(0.0, wait))
            self._wake.clear()
            if self._stopping:
                break
            if self._writer.full and not woken:
                self._writer.recover()
            tidy = time.monotonic() >= due
            if tidy:
                due = time.monotonic() + self._intervals.retention_s
            self._round(tidy)
        self._conn.close()

    def _round(self, tidy: bool) -> None:
        try:
            self._checkpoint()
            if tidy:
                self.tidy()
        except (sqlite3.Error, AgentctlError, TimeoutError):
            # The next round tries again; appends do not depend on it.
            if not self._writer.full:
                logger.exception("The journal could not be tidied up")

    def _checkpoint(self) -> None:
        self._written = 0
        _, pages, _ = self._conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages * self._page > self._intervals.wal_bytes:
            # From here it would wait for the writer, and a busy writer would not let it in.
            self._step(lambda conn, _: self._truncate(conn), bare=True)

    def _truncate(self, conn: sqlite3.Connection) -> bool:
        """Empties the WAL, on the writer's thread; False when readers were in its way."""
        conn.execute(f"PRAGMA busy_timeout = {TRUNCATE_WAIT_MS}")
        try:
            busy = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error:
            logger.exception("The journal's WAL could not be emptied")
            busy = 1
        finally:
            conn.execute(f"PRAGMA busy_timeout = {int(schema.BUSY_TIMEOUT_S * 1000)}")
        # Busy is mostly a checkpoint of our own under way: ask again after its next step.
        limit = self._intervals.wal_bytes
        self._wal = max(limit, 2 * limit - CHECKPOINT_BYTES) if busy else 0
        return not busy

    def tidy(self) -> None:
        """Runs retention to its end, in steps between which appends get their turn."""
        if self._rule != KEEP_ALL:
            while self._step(lambda conn, _: retention.expire(conn, self._rule, self._now_ms())):
                pass
        while self._step(lambda conn, _: retention.vacuum(conn)):
            pass

    def _step(
        self, work: Callable[[sqlite3.Connection, Names], bool], *, bare: bool = False
    ) -> bool:
        if self._stopping:
            return False
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._writer.put(Task(work, done, bare))
        return done.result(STEP_TIMEOUT_S)
