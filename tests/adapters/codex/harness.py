"""What the tests of the Codex adapter share: launches of fakes, and sessions that remember their events."""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio

from agentctl.core.adapter import AnyDraft, Draft, Frame, Launch, ProcessGone, StartTimer, TurnEnded
from agentctl.core.events import (
    Complete,
    Error,
    Event,
    MessageChunk,
    PermissionRequest,
    QuestionRequest,
    ToolUpdate,
)
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import Entry, PromptSpec, SessionSpec
from agentctl.core.turns import Turns
from agentctl.core.words import ContentType, Outcome
from agentctl_adapters.codex.adapter import connect
from agentctl_adapters.codex.connection import CodexConnection

FAKE = Path(__file__).parents[3] / "tests/fakes/codex/app_server.py"
# Long beside any wait here, short beside a person's patience with a hung test.
PATIENCE_S = 20.0


class Seen:
    """Everything that passed: frames as the tap saw them, drafts at the sink, events of each session."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.drafts: list[AnyDraft] = []
        self.events: dict[str, list[Event]] = {}
        self.progress: list[str] = []
        self._turns: dict[str, Turns] = {}
        self._count = 0
        self._news = anyio.Event()

    async def sink(self, drafts: Sequence[AnyDraft]) -> None:
        self.drafts += drafts
        for draft in drafts:
            session = getattr(draft, "session", None)
            names = [session] if session is not None else list(self._turns)
            for name in names if not isinstance(draft, StartTimer) else ():
                turns = self._turns.setdefault(name, Turns(mint=self._mint))
                self.events.setdefault(name, []).extend(turns.apply(draft))
        self._news.set()

    def _mint(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

    async def until(self, ready: Callable[[], object]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not ready():
                self._news = anyio.Event()
                await self._news.wait()

    def of(self, kind: type, session: str | None = None) -> list[Any]:
        """Payloads of a kind, in order."""
        lists = [self.events.get(session, [])] if session is not None else self.events.values()
        return [e.payload for events in lists for e in events if isinstance(e.payload, kind)]

    def said(self, session: str | None = None) -> str:
        return "".join(chunk.text or "" for chunk in self.of(MessageChunk, session))

    def ends(self, session: str | None = None) -> list[Complete]:
        return self.of(Complete, session)

    def turn_ends(self) -> list[TurnEnded]:
        return [draft for draft in self.drafts if isinstance(draft, TurnEnded)]

    def outcomes(self, session: str | None = None) -> list[Outcome]:
        return [end.outcome for end in self.ends(session)]

    def errors(self) -> list[Error]:
        """Errors, those of the whole process included."""
        told = [draft.payload for draft in self.drafts if isinstance(draft, Draft)]
        return [payload for payload in told if isinstance(payload, Error)]

    def asked(self, session: str | None = None) -> list[PermissionRequest]:
        return self.of(PermissionRequest, session)

    def questions(self) -> list[QuestionRequest]:
        return self.of(QuestionRequest)

    def tool_ends(self) -> list[ToolUpdate]:
        return [u for u in self.of(ToolUpdate) if u.status is not None]

    def output(self, call: str) -> str:
        """What a tool has put out."""
        text = ""
        for update in [u for u in self.of(ToolUpdate) if u.tool_call_id == call]:
            if update.output_replace is not None:
                text = update.output_replace
            text += update.output_delta or ""
        return text

    def sent(self, method: str) -> list[dict[str, Any]]:
        """Params of what we called, in order."""
        return [m.get("params", {}) for m in self._sent() if m.get("method") == method]

    def answers(self) -> list[dict[str, Any]]:
        """What we answered to the agent's requests."""
        return [message for message in self._sent() if "method" not in message]

    def open_requests(self) -> set[Any]:
        """Ids of requests of the agent that have had no answer."""
        asked = [
            f.msg["id"]
            for f in self.frames
            if f.dir == "from_agent" and f.msg and "id" in f.msg and "method" in f.msg
        ]
        return set(asked) - {answer["id"] for answer in self.answers()}

    def gone(self) -> list[ProcessGone]:
        return [draft for draft in self.drafts if isinstance(draft, ProcessGone)]

    def _sent(self) -> list[dict[str, Any]]:
        return [f.msg for f in self.frames if f.dir == "to_agent" and f.msg is not None]


def launch(
    argv: Sequence[str],
    seen: Seen,
    *,
    env: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    **entry: Any,
) -> Launch:
    known = Entry(id="codex", protocol="codex", protocol_config=config or {}, **entry)
    return Launch(
        entry=known,
        argv=tuple(argv),
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(env or {})},
        cwd="/",
        cookie=f"test.{uuid4().hex}",
        client_version="1.2.3",
        tap=seen.frames.append,
    )


def fake(fault: str = "", argument: str = "") -> tuple[str, ...]:
    return (sys.executable, str(FAKE), fault, *([argument] if argument else []))


@asynccontextmanager
async def running(
    argv: Sequence[str], seen: Seen | None = None, **how: Any
) -> AsyncGenerator[tuple[CodexConnection, Seen]]:
    seen = seen or Seen()
    with anyio.fail_after(PATIENCE_S * 2):
        async with connect(
            launch(argv, seen, **how), seen.sink, seen.progress.append
        ) as connection:
            yield connection, seen


def spec(workspace: Path | str = "/", **more: Any) -> SessionSpec:
    return SessionSpec(entry_id="codex", workspace=str(workspace), **more)


def text(words: str, **more: Any) -> PromptSpec:
    return PromptSpec(blocks=(ContentBlock(ContentType.TEXT, text=words),), **more)


async def one_turn(
    connection: CodexConnection, seen: Seen, session: NativeSessionId, prompt: PromptSpec | str
) -> Complete:
    """A whole turn; its end."""
    before = len(seen.ends(session))
    asked = text(prompt) if isinstance(prompt, str) else prompt
    await connection.prompt(session, asked)
    await seen.until(lambda: len(seen.ends(session)) > before)
    return seen.ends(session)[before]


def key(ask: PermissionRequest | QuestionRequest) -> NativeRequestId:
    """What an ask is answered by."""
    return NativeRequestId(ask.native_request_id or "")


def alive(cookie: str) -> list[int]:
    """Pids of the processes that carry a launch's cookie."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"AGENTCTL_COOKIE={cookie}\0".encode() in process.read_bytes() + b"\0":
                found.append(int(process.parent.name))
        except OSError:
            continue
    return found
