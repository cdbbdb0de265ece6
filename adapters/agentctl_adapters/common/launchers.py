"""Owns how many programs that download an agent may start at once, and how long a start may take.

Knows which launchers there are; knows no protocol and starts nothing.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePath

import anyio

from agentctl.core.adapter import Launch

# npm's cache and a laptop's disk get slow or fail beyond two downloads at once.
LAUNCHERS_AT_ONCE = 2
LAUNCHERS = frozenset({"npx", "bunx", "pnpx", "uvx"})

# A launcher may first download the agent, over a slow line and without a word.
LAUNCHER_START_S = 600.0

_starts = anyio.Semaphore(LAUNCHERS_AT_ONCE)


def downloads(argv: Sequence[str]) -> str | None:
    """The package that a launcher like npx may have to download, None for other programs."""
    if not argv or PurePath(argv[0]).name not in LAUNCHERS:
        return None
    return next((word for word in argv[1:] if not word.startswith("-")), argv[0])


def start_deadline_s(launch: Launch, usual_s: float) -> float:
    """How long a start may take: `handshake_timeout_ms` of the entry, else a launcher's time or ours."""
    asked = launch.entry.protocol_config.get("handshake_timeout_ms")
    if isinstance(asked, int | float) and asked > 0:
        return asked / 1000
    return usual_s if downloads(launch.argv) is None else LAUNCHER_START_S


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
