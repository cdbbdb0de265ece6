"""Faults of how a turn ends: deaths in it, and answers to a cancel.

Each class docstring says what goes wrong.
"""

import os
import time

from base import ALLOW_ONCE, LIFETIME_S, REJECT_ONCE, Fake, log

TICK_S = 0.02


class DiesMidTurn(Fake):
    """Exit code 9 after half a sentence, with a tool open."""

    fault = "dies-mid-turn"

    def turn(self, text: str) -> None:
        self.say("half a sen")
        self.tool("open")
        log("fatal: out of memory")
        os._exit(9)


class DiesInPermission(Fake):
    """Exit code 9 right after it has asked for permission."""

    fault = "dies-in-permission"

    def turn(self, text: str) -> None:
        self.permission("asked", [ALLOW_ONCE, REJECT_ONCE])
        os._exit(9)


class Streams(Fake):
    """Says a word every 20 ms until it is cancelled."""

    def until_cancel(self) -> None:
        self.say("working")
        while not self.rest(TICK_S):
            self.say(" on")

    def turn(self, text: str) -> None:
        self.until_cancel()
        self.after_cancel()

    def after_cancel(self) -> None:
        self.end("cancelled")


class ErrorAfterCancel(Streams):
    """A cancelled turn is answered with a JSON-RPC error."""

    fault = "error-after-cancel"

    def after_cancel(self) -> None:
        self.refuse(self.prompt_id, -32603, "Internal error", details="Request was aborted.")


class EndTurnAfterCancel(Streams):
    """A cancelled turn is answered with end_turn."""

    fault = "end-turn-after-cancel"

    def after_cancel(self) -> None:
        self.end()


class IgnoresCancel(Streams):
    """Streams on after a cancel and never answers the prompt."""

    fault = "ignores-cancel"

    def after_cancel(self) -> None:
        until = time.monotonic() + LIFETIME_S
        while time.monotonic() < until:
            self.cancelled = False
            self.until_cancel()


class QwenHangCancelError(Fake):
    """Says nothing at all; a cancel is answered with an error, a while later."""

    fault = "qwen-hang-cancel-error"
    info = {"name": "qwen-code", "title": "Qwen Code", "version": "0.15.10"}  # noqa: RUF012 - ClassVar

    def turn(self, text: str) -> None:
        self.wait_cancel()
        time.sleep(0.3)
        log("  data: { details: 'Request was aborted.' }")
        self.refuse(self.prompt_id, -32603, "Internal error", details="Request was aborted.")


class BusyCancelsFirst(Streams):
    """A second prompt ends the first as cancelled; the second one says "second" and ends."""

    fault = "busy-cancels-first"

    def turn(self, text: str) -> None:
        if self.turns > 1:
            self.say("second")
            self.end()
            return
        self.say("first")
        for message in self.arriving():
            if self.cancelled or message.get("method") == "session/prompt":
                break
        self.end("cancelled")
