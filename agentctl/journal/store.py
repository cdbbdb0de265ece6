"""Owns the journal as the rest of the daemon sees it: append, docs, pages, forget.

Refuses to know protobuf (bytes come from an injected `encode`), subscribers and sessions' lives.
"""

import asyncio
import concurrent.futures
import functools
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from agentctl.core.events import Event
from agentctl.journal import docs as documents
from agentctl.journal import pages, retention, schema
from agentctl.journal.blocks import PAGE_BYTES, Block, Encode
from agentctl.journal.docs import Doc, Where
from agentctl.journal.keeper import INTERVALS, Intervals, Keeper
from agentctl.journal.pages import Page
from agentctl.journal.reader import Readers
from agentctl.journal.reserve import Reserve, ReserveFile
from agentctl.journal.retention import KEEP_ALL, Retention
from agentctl.journal.select import Selection
from agentctl.journal.writer import Append, Task, Work, Writer, WriterParts

__all__ = ["Doc", "Intervals", "Journal", "Page", "Retention", "Where", "open_journal"]

# What waits is written within milliseconds; a checkpoint of a full WAL to a slow disk takes longer.
CLOSE_TIMEOUT_S = 20.0

CommitListener = Callable[[Sequence[Block], int], None]


class _Listeners:
    def __init__(self) -> None:
        self.commit: list[CommitListener] = []
        self.forget: list[Callable[[str], None]] = []
        self.full: list[Callable[[bool], None]] = []

    def committed(self, blocks: Sequence[Block], head: int) -> None:
        for listener in self.commit:
            listener(blocks, head)

    def fullness(self, full: bool) -> None:
        for listener in self.full:
            listener(full)


