"""Fakes of Codex that start badly or end badly."""

import os
import time
from collections.abc import Iterator
from typing import Any, ClassVar

from tests.fakes.codex.base import Json, Server, fail


class SilentStart(Server):
    fault: ClassVar[str] = "silent-start"

    def initialize(self, request: Any) -> None:
        """Never answers."""


class DiesAtStart(Server):
    fault: ClassVar[str] = "dies-at-start"

    def initialize(self, request: Any) -> None:
        raise SystemExit(fail("approval_policy is no longer supported", 3))


class DiesInTurn(Server):
    """Says a word, then it is gone; with an argument it asks for leave first."""

    fault: ClassVar[str] = "dies-in-turn"

    def step(self, thread: str, turn: str, word: str, rest: str) -> Iterator[None]:
        self.delta(thread, turn, self.message(thread, turn), "last words ")
        if self.argument:
            self.ask("item/fileChange/requestApproval", threadId=thread, turnId=turn, itemId="i")
        yield
        os._exit(fail("thread main panicked", 7))


class IgnoresEof(Server):
    fault: ClassVar[str] = "ignores-eof"

    def eof(self) -> int:
        time.sleep(600)
        return 0


class NotLoggedIn(Server):
    """Wants a login of its provider's, and takes a key."""

    fault: ClassVar[str] = "not-logged-in"

    def account(self) -> Json:
        return {"account": None, "requiresOpenaiAuth": True}


class BadConfig(Server):
    """Runs on its defaults, and starts no thread."""

    fault: ClassVar[str] = "bad-config"

    def on_request(self, request: Any, method: str, params: Json) -> None:
        if method != "thread/start":
            return super().on_request(request, method, params)
        said = "Invalid configuration; using defaults."
        self.notify("configWarning", summary=said, details="config.toml:1:17: invalid string")
        return self.refuse(request, "failed to load configuration: config.toml:1:17: invalid")


class OtherSettings(Server):
    """Grants another sandbox and model than it was asked for."""

    fault: ClassVar[str] = "other-settings"

    def settings(self, params: Json) -> Json:
        told = super().settings(params)
        return {**told, "model": "gpt-other", "sandbox": {"type": "readOnly"}}


class OtherThread(Server):
    """Resumes another conversation than the one that was named."""

    fault: ClassVar[str] = "other-thread"

    def open_thread(self, request: Any, thread: str, params: Json) -> None:
        super().open_thread(request, self.new("other"), params)
