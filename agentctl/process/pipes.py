"""The three ends of an agent's stdio as the event loop sees them: read when asked, write whole, drain.

Owns non-blocking reads and writes on pipes; knows neither the process behind them nor lines of a
protocol. Stderr alone is cut into lines here, because it is read for people.
"""

import asyncio
import logging
import os
import re
from collections import deque
from collections.abc import Callable

import anyio

from agentctl.process.errors import ClosedByPeer

logger = logging.getLogger(__name__)

# A quiet pipe is read in small buffers (cheap to allocate), a busy one in bigger ones (few wake-ups);
# beyond a quarter megabyte the parsed messages no longer fit a CPU cache, and each costs more.
READ_BYTES = 65_536
READ_BYTES_BUSY = 262_144
# What stop reads on behalf of a reader that is away is kept for it up to here; more is discarded.
HELD_BYTES = 16_777_216
STDERR_READ_BYTES = 16_384
STDERR_LINE_BYTES = 65_536
STDERR_TAIL_LINES = 50
# At an exit at most so many reads (1 MiB) go for the last words, should a stray keep talking.
STDERR_LAST_READS = 64

CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f]"
)


class PipeReader:
    """Chunks of a pipe, read only when somebody asks, so that back-pressure reaches the writer."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = READ_BYTES
        self._ended = False
        self._lock = anyio.Lock(fast_acquire=True)
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self.discarded_bytes = 0

    async def read(self) -> bytes:
        """Return the next chunk (at most 256 KiB), b"" at the end."""
        await anyio.lowlevel.checkpoint()
        async with self._lock:
            if self._held:
                chunk = self._held.popleft()
                self._held_bytes -= len(chunk)
                return chunk
            return await self._next()

    async def drain(self) -> None:
        """Read to the end, keeping for read() what fits into HELD_BYTES."""
        while not self._ended:
            async with self._lock:
                chunk = await self._next()
                # Once something is lost, all that follows is: a hole would corrupt the stream.
                if self.discarded_bytes or self._held_bytes + len(chunk) > HELD_BYTES:
                    self.discarded_bytes += len(chunk)
                elif chunk:
                    self._held.append(chunk)
                    self._held_bytes += len(chunk)
            await anyio.lowlevel.checkpoint()

    async def _next(self) -> bytes:
        while not self._ended:
            try:
                chunk = os.read(self._fd, self._size)
            except BlockingIOError:
                try:
                    await anyio.wait_readable(self._fd)
                except anyio.ClosedResourceError:
                    return b""
                continue
            self._size = READ_BYTES_BUSY if len(chunk) >= READ_BYTES else READ_BYTES
            self._ended = not chunk
            return chunk
        return b""

    def close(self) -> None:
        """Let go of the pipe; a waiting read returns b"". What is held can still be read."""
        if self._fd >= 0:
            self._ended = True
            anyio.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = -1


class PipeWriter:
    """Writes whole messages, one after the other; a cancelled write is still finished."""

    def __init__(self, fd: int | None) -> None:
        self._fd = -1 if fd is None else fd
        self._lock = anyio.Lock(fast_acquire=True)
        self._rest = bytearray()
        self._rest_written = anyio.Event()

    async def write(self, data: bytes) -> None:
        """Write all of data.

        Cancelled in the middle, it leaves the rest to the event loop: half a message would make
        all that follow unreadable.

        Raises:
            ClosedByPeer: the reader is gone, or this end was closed.
        """
        async with self._lock:
            left = memoryview(data)
            try:
                while self._rest and self._fd >= 0:
                    await self._rest_written.wait()
                while left := left[self._write_some(left) :]:
                    await anyio.wait_writable(self._fd)
            except anyio.ClosedResourceError as error:
                raise ClosedByPeer("stdin is closed") from error
            except anyio.get_cancelled_exc_class():
                self._finish_later(left)
                raise

    def _write_some(self, data: memoryview | bytearray) -> int:
        if self._fd < 0:
            raise ClosedByPeer("stdin is closed")
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ClosedByPeer("the process no longer reads its stdin") from error

    def _finish_later(self, left: memoryview) -> None:
        if self._fd < 0:
            return
        if not self._rest:
            self._rest_written = anyio.Event()
            asyncio.get_running_loop().add_writer(self._fd, self._write_rest)
        self._rest += left

    def _write_rest(self) -> None:
        try:
            del self._rest[: self._write_some(self._rest)]
        except ClosedByPeer:
            self._rest.clear()
        if not self._rest:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._rest_written.set()

    def close(self) -> None:
        """Close this end: the reader sees EOF, a waiting write raises ClosedByPeer."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        if self._rest:
            asyncio.get_running_loop().remove_writer(fd)
            self._rest.clear()
            self._rest_written.set()
        else:
            anyio.notify_closing(fd)
        os.close(fd)


class StderrLines:
    """Cuts stderr into readable lines; sans-IO. Lines over 64 KiB are cut and say by how much."""

    def __init__(self, redact: Callable[[str], str] | None) -> None:
        self._redact = redact
        self._held = bytearray()
        self._cut_bytes = 0
        self.tail: deque[str] = deque(maxlen=STDERR_TAIL_LINES)

    def feed(self, data: bytes) -> list[str]:
        """Return the lines that data completes: no colours, no control characters, no secrets."""
        first, *others = data.split(b"\n")
        self._take(first)
        done: list[bytes] = []
        for piece in others:
            done.append(self._finish())
            self._take(piece)
        return self._clean(done)

    def flush(self) -> list[str]:
        """Return the last line if it had no end."""
        return self._clean([self._finish()])

    def _take(self, piece: bytes) -> None:
        room = STDERR_LINE_BYTES - len(self._held)
        self._held += piece[:room]
        self._cut_bytes += max(0, len(piece) - room)

    def _finish(self) -> bytes:
        line = bytes(self._held)
        if self._cut_bytes:
            line += b" [%d bytes cut]" % self._cut_bytes
            self._cut_bytes = 0
        self._held.clear()
        return line

    def _clean(self, raw: list[bytes]) -> list[str]:
        text = CONTROL.sub("", b"\n".join(raw).decode("utf-8", "replace"))
        if self._redact is not None:
            text = self._redact(text)
        lines = [line for line in text.split("\n") if line.strip()]
        self.tail.extend(lines)
        return lines


class StderrDrain:
    """Keeps stderr empty from the event loop's own callback, whatever anybody else is doing."""

    def __init__(self, fd: int, lines: StderrLines, tell: Callable[[str], None] | None) -> None:
        self._fd = fd
        self.lines = lines
        self._tell = tell
        asyncio.get_running_loop().add_reader(fd, self._read_once)

    def _read_once(self) -> bool:
        try:
            data = os.read(self._fd, STDERR_READ_BYTES)
        except BlockingIOError:
            return False
        self._pass_on(self.lines.feed(data) if data else self.lines.flush())
        if not data:
            self._close()
        return bool(data)

    def catch_up(self) -> None:
        """Read now what an agent that just died has left in the pipe."""
        for _ in range(STDERR_LAST_READS):
            if self._fd < 0 or not self._read_once():
                return

    def _pass_on(self, lines: list[str]) -> None:
        if self._tell is None:
            return
        try:
            for line in lines:
                self._tell(line)
        except Exception:
            logger.exception("a listener of stderr failed; its lines are kept in the tail")

    def close(self) -> None:
        """Read what is there and let go."""
        self.catch_up()
        if self._fd >= 0:
            self._pass_on(self.lines.flush())
            self._close()

    def _close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
