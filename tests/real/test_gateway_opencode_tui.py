"""OpenCode's own terminal client, attached to agentctl, with one agent after the other behind it."""

import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.abc import TaskGroup, TaskStatus

from agentctl.client import AgentCtl
from agentctl.gateway.opencode.serving import Options, serving
from tests.daemon.harness import GONE_S, READY_S
from tests.real import opencode
from tests.real.agents import AGENTS
from tests.real.harness import TURN_TIMEOUT_S, Home, Recipe, agent_env, make_home, wait_until_gone
from tests.real.screen import LOOK_S, Screen, screen, squeezed

pytestmark = [pytest.mark.anyio, pytest.mark.real]

PASSWORD = "correct horse"
CLIENT = Recipe("tui", "opencode", "opencode", (), dict(opencode.OPENCODE.env))
INTERRUPTS = ("escinterrupt", "escagaintointerrupt")
# Between two presses of a key; the client takes two that come at once for one.
PRESS_S = 0.3
TROUBLE = ("rror", "ailed", "not valid", "undefined")


@asynccontextmanager
async def tui(home: Home, url: str, *arguments: str) -> AsyncGenerator[Screen]:
    """The client on a screen, once it has started."""
    env = agent_env(home, "", CLIENT)
    command = [str(opencode.binary()), "attach", url, "--dir", str(home.workspace), *arguments]
    async with screen(command, env, home.workspace) as shown:
        yield shown


async def clean(shown: Screen) -> None:
    """Nothing on the screen speaks of trouble."""
    text = await shown.text()
    assert not [word for word in TROUBLE if word in text], text


async def interrupt(shown: Screen) -> None:
    """Presses Escape until the turn has ended; the client wants it twice within five seconds."""
    with anyio.move_on_after(TURN_TIMEOUT_S):
        while True:
            text = squeezed(await shown.text())
            if not any(each in text for each in INTERRUPTS):
                break
            await shown.keys("Escape")
            await anyio.sleep(PRESS_S)
    await shown.until("interrupted")


async def made(file: Path) -> None:
    """Waits until there is a file."""
    with anyio.fail_after(TURN_TIMEOUT_S):
        while not await anyio.Path(file).exists():  # noqa: ASYNC110  another process makes it
            await anyio.sleep(LOOK_S)


