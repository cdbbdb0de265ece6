"""Owns the walk over a list that the daemon answers in pages; knows none of the lists."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar


class Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


P = TypeVar("P", bound=Page)


async def pages(fetch: Callable[[str], Awaitable[P]]) -> AsyncIterator[P]:
    """Every page, the first one for the empty token."""
    token = ""
    while True:
        page = await fetch(token)
        yield page
        token = page.next_page_token
        if not token:
            return
