"""Owns the one thread and the one connection that write; knows neither subscriber nor reader.

One transaction is in flight; it takes every list that waits when it begins. The event loop hears of
it once, after the commit.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentctl.core.errors import AgentctlError, DaemonFailed
from agentctl.core.events import Event
from agentctl.journal import docs, schema
from agentctl.journal.blocks import COMPLETE_BIT, Block, Encode, pack
from agentctl.journal.docs import Doc
from agentctl.journal.names import Names
from agentctl.journal.reserve import RESERVE_BYTES, Reserve
from agentctl.journal.retention import CLOCK_STEP_MS

logger = logging.getLogger(__name__)

Work = Callable[[sqlite3.Connection, Names], Any]
OnCommit = Callable[[Sequence[Block], int], None]


@dataclass(slots=True)
class Append:
    """One caller's list; its future is resolved on the loop, after the commit."""

    events: Sequence[Event]
    docs: Sequence[Doc]
    vital: bool
    done: asyncio.Future[None]
    error: BaseException | None = None


@dataclass(slots=True)
class Task:
    """Work on the write connection: a transaction of its own, or `bare` without one."""

    work: Work
    done: concurrent.futures.Future[Any]
    bare: bool = False


@dataclass(frozen=True, slots=True)
class WriterParts:
    """What the writer is given: see `store.open_journal`."""

    encode: Encode
    frame_limit: int
    reserve: Reserve
    on_commit: OnCommit
    on_full: Callable[[bool], None]
    on_written: Callable[[sqlite3.Connection, int], None]
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


