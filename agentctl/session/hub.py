"""Owns the subscribers of the event stream: a cursor over the journal each, and no queue.

The latest blocks stay in memory, bounded in bytes and shared; who is further behind reads pages of
the journal. A commit wakes only those whom it may concern. Refuses to know gRPC and what an event
says.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentctl.core.words import EventType
from agentctl.journal.blocks import COMPLETE_BIT, Block, StripRaw
from agentctl.journal.cursor import format_cursor, invalid_cursor, parse_cursor
from agentctl.journal.pages import Page
from agentctl.journal.select import Selection, wanted
from agentctl.session.tail import Tail, keys_of

# Clients and proxies see that the stream lives, and a filtered cursor does not fall behind what
# retention keeps.
BEAT_S = 15.0

TAIL_BYTES = 16 * 1024 * 1024
"""The latest blocks in memory: a second of the heaviest load, for all subscribers together."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a subscriber asks for: or within a set, and between them; empty sets do not filter.

    `after`: a cursor, "" for the oldest kept event, "now" for new ones only. An agent's own events
    are also events of each session that it serves. Log events come only with `include_log`, or
    when `types` names them.
    """

    after: str = ""
    sessions: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    types: frozenset[EventType] = frozenset()
    follow: bool = True
    include_raw: bool = False
    include_log: bool = False


@dataclass(frozen=True, slots=True)
class Gap:
    """Events after `requested` are missing; the first that there is, is `first_available`.

    `reason`: "foreign" (the cursor is of another journal) or "expired" (retention was there).
    """

    requested: str
    first_available: str
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """At most 1 MiB of `events` frames, ready to send; `cursor` is the position after it.

    `caught_up`: at this moment there was nothing newer.
    """

    data: bytes
    count: int
    cursor: str
    caught_up: bool
    gap: Gap | None = None


class JournalReader(Protocol):
    """What the hub needs of the journal; see `journal.store.Journal`."""

    id: str

    @property
    def head(self) -> int: ...
    async def page(self, selection: Selection, after: int, upto: int | None = None) -> Page: ...
    async def done_runs(self, runs: Collection[str]) -> dict[str, int]: ...
    def listen(
        self,
        on_commit: Callable[[Sequence[Block], int], None],
        on_forget: Callable[[str], None],
    ) -> None: ...


class _Waiter:
    """Woken by the first commit that may concern it; `before` is the head before that one.

    A future and a timer of its own: at 500 subscribers a cancel scope each is half the work.
    """

    __slots__ = ("_future", "before", "mask")

    def __init__(self, mask: int) -> None:
        self.mask = mask
        self.before = 0
        self._future: asyncio.Future[bool] | None = None

    async def wait(self, seconds: float) -> bool:
        """Whether a commit came before the time was over."""
        loop = asyncio.get_running_loop()
        self._future = future = loop.create_future()
        timer = loop.call_later(seconds, self._expire)
        try:
            return await future
        finally:
            timer.cancel()
            self._future = None

    def wake(self, before: int) -> None:
        if self._future is not None and not self._future.done():
            self.before = before
            self._future.set_result(True)

    def _expire(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(False)


@dataclass(slots=True)
class _Start:
    """`floor`: what retention deleted up to here is nobody's loss; None: up to now."""

    after: int
    end: int | None
    floor: int | None = None
    foreign: str | None = None


