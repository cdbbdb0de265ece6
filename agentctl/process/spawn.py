"""One agent's process tree as an async context manager: leaving it means nothing is left.

Owns the guard's pipes and the stop ladder. Refuses to know which agent it is, what the bytes mean,
and when somebody wants it stopped.
"""

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import orjson

from agentctl.process.errors import SpawnFailed, cwd_failed, exec_failed, too_big
from agentctl.process.pipes import PipeReader, PipeWriter, StderrDrain, StderrLines
from agentctl.process.sweep import COOKIE, sweep_one

logger = logging.getLogger(__name__)

GUARD = Path(__file__).with_name("guard.py")
# Idle agents leave 0.4 s after stdin ended; those that have not in 2 s mostly never do.
EOF_GRACE_S = 2.0
# After TERM: time to write state and to end commands in their own groups (3 s seen under load).
STOP_GRACE_S = 3.0
# After KILL: the kernel needs milliseconds; seconds mean that the guard itself is stuck.
KILL_WAIT_S = 3.0
# The guard closes its pipe a moment before it can be reaped.
REAP_WAIT_S = 2.0
REAP_PAUSE_S = 0.002
# A guard starts in 30 ms; on a machine that swaps it may take seconds, not half a minute.
START_WAIT_S = 30.0
STDOUT_PIPE_BYTES = 1_048_576
STATUS_READ_BYTES = 4096


