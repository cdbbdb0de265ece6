"""Owns the ordered path of an OpenCode server's frames to the sink, and the deadlines of its translator.

Requests, answers, events, stdout and stderr all take this one path. It refuses to know what is asked of
the server and where its events come from; a server that somebody else runs has no process here.
"""

import heapq
from collections.abc import Awaitable, Callable
from itertools import count

import anyio

from agentctl.core.adapter import AnyDraft, Draft, Frame, Launch, Sink, StartTimer, Translator
from agentctl.core.events import Log
from agentctl.core.words import LogStream
from agentctl_adapters.common.link import Link

# A journal that takes a batch for longer than this makes the server buffer for us: worth a word.
LAG_S = 5.0
# After the reader's break an own server's exit is known within milliseconds; then it is no break.
DEATH_S = 0.5

OnLine = Callable[[str], None]
OnTimer = Callable[[str], Awaitable[None]]


class ServerLink(Link):
    """Made before the server is started. `turn` keeps a refetch and the event reader apart."""

    def __init__(self, launch: Launch, translator: Translator, sink: Sink, on_line: OnLine) -> None:
        super().__init__(launch, translator, sink, parse_line=self._look)
        self.turn = anyio.Lock(fast_acquire=True)
        self.told = 0
        """How many drafts the server's frames have made so far."""
        self._on_line = on_line
        self._numbers = count(1)
        self._news = anyio.Event()
        self._lost = anyio.Event()
        self._timers: list[tuple[float, int, str]] = []
        self._timer_set = anyio.Event()

    def feed(self, frame: Frame) -> None:
        """Takes a frame in order; its drafts go out soon, or with the next deliver()."""
        self._feed(frame)
        self._waiting.set()

    async def deliver(self) -> None:
        """Returns when the sink has what was fed so far: the back-pressure of a reader."""
        began = anyio.current_time()
        await self._deliver()
        took = anyio.current_time() - began
        if took > LAG_S:
            text = f"events of {self._launch.entry.id} are taken {took:.0f} s late"
            self.say(Draft(Log(LogStream.NOTE, text)))

    def say(self, draft: AnyDraft) -> None:
        """Something that we ourselves have to tell."""
        self._drafts.append(draft)
        self._waiting.set()

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until what the server said makes it true; False when it does not in time."""
        with anyio.move_on_after(timeout_s):
            while not condition():
                await self._news.wait()
        return condition()

    async def dies(self, timeout_s: float = DEATH_S) -> bool:
        """Whether an own server is dead, or dies within so long."""
        if self.process is not None:
            with anyio.move_on_after(timeout_s):
                await self.process.wait_exit()
                return True
        return self.ended.is_set() or self._lost.is_set()

    def lose(self) -> None:
        """A server without a process of ours is not used any more."""
        self._lost.set()

    async def serve_remote(self) -> None:
        """What run() is for a process: hands drafts over until the server is lost."""
        try:
            with self._shield:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._pump)
                    await self._lost.wait()
                    self._feed(Frame("stdout_end"))
                    self._drafts += self._translator.flush()
                    await self._deliver()
                    group.cancel_scope.cancel()
        finally:
            self.gone(self.death.how)
            self.ended.set()

    async def run_timers(self, on_due: OnTimer) -> None:
        """Fires what the translator asked for; `on_due` may first look what became of it."""
        while True:
            self._timer_set = anyio.Event()
            wait_s = self._timers[0][0] - anyio.current_time() if self._timers else None
            if wait_s is None or wait_s > 0:
                with anyio.move_on_after(wait_s):
                    await self._timer_set.wait()
                continue
            _, _, key = heapq.heappop(self._timers)
            await on_due(key)
            self.feed(Frame("timer", raw=key))

    def _feed(self, frame: Frame) -> None:
        before = len(self._drafts)
        super()._feed(frame)
        if len(self._drafts) == before:
            return
        self.told += len(self._drafts) - before
        if any(type(draft) is StartTimer for draft in self._drafts[before:]):
            self._set_timers(before)
        news, self._news = self._news, anyio.Event()
        news.set()

    def _set_timers(self, start: int) -> None:
        now = anyio.current_time()
        kept: list[AnyDraft] = []
        for draft in self._drafts[start:]:
            if isinstance(draft, StartTimer):
                due = now + draft.ms / 1000
                heapq.heappush(self._timers, (due, next(self._numbers), draft.key))
            else:
                kept.append(draft)
        self._drafts[start:] = kept
        self._timer_set.set()

    def _look(self, line: bytes) -> None:
        """The server says nothing of its protocol on stdout, but where it listens."""
        self._on_line(line.decode("utf-8", "replace"))