class Journal:
    """Made by `open_journal`; every method is for its event loop."""

    def __init__(
        self, journal_id: str, readers: Readers, writer: Writer, listeners: _Listeners
    ) -> None:
        self.id = journal_id
        self._readers = readers
        self._writer = writer
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()

    @property
    def head(self) -> int:
        """The last seq that is committed."""
        return self._writer.head

    @property
    def full(self) -> bool:
        """Whether the disk is full; ordinary appends are refused until it is not."""
        return self._writer.full

    def submit(
        self, events: Sequence[Event], docs: Sequence[Doc] = (), *, vital: bool = False
    ) -> asyncio.Future[None]:
        """As `append`, for who goes on before the commit; calls keep their order."""
        done = self._loop.create_future()
        if events or docs:
            self._writer.put(Append(events, docs, vital, done))
        else:
            done.set_result(None)
        return done

    async def append(
        self, events: Sequence[Event], docs: Sequence[Doc] = (), *, vital: bool = False
    ) -> None:
        """Writes events and docs in one transaction and stamps each seq; returns once committed.

        A caller that is cancelled meanwhile has appended all the same. `vital`: what ends runs; it
        is written even with the disk full.

        Raises:
            Exhausted: the disk is full (DISK_FULL).
            Invalid: an event is too large.
            DaemonFailed: closed, or the database could not be written.
        """
        await self.submit(events, docs, vital=vital)

    async def docs(
        self,
        kind: str,
        *,
        session_id: str | None = None,
        open: bool | None = None,  # noqa: A002  # the word of Doc
        after_id: str = "",
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[Doc]:
        """Lists docs of a kind by id, beyond `after_id`."""
        find = functools.partial(
            documents.find,
            kind=kind,
            session_id=session_id,
            is_open=open,
            after_id=after_id,
            limit=limit,
            newest_first=newest_first,
        )
        return await self._readers.run(find)

    async def doc(self, kind: str, id: str) -> Doc | None:  # noqa: A002  # the word of Doc
        return await self._readers.run(lambda conn: documents.get(conn, kind, id))

    async def briefed(
        self,
        kind: str,
        where: Sequence[Where],
        *,
        but: Collection[str] = (),
        before_id: str = "",
        limit: int = 1000,
    ) -> list[Doc]:
        """Docs whose briefs fit all conditions, newest first, from below `before_id`."""
        find = functools.partial(
            documents.briefed, kind=kind, where=where, but=but, before_id=before_id, limit=limit
        )
        return await self._readers.run(find)

    async def count_briefed(
        self, kind: str, where: Sequence[Where], *, but: Collection[str] = ()
    ) -> int:
        """How many docs `briefed` would give in all."""
        return await self._readers.run(lambda conn: documents.count_briefed(conn, kind, where, but))

    async def count_by(
        self, kind: str, name: str, where: Sequence[Where], *, but: Collection[str] = ()
    ) -> dict[str, int]:
        """As `count_briefed`, for each value of the briefs' member `name`."""
        return await self._readers.run(
            lambda conn: documents.count_by(conn, kind, name, where, but)
        )

    async def lacking(self, kind: str, other: str, *, limit: int = 1000) -> list[str]:
        """Ids of docs of a kind for which there is none of the other kind."""
        return await self._readers.run(lambda conn: documents.lacking(conn, kind, other, limit))

    async def newest(self, sessions: Collection[str]) -> dict[str, int]:
        """The last seq of each of these sessions that has events."""
        return await self._readers.run(lambda conn: pages.newest(conn, sessions))

    async def forget_session(self, session_id: str) -> None:
        """Deletes a session's events and docs; what it shares with others stays."""
        step = functools.partial(retention.forget, session_id=session_id)
        while await self._ask(step):
            pass
        for listener in self._listeners.forget:
            listener(session_id)

    async def page(self, selection: Selection, after: int, upto: int | None = None) -> Page:
        """Reads at most 1 MiB of what is selected, with `after` < seq <= `upto`."""
        return await self._readers.run(lambda conn: pages.read_page(conn, selection, after, upto))

    async def done_runs(self, runs: Collection[str]) -> dict[str, int]:
        """The seq of the `complete` of each of these runs that has one."""
        return await self._readers.run(lambda conn: pages.done_runs(conn, runs))

    def listen(self, on_commit: CommitListener, on_forget: Callable[[str], None]) -> None:
        """Has each commit (its blocks, the head after it) and each forgotten session told, on the
        loop, before the appends that are in it return."""
        self._listeners.commit.append(on_commit)
        self._listeners.forget.append(on_forget)

    def watch_full(self, on_full: Callable[[bool], None]) -> None:
        """Has it told, on the loop, when the disk becomes full and when it no longer is."""
        self._listeners.full.append(on_full)

    async def _ask(self, work: Work) -> Any:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._writer.put(Task(work, done))
        return await asyncio.wrap_future(done)


@asynccontextmanager
async def open_journal(
    path: Path,
    *,
    encode: Encode,
    frame_limit: int = PAGE_BYTES,
    rule: Retention = KEEP_ALL,
    intervals: Intervals = INTERVALS,
    reserve: Reserve | None = None,
    boot_id: str | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> AsyncGenerator[Journal]:
    """Opens the journal, or makes a new one; leaving writes what waits and closes it in order.

    Args:
        path: the database file; hold `lock.lock_data_dir` on its directory.
        encode: makes the frame of an event; called on the writer's thread, once per event.
        frame_limit: the largest frame in bytes; a larger one loses its raw, or is refused.

    Raises:
        DaemonFailed: not writable, damaged, or of a newer version; the message says what to do.
        Exhausted: the disk is full, even without the reserve.
    """
    loop = asyncio.get_running_loop()
    listeners = _Listeners()
    parts = WriterParts(
        encode=encode,
        frame_limit=frame_limit,
        reserve=reserve or ReserveFile(path.with_suffix(".reserve")),
        on_commit=listeners.committed,
        on_full=listeners.fullness,
        on_written=lambda conn, size: keeper.written(conn, size),
        now_ms=now_ms,
    )

    def start() -> tuple[str, Writer, Keeper]:
        boot = schema.read_boot_id() if boot_id is None else boot_id
        journal_id = schema.prepare(path, boot, parts.reserve)
        writer = Writer(path, parts, loop, full=not parts.reserve.restore())
        return journal_id, writer, Keeper(path, writer, rule, intervals, now_ms)

    journal_id, writer, keeper = await anyio.to_thread.run_sync(start)
    listeners.full.append(lambda _: keeper.wake())
    readers = Readers(path)
    writer.start()
    keeper.start()
    try:
        yield Journal(journal_id, readers, writer, listeners)
    finally:
        with anyio.CancelScope(shield=True):
            keeper.stop()
            await anyio.to_thread.run_sync(keeper.join, CLOSE_TIMEOUT_S)
            writer.stop()
            await readers.close()
            await anyio.to_thread.run_sync(writer.join, CLOSE_TIMEOUT_S)
