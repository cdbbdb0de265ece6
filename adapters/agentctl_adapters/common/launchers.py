"""Owns how many programs that download an agent before they start it may run at once.

Knows which launchers there are; knows no protocol and starts nothing.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePath

import anyio

# npm's cache and a laptop's disk get slow or fail beyond two downloads at once.
LAUNCHERS_AT_ONCE = 2
LAUNCHERS = frozenset({"npx", "bunx", "pnpx", "uvx"})

_starts = anyio.Semaphore(LAUNCHERS_AT_ONCE)


def downloads(argv: Sequence[str]) -> str | None:
    """The package that a launcher like npx may have to download, None for other programs."""
    if not argv or PurePath(argv[0]).name not in LAUNCHERS:
        return None
    return next((word for word in argv[1:] if not word.startswith("-")), argv[0])


@asynccontextmanager
async def take_turn(argv: Sequence[str], progress: Callable[[str], None]) -> AsyncGenerator[None]:
    """Waits for its turn when argv downloads, and says so; else does nothing."""
    package = downloads(argv)
    if package is None:
        yield
        return
    if _starts.value == 0:
        progress(f"waiting: {LAUNCHERS_AT_ONCE} other agents are being downloaded")
    async with _starts:
        progress(f"downloading {package} (first start; later ones are quick)")
        yield
