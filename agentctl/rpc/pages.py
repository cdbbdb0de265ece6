"""Owns how much of a list fits into one answer; knows neither the rows nor where they come from."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.message import Message

T = TypeVar("T", bound=Message)

# Clients refuse more than 4 MiB; one row (an approval, a message) may have 256 KiB.
ANSWER_BYTES = 3 << 20


def fitted(rows: Iterable[T], token: str, key: Callable[[T], str]) -> tuple[list[T], str]:
    """The first rows that fit, at least one, and the token of what follows them.

    Args:
        rows: a page in order.
        token: what follows the page when all of it fits.
        key: the page token that a row stands for.
    """
    kept: list[T] = []
    room = ANSWER_BYTES
    for row in rows:
        room -= row.ByteSize()
        if kept and room < 0:
            return kept, key(kept[-1])
        kept.append(row)
    return kept, token
