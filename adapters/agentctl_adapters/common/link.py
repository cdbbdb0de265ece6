"""Owns the one ordered path between an agent's process and the sink: frames, drafts, the end.

One reader, in batches; everything written goes through the translator before it leaves. Knows no
protocol: what a line means to the I/O half is its subclass's (`on_message`, `delivered`, `gone`).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from agentctl.core.adapter import (
    AnyDraft,
    Draft,
    Frame,
    Launch,
    ProcessGone,
    Sink,
    Translator,
)
from agentctl.core.events import Error, Log
from agentctl.core.words import LogStream
from agentctl.process.spawn import Process
from agentctl.transport.frames import Oversized
from agentctl.transport.jsonrpc import parse
from agentctl.transport.stdio import StdioTransport
from agentctl_adapters.common.failures import Death
from agentctl_adapters.common.shapes import Json

logger = logging.getLogger(__name__)

# After the agent's death a stray may hold its stdout: what it wrote before is in the pipe already.
DRAIN_AFTER_EXIT_S = 0.3
# stdout that ends is nearly always an exit; its code comes within milliseconds of it.
EXIT_AFTER_EOF_S = 0.5
# When the transport is closed the reader has only what the pipe still held, and the sink.
LAST_WORDS_S = 5.0
# A person reads no more than this; an agent in a loop writes millions.
LOG_LINES_PER_SECOND = 50
LOG_BURST_LINES = 500
# A flood is told of once a second, however many reads it takes.
TELL_DROPPED_S = 1.0
LOG_LINE_CHARS = 65_536
# One read may hold 100,000 lines of noise; after so many of them the other agents have a turn.
NOISE_AT_ONCE = 1_000

Parse = Callable[[bytes], Json | None]


class LogLimit:
    """A token bucket over lines of logs, which counts what it holds back."""

    def __init__(self) -> None:
        self._tokens = float(LOG_BURST_LINES)
        self._at = 0.0
        self._dropped = 0
        self._told = 0.0

    def admit(self, now: float) -> bool:
        gained = (now - self._at) * LOG_LINES_PER_SECOND
        self._tokens = min(LOG_BURST_LINES, self._tokens + gained)
        self._at = now
        if self._tokens < 1:
            self._dropped += 1
            return False
        self._tokens -= 1
        return True

    def take_dropped(self, now: float, *, last: bool) -> int:
        """How many lines to tell of: once a second, and at the end."""
        if not self._dropped or (now - self._told < TELL_DROPPED_S and not last):
            return 0
        self._told = now
        dropped, self._dropped = self._dropped, 0
        return dropped


class Link:
    """Made before the process is started, so that its first words find a listener."""

    def __init__(
        self,
        launch: Launch,
        translator: Translator,
        sink: Sink,
        *,
        parse_line: Parse = parse,
    ) -> None:
        self._launch = launch
        self._translator = translator
        self._sink = sink
        self._parse = parse_line
        self._tap = launch.tap
        self._drafts: list[AnyDraft] = []
        self._sink_lock = anyio.Lock(fast_acquire=True)
        self._waiting = anyio.Event()
        self._limit = LogLimit()
        self._receiving = anyio.CancelScope()
        self._exited = False
        self._transport: StdioTransport | None = None
        self._exit_told = False
        self._shield = anyio.CancelScope(shield=True)
        self.ended = anyio.Event()

    @property
    def process(self) -> Process | None:
        return None if self._transport is None else self._transport.process

    @property
    def death(self) -> Death:
        process = self.process
        if process is None:
            return Death()
        tail = tuple(process.stderr_tail)
        if process.exit is None:
            return Death(stderr_tail=tail)
        return Death(process.exit.code, process.exit.signal, tail, known=True)

    def on_stderr(self, line: str) -> None:
        """Takes one cleaned, redacted line."""
        self._log(Frame("stderr", raw=line[:LOG_LINE_CHARS]))

    def attach(self, transport: StdioTransport) -> None:
        self._transport = transport
        self._feed(Frame("spawn"))

    async def run(self) -> None:
        """Reads until the end of the process. A cancelled caller does not stop it, close() does:
        what a dying agent says must still be heard."""
        try:
            with self._shield:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._pump)
                    group.start_soon(self._watch_exit)
                    await self._read()
                    await self._finish()
                    group.cancel_scope.cancel()
        finally:
            self.gone(self.death.how)
            self.ended.set()

    async def close(self) -> None:
        """Returns when all was heard and told. For the owner, once the process is dead."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(LAST_WORDS_S):
                await self.ended.wait()
        self._shield.cancel()

    async def buried(self) -> None:
        """Waits a moment for the exit behind a closed pipe, so that `death` can tell its code."""
        if (process := self.process) is not None:
            with anyio.move_on_after(EXIT_AFTER_EOF_S):
                await process.wait_exit()

    def on_message(self, message: Json) -> None:
        """One message, before its draft: whoever sees the draft in the sink may answer at once."""

    def delivered(self) -> None:
        """The drafts of all that was read so far are with the sink."""

    def gone(self, reason: str) -> None:
        """Nothing will be answered any more. May come twice."""

    async def _read(self) -> None:
        while batch := await self._receive():
            noise = 0
            for line in batch:
                if isinstance(line, Oversized):
                    self._skipped(line)
                elif (message := self._parse(line)) is None:
                    self._noise(line)
                    noise += 1
                    if noise % NOISE_AT_ONCE == 0:
                        await anyio.lowlevel.checkpoint()
                else:
                    self.on_message(message)
                    self._feed(Frame("from_agent", message))
            await self._deliver()
            self.delivered()

    async def _receive(self) -> Sequence[bytes | Oversized]:
        assert self._transport is not None
        wait_s = DRAIN_AFTER_EXIT_S if self._exited else None
        with anyio.move_on_after(wait_s) as self._receiving:
            return await self._transport.receive()
        return []

    async def _watch_exit(self) -> None:
        assert self.process is not None
        await self.process.wait_exit()
        self._exited = True
        self._receiving.deadline = anyio.current_time() + DRAIN_AFTER_EXIT_S

    async def _finish(self) -> None:
        process = self.process
        assert process is not None
        with anyio.move_on_after(EXIT_AFTER_EOF_S):
            await process.wait_exit()
        self._feed(Frame("stdout_end"))
        self._tell_exit(process)
        self._complete_all()
        await self._deliver()
        self.gone(self.death.how)
        if not self._exit_told:
            await process.wait_exit()
            self._tell_exit(process)
        self._drafts += self._translator.flush()
        self._complete_all()
        await self._deliver()

    def _tell_exit(self, process: Process) -> None:
        if process.exit is None:
            return
        self._exit_told = True
        self._feed(Frame("exit", {"code": process.exit.code, "signal": process.exit.signal}))

    async def _pump(self) -> None:
        """Hands over what was written to the agent, or said on stderr, while the reader waits."""
        while True:
            await self._waiting.wait()
            self._waiting = anyio.Event()
            await self._deliver()

    async def _deliver(self) -> None:
        async with self._sink_lock:
            now, last = anyio.current_time(), self._exit_told
            if dropped := self._limit.take_dropped(now, last=last):
                text = f"{dropped} lines of log were left out: too many at once"
                self._drafts.append(Draft(Log(LogStream.NOTE, text, dropped)))
            if self._drafts:
                drafts, self._drafts = self._drafts, []
                await self._sink(drafts)

    async def send(self, line: bytes) -> None:
        """Writes one line. Raises ClosedByPeer."""
        assert self._transport is not None
        await self._transport.send(line)

    def before_write(self, _direction: str, message: Any) -> None:
        """To be called right before each write, in the order of the writes."""
        self._feed(Frame("to_agent", message))
        self._waiting.set()

    def _noise(self, line: bytes) -> None:
        """A line that is no message. What nobody will see is not worth a look: there may be millions."""
        admitted = self._limit.admit(anyio.current_time())
        self._waiting.set()
        if not admitted and self._tap is None:
            return
        text = line[:LOG_LINE_CHARS].decode("utf-8", "replace")
        frame = Frame("from_agent", raw=self._launch.redact(text))
        if admitted:
            self._feed(frame)
        else:
            self._record(frame)

    def _log(self, frame: Frame) -> None:
        if self._limit.admit(anyio.current_time()):
            self._feed(frame)
        else:
            self._record(frame)
        self._waiting.set()

    def _skipped(self, line: Oversized) -> None:
        text = f"{self._launch.entry.id} sent a line of {line.size} bytes, which was skipped"
        self._drafts.append(Draft(Error("LINE_TOO_LONG", text)))

    def _record(self, frame: Frame) -> None:
        if self._tap is None:
            return
        try:
            self._tap(frame)
        except Exception:
            logger.exception("the recording of %s ends here", self._launch.entry.id)
            self._tap = None

    def _feed(self, frame: Frame) -> None:
        if self._tap is not None:
            self._record(frame)
        try:
            drafts = self._translator.feed(frame)
        except Exception:
            logger.exception("a %s frame could not be translated and is left out", frame.dir)
            return
        self._drafts += drafts

    def _complete_all(self) -> None:
        for draft in self._drafts:
            if isinstance(draft, ProcessGone):
                self._complete(draft)

    def _complete(self, gone: ProcessGone) -> None:
        death = self.death
        if gone.exit_code is None and gone.signal is None:
            gone.exit_code, gone.signal = death.code, death.signal
        # Whole, while the translator saw no more than a person would read.
        gone.stderr_tail = list(death.stderr_tail) or gone.stderr_tail
