"""Commands the demo agent really runs: one /bin/sh each, in a process group of its own.

Owns processes and their output. Knows no protocol and asks nobody for permission.
"""

import codecs
import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable

KEPT_OUTPUT = 1024 * 1024
# How long a cancelled command may clean up before SIGKILL; a person is waiting for the cancel.
TERM_GRACE_S = 0.3
# How often a silent command is looked at: soon enough for a cancel, rare enough to cost nothing.
POLL_S = 0.03

# Leaves `sleep` reparented, in a session of its own, with SIGTERM and SIGHUP ignored for ever.
_ESCAPE = 'trap "" TERM HUP; sleep 600 >/dev/null 2>&1 & echo $!'


class Shells:
    """All commands of this agent, so that its end can be theirs."""

    def __init__(self) -> None:
        self._running: set[Command] = set()
        self._lock = threading.Lock()

    def start(self, command: str, cwd: str) -> "Command":
        """Start one command.

        Raises:
            OSError: The working directory is gone, or no process can be made.
        """
        started = Command(command, cwd, self._ended)
        with self._lock:
            self._running.add(started)
        return started

    def kill_all(self) -> None:
        """End every command and its process group."""
        with self._lock:
            running = list(self._running)
        for command in running:
            command.terminate()
        for command in running:
            command.kill()

    def _ended(self, command: "Command") -> None:
        with self._lock:
            self._running.discard(command)


class Command:
    """One running command; its output is read as text, standard error included."""

    def __init__(self, command: str, cwd: str, ended: Callable[["Command"], None]) -> None:
        self._ended = ended
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.truncated = False

    def stream(self, show: Callable[[str], None], stop: threading.Event) -> int | None:
        """Pass on the whole output so far each time it grows, until the command ends.

        Returns:
            The exit code (negative: the signal), or None when `stop` was set and it was killed.
        """
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = ""
        try:
            while True:
                if stop.is_set():
                    self.kill()
                    return None
                # Asked before the read: what it wrote before its end is then surely in the pipe.
                code = self._process.poll()
                readable, _, _ = select.select([fd], [], [], 0 if code is not None else POLL_S)
                data = os.read(fd, 65536) if readable else b""
                if data:
                    fresh = decoder.decode(data)[: KEPT_OUTPUT - len(text)]
                    self.truncated = self.truncated or len(text) + len(fresh) == KEPT_OUTPUT
                    text += fresh
                    if fresh:
                        show(text)
                elif code is not None:
                    return code
                elif readable:
                    stop.wait(POLL_S)
        finally:
            self._process.stdout.close()
            self._ended(self)

    def terminate(self) -> None:
        """SIGTERM to the group, without waiting."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGTERM to the group, a short grace, then SIGKILL to what is left of it."""
        self.terminate()
        deadline = time.monotonic() + TERM_GRACE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(TERM_GRACE_S)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def spawn_escape() -> int:
    """Leave a detached, SIGTERM-ignoring `sleep` behind (it ends by itself in ten minutes).

    Returns:
        Its process id.
    """
    done = subprocess.run(
        ["/bin/sh", "-c", _ESCAPE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    return int(done.stdout)
