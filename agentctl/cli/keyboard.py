"""Owns reading single keys from a terminal beside a stream; refuses to know what a key means."""

import codecs
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress

import anyio

ESCAPE = "\x1b"
ENTER = frozenset("\r\n")
ERASE = frozenset("\x7f\b")


def usable() -> bool:
    """Whether a person sits at standard input and sees standard error, and we may read from them."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    # In the background a read would stop the whole program.
    with suppress(OSError):
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False


@contextmanager
def keys_alone(fd: int) -> Generator[None]:
    """Hands over each key at once and shows none; Ctrl-C stays a signal. Restored at the end."""

    def take(*_: object) -> None:
        with suppress(OSError, termios.error):
            if os.tcgetpgrp(fd) != os.getpgrp():  # in the background this would stop the program
                return
        tty.setcbreak(fd, termios.TCSANOW)

    before = termios.tcgetattr(fd)
    # A shell that brings a stopped program back with `fg` has set the terminal as it was before.
    heard = signal.signal(signal.SIGCONT, take)
    try:
        take()
        yield
    finally:
        signal.signal(signal.SIGCONT, heard)
        termios.tcsetattr(fd, termios.TCSANOW, before)


def forget_typed(fd: int) -> None:
    """Drops what was typed before a question stood on the screen: it was no answer to it."""
    with suppress(termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)


async def read_keys(fd: int) -> AsyncIterator[str]:
    """Yields what is typed, character by character; a key that sends a sequence comes as one."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        await anyio.wait_readable(fd)
        data = os.read(fd, 1024)
        if not data:
            return
        text = decoder.decode(data)
        if text.startswith(ESCAPE) and len(text) > 1:
            continue
        for character in text:
            yield character
