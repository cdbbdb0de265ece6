"""A program in a terminal of its own: keys go in, what stands on the screen comes back.

Owns a private tmux server for each program, ended with it. Knows no program.
"""

import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.real.harness import TURN_TIMEOUT_S

COLUMNS, ROWS = 120, 40
# A screen is looked at, there is no event: often enough that a test is not slowed by it.
LOOK_S = 0.05


def squeezed(text: str) -> str:
    """The text without frames and space: a line that is wrapped at the edge is one line to its reader."""
    return re.sub(r"[┃│]|\s+", "", text)


@dataclass
class Screen:
    """What a person sees, and what they type."""

    tmux: tuple[str, ...]

    async def _do(self, *words: str) -> str:
        done = await anyio.run_process([*self.tmux, *words], check=False)
        return done.stdout.decode("utf-8", "replace")

    async def text(self) -> str:
        return await self._do("capture-pane", "-p")

    async def until(self, *wanted: str, gone: Sequence[str] = ()) -> str:
        """Waits until all of this stands on the screen, and none of `gone`."""
        shown = ""
        with anyio.move_on_after(TURN_TIMEOUT_S):
            while True:
                shown = await self.text()
                flat = squeezed(shown)
                there = all(squeezed(each) in flat for each in wanted)
                if there and not any(squeezed(each) in flat for each in gone):
                    return shown
                await anyio.sleep(LOOK_S)
        raise TimeoutError(f"never {wanted} (without {gone}) on the screen:\n{shown}")

    async def keys(self, *names: str) -> None:
        """Presses keys by tmux's names: Enter, Escape, C-x."""
        await self._do("send-keys", *names)

    async def type(self, text: str) -> None:
        """Types a line and waits until it stands there."""
        await self._do("send-keys", "-l", text)
        await self.until(text)

    async def enter(self, text: str) -> None:
        await self.type(text)
        await self.keys("Enter")


@asynccontextmanager
async def screen(
    command: Sequence[str], env: Mapping[str, str], cwd: Path
) -> AsyncGenerator[Screen]:
    """The program on a screen; it ends with the block."""
    folder = tempfile.mkdtemp(prefix="scr-", dir="/tmp")
    tmux = ("tmux", "-S", f"{folder}/tmux", "-f", "/dev/null")
    shown = Screen(tmux)
    size = ("-x", str(COLUMNS), "-y", str(ROWS))
    try:
        await anyio.run_process(
            [*tmux, "new-session", "-d", *size, *command],
            env={**env, "TERM": "xterm-256color"},
            cwd=cwd,
        )
        yield shown
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.run_process([*tmux, "kill-server"], check=False)
            await anyio.to_thread.run_sync(shutil.rmtree, folder)
