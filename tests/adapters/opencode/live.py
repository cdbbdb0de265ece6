"""A connection to an OpenCode server, real or fake, with the events that a client would see.

Owns the launches, one `Turns` per session as the daemon has, and what a test waits for. Knows nothing of
the server but how it is started.
"""

import dataclasses
import itertools
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import anyio

from agentctl.core.adapter import (
    AnyDraft,
    Draft,
    Frame,
    Launch,
    PermissionAnswer,
    ProcessGone,
    ProcessStarted,
    QuestionAnswer,
)
from agentctl.core.events import (
    Complete,
    Error,
    Event,
    Log,
    Message,
    MessageChunk,
    Payload,
    PermissionRequest,
    QuestionRequest,
    Reasoning,
)
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import Answer, ContentBlock
from agentctl.core.spec import Command, Entry, PromptSpec, SessionSpec
from agentctl.core.turns import Turns
from agentctl.core.words import ContentType, Decision, QuestionOutcome, Role
from agentctl_adapters.opencode.adapter import connect
from agentctl_adapters.opencode.connection import OpenCodeConnection
from agentctl_adapters.opencode.stream import PACE, Pace
from agentctl_adapters.opencode.translate import OpenCodeTranslator
from tests.invariants import broken

P = TypeVar("P")
# A state that nothing tells of is looked at this often.
LOOK_S = 0.05
# Long beside any wait here, short beside a person's patience with a hung test.
PATIENCE_S = 10.0
ROOT = Path(__file__).parents[3]
TOOLS = ("edit", "bash", "webfetch")


@dataclass
class Live:
    """One connection; `events` in order, each with its native session in `session_id`."""

    connection: OpenCodeConnection
    workspace: str
    events: list[Event] = field(default_factory=list[Event])
    loose: list[Payload] = field(default_factory=list[Payload])
    frames: list[Frame] = field(default_factory=list[Frame])
    gone: list[ProcessGone] = field(default_factory=list[ProcessGone])
    turns: dict[str, Turns] = field(default_factory=dict[str, Turns])
    _ids: Any = field(default_factory=lambda: itertools.count(1))
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def sink(self, drafts: Sequence[AnyDraft]) -> None:
        for draft in drafts:
            self._take(draft)
        news, self._news = self._news, anyio.Event()
        news.set()

    def _take(self, draft: AnyDraft) -> None:
        session = getattr(draft, "session", None)
        if session is not None:
            self.add(session, self.of(session).apply(draft))
        elif isinstance(draft, ProcessGone | ProcessStarted):
            self.gone += [draft] if isinstance(draft, ProcessGone) else []
            for native in [*self.turns]:
                self.add(native, self.turns[native].apply(draft))
        elif isinstance(draft, Draft):
            self.loose.append(draft.payload)

    def of(self, session: str) -> Turns:
        return self.turns.setdefault(session, Turns(mint=lambda kind: f"{kind}_{next(self._ids)}"))

    def add(self, session: str, events: Sequence[Event]) -> None:
        for event in events:
            event.session_id, event.seq = session, len(self.events) + 1
            self.events.append(event)

    async def until(self, found: Callable[[], P], timeout_s: float = PATIENCE_S) -> P:
        """What `found` finds, once it finds something."""
        with anyio.move_on_after(timeout_s):
            while not (what := found()):
                # Not all that is looked for comes with news.
                with anyio.move_on_after(LOOK_S):
                    await self._news.wait()
            return what
        last = "\n".join(str(event) for event in self.events[-12:])
        raise TimeoutError(f"the last events:\n{last}\n{self.loose[-5:]}")

    # What a client does

    async def session(self, **spec: Any) -> NativeSessionId:
        return await self.connection.new_session(self.spec(**spec))

    def spec(self, **more: Any) -> SessionSpec:
        made = SessionSpec("opencode", self.workspace)
        return dataclasses.replace(made, **more)

    async def begin(self, session: NativeSessionId, prompt: str | PromptSpec) -> None:
        spec = prompt if isinstance(prompt, PromptSpec) else text(prompt)
        await self.connection.prompt(session, spec)

    async def ask(self, session: NativeSessionId, prompt: str | PromptSpec) -> "Run":
        """A whole run."""
        before = len(self.completes(session))
        await self.begin(session, prompt)
        return await self.ended(session, before + 1)

    async def ended(self, session: NativeSessionId, nth: int = 1) -> "Run":
        await self.until(lambda: len(self.completes(session)) >= nth)
        return self.runs(session)[nth - 1]

    async def cancel(self, session: NativeSessionId) -> None:
        """As the daemon does: what is open is answered as cancelled, then the agent is told."""
        turns = self.of(session)
        turns.cancel_sent()
        for request in [open_.request for open_ in turns.open_permissions.values()]:
            await self.connection.answer_permission(request, PermissionAnswer(Decision.CANCELLED))
        for request in [open_.request for open_ in turns.open_questions.values()]:
            no = QuestionAnswer(QuestionOutcome.CANCELLED)
            await self.connection.answer_question(request, no)
        await self.connection.cancel(session)

    async def asked(self, session: str, nth: int = 1) -> PermissionRequest:
        """The n-th permission request of a session, once it is there."""
        await self.until(lambda: len(self.of_type(PermissionRequest, session)) >= nth)
        return self.of_type(PermissionRequest, session)[nth - 1]

    async def answer(
        self,
        request: PermissionRequest,
        decision: Decision,
        option: str | None = None,
        reason: str | None = None,
    ) -> None:
        native = NativeRequestId(request.native_request_id or "")
        answer = PermissionAnswer(decision, option, reason)
        await self.connection.answer_permission(native, answer)

    async def approve(self, session: str, nth: int = 1) -> PermissionRequest:
        request = await self.asked(session, nth)
        await self.answer(request, Decision.APPROVED, "once")
        return request

    async def questioned(self, session: str) -> QuestionRequest:
        await self.until(lambda: self.of_type(QuestionRequest, session))
        return self.of_type(QuestionRequest, session)[-1]

    async def reply(self, question: QuestionRequest, *values: list[str]) -> None:
        native = NativeRequestId(question.native_request_id or "")
        outcome = QuestionOutcome.ANSWERED if values else QuestionOutcome.REJECTED
        answers = tuple(Answer(each) for each in values)
        await self.connection.answer_question(native, QuestionAnswer(outcome, answers))

    # What a client sees

    def of_type(self, kind: type[P], session: str | None = None) -> list[P]:
        return [
            event.payload
            for event in self.events
            if isinstance(event.payload, kind) and session in (None, event.session_id)
        ]

    def completes(self, session: str) -> list[Complete]:
        return self.of_type(Complete, session)

    def runs(self, session: str) -> list["Run"]:
        """The runs of a session that have ended, in the order of their ends."""
        ids = [
            event.run_id
            for event in self.events
            if isinstance(event.payload, Complete) and event.session_id == session
        ]
        return [Run([e for e in self.events if run in (e.run_id, e.after_run_id)]) for run in ids]

    def errors(self) -> list[Error]:
        return self.of_type(Error) + [each for each in self.loose if isinstance(each, Error)]

    def logs(self) -> list[str]:
        return [each.text for each in self.loose if isinstance(each, Log)]

    def requests(self, path: str) -> list[dict[str, Any]]:
        """What we sent whose path ends so."""
        sent = [f.msg for f in self.frames if f.dir == "http_request"]
        return [msg for msg in sent if msg["path"].endswith(path)]


