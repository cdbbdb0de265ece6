"""What the tests of the ACP adapter share: launches of fakes, and a connection that remembers."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio

import agentctl_adapters
from agentctl.core.adapter import AnyDraft, Draft, Frame, Launch, ProcessGone
from agentctl.core.events import Log
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import Entry, PromptSpec, SessionSpec
from agentctl.core.words import ContentType, LogStream
from agentctl_adapters.acp.adapter import connect
from agentctl_adapters.acp.connection import AcpConnection
from agentctl_adapters.common.shapes import Json, request_key

ROOT = Path(__file__).parents[3]
FAULTY = ROOT / "tests/fakes/agents/faulty.py"
PUPPET = Path(__file__).with_name("puppet.py")
ADAPTERS = Path(agentctl_adapters.__file__).parents[1]
# Long beside any wait here, short beside a person's patience with a hung test.
PATIENCE_S = 20.0


class Spy:
    """A translator that turns each frame into one draft, so that order can be seen at the sink."""

    def feed(self, frame: Frame) -> Sequence[AnyDraft]:
        if frame.dir in ("stdout_end", "exit"):
            return [ProcessGone()]
        text = frame.raw if frame.raw is not None else json.dumps(frame.msg)
        return [Draft(Log(LogStream.NOTE, f"{frame.dir}: {text}"))]

    def flush(self) -> Sequence[AnyDraft]:
        return []


class Seen:
    """Everything that passed: frames as the tap saw them, drafts as the sink got them."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.drafts: list[AnyDraft] = []
        self.progress: list[str] = []
        self._news = anyio.Event()

    async def sink(self, drafts: Sequence[AnyDraft]) -> None:
        self.drafts += drafts
        self._news.set()

    async def until(self, ready: Callable[[], object]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not ready():
                self._news = anyio.Event()
                await self._news.wait()

    def said(self) -> str:
        """The agent's text so far."""
        return "".join(
            str(update["content"]["text"])
            for update in self.updates()
            if update["sessionUpdate"] == "agent_message_chunk"
        )

    def updates(self) -> list[Json]:
        return [p["update"] for p in self.received("session/update")]

    def received(self, method: str) -> list[Json]:
        return [m["params"] for m in self._messages("from_agent") if m.get("method") == method]

    def sent(self, method: str) -> list[Json]:
        return [m["params"] for m in self._messages("to_agent") if m.get("method") == method]

    def answers(self) -> list[Json]:
        """What we answered to the agent's requests."""
        return [m for m in self._messages("to_agent") if "method" not in m]

    def ends(self) -> list[Json]:
        """The answers to our prompts."""
        prompts = [
            m["id"] for m in self._messages("to_agent") if m.get("method") == "session/prompt"
        ]
        answers = self._messages("from_agent")
        return [m for m in answers if "method" not in m and m.get("id") in prompts]

    def asked(self) -> list[NativeRequestId]:
        """Keys of the permission requests and questions of the agent."""
        kinds = ("session/request_permission", "elicitation/create")
        return [
            request_key(m["id"])
            for m in self._messages("from_agent")
            if m.get("method") in kinds and "id" in m
        ]

    def gone(self) -> list[ProcessGone]:
        return [draft for draft in self.drafts if isinstance(draft, ProcessGone)]

    def _messages(self, direction: str) -> list[Json]:
        return [f.msg for f in self.frames if f.dir == direction and f.msg is not None]


def launch(
    argv: Sequence[str],
    *,
    seen: Seen | None = None,
    env: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **entry: Any,
) -> Launch:
    known = Entry(id="fake", protocol_config=config or {}, **entry)
    return Launch(
        entry=known,
        argv=tuple(argv),
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(env or {})},
        cwd="/",
        cookie=f"test.{uuid4().hex}",
        client_version="1.2.3",
        tap=seen.frames.append if seen is not None else None,
        options=options or {},
    )


def fake(fault: str, argument: str = "") -> tuple[str, ...]:
    return (sys.executable, str(FAULTY), fault, *([argument] if argument else []))


def demo(tmp: Path) -> dict[str, Any]:
    env = {"PYTHONPATH": f"{ADAPTERS}", "XDG_STATE_HOME": str(tmp), "HOME": str(tmp)}
    return {"argv": (sys.executable, "-m", "agentctl_adapters.demo.agent"), "env": env}


def puppet(
    init: Json | None = None, results: Json | None = None, errors: Json | None = None
) -> dict[str, Any]:
    env = {
        "PUPPET_INIT": json.dumps(init or {}),
        "PUPPET_RESULTS": json.dumps(results or {}),
        "PUPPET_ERRORS": json.dumps(errors or {}),
    }
    return {"argv": (sys.executable, str(PUPPET)), "env": env}


@asynccontextmanager
async def running(argv: Sequence[str], **how: Any) -> AsyncGenerator[tuple[AcpConnection, Seen]]:
    seen = Seen()
    with anyio.fail_after(PATIENCE_S * 2):
        async with connect(
            launch(argv, seen=seen, **how), Spy(), seen.sink, seen.progress.append
        ) as connection:
            yield connection, seen


def spec(workspace: Path | str, **more: Any) -> SessionSpec:
    return SessionSpec(entry_id="fake", workspace=str(workspace), **more)


def text(words: str) -> PromptSpec:
    return PromptSpec(blocks=(ContentBlock(ContentType.TEXT, text=words),))


def steps(*what: object) -> PromptSpec:
    return text(json.dumps(list(what)))


async def one_turn(
    connection: AcpConnection, seen: Seen, session: NativeSessionId, prompt: PromptSpec
) -> str:
    """A whole turn; the text that it said."""
    before, ended = len(seen.said()), len(seen.ends())
    await connection.prompt(session, prompt)
    await seen.until(lambda: len(seen.ends()) > ended)
    return seen.said()[before:]


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
