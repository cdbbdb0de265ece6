"""Owns reading whole lines at the keyboard, with history and editing, so that Ctrl-C ends it at once."""

import asyncio
import importlib
import sys
import termios
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any


async def read_lines(draft: str = "") -> str | None:
    """What is typed up to Enter, after `draft`; None at the end of the input. Lines that end in a backslash go on."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str | None] = loop.create_future()

    def tell(text: str | None) -> None:
        if not typed.done():
            typed.set_result(text)

    def read() -> None:
        text = _ask()
        with suppress(RuntimeError):  # the loop is closed: nobody asks any more
            loop.call_soon_threadsafe(tell, text)

    if sys.stdin.isatty():
        # Gives history and editing to input().
        readline: Any = importlib.import_module("readline")
        readline.set_startup_hook(lambda: readline.insert_text(draft) if draft else None)
    with _terminal_as_before():
        # A thread that Python would wait for at its end: nothing wakes it but the Enter key.
        threading.Thread(target=read, daemon=True).start()
        try:
            return await typed
        except asyncio.CancelledError:
            if sys.stdin.isatty():
                sys.stdout.write("\n")
            raise


def _ask() -> str | None:
    lines: list[str] = []
    try:
        while True:
            prompt = ("… " if lines else "> ") if sys.stdin.isatty() else ""
            line = input(prompt)
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                return "\n".join(lines)
    except EOFError:
        return "\n".join(lines) if lines else None


@contextmanager
def _terminal_as_before() -> Generator[None]:
    """Undoes what readline sets while it reads: left behind, the shell would echo nothing."""
    if not sys.stdin.isatty():
        yield
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, before)
