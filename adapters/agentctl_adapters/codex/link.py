"""Owns what the path of messages does for Codex beyond carrying them: timers, and words of our own.

A timer that the translator asks for comes back to it as a frame of its own; what it then ends without the
agent knowing is told to `on_given_up`. Knows no method.
"""

import asyncio
from collections.abc import Callable, Sequence

from agentctl.core.adapter import AnyDraft, Frame, Launch, Sink, StartTimer
from agentctl.core.ids import NativeSessionId
from agentctl_adapters.codex.translate import CodexTranslator
from agentctl_adapters.common.rpclink import OnMessage, RpcLink


class Link(RpcLink):
    def __init__(
        self, launch: Launch, translator: CodexTranslator, sink: Sink, on_request: OnMessage
    ) -> None:
        self.translator = _Timed(translator, self)
        super().__init__(launch, self.translator, sink, on_request)
        self.on_given_up: Callable[[NativeSessionId], None] = _nobody
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.lost = False

    def tell(self, drafts: Sequence[AnyDraft]) -> None:
        """Hands over what the adapter itself has found out."""
        self._drafts += drafts
        self._waiting.set()

    def gone(self, reason: str) -> None:
        self.lost = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        super().gone(reason)

    def start(self, timer: StartTimer) -> None:
        """Starts a timer anew when it runs already."""
        if (old := self._timers.pop(timer.key, None)) is not None:
            old.cancel()
        loop = asyncio.get_running_loop()
        self._timers[timer.key] = loop.call_later(timer.ms / 1000, self._fire, timer.key)

    def _fire(self, key: str) -> None:
        self._timers.pop(key, None)
        self.tell(self.translator.feed(Frame("timer", raw=key)))


class _Timed:
    """The translator, whose wishes for timers are met."""

    def __init__(self, translator: CodexTranslator, link: Link) -> None:
        self._translator = translator
        self._link = link

    def feed(self, frame: Frame) -> Sequence[AnyDraft]:
        drafts = self._translator.feed(frame)
        for draft in drafts:
            if type(draft) is StartTimer:
                self._link.start(draft)
        for session in self._translator.take_given_up():
            self._link.on_given_up(session)
        return drafts

    def flush(self) -> Sequence[AnyDraft]:
        return self._translator.flush()


def _nobody(_session: NativeSessionId) -> None:
    """Before the connection is there, no turn runs."""
