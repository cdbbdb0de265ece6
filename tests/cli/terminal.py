"""A person at a terminal: a program on a pseudo-terminal, what it shows, keys typed into it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

# A machine with two busy cores starts a daemon and an agent in a few seconds.
LIMIT_S = 40.0

_ERASED = re.compile(r"[^\n]*\r\x1b\[K")
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def bare(text: str) -> str:
    """What stands on the screen: without colours, and without lines that were taken away."""
    return _SEQUENCE.sub("", _ERASED.sub("", text.replace("\r\n", "\n")))


class Terminal:
    """A child whose standard streams are one terminal. `text` is all it has shown so far.

    With `stdout` the child's standard output goes there instead.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str,
        columns: int = 100,
        stdout: int | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.shown = ""
        self._seen = 0
        # A shell in between gives the program the terminal as a login would.
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", *command],
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env={**env, "TERM": "xterm-256color"},
            cwd=cwd,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(timeout=LIMIT_S)
        os.close(self._master)

    @property
    def text(self) -> str:
        return bare(self.shown)

    def expect(self, text: str) -> None:
        """Waits until a text is shown after the last one that was expected."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            at = self.shown.find(text, self._seen)
            if at >= 0:
                self._seen = at + len(text)
                return
            if not self._read(deadline):
                raise AssertionError(f"{text!r} was not shown; this was:\n{self.text}")

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, *, rows: int, columns: int) -> None:
        """Makes the window another size, as a person does with a mouse."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def interrupt(self) -> None:
        self.send("\x03")

    def end(self) -> int:
        """Reads on until the program has ended; returns its exit code."""
        deadline = time.monotonic() + LIMIT_S
        while self._read(deadline):
            pass
        return self._process.wait(timeout=LIMIT_S)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def _read(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._master], [], [], left)[0]:
            return False
        with suppress(OSError):
            data = os.read(self._master, 65536)
            self.shown += data.decode("utf-8", "replace")
            return bool(data)
        return False