@dataclass(frozen=True, slots=True)
class SpawnSpec:
    """What to start: argv (never a shell line), the whole environment, an existing directory."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    cookie: str
    stdin_pipe: bool = True


@dataclass(frozen=True, slots=True)
class Exit:
    """How the agent ended: a code, or a signal; neither when its guard died with it."""

    code: int | None
    signal: int | None


class Process:
    """A started agent. Made and ended by spawn(); one task reads, any task writes."""

    def __init__(
        self,
        spec: SpawnSpec,
        guard: subprocess.Popen[bytes],
        leash: int,
        status: int,
        stdin: PipeWriter,
        stdout: PipeReader,
        stderr: StderrDrain,
    ) -> None:
        self.spec = spec
        self.pid = 0
        self.guard_pid = guard.pid
        self.exit: Exit | None = None
        self.stopping = False
        self._guard = guard
        self._leash = leash
        self._status = status
        self._status_held = b""
        self._stdin = stdin
        self._stdout = stdout
        self._stderr = stderr
        self._start_error: int | None = None
        self._told_empty = False
        self._settled = False
        self._answered = anyio.Event()
        self._exited = anyio.Event()
        self._guard_gone = anyio.Event()
        self._stop_lock = anyio.Lock()
        self._settle_lock = anyio.Lock()
        asyncio.get_running_loop().add_reader(status, self._on_status)

    @property
    def stderr_tail(self) -> list[str]:
        """The last lines (at most 50) of stderr, cleaned and redacted."""
        return list(self._stderr.lines.tail)

    @property
    def discarded_bytes(self) -> int:
        """Bytes of stdout that stop() read for an absent reader and could not keep."""
        return self._stdout.discarded_bytes

    async def read(self) -> bytes:
        """Return the next chunk of stdout (at most 1 MiB); b"" when its last holder closed it."""
        return await self._stdout.read()

    async def write(self, data: bytes) -> None:
        """Write all of data to stdin.

        Raises:
            ClosedByPeer: the agent no longer reads, or stdin was closed.
        """
        await self._stdin.write(data)

    async def close_stdin(self) -> None:
        """Say that nothing more will come."""
        self._stdin.close()

    def terminate(self) -> None:
        """TERM the whole tree now."""
        self._command(b"T")

    def kill(self) -> None:
        """KILL the whole tree now, until nothing of it is left."""
        self._command(b"K")

    async def wait_exit(self) -> Exit:
        """Wait until the agent itself is dead, whoever still holds its pipes."""
        await self._exited.wait()
        assert self.exit is not None
        return self.exit

    async def wait_empty(self) -> None:
        """Wait until no process of the tree is left."""
        await self._guard_gone.wait()
        await self._settle()

    async def stop(self, *, eof_wait_s: float = EOF_GRACE_S, force: bool = False) -> None:
        """Close stdin, wait, TERM, wait, KILL: at the return nothing of the tree is left.

        Args:
            eof_wait_s: how long the end of stdin may take effect (s).
            force: KILL at once; also hastens a stop that is under way.
        """
        self.stopping = True
        if force:
            self.kill()
        async with self._stop_lock, anyio.create_task_group() as group:
            # An agent that is blocked on a full pipe cannot obey.
            group.start_soon(self._stdout.drain)
            await self._ladder(eof_wait_s, force)
            await self._settle()
            group.cancel_scope.cancel()

    async def _ladder(self, eof_wait_s: float, force: bool) -> None:
        steps = [(self._stdin.close, eof_wait_s), (self.terminate, STOP_GRACE_S)]
        if force:
            steps = [(self._stdin.close, 0.0)]
        # A guard that does not obey is hung: its own death kills the agent, the sweep does the rest.
        steps += [(self.kill, KILL_WAIT_S), (self._guard.kill, KILL_WAIT_S)]
        for act, wait_s in steps:
            act()
            with anyio.move_on_after(wait_s):
                await self._guard_gone.wait()
                return
        logger.error("guard %d of %s could not be killed", self.guard_pid, self.spec.argv[0])

    async def _settle(self) -> None:
        """Reap the guard; where it died before its tree, end by cookie what it left."""
        async with self._settle_lock:
            if self._settled:
                return
            with anyio.move_on_after(REAP_WAIT_S):
                while self._guard.poll() is None:  # noqa: ASYNC110 - only poll() tells, no event does
                    await anyio.sleep(REAP_PAUSE_S)
            if not self._told_empty:
                left = await sweep_one(self.spec.cookie)
                logger.warning("guard %d died; swept %d processes", self.guard_pid, len(left))
            self._settled = True

    def _command(self, command: bytes) -> None:
        if self._leash >= 0:
            with contextlib.suppress(OSError):  # the guard is gone, or has commands enough
                os.write(self._leash, command)

    def _on_status(self) -> None:
        try:
            data = os.read(self._status, STATUS_READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._status)
            self._on_guard_gone()
            return
        *lines, self._status_held = (self._status_held + data).split(b"\n")
        for line in lines:
            self._on_message(orjson.loads(line))

    def _on_message(self, message: dict[str, Any]) -> None:
        match message:
            case {"code": code, "signal": number}:
                self._set_exit(Exit(code, number))
            case {"pid": pid}:
                self.pid = pid
                self._answered.set()
            case {"errno": number}:
                self._start_error = number
                self._told_empty = True
                self._answered.set()
            case _:
                self._told_empty = True

    def _on_guard_gone(self) -> None:
        self._answered.set()
        self._set_exit(Exit(None, None))
        self._guard_gone.set()

    def _set_exit(self, how: Exit) -> None:
        if self.exit is None:
            self._stderr.catch_up()
            self.exit = how
            self._exited.set()

    async def started(self) -> None:
        """Wait for the guard's word that the agent runs.

        Raises:
            SpawnFailed: it does not, and why.
        """
        argv0, cwd = self.spec.argv[0], self.spec.cwd
        with anyio.move_on_after(START_WAIT_S):
            await self._answered.wait()
        if self.pid:
            return
        if self._start_error is None:
            raise SpawnFailed(argv0, cwd, None, "its guard process died or never answered")
        if self._start_error == errno.E2BIG:
            raise too_big(self.spec.argv, self.spec.env, cwd)
        raise exec_failed(argv0, cwd, self._start_error)

    async def finish(self) -> None:
        """Stop what runs and close every pipe; for spawn() alone."""
        await self.stop(force=not self.pid)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._status)
        os.close(self._status)
        os.close(self._leash)
        self._status = self._leash = -1
        self._stdout.close()
        self._stderr.close()


def _check(spec: SpawnSpec) -> None:
    for what, text in (
        *((f"argument {n}", item) for n, item in enumerate(spec.argv)),
        *((f"environment variable {name}", name + value) for name, value in spec.env.items()),
    ):
        if "\0" in text:
            raise SpawnFailed(spec.argv[0], spec.cwd, None, f"{what} holds a NUL byte")


def _launch(
    spec: SpawnSpec,
    on_stderr: Callable[[str], None] | None,
    redact: Callable[[str], str] | None,
    grace_s: float,
) -> Process:
    _check(spec)
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:

        def pipe(*, child_reads: bool) -> tuple[int, int]:
            reader, writer = os.pipe()
            child, mine = (reader, writer) if child_reads else (writer, reader)
            theirs.callback(os.close, child)
            ours.callback(os.close, mine)
            os.set_blocking(mine, False)
            return child, mine

        leash, my_leash = pipe(child_reads=True)
        status, my_status = pipe(child_reads=False)
        stdin, my_stdin = pipe(child_reads=True) if spec.stdin_pipe else (subprocess.DEVNULL, None)
        stdout, my_stdout = pipe(child_reads=False)
        stderr, my_stderr = pipe(child_reads=False)
        with contextlib.suppress(OSError, AttributeError):  # a wish: fewer wake-ups for big output
            fcntl.fcntl(my_stdout, fcntl.F_SETPIPE_SZ, STDOUT_PIPE_BYTES)
        argv = [sys.executable, "-I", "-S", str(GUARD), str(leash), str(status), str(grace_s), "--"]
        try:
            guard = subprocess.Popen(
                [*argv, *spec.argv],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(leash, status),
                env={**spec.env, COOKIE: spec.cookie},
                cwd=spec.cwd,
                start_new_session=True,
            )
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise too_big(spec.argv, spec.env, spec.cwd) from error
            if error.filename is not None and str(error.filename) == str(spec.cwd):
                raise cwd_failed(spec.argv[0], spec.cwd, error.errno) from error
            reason = error.strerror or str(error)
            raise SpawnFailed(spec.argv[0], spec.cwd, error.errno, reason) from error
        except ValueError as error:
            raise SpawnFailed(spec.argv[0], spec.cwd, None, str(error)) from error
        ours.pop_all()
        return Process(
            spec,
            guard,
            my_leash,
            my_status,
            PipeWriter(my_stdin),
            PipeReader(my_stdout),
            StderrDrain(my_stderr, StderrLines(redact), on_stderr),
        )


@asynccontextmanager
async def spawn(
    spec: SpawnSpec,
    *,
    on_stderr: Callable[[str], None] | None = None,
    redact: Callable[[str], str] | None = None,
    grace_s: float = STOP_GRACE_S,
) -> AsyncGenerator[Process]:
    """Start an agent under its guard; leaving the context ends its whole tree.

    Args:
        spec: what to start.
        on_stderr: called with each line of stderr, cleaned and redacted.
        redact: takes secrets out of stderr before anybody sees it.
        grace_s: from TERM to KILL when the daemon itself is gone (s).

    Raises:
        SpawnFailed: no such program or directory, not executable, arguments too big.
    """
    process = _launch(spec, on_stderr, redact, grace_s)
    try:
        await process.started()
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await process.finish()
