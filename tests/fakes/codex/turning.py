"""Fakes of Codex whose turns begin, go or end in a strange way."""

from collections.abc import Iterator
from typing import Any, ClassVar

from tests.fakes.codex.base import Server

RETRY: Any = {
    "message": "Reconnecting... 1/5",
    "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": None}},
    "additionalDetails": "stream closed",
}
REFUSED: Any = {
    "message": "Reconnecting... 1/5",
    "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": 401}},
    "additionalDetails": "unexpected status 401 Unauthorized: wrong key",
}


class StartsEarly(Server):
    """Tells the start of the turn before it answers."""

    fault: ClassVar[str] = "starts-early"

    def start_turn(self, request: Any, thread: str, turn: str) -> None:
        self.turn_notice("turn/started", thread, turn)
        self.answer(request, {"turn": {"id": turn, "rootTurnId": turn}})


class NeverCompletes(Server):
    """The thread is idle, but the turn is never told to be over."""

    fault: ClassVar[str] = "never-completes"

    def end_turn(self, thread: str, turn: str, status: str, **more: Any) -> None:
        self.notify("thread/status/changed", threadId=thread, status={"type": "idle"})


class DeafToInterrupt(Server):
    """Never answers an interrupt, and goes on."""

    fault: ClassVar[str] = "deaf-to-interrupt"

    def interrupt(self, request: Any, thread: str) -> None:
        """Not a word."""


class NoDeltas(Server):
    """The text comes once, whole, at the end; its start is never told."""

    fault: ClassVar[str] = "no-deltas"

    def say(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        yield
        item = self.new("msg")
        self.item("completed", thread, turn, type="agentMessage", id=item, text="all at once")


class Retries(Server):
    """The stream breaks in mid-message and is made anew, once."""

    fault: ClassVar[str] = "retries"

    def say(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        self.delta(thread, turn, self.message(thread, turn), "broken ")
        yield
        self.notify("error", threadId=thread, turnId=turn, willRetry=True, error=RETRY)
        yield from super().say(thread, turn, rest)


class RefusedKey(Server):
    """Tries a wrong key again and again."""

    fault: ClassVar[str] = "refused-key"

    def say(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        if rest == "1":
            yield from super().say(thread, turn, rest)
        while rest != "1":
            self.notify("error", threadId=thread, turnId=turn, willRetry=True, error=REFUSED)
            for _ in range(50):
                yield


class LateWords(Server):
    """A command tells its output and its end after the turn is over."""

    fault: ClassVar[str] = "late-words"

    def sleep(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        for _ in super().sleep(thread, turn, rest):
            yield
            return

    def end_turn(self, thread: str, turn: str, status: str, **more: Any) -> None:
        super().end_turn(thread, turn, status, **more)
        self.clean(thread)


class OwnTurn(Server):
    """Begins a turn by itself once one of ours is over."""

    fault: ClassVar[str] = "own-turn"

    def end_turn(self, thread: str, turn: str, status: str, **more: Any) -> None:
        super().end_turn(thread, turn, status, **more)
        if len(self.turns) == 1 and self.argument != "done":
            self.argument = "done"
            own = self.active[thread] = self.new("turn")
            self.turn_notice("turn/started", thread, own)
            self.turns[own] = self.play(thread, own, "SAY 2")


class Fails(Server):
    """The model has no more to give."""

    fault: ClassVar[str] = "fails"

    def end_turn(self, thread: str, turn: str, status: str, **more: Any) -> None:
        error = {"message": "Quota exceeded.", "codexErrorInfo": "usageLimitExceeded"}
        self.notify("error", threadId=thread, turnId=turn, willRetry=False, error=error)
        super().end_turn(thread, turn, "failed", error=error)


class Subagent(Server):
    """A child thread works for the turn, asks for leave, and ends after it."""

    fault: ClassVar[str] = "subagent"

    def step(self, thread: str, turn: str, word: str, rest: str) -> Iterator[None]:
        child, inner = self.new("child"), self.new("turn")
        activity: Any = {"type": "subAgentActivity", "agentThreadId": child, "agentPath": "/a"}
        call = self.new("call")
        self.item("started", thread, turn, **activity, id=call, kind="started")
        self.item("completed", thread, turn, **activity, id=call, kind="started")
        began = {"id": inner, "rootTurnId": turn}
        self.notify("turn/started", threadId=child, turn=began)
        self.delta(child, inner, self.message(child, inner), "child speaks ")
        if word == "HANG":
            self.active[child] = inner
            while child not in self.interrupted:
                yield
            self.turn_notice("turn/completed", child, inner, status="interrupted")
            return
        yield from self.run_command(child, inner, "true")
        self.turn_notice("turn/completed", child, inner, status="completed")
        yield from self.say(thread, turn, "1")
