"""The real agent behind a real daemon: what a test says to it and what it hears of it.

Owns the daemon of one test, a client with the whole event stream, and the checks that hold after each
test: the stream keeps every promise, and no process is left. Knows no agent but by its recipe.
"""

import contextlib
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import psutil

from agentctl import v1
from agentctl.client import AgentCtl, Unreachable
from agentctl.core.errors import AgentctlError
from agentctl.rpc.convert import from_message
from agentctl.rpc.jsonview import to_dict
from tests.daemon.harness import Daemon
from tests.invariants import broken
from tests.real.harness import (
    GEMINI,
    GONE_TIMEOUT_S,
    NODE_MODULES,
    POLL_S,
    START_TIMEOUT_S,
    TURN_TIMEOUT_S,
    Home,
    Model,
    Recipe,
    agent_env,
    processes_of,
    wait_until_gone,
)

Row = dict[str, Any]
ENTRY = "gemini"
ONCE, TOOL_ALWAYS, REJECT = "proceed_once", "proceed_always", "cancel"


def daemon_env(
    home: Home, model: str, *without: str, recipe: Recipe = GEMINI, **more: str
) -> dict[str, str]:
    """The environment of a user's shell in which the agent is installed and logged in."""
    env = agent_env(home, model, recipe)
    # The packaged entry brings this itself.
    env.pop("GEMINI_CLI_NO_RELAUNCH", None)
    tools = [str(NODE_MODULES / ".bin"), str(Path(sys.executable).parent), env["PATH"]]
    config = home.root / "agentctl.toml"
    config.touch()
    env |= {"PATH": os.pathsep.join(tools), "AGENTCTL_CONFIG": str(config)}
    return {name: value for name, value in env.items() if name not in without} | more


def argv_of(process: psutil.Process) -> list[str]:
    """Its command line; nothing of one that ends at this moment."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@dataclass(frozen=True, slots=True)
class Turn:
    """One run and its events, as JSON rows."""

    run_id: str
    rows: Sequence[Row]

    def of(self, kind: str) -> list[Row]:
        """The payloads of one type, in order."""
        return [row["data"] for row in self.rows if row["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [row["type"] for row in self.rows]

    @property
    def text(self) -> str:
        chunks = self.of("message_chunk")
        return "".join(each["text"] for each in chunks if each["role"] == "assistant")

    @property
    def complete(self) -> Row:
        """Its only end, which is its last event."""
        (complete,) = self.of("complete")
        assert self.kinds[-1] == "complete"
        return complete

    @property
    def outcome(self) -> str:
        return str(self.complete["outcome"])

    @property
    def error(self) -> str:
        return str(self.complete["error"]["code"])

    def tool(self) -> Row:
        """The card of its only tool, with every later field laid over it."""
        (card,) = self.of("tool_call")
        return card | {k: v for update in self.of("tool_update") for k, v in update.items()}


@dataclass
class Served:
    """A daemon, a client of it, and everything the daemon has said."""

    home: Home
    model: Model
    daemon: Daemon
    client: AgentCtl
    entry: str = ENTRY
    rows: list[Row] = field(default_factory=list[Row])
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def collect(self) -> None:
        async for event in self.client.events():
            self.rows.append(to_dict(event))
            self._news.set()
            self._news = anyio.Event()

    async def until(self, condition: Callable[[], Any], timeout_s: float = TURN_TIMEOUT_S) -> Any:
        """Waits until the events fulfil a condition, and returns what it found."""
        with anyio.move_on_after(timeout_s):
            while not (found := condition()):
                await self._news.wait()
            return found
        raise TimeoutError(f"the last events were {json.dumps(self.rows[-8:], indent=1)}")

    def of(self, kind: str, **fields: Any) -> list[Row]:
        """Events of one type whose payload has these fields."""
        return [
            row
            for row in self.rows
            if row["type"] == kind and fields.items() <= row["data"].items()
        ]

    def turn(self, run_id: str) -> Turn:
        return Turn(run_id, [row for row in self.rows if row.get("run_id") == run_id])

    async def session(self, agent: str | None = None, **how: Any) -> v1.Session:
        """A session that is ready."""
        with anyio.fail_after(START_TIMEOUT_S):
            return await self.client.sessions.create(
                agent or self.entry, str(self.home.workspace), wait_ready=True, **how
            )

    async def begin(self, session: v1.Session, text: str | v1.RunInput, **how: Any) -> str:
        """Prompts, and returns the id of the run."""
        made = await self.client.runs.create(session.session_id, text, **how)
        return made.run.run_id

    async def ended(self, run_id: str) -> Turn:
        await self.until(lambda: "complete" in self.turn(run_id).kinds)
        return self.turn(run_id)

    async def ask(self, session: v1.Session, text: str | v1.RunInput, **how: Any) -> Turn:
        """Prompts, and waits for the end."""
        return await self.ended(await self.begin(session, text, **how))

    async def asked(self, run_id: str, nth: int = 1) -> Row:
        """The run's n-th permission request, once it is there."""
        await self.until(lambda: len(self.turn(run_id).of("permission_request")) >= nth)
        return self.turn(run_id).of("permission_request")[nth - 1]

    async def said(self, run_id: str, text: str) -> None:
        """Waits until the run's text holds this."""
        await self.until(lambda: text in self.turn(run_id).text)

    def agent_processes(self) -> list[psutil.Process]:
        """Whatever runs in this home beside the daemon."""
        own = self.daemon.process.pid if self.daemon.process else 0
        return [each for each in processes_of(self.home) if each.pid != own]

    def agent_argv(self) -> list[str]:
        """The command line of the only Gemini CLI that runs."""
        argvs = {
            tuple(argv)
            for each in self.agent_processes()
            if "--experimental-acp" in (argv := argv_of(each)) and "guard" not in " ".join(argv)
        }
        (argv,) = argvs
        return list(argv)

    async def no_agent_left(self) -> None:
        """Waits until nothing but the daemon is left."""
        with anyio.fail_after(GONE_TIMEOUT_S):
            while self.agent_processes():  # noqa: ASYNC110 - no event for foreign pids
                await anyio.sleep(POLL_S)

    async def restart(self, *, kill: bool = False, meanwhile: Callable[[], None]) -> None:
        """Ends the daemon and starts it again on the same data; returns once the client has it."""
        if kill:
            self.daemon.kill()
        else:
            await self.daemon.stop()
        await self.no_agent_left()
        meanwhile()
        await self.daemon.start()
        with anyio.fail_after(START_TIMEOUT_S):
            while True:
                try:
                    await self.client.daemon.get_info()
                    return
                except Unreachable:
                    await anyio.sleep(POLL_S)

    async def journal(self) -> list[v1.AgentEvent]:
        return [event async for event in self.client.events(follow=False)]

    async def check(self) -> None:
        """Closes every session; then the stream is whole and nothing of an agent is left."""
        for session in (await self.client.sessions.list(open_only=True)).sessions:
            await self.client.sessions.close(session.session_id)
        await self.client.agents.stop(stop_all=True)
        assert self.agent_processes() == [], "a stop returned before everything was gone"
        whole = await self.journal()
        seen = [to_dict(event) for event in whole]
        await self.until(lambda: len(self.rows) >= len(seen))
        assert self.rows[: len(seen)] == seen, "live and replayed events differ"
        assert broken([from_message(event) for event in whole]) == []