class Server:
    """`agentctl serve --mode opencode` as a program, on one port for all its lives."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.port = "0"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self) -> str:
        home = self.home
        env = agent_env(home, "", CLIENT)
        binaries = str(Path(sys.executable).parent)
        env |= {"PATH": f"{binaries}:{env['PATH']}", "DEMO_AGENT_HOME": str(home.home)}
        argv = [
            sys.executable,
            "-m",
            "agentctl",
            "serve",
            "--mode",
            "opencode",
            "--port",
            self.port,
        ]
        with (home.root / "server.log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220  # the test ends it by hand
                [*argv, "--data-dir", str(home.root / "data")],
                env=env,
                cwd=home.workspace,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        stream = anyio.wrap_file(self.process.stdout)
        with anyio.fail_after(READY_S):
            while found := await stream.readline():
                if url := re.search(rb"http://\S+:(\d+)", found):
                    self.port = url[1].decode()
                    return url[0].decode()
        raise AssertionError((home.root / "server.log").read_text())

    async def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is None:
            return
        process, self.process = self.process, None
        process.send_signal(number)
        with anyio.fail_after(GONE_S):
            await anyio.to_thread.run_sync(process.wait)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.proves("GO8")
async def test_the_client_works_with_the_demo_agent_and_through_a_restart(tmp_path: Path) -> None:
    home = await anyio.to_thread.run_sync(make_home, tmp_path)
    server = Server(home)
    try:
        url = await server.start()
        async with tui(home, url) as shown:
            await shown.until("Ask anything", "Demo")
            await clean(shown)

            await shown.enter("say hello world")
            await shown.until("hello world", "demo-fast")
            await clean(shown)

            await shown.enter("run touch made.txt || say it is done")
            await shown.until("Permission required", "touch made.txt")
            assert not (home.workspace / "made.txt").exists()
            await shown.keys("Enter")
            await made(home.workspace / "made.txt")
            await shown.until("it is done ▣", gone=["Permission required"])

            await shown.enter("ask Which colour?")
            await shown.until("1. Type your own answer")
            await shown.keys("Enter")
            await shown.until("1. Type your own answer Type your own answer")
            await shown.enter("blue")
            await shown.until("You answered: blue", gone=["enter submit"])

            await shown.enter("slow 200 100")
            await shown.until("the quick brown", "esc interrupt")
            await interrupt(shown)

            await shown.keys("C-x", "l")
            await shown.until("Sessions", "Today")
            await shown.keys("Escape")
            await shown.until("interrupted", gone=["Sessions"])

            await shown.enter("slow 300 100")
            await shown.until("esc interrupt")
            await server.stop()
            assert await server.start() == url
            await shown.until("The daemon stopped in this run")
            await shown.enter("say back again || history")
            await shown.until("back again", "has seen")
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop()
    await wait_until_gone(home)


class Lives:
    """The gateway beside a daemon that stays: ended, and begun again at the same address."""

    def __init__(self, group: TaskGroup, client: AgentCtl, options: Options) -> None:
        self._group, self._client, self._options = group, client, options
        self._over, self._gone = anyio.Event(), anyio.Event()

    async def begin(self) -> str:
        self._over, self._gone = anyio.Event(), anyio.Event()
        url = await self._group.start(self._live)
        self._options = replace(self._options, port=int(url.rpartition(":")[2]))
        return url

    async def _live(self, *, task_status: TaskStatus[str]) -> None:
        async with serving(self._client, self._options) as url:
            task_status.started(url)
            await self._over.wait()
        self._gone.set()

    async def end(self) -> None:
        self._over.set()
        with anyio.fail_after(GONE_S):
            await self._gone.wait()


COMMANDS = {"gemini": {}, "claude": {}, "codex": {"protocol_config": {"default_mode": "untrusted"}}}


@pytest.mark.proves("GO8")
@pytest.mark.parametrize("agent", COMMANDS)
async def test_the_client_works_with_each_real_agent(tmp_path: Path, agent: str) -> None:
    """With a password: prompt, streaming, permission, question, abort, sessions, a restart."""
    real = AGENTS[agent]
    async with real.serving(tmp_path / "agent", **COMMANDS[agent]) as served:
        workspace = served.home.workspace
        script = real.script(served.home)
        home = await anyio.to_thread.run_sync(make_home, tmp_path / "client")
        options = Options(port=0, directory=workspace, password=PASSWORD)
        async with anyio.create_task_group() as group:
            lives = Lives(group, served.client, options)
            url = await lives.begin()
            async with httpx.AsyncClient(auth=("opencode", PASSWORD)) as http:
                told = await http.patch(f"{url}/config", json={"model": f"{agent}/default"})
                assert told.status_code == 200, told.text
            seen = Home(home.root)
            command = [str(opencode.binary()), "attach", url, "--dir", str(workspace)]
            env = agent_env(seen, "", CLIENT) | {"OPENCODE_SERVER_PASSWORD": PASSWORD}
            async with screen(command, env, workspace) as shown:
                await shown.until("Ask anything")
                await clean(shown)
                await shown.enter('SAYTEXT ["hello", " from the model"]')
                await shown.until("hello from the model")
                await shown.enter("TOOL touch made.txt || SAYTEXT it is done")
                await shown.until("Permission required")
                assert not (workspace / "made.txt").exists()
                await shown.keys("Enter")
                await made(workspace / "made.txt")
                await shown.until("▣", gone=["Permission required", "esc interrupt"])
                line = script.ask("Which colour?", ["Red", "Blue"])
                if line is not None:
                    assert isinstance(line.prompt, str)
                    await shown.enter(line.prompt)
                    await shown.until("Which colour?", "Red", "Blue", "enter submit")
                    await shown.keys("Enter")
                    await shown.until("Red", gone=["enter submit"])
                # What a model that falls silent has said by then is on the screen while it works.
                await shown.enter("HANGMID")
                await shown.until("esc interrupt", "partial")
                await interrupt(shown)
                await shown.keys("C-x", "l")
                await shown.until("Sessions", "Today")
                await shown.keys("Escape")
                await shown.until("interrupted", gone=["Sessions"])
                await lives.end()
                assert await lives.begin() == url
                await shown.enter('SAYTEXT ["back", " again"]')
                await shown.until("back again")
            await lives.end()
    await wait_until_gone(home)
