"""Owns how much of a list fits into one answer; knows neither the rows nor where they come from."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import anyio.lowlevel
from google.protobuf.message import Message

T = TypeVar("T", bound=Message)

# Clients refuse more than 4 MiB; one row (an approval, a message) may have 256 KiB.
ANSWER_BYTES = 3 << 20

TURN = 50
"""Rows made in one go: some milliseconds, in which nobody else is served."""


async def fitted(rows: Iterable[T], token: str, key: Callable[[T], str]) -> tuple[list[T], str]:
    """The first rows that fit, at least one, and the token of what follows them.

    Others get their turn between the rows, which are made as they are taken.

    Args:
        rows: a page in order.
        token: what follows the page when all of it fits.
        key: the page token that a row stands for.
    """
    kept: list[T] = []
    room = ANSWER_BYTES
    for number, row in enumerate(rows, start=1):
        room -= row.ByteSize()
        if kept and room < 0:
            return kept, key(kept[-1])
        kept.append(row)
        if not number % TURN:
            await anyio.lowlevel.checkpoint()
    return kept, token