@asynccontextmanager
async def serving(
    home: Home,
    model: Model,
    /,
    *,
    recipe: Recipe = GEMINI,
    without: Sequence[str] = (),
    shell: Row | None = None,
    **fields: Any,
) -> AsyncGenerator[Served]:
    """A daemon whose registry is the packaged one, with `fields` laid over the recipe's entry.

    Args:
        home: The directories of the test.
        model: The scripted model.
        recipe: The agent; its name is that of its packaged entry.
        without: Variables that the daemon's environment lacks.
        shell: Further variables of it.
        fields: Fields of the entry.
    """
    options: list[str] = []
    if fields:
        registry = home.root / "project.json"
        registry.write_text(json.dumps({"version": 1, "agents": [{"id": recipe.name, **fields}]}))
        options = ["--registry", str(registry)]
    data_dir = home.root / "data"
    data_dir.mkdir(exist_ok=True)
    whole = daemon_env(home, model.url, *without, recipe=recipe, **(shell or {}))
    daemon = Daemon(data_dir, whole, tuple(options))
    try:
        await daemon.start()
        async with daemon.client() as client, anyio.create_task_group() as group:
            served = Served(home, model, daemon, client, recipe.name)
            group.start_soon(served.collect)
            yield served
            await served.check()
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await daemon.stop()
    await wait_until_gone(home)


def kill_agents(served: Served, name: str = "node") -> None:
    """SIGKILL for the agent itself, not for the guard that holds its leash."""
    for process in served.agent_processes():
        # One that ends with another, which was killed before it, is as dead.
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == name:
                process.kill()


async def reason_of(call: Any) -> str:
    """The reason of the error that a call must raise."""
    try:
        await call
    except AgentctlError as error:
        return error.reason
    raise AssertionError("the call succeeded")


@dataclass(frozen=True, slots=True)
class Cli:
    """`agentctl` as a person or a script calls it."""

    home: Home
    env: dict[str, str]

    @classmethod
    def of(cls, home: Home, model: Model, **env: str) -> "Cli":
        data_dir = {"AGENTCTL_DATA_DIR": str(home.root / "data")}
        return cls(home, daemon_env(home, model.url, recipe=GEMINI, **data_dir, **env))

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "agentctl", *arguments]

    async def __call__(self, *arguments: str) -> "Done":
        """Runs it to its end, in the workspace, without a terminal."""
        with anyio.fail_after(START_TIMEOUT_S + TURN_TIMEOUT_S):
            done = await anyio.run_process(
                self.argv(*arguments), env=self.env, cwd=self.home.workspace, check=False
            )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def rows(self) -> list[Row]:
        """Its output as JSON lines."""
        return [json.loads(line) for line in self.out.split("\n") if line]
