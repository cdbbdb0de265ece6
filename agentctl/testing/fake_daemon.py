"""Owns a daemon for the tests of apps: the real one, in this process, with scripted agents.

    async with FakeDaemon("coder") as daemon:
        daemon.agent("coder").on("hello", Say("hi"))
        async with daemon.client() as client:
            ...

The journal, the API and all lifecycles are the product's own; only the agents are played, so that
nothing is installed, started or called. It lives in a directory of its own, which goes with it.
"""

import asyncio
import json
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio

from agentctl.client import AgentCtl
from agentctl.client.loop import LoopThread
from agentctl.config import Settings, default_address
from agentctl.core.errors import AgentctlError, Invalid
from agentctl.daemon import running
from agentctl.testing.scripted import Answer, Scripted, ScriptedAgent
from agentctl.testing.steps import (
    AskApproval,
    AskQuestion,
    Emit,
    Exit,
    Fail,
    Gate,
    Plan,
    Say,
    ShowImage,
    Spend,
    Step,
    Think,
    UseTool,
    Wait,
    WriteFile,
)

__all__ = [
    "Answer",
    "AskApproval",
    "AskQuestion",
    "Emit",
    "Exit",
    "Fail",
    "FakeDaemon",
    "Gate",
    "Plan",
    "Say",
    "ScriptedAgent",
    "ShowImage",
    "Spend",
    "Step",
    "Think",
    "UseTool",
    "Wait",
    "WriteFile",
]

# The protocol whose place the scripted agents take: a registry knows only protocols that exist.
PROTOCOL = "acp"


class FakeDaemon:
    """A daemon on a private Unix socket; `address` is where.

    Args:
        agents: the ids of its scripted agents.
        settings: settings of the daemon (docs/settings.md), such as approval_timeout_seconds.
    """

    def __init__(self, *agents: str, **settings: Any) -> None:
        self._settings = settings
        root = Path(tempfile.mkdtemp(prefix="agentctl-", dir="/tmp"))
        self._remove = weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
        self.data_dir = root / "data"
        self.workspace = root / "workspace"
        """A directory for sessions to work in."""
        self._registry = root / "agents.json"
        self._scripted = Scripted()
        self._entries: list[dict[str, Any]] = []
        self._loop: LoopThread | None = None
        self._stop: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self.workspace.mkdir()
        self.data_dir.mkdir()
        self._write()
        for agent in agents:
            self.agent(agent)

    @property
    def address(self) -> str:
        return default_address(self.data_dir)

    def client(self) -> AgentCtl:
        """A client of it: `async with daemon.client() as client`."""
        return AgentCtl.connect(self.address)

    def agent(self, agent_id: str, **entry: Any) -> ScriptedAgent:
        """The scripted agent of that id; before the start it is made when there is none yet.

        Args:
            entry: further fields of its registry entry, such as permission_config.

        Raises:
            Invalid: the daemon runs, and was made without this agent.
        """
        if agent_id not in self._scripted.agents:
            if self._task is not None:
                raise Invalid(f'name it when you make the daemon: FakeDaemon("{agent_id}").')
            self._scripted.agents[agent_id] = ScriptedAgent(agent_id)
            told = {"id": agent_id, "protocol": PROTOCOL, "cmd": [sys.executable], **entry}
            self._entries.append(told)
            self._write()
        return self._scripted.agents[agent_id]

    async def start(self) -> None:
        """Returns once it serves.

        Raises:
            AgentctlError: a setting is wrong, or it cannot serve.
        """
        self._stop = asyncio.Event()
        serving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # A task of its own: whoever stops it, from whichever task, does so in the right place.
        self._task = asyncio.create_task(self._serve(serving, self._stop))
        try:
            await serving
        except AgentctlError:
            await self.stop()
            await anyio.to_thread.run_sync(self._remove)
            raise

    async def stop(self) -> None:
        """Returns when nothing of it runs; what it journalled stays, for `start`."""
        if self._stop is None or self._task is None:
            return
        self._stop.set()
        task, self._task = self._task, None
        await task

    async def restart(self) -> None:
        """Goes down and comes back on the same journal and address."""
        await self.stop()
        await self.start()

    async def _serve(self, serving: "asyncio.Future[None]", stop: asyncio.Event) -> None:
        settings = Settings.model_validate(
            {
                "data_dir": self.data_dir,
                "registry": self._registry,
                "user_registry": self.data_dir / "user.json",
                **self._settings,
            }
        )
        try:
            async with running(settings, given={PROTOCOL: self._scripted}):
                serving.set_result(None)
                await stop.wait()
        except BaseException as error:
            if serving.done():
                raise
            serving.set_exception(_single(error))

    def _write(self) -> None:
        document = {"version": 1, "agents": self._entries}
        self._registry.write_text(json.dumps(document), encoding="utf-8")

    def __enter__(self) -> Self:
        """For tests without an event loop: the daemon has a thread of its own."""
        self._loop = LoopThread()
        self._loop.run(self.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None:
            self._loop.run(self.stop())
            self._loop.close()
        self._remove()

    def restart_and_wait(self) -> None:
        """`restart` inside a plain `with`."""
        if self._loop is None:
            raise Invalid("await daemon.restart() here: it was started in an event loop.")
        self._loop.run(self.restart())

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()
            await anyio.to_thread.run_sync(self._remove)


def _single(error: BaseException) -> BaseException:
    """What went wrong, taken out of the groups of tasks that it passed."""
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return _single(inner[0]) if len(inner) == 1 else error