@dataclass(frozen=True, slots=True)
class Run:
    """The events of one run, the late ones too."""

    events: Sequence[Event]

    def of(self, kind: type[P]) -> list[P]:
        return [event.payload for event in self.events if isinstance(event.payload, kind)]

    @property
    def complete(self) -> Complete:
        (complete,) = self.of(Complete)
        return complete

    @property
    def text(self) -> str:
        """What a client shows in the end: chunks, replaced by whole messages, in order."""
        shown: dict[str, str] = {}
        for event in self.events:
            match event.payload:
                case MessageChunk(message_id=own, role=Role.ASSISTANT, text=str(words)):
                    if event.parent_tool_call_id is None:
                        shown[own] = shown.get(own, "") + words
                case Message(message_id=own, role=Role.ASSISTANT, content=content):
                    shown[own] = "".join(block.text or "" for block in content)
                case _:
                    continue
        return "".join(shown.values())

    @property
    def thoughts(self) -> str:
        return "".join(r.text or "" for r in self.of(Reasoning))


def text(words: str, **more: Any) -> PromptSpec:
    return PromptSpec(blocks=(ContentBlock(ContentType.TEXT, text=words),), **more)


def command(name: str, arguments: str = "") -> PromptSpec:
    return PromptSpec(command=Command(name, arguments))


def launch(
    argv: Sequence[str],
    frames: list[Frame],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    trust: bool = True,
    **entry: Any,
) -> Launch:
    entry.setdefault("tools_requiring_permission", TOOLS)
    return Launch(
        entry=Entry(id="opencode", protocol="opencode", **entry),
        argv=tuple(argv),
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(env or {})},
        cwd=cwd,
        cookie=f"test.{uuid4().hex}",
        client_version="1.2.3",
        trust_workspace=trust,
        tap=frames.append,
    )


def fake(*faults: str, **env: str) -> dict[str, Any]:
    """What running() needs for the fake server with these switches."""
    argv = (sys.executable, "-m", "tests.fakes.opencode.server", *faults)
    return {"argv": argv, "env": {"PYTHONPATH": str(ROOT), **env}}


@asynccontextmanager
async def outside(
    *faults: str, password: str = "", asks: bool = True
) -> AsyncGenerator[tuple[str, int]]:
    """A fake server that we did not start: its URL and pid. `asks`: its own rules say so."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    if asks:
        rules = {"permission": dict.fromkeys(TOOLS, "ask")}
        env["OPENCODE_CONFIG_CONTENT"] = json.dumps(rules)
    if password:
        env["OPENCODE_SERVER_PASSWORD"] = password
    argv = [sys.executable, "-m", "tests.fakes.opencode.server", *faults]
    process = await anyio.open_process(argv, env=env, stderr=None)
    try:
        assert process.stdout is not None
        with anyio.fail_after(PATIENCE_S):
            line = (await process.stdout.receive()).decode()
        yield line.split()[-1], process.pid
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()


@asynccontextmanager
async def running(
    argv: Sequence[str], workspace: str, *, pace: Pace = PACE, check: bool = True, **how: Any
) -> AsyncGenerator[Live]:
    """A live server; at its end the events keep every promise."""
    frames: list[Frame] = []
    held: list[Live] = []
    early: list[AnyDraft] = []

    async def sink(drafts: Sequence[AnyDraft]) -> None:
        if held:
            await held[0].sink(drafts)
        else:
            early.extend(drafts)

    how.setdefault("cwd", workspace)
    made = launch(argv, frames, **how)
    with anyio.fail_after(PATIENCE_S * 6):
        async with connect(
            made, OpenCodeTranslator(), sink, lambda _: None, pace=pace
        ) as connection:
            live = Live(connection, workspace, frames=frames)
            held.append(live)
            await live.sink(early)
            yield live
    if check:
        assert broken(live.events) == []