class Writer:
    """Not to be used before `start`; `full` says whether the disk is."""

    def __init__(
        self, path: Path, parts: WriterParts, loop: asyncio.AbstractEventLoop, *, full: bool
    ) -> None:
        self._path = path
        self._parts = parts
        self._loop = loop
        self._queue: queue.SimpleQueue[Append | Task | None] = queue.SimpleQueue()
        self._conn = schema.connect(path)
        self._names = Names(self._conn)
        self.head: int = self._conn.execute("SELECT head FROM meta").fetchone()[0]
        row = self._conn.execute("SELECT max(ts) FROM clock").fetchone()
        self._clock: int = row[0] or 0
        self.full = full
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, item: Append | Task) -> None:
        """Queues in the order of calls; never blocks.

        Raises:
            DaemonFailed: the journal is closed.
        """
        if self.closed:
            raise DaemonFailed("The journal is closed: the daemon is stopping.")
        self._queue.put(item)

    def stop(self) -> None:
        """Takes nothing more; the thread ends once all that waits is written."""
        self.closed = True
        self._queue.put(None)

    def join(self, seconds: float) -> bool:
        """Waits for the thread; whether it ended. Blocks."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        running = True
        while running:
            appends: list[Append] = []
            for item in self._waiting():
                if isinstance(item, Append):
                    appends.append(item)
                    continue
                self._commit(appends)
                appends = []
                if item is None:
                    running = False
                else:
                    self._perform(item)
            self._commit(appends)
        try:
            schema.leave(self._conn)
        except sqlite3.Error:
            logger.exception("The journal could not be closed in order")
        self._conn.close()

    def _waiting(self) -> list[Append | Task | None]:
        items = [self._queue.get()]
        with contextlib.suppress(queue.Empty):
            while True:
                items.append(self._queue.get_nowait())
        return items

    def _commit(self, appends: list[Append]) -> None:
        if not appends:
            return
        blocks: list[Block] = []
        try:
            blocks = self._write(appends)
        except Exception as error:
            # The edge of the thread: were it to end here, every caller would wait for ever.
            logger.exception("The journal's writer failed")
            for append in appends:
                append.error = append.error or error
        head = self.head
        with contextlib.suppress(RuntimeError):  # the loop is gone, and so is who waits
            self._loop.call_soon_threadsafe(self._deliver, appends, blocks, head)
        size = sum(len(block.data) for block in blocks)
        size += sum(len(doc.body or b"") for append in appends for doc in append.docs)
        self._parts.on_written(self._conn, size)

    def _deliver(self, appends: list[Append], blocks: list[Block], head: int) -> None:
        try:
            if blocks:
                self._parts.on_commit(blocks, head)
        finally:
            for append in appends:
                if append.done.done():
                    continue
                if append.error is None:
                    append.done.set_result(None)
                else:
                    append.done.set_exception(append.error)

    def _write(self, appends: list[Append]) -> list[Block]:
        blocks: list[Block] = []
        try:
            blocks = self._transaction([one for one in appends if one.vital or not self.full])
        except sqlite3.Error as error:
            if not self.full and schema.is_full(error, self._path):
                blocks = self._write_vital([one for one in appends if one.vital])
            else:
                self._fail(appends, error)
        if self.full:
            for append in appends:
                if not append.vital:
                    append.error = schema.disk_full(self._path)
        return blocks

    def _write_vital(self, appends: list[Append]) -> list[Block]:
        logger.error("The disk of %s is full: only what ends runs is still written", self._path)
        self._set_full(True)
        try:
            return self._transaction(appends)
        except sqlite3.Error as error:
            self._fail(appends, error)
            return []

    def _fail(self, appends: list[Append], error: sqlite3.Error) -> None:
        for append in appends:
            append.error = schema.explained(error, self._path)

    def _transaction(self, appends: list[Append]) -> list[Block]:
        if not appends:
            return []
        conn = self._conn
        blocks: list[Block] = []
        seq = self.head
        try:
            conn.execute("BEGIN IMMEDIATE")
            for append in appends:
                try:
                    made = pack(append.events, seq, self._parts.encode, self._parts.frame_limit)
                except Exception as error:
                    # The encoder is foreign, and one bad event must not fail its neighbours.
                    if not isinstance(error, AgentctlError):
                        logger.exception("An event could not be encoded")
                    append.error = error
                    continue
                if made:
                    seq = made[-1].last
                    blocks += made
                docs.put(conn, append.docs, seq)
            if blocks:
                rows = [(*self._numbers(block), block.data) for block in blocks]
                conn.executemany("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
                self._tick(blocks[0].first)
                conn.execute("UPDATE meta SET head = ?", (seq,))
            conn.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        self.head = seq
        return blocks

    def _numbers(self, block: Block) -> tuple[int, int, int, int, int, int]:
        names, first = self._names, block.first
        session_no = names.number(block.session_id)
        agent_no = names.number(block.agent_id)
        run_no = names.number(block.run_id, session_no=session_no, seq=first)
        if block.agent_id is not None:
            if block.session_id is not None:
                names.serve(block.agent_id, agent_no, block.session_id, session_no, first)
            else:
                block.serves = names.served_by(block.agent_id, agent_no)
        if run_no and block.mask & COMPLETE_BIT:
            self._conn.execute("UPDATE name SET done_seq = ? WHERE no = ?", (block.last, run_no))
        return first, block.last, session_no, run_no, agent_no, block.mask

    def _tick(self, seq: int) -> None:
        now = self._parts.now_ms()
        if not 0 <= now - self._clock < CLOCK_STEP_MS:
            self._conn.execute("INSERT INTO clock VALUES (?, ?)", (seq, now))
            self._clock = now

    def _roll_back(self) -> None:
        self._names.clear()
        self._clock = 0
        if self._conn.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._conn.execute("ROLLBACK")

    def _perform(self, task: Task) -> None:
        if not task.done.set_running_or_notify_cancel():
            return
        try:
            if not task.bare:
                self._conn.execute("BEGIN IMMEDIATE")
            result = task.work(self._conn, self._names)
            if not task.bare:
                self._conn.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            task.done.set_exception(schema.explained(error, self._path))
        except Exception as error:
            # The edge of the thread: the error belongs to who asked for the work.
            if not isinstance(error, AgentctlError):
                logger.exception("Work on the journal failed")
            self._roll_back()
            task.done.set_exception(error)
        else:
            task.done.set_result(result)

    def _set_full(self, full: bool) -> None:
        if full:
            self._parts.reserve.release()
        if full != self.full:
            self.full = full
            with contextlib.suppress(RuntimeError):  # the loop is gone
                self._loop.call_soon_threadsafe(self._parts.on_full, full)

    def recover(self) -> None:
        """Takes writes again once there is room for them and for the reserve; a no-op else."""
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._queue.put(Task(self._probe, done))

    def _probe(self, conn: sqlite3.Connection, names: Names) -> None:
        # With less it would be full again at once, and each time runs are cancelled for it.
        if schema.free_bytes(self._path) < 2 * RESERVE_BYTES or not self._parts.reserve.restore():
            return
        try:
            conn.execute("INSERT INTO clock VALUES (-1, zeroblob(262144))")
            conn.execute("DELETE FROM clock WHERE seq = -1")
        except sqlite3.Error as error:
            self._parts.reserve.release()
            raise schema.explained(error, self._path) from error
        self._set_full(False)
