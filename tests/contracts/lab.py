"""Where the app contract is tried out: a real daemon with the demo agent, and scripted stories.

Owns what several rows of the table need and nothing of what they say.
"""

import subprocess
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentctl.client import AgentCtl, Event, Run, RunResult
from agentctl.core.events import Message, Task
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, Role, TaskStatus
from agentctl.testing.fake_daemon import (
    Emit,
    FakeDaemon,
    Gate,
    Say,
    ShowImage,
    UseTool,
    Wait,
    WriteFile,
)

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 32
LONG = "0123456789abcdef" * 40_000
STORY = (
    "think hm || plan || say hello || run! echo out || run! false || run echo asked || ask Which? || "
    "write made.txt some text || usage || title Story || run! git checkout -q -b topic || "
    "run! echo https://github.com/acme/app/pull/7"
)


@dataclass(frozen=True, slots=True)
class Told:
    """A run that has ended, and its events."""

    run: Run
    result: RunResult
    events: list[Event]

    def data(self, family: str) -> dict[str, Any]:
        """The payload of the first event of that family."""
        return next(event.data for event in self.events if family in event.families)


@dataclass
class Lab:
    """The demo agent behind a real daemon. What is expensive is told once and kept."""

    address: str
    workspace: Path
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    tried: dict[object, Exception | None] = field(default_factory=dict[object, Exception | None])
    """Checks that stand for several names, with what came of them: each is tried once."""

    def client(self) -> AgentCtl:
        return AgentCtl.connect(self.address)

    async def demo(self, client: AgentCtl, prompt: str = "say hi", **more: Any) -> Run:
        given: dict[str, Any] = {"workspace": self.workspace, **more}
        return await client.agent("demo").run(prompt, **given)

    async def story(self) -> Told:
        """A demo run that does a bit of everything; its requests are answered by callbacks."""
        return await self.once("story", self._story)

    async def once(self, name: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if name not in self.kept:
            self.kept[name] = await make()
        return self.kept[name]

    async def _story(self) -> Told:
        async with self.client() as client:
            run = await self.demo(client, STORY, session_key="story")
            run.on_approval(lambda request: request.approve_once())
            run.on_question(lambda question: question.answer("blue"))
            session = await run.session()
            await run.wait()
            return Told(run, await run.wait(), [e async for e in session.events(follow=False)])

    async def families(self) -> dict[str, dict[str, Any]]:
        """Each family with an OpenClawEvent of it, from the demo's stories and the scripted one."""
        return await self.once("families", self._families)

    async def _families(self) -> dict[str, dict[str, Any]]:
        events = list((await self.story()).events)
        async with self.client() as client:
            first = await self.demo(client, "hang", session_key="ends")
            session = await first.session()
            second = await session.send("say behind")
            await second.cancel()
            await first.cancel()
            await first.wait()
            for prompt, limit in (("hang", 50), ("model-error 1 bad", None)):
                await (await session.send(prompt, timeout_ms=limit)).wait()
            events += [event async for event in session.events(follow=False)]
            await session.close()
        events += await scripted_events()
        found: dict[str, dict[str, Any]] = {}
        for event in events:
            for family in event.families:
                view = event.as_app_sdk(family)
                assert view is not None
                found.setdefault(family, view)
        return found


async def scripted_events() -> list[Event]:
    """What the demo agent does not do: whole messages, background work, a compaction, one file twice."""
    whole = Message("", Role.ASSISTANT, [ContentBlock(ContentType.TEXT, "whole")])
    async with FakeDaemon("coder") as daemon, daemon.client() as client:
        daemon.agent("coder").on(
            "",
            Emit(whole),
            Emit(Task("task-1", title="watch", status=TaskStatus.RUNNING)),
            UseTool("bash", "execute", pieces=["a", "b"]),
            WriteFile("twice.txt", "one"),
        )
        session = await client.agent("coder").session(workspace=daemon.workspace)
        for _ in range(2):
            await (await session.send("x")).wait()
        await (await session.compact()).wait()
        return [event async for event in session.events(follow=False)]


@asynccontextmanager
async def artifacts_of_all_kinds() -> AsyncGenerator[tuple[AgentCtl, Run, str]]:
    """A scripted run in a worktree, of which there is an artifact of each kind, and its session."""
    async with FakeDaemon("coder") as daemon, daemon.client() as client:
        repository(daemon.workspace)
        daemon.agent("coder").on(
            "",
            WriteFile("made.txt", "made"),
            WriteFile("long.txt", LONG),
            UseTool("bash", "execute", output=LONG),
            ShowImage(PNG),
            UseTool("take_screenshot", images=[PNG + b"1"]),
            Say("See https://github.com/acme/app/pull/7 for it."),
        )
        run = await client.agent("coder").run(
            "x",
            workspace=daemon.workspace,
            environment="worktree",
            environment_options={"keep": "always"},
        )
        await run.wait()
        session = await run.session()
        async for event in session.events():
            if event.data.get("status") == "closed":
                break
        yield client, run, session.id


@asynccontextmanager
async def waiting(**more: Any) -> AsyncGenerator[tuple[AgentCtl, Run, Gate]]:
    """A run that goes on until its gate is opened."""
    gate = Gate()
    async with FakeDaemon("coder") as daemon, daemon.client() as client:
        daemon.agent("coder").on("", Wait(gate), Say("done"))
        yield client, await client.agent("coder").run("x", workspace=daemon.workspace, **more), gate


def repository(root: Path) -> None:
    """Makes a git work tree with one commit of a directory."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
    for command in (
        ["init", "-q", "-b", "main"],
        ["commit", "-q", "--allow-empty", "-m", "begin"],
    ):
        subprocess.run(["git", *who, *command], cwd=root, check=True, capture_output=True)
