"""Owns the latest blocks in memory, shared by all subscribers and bounded in bytes; knows neither a
subscriber nor the database."""

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from agentctl.journal.blocks import COMPLETE_BIT, PAGE_BYTES, Block
from agentctl.journal.pages import Page
from agentctl.journal.select import Selection

BLOCK_OVERHEAD = 400
"""What a block in memory weighs besides its bytes."""


def keys_of(block: Block) -> Iterable[str]:
    """The ids whose followers the block may concern."""
    own = [key for key in (block.session_id, block.run_id, block.agent_id) if key is not None]
    return (*own, *block.serves) if block.serves else own


class Tail:
    """The latest blocks in memory, also by session, run and agent: a subscriber of one session
    never walks over the others' blocks."""

    def __init__(self, head: int, limit: int) -> None:
        self.head = head
        self._after = head
        self._limit = limit
        self._size = 0
        self._blocks: list[Block] = []
        self._lines: dict[str, list[Block]] = {}
        self._last: tuple[int, int, Selection, Page] | None = None

    def holds(self, after: int) -> bool:
        """Whether all that came after this seq is here."""
        return after >= self._after

    def add(self, blocks: Sequence[Block], head: int) -> None:
        self._blocks += blocks
        self.head = head
        for block in blocks:
            self._size += len(block.data) + BLOCK_OVERHEAD
            for key in keys_of(block):
                self._lines.setdefault(key, []).append(block)
        # Cutting the front off a list moves the rest, so a quarter goes at a time.
        if self._size > self._limit:
            self._trim(self._limit * 3 // 4)

    def page(self, selection: Selection, after: int, end: int | None) -> Page:
        """As `Journal.page`, from memory; who wants the same at the same time shares it."""
        head = self.head if end is None else min(self.head, end)
        last = self._last
        if last is not None and last[0] == after and last[1] == head and last[2] == selection:
            return last[3]
        page = self._page(selection, after, head)
        self._last = (after, head, selection, page)
        return page

    def _page(self, selection: Selection, after: int, head: int) -> Page:
        page = Page(to=max(head, after), head=self.head)
        size, previous = 0, after
        for block in self._behind(selection, after):
            if block.first > head:
                break
            if selection.matches(block):
                data, count = selection.view(block, after)
                if page.data and size + len(data) > PAGE_BYTES:
                    page.to = previous
                    break
                if count:
                    page.data.append(data)
                    page.count += count
                    size += len(data)
            if block.mask & COMPLETE_BIT and block.run_id in selection.runs:
                page.done[block.run_id or ""] = block.last
            previous = block.last
        return page

    def _behind(self, selection: Selection, after: int) -> Iterable[Block]:
        keys = selection.runs or selection.sessions or selection.agents
        lines = [line for key in keys if (line := self._lines.get(key))] if keys else [self._blocks]
        rests = [islice(line, bisect_right(line, after, key=_last), None) for line in lines]
        if len(rests) == 1:
            return rests[0]
        return _once(heapq.merge(*rests, key=_last))

    def forget(self, session_id: str) -> None:
        """Drops a deleted session's blocks."""
        self._last = None
        for block in self._lines.get(session_id, ()):
            if block.session_id == session_id:
                self._size -= len(block.data)
                block.mask, block.data, block.view = 0, b"", None

    def _trim(self, limit: int) -> None:
        gone: Counter[str] = Counter()
        number = 0
        while self._size > limit:
            block = self._blocks[number]
            number += 1
            self._size -= len(block.data) + BLOCK_OVERHEAD
            gone.update(keys_of(block))
            self._after = block.last
        del self._blocks[:number]
        for key, count in gone.items():
            line = self._lines[key]
            del line[:count]
            if not line:
                del self._lines[key]


def _last(block: Block) -> int:
    return block.last


def _once(blocks: Iterable[Block]) -> Iterable[Block]:
    """An agent's block stands in the line of each session that it serves."""
    previous = 0
    for block in blocks:
        if block.last > previous:
            previous = block.last
            yield block
