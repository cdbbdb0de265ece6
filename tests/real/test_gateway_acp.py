"""acpx, a foreign ACP client, uses each agent through `agentctl acp`: prompts, leave, cancel, resume.

acpx has a home of its own, so that its processes are told apart from the daemon's.
"""

import os
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL

import anyio
import pytest
from anyio.abc import Process

from agentctl.testing.conformance.demo import SCRIPT
from agentctl.testing.conformance.script import Script
from tests.daemon.harness import daemon
from tests.real.agents import AGENTS
from tests.real.harness import NODE_MODULES, Home, wait_until_gone

pytestmark = [pytest.mark.anyio, pytest.mark.real]

# Node starts, an agent may have to, and a scripted turn runs, on a busy machine.
LIMIT_S = 90
EVERY = ["demo", *AGENTS]


@dataclass
class Acpx:
    """acpx in a directory, with an agent of ours as its agent."""

    home: Home
    workspace: Path
    command: str

    @property
    def env(self) -> dict[str, str]:
        node = shutil.which("node")
        tools = [str(Path(node).parent)] if node else []
        return {
            "PATH": os.pathsep.join([*tools, "/usr/bin", "/bin"]),
            "HOME": str(self.home.home),
            "TMPDIR": str(self.home.tmp),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
        }

    def argv(self, *words: str) -> list[str]:
        return [str(NODE_MODULES / ".bin" / "acpx"), "--agent", self.command, "--ttl", "30", *words]

    async def __call__(self, *words: str, code: int = 0) -> str:
        """What a command prints."""
        with anyio.fail_after(LIMIT_S):
            done = await anyio.run_process(
                self.argv(*words), env=self.env, cwd=self.workspace, check=False, stdin=DEVNULL
            )
        assert done.returncode == code, done
        return done.stdout.decode()

    @asynccontextmanager
    async def prompting(self, text: str) -> AsyncGenerator[Process]:
        """A prompt under way."""
        with anyio.fail_after(LIMIT_S):
            async with await anyio.open_process(
                self.argv(text), env=self.env, cwd=self.workspace, stdin=DEVNULL
            ) as process:
                yield process


async def printed(process: Process, text: str) -> str:
    """Waits until it has printed this; what it has printed so far."""
    assert process.stdout is not None
    seen = b""
    with anyio.fail_after(LIMIT_S):
        while text.encode() not in seen:
            seen += await process.stdout.receive()
    return seen.decode()


@asynccontextmanager
async def acpx_on(agent: str, root: Path) -> AsyncGenerator[tuple[Acpx, Script]]:
    """acpx over a daemon with this agent; nothing of either is left at the end."""
    home = Home(root / "acpx")
    for each in (home.home, home.tmp, root / "work"):
        each.mkdir(parents=True)

    def acpx(address: str, workspace: Path) -> Acpx:
        words = [sys.executable, "-m", "agentctl", "--address", address, "acp", "--agent", agent]
        return Acpx(home, workspace, " ".join(words))

    if agent == "demo":
        async with daemon(root) as served:
            yield acpx(served.address, root / "work"), SCRIPT
    else:
        real = AGENTS[agent]
        async with real.serving(root / "served") as served:
            script = real.script(served.home)
            client = acpx(served.daemon.address, served.home.workspace)
            yield client, script
    await wait_until_gone(home)


def line(script: Script, verb: str, *words: object) -> str:
    """The prompt that makes this agent do a thing."""
    made = getattr(script, verb)(*words)
    assert made is not None
    return made.prompt


@pytest.mark.proves("GA11")
@pytest.mark.parametrize("agent", EVERY)
async def test_acpx_prompts_an_agent_allows_and_denies_its_commands_and_cancels_it(
    tmp_path: Path, agent: str
) -> None:
    async with acpx_on(agent, tmp_path) as (acpx, script):
        assert "ses_" in await acpx("sessions", "new")
        if mode := script.create().get("mode"):
            assert f"mode set: {mode}" in await acpx("set-mode", str(mode))
        said = await acpx(line(script, "say", "hello there"))
        assert "hello there" in said and "[done] end_turn" in said
        made, never = acpx.workspace / "made.txt", acpx.workspace / "never.txt"
        said = await acpx("--approve-all", line(script, "run", "touch made.txt"))
        assert "(completed)" in said and "That was it." in said
        assert await anyio.Path(made).exists()
        await acpx("--deny-all", line(script, "run", "touch never.txt"))
        assert not await anyio.Path(never).exists()
        async with acpx.prompting(line(script, "stream")) as prompt:
            seen = await printed(prompt, "par")
            assert "cancel requested" in await acpx("cancel")
            seen += await printed(prompt, "[done]")
            await prompt.wait()
            assert prompt.returncode == 0
        assert "[done] end_turn" in await acpx(line(script, "say", "and back"))
        await acpx("sessions", "close")


@pytest.mark.proves("GA11")
@pytest.mark.parametrize("agent", EVERY)
async def test_acpx_takes_a_session_up_again_with_all_that_was_said(
    tmp_path: Path, agent: str
) -> None:
    async with acpx_on(agent, tmp_path) as (acpx, script):
        told = await acpx("--format", "quiet", "sessions", "new")
        session = told.split()[-1]
        assert session.startswith("ses_")
        assert "one" in await acpx(line(script, "say", "one"))
        await acpx("sessions", "close")
        await acpx("sessions", "new", "--resume-session", session)
        recall = script.recall(1)
        assert recall is not None
        assert recall.tells in await acpx(recall.prompt)
        await acpx("sessions", "close")


@pytest.mark.proves("GA11")
@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
async def test_a_choice_is_asked_of_acpx_as_a_request(tmp_path: Path, agent: str) -> None:
    async with acpx_on(agent, tmp_path) as (acpx, script):
        await acpx("sessions", "new")
        # acpx has no forms; it takes the first option that allows.
        said = await acpx("--approve-all", line(script, "ask", "Which colour?", ["Red", "Blue"]))
        assert "session/request_permission" in said
        assert "Red" in said.rpartition("session/request_permission")[2]
        await acpx("sessions", "close")