class Hub:
    """Serves any number of subscribers; construct it before the journal's first append."""

    def __init__(
        self,
        journal: JournalReader,
        *,
        strip_raw: StripRaw,
        beat_s: float = BEAT_S,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        self._journal = journal
        self._strip_raw = strip_raw
        self._beat_s = beat_s
        self._tail = Tail(journal.head, tail_bytes)
        self._seen = journal.head
        self._everybody: set[_Waiter] = set()
        self._waiters: dict[str, set[_Waiter]] = {}
        journal.listen(self._on_commit, self._tail.forget)

    def subscribe(self, query: Query) -> AsyncGenerator[Batch, None]:
        """Replays from the cursor, then goes live without gap or double; close it when done.

        With `follow` false it ends at what was the head when called; filtered by runs it ends after
        the last `complete` of them. The first batch of a quiet stream comes at once; every 15 s
        without one an empty batch moves the cursor.

        Raises:
            Invalid: the cursor is malformed or ahead of the journal (INVALID_CURSOR); from the
                call itself.
        """
        selection = Selection(
            sessions=query.sessions,
            runs=query.runs,
            agents=query.agents,
            want=wanted(query.types, query.include_log),
            strip=None if query.include_raw else self._strip_raw,
        )
        return self._stream(selection, self._start(query))

    def _start(self, query: Query) -> _Start:
        head = self._head()
        end = None if query.follow else head
        if query.after in ("", "now"):
            return _Start(head, end, floor=head) if query.after else _Start(0, end)
        journal, seq = parse_cursor(query.after)
        if journal != self._journal.id:
            return _Start(0, end, foreign=query.after)
        if seq > head:
            raise invalid_cursor(query.after, "it is ahead of the last event")
        return _Start(seq, end, floor=seq)

    def _head(self) -> int:
        # A page may show a commit before its writer thread has said so.
        self._seen = max(self._seen, self._journal.head)
        return self._seen

    async def _stream(self, selection: Selection, start: _Start) -> AsyncGenerator[Batch, None]:
        waiter = _Waiter(selection.want | (COMPLETE_BIT if selection.runs else 0))
        places = self._register(waiter, selection)
        try:
            cursor = _Cursor(self._journal.id, selection, start)
            if selection.runs:
                cursor.done.update(await self._journal.done_runs(selection.runs))
            while True:
                batch = cursor.take(await self._page(cursor), self._tail.head)
                if batch is not None:
                    yield batch
                if cursor.ended:
                    return
                if cursor.end is not None or cursor.after < self._tail.head:
                    continue
                if await waiter.wait(self._beat_s):
                    cursor.skip(waiter.before)
                else:
                    yield cursor.beat(self._tail.head)
        finally:
            for place in places:
                place.discard(waiter)
            self._sweep(selection)

    async def _page(self, cursor: "_Cursor") -> Page:
        tail, end = self._tail, cursor.end
        if tail.holds(cursor.after) and not cursor.foreign and (end is None or end <= tail.head):
            return tail.page(cursor.selection, cursor.after, end)
        page = await self._journal.page(cursor.selection, cursor.after, end)
        self._seen = max(self._seen, page.head)
        return page

    def _register(self, waiter: _Waiter, selection: Selection) -> list[set[_Waiter]]:
        keys = selection.runs or selection.sessions or selection.agents
        places = [self._waiters.setdefault(key, set()) for key in keys] or [self._everybody]
        for place in places:
            place.add(waiter)
        return places

    def _sweep(self, selection: Selection) -> None:
        for key in selection.runs or selection.sessions or selection.agents:
            if not self._waiters.get(key, True):
                del self._waiters[key]

    def _on_commit(self, blocks: Sequence[Block], head: int) -> None:
        before, mask = self._tail.head, 0
        self._tail.add(blocks, head)
        for block in blocks:
            mask |= block.mask
            if self._waiters:
                for key in keys_of(block):
                    _wake(self._waiters.get(key, ()), block.mask, before)
        _wake(self._everybody, mask, before)


def _wake(waiters: Iterable[_Waiter], mask: int, before: int) -> None:
    for waiter in waiters:
        if waiter.mask & mask:
            waiter.wake(before)


class _Cursor:
    """One subscriber's position, and what it has been told."""

    def __init__(self, journal: str, selection: Selection, start: _Start) -> None:
        self.selection = selection
        self.after = start.after
        self.end = start.end
        self.foreign = start.foreign
        self.done: dict[str, int] = {}
        self._journal = journal
        self._floor = start.floor
        self._told = -1
        self._caught_up = False

    @property
    def ended(self) -> bool:
        if self.end is not None and self.after >= self.end:
            return True
        runs = self.selection.runs
        return bool(runs) and len(self.done) == len(runs) and self.after >= max(self.done.values())

    def take(self, page: Page, head: int) -> Batch | None:
        """Moves over the page; the batch to send, or None when it says nothing new."""
        gap = self._gap(page)
        self.done.update(page.done)
        self.after = max(self.after, page.to)
        caught_up = self.after >= (head if self.end is None else self.end)
        news = page.count or gap is not None or (caught_up and not self._caught_up)
        if not news and not (self.ended and self._told != self.after):
            return None
        self._told = self.after
        self._caught_up = caught_up
        return Batch(b"".join(page.data), page.count, self._at(self.after), caught_up, gap)

    def beat(self, head: int) -> Batch:
        """The empty batch of a quiet time, in which all up to `head` was for others."""
        self.skip(head)
        self._told, self._caught_up = self.after, True
        return Batch(b"", 0, self._at(self.after), caught_up=True)

    def skip(self, seq: int) -> None:
        """Moves to `seq`: nothing up to there was for this subscriber."""
        self.after = max(self.after, seq)

    def _gap(self, page: Page) -> Gap | None:
        requested, reason = self.foreign, "foreign"
        known = page.floor if self._floor is None else self._floor
        if requested is None and page.floor > max(known, self.after):
            requested, reason = self._at(self.after), "expired"
        self._floor = max(known, page.floor)
        self.foreign = None
        if requested is None:
            return None
        first = page.oldest if page.oldest is not None else page.head
        return Gap(requested, self._at(first), reason)

    def _at(self, seq: int) -> str:
        return format_cursor(self._journal, seq)
