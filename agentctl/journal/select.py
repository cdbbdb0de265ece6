"""Owns what a reader wants of the journal and the test of one block against it; pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from agentctl.core.words import EventType
from agentctl.journal.blocks import (
    LOG_BIT,
    NUMBERS,
    RAW_BIT,
    TYPE_BITS,
    Block,
    StripRaw,
    pick,
)

_USUAL = TYPE_BITS & ~LOG_BIT


@dataclass(frozen=True, slots=True)
class Selection:
    """Or within a set, and between sets; an empty set does not filter.

    `want` is a mask of type bits. `strip` takes raw out of a frame; None leaves it in.
    """

    sessions: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    want: int = TYPE_BITS
    strip: StripRaw | None = None

    def matches(self, block: Block) -> bool:
        """Whether some event of the block may be wanted."""
        return bool(
            block.mask & self.want
            and (not self.runs or block.run_id in self.runs)
            and (not self.agents or block.agent_id in self.agents)
            and (
                not self.sessions
                or block.session_id in self.sessions
                or not self.sessions.isdisjoint(block.serves)
            )
        )

    def cut(self, data: bytes, first: int, last: int, mask: int, after: int) -> tuple[bytes, int]:
        """Returns the wanted frames after `after`, and their number; most blocks pass whole."""
        raw = self.strip if mask & RAW_BIT else None
        if after < first and raw is None and not mask & TYPE_BITS & ~self.want:
            return data, last - first + 1
        return pick(data, first, after=after, want=self.want, strip=raw)

    def view(self, block: Block, after: int) -> tuple[bytes, int]:
        """As `cut`, of a block in memory; the usual view of it is made once for everybody."""
        if after >= block.first or self.want != _USUAL or self.strip is None:
            return self.cut(block.data, block.first, block.last, block.mask, after)
        if block.view is None:
            block.view = self.cut(block.data, block.first, block.last, block.mask, after)
        return block.view


def wanted(types: Iterable[EventType], include_log: bool) -> int:
    """The type mask of a request: all when `types` is empty; log only when asked for."""
    mask = 0
    for kind in types:
        mask |= 1 << NUMBERS[kind]
    if not mask:
        return TYPE_BITS if include_log else _USUAL
    return mask
