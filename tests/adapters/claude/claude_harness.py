"""What the tests of the Claude Code adapter share: launches, and a connection that remembers."""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio

from agentctl.core.adapter import (
    AnyDraft,
    Draft,
    Frame,
    Launch,
    ProcessGone,
    ProcessStarted,
    QuestionAnswered,
    StartTimer,
)
from agentctl.core.adapter import PermissionAnswered as Answered
from agentctl.core.events import Complete, Event, MessageChunk, PermissionRequest, QuestionRequest
from agentctl.core.ids import NativeRequestId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import Entry, PromptSpec, SessionSpec
from agentctl.core.turns import Turns
from agentctl.core.words import ContentType, Outcome, Role
from agentctl_adapters.claude.adapter import connect
from agentctl_adapters.claude.connection import ClaudeConnection
from agentctl_adapters.claude.translate import ClaudeTranslator
from agentctl_adapters.common.shapes import Json
from tests.replaying import counted_mint

FAKE = Path(__file__).parents[2] / "fakes/claude/claude.py"
# Long beside any wait here, short beside a person's patience with a hung test.
PATIENCE_S = 20.0


class Seen:
    """Everything that passed: frames as the tap saw them, and the events of the one session."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.drafts: list[AnyDraft] = []
        self.events: list[Event] = []
        self.turns = Turns(mint=counted_mint())
        self._news = anyio.Event()

    async def sink(self, drafts: Sequence[AnyDraft]) -> None:
        for draft in drafts:
            self.drafts.append(draft)
            wide = isinstance(draft, ProcessGone | ProcessStarted | StartTimer)
            if wide or isinstance(draft, Answered | QuestionAnswered) or draft.session is not None:
                self.events += self.turns.apply(draft)
        self._news.set()

    async def until(self, ready: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
        with anyio.move_on_after(patience_s):
            while not (found := ready()):
                self._news = anyio.Event()
                await self._news.wait()
            return found
        raise TimeoutError(f"the last events were {self.events[-6:]}")

    def of(self, kind: type[Any]) -> list[Any]:
        """The payloads of one kind, in order."""
        return [event.payload for event in self.events if isinstance(event.payload, kind)]

    @property
    def text(self) -> str:
        return "".join(
            chunk.text or "" for chunk in self.of(MessageChunk) if chunk.role is Role.ASSISTANT
        )

    async def ended(self, nth: int = 1) -> Complete:
        """The n-th end of a run."""
        await self.until(lambda: len(self.of(Complete)) >= nth)
        return self.of(Complete)[nth - 1]

    async def asked(self, nth: int = 1) -> PermissionRequest:
        await self.until(lambda: len(self.of(PermissionRequest)) >= nth)
        return self.of(PermissionRequest)[nth - 1]

    async def questioned(self) -> QuestionRequest:
        await self.until(lambda: self.of(QuestionRequest))
        return self.of(QuestionRequest)[0]

    def sent(self, kind: str) -> list[Json]:
        """What we wrote, by its type."""
        return [
            frame.msg
            for frame in self.frames
            if frame.dir == "to_agent" and frame.msg.get("type") == kind
        ]

    def controls(self, subtype: str) -> list[Json]:
        """Our control requests of a subtype."""
        requests = [message["request"] for message in self.sent("control_request")]
        return [request for request in requests if request["subtype"] == subtype]

    def gone(self) -> list[ProcessGone]:
        return [draft for draft in self.drafts if isinstance(draft, ProcessGone)]

    def logs(self) -> list[Any]:
        return [d.payload for d in self.drafts if isinstance(d, Draft)]


def request_of(payload: PermissionRequest | QuestionRequest) -> NativeRequestId:
    return NativeRequestId(payload.native_request_id or "")


def launch(
    argv: Sequence[str],
    cwd: Path,
    seen: Seen,
    *,
    env: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    trust: bool = True,
    **entry: Any,
) -> Launch:
    return Launch(
        Entry(id="claude", protocol="claude-code", protocol_config=config or {}, **entry),
        tuple(argv),
        {"PATH": os.environ["PATH"], "HOME": str(cwd), **(env or {})},
        str(cwd),
        f"claude-{uuid4().hex}",
        client_version="0",
        trust_workspace=trust,
        tap=seen.frames.append,
    )


def spec(workspace: Path, **more: Any) -> SessionSpec:
    return SessionSpec("claude", str(workspace), **more)


def text(words: str, **more: Any) -> PromptSpec:
    return PromptSpec((ContentBlock(ContentType.TEXT, text=words),), **more)


@asynccontextmanager
async def connected(made: Launch, seen: Seen) -> AsyncGenerator[ClaudeConnection]:
    async with connect(made, ClaudeTranslator(), seen.sink, lambda _: None) as connection:
        yield connection


@asynccontextmanager
async def faulty(
    tmp_path: Path, seen: Seen, *switches: str, **how: Any
) -> AsyncGenerator[ClaudeConnection]:
    """A connection to the fake, which misbehaves as its switches say."""
    argv = (sys.executable, str(FAKE), *switches)
    async with connected(launch(argv, tmp_path, seen, **how), seen) as connection:
        yield connection


async def say(connection: ClaudeConnection, seen: Seen, native: Any, words: str) -> Complete:
    """One prompt and its end."""
    before = len(seen.of(Complete))
    await connection.prompt(native, text(words))
    return await seen.ended(before + 1)


def good(complete: Complete) -> bool:
    return complete.outcome is Outcome.COMPLETED
