"""The real OpenCode server behind the real daemon: gRPC, command line, approvals, a crash and the way back."""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.rpc.convert import from_message
from agentctl.rpc.jsonview import to_dict
from tests.adapters.opencode.scenarios import ODD
from tests.daemon.harness import Daemon
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.openai import OpenAiEndpoint
from tests.invariants import broken
from tests.real import opencode
from tests.real.harness import POLL_S, Home, Model, make_home, processes_of, wait_until_gone

pytestmark = [pytest.mark.anyio, pytest.mark.real]
# A cold server, a model and a journal on a machine that others use as well.
PATIENCE_S = 120.0


@dataclass
class House:
    """A daemon with the packaged registry, in whose environment OpenCode is installed."""

    home: Home
    env: dict[str, str]
    client: AgentCtl

    async def rows(self, session: v1.Session) -> list[dict[str, Any]]:
        events = self.client.events(follow=False, sessions=[session.session_id])
        return [to_dict(event) async for event in events]

    async def text(self, session: v1.Session) -> str:
        rows = await self.rows(session)
        return "".join(r["data"].get("text", "") for r in rows if r["type"] == "message_chunk")

    async def begin(self, session: v1.Session, prompt: str) -> str:
        return (await self.client.runs.create(session.session_id, prompt)).run.run_id

    async def end(self, session: v1.Session, run_id: str) -> dict[str, Any]:
        """The data of the run's only complete."""
        await self.client.runs.wait(run_id)
        rows = [r for r in await self.rows(session) if r.get("run_id") == run_id]
        (complete,) = [r["data"] for r in rows if r["type"] == "complete"]
        return complete

    async def approval(self) -> v1.Approval:
        while not (open_ := (await self.client.approvals.list()).approvals):  # noqa: ASYNC110
            await anyio.sleep(POLL_S)
        return open_[0]

    async def cli(self, *arguments: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "agentctl", *arguments]
        done = await anyio.run_process(
            argv, env=self.env, cwd=self.home.workspace, check=False, stderr=None
        )
        return done.returncode, done.stdout.decode()


@pytest.fixture
def model() -> Generator[Model]:
    with in_thread(OpenAiEndpoint()) as url:
        yield Model(url)


@pytest.fixture
async def house(tmp_path: Path, model: Model) -> AsyncGenerator[House]:
    async with _house(tmp_path, model) as house:
        yield house


@asynccontextmanager
async def _house(root: Path, model: Model) -> AsyncGenerator[House]:
    home = make_home(root)
    await anyio.to_thread.run_sync(opencode.make_repository, home.workspace)
    tools = root / "bin"
    tools.mkdir()
    (tools / "opencode").symlink_to(opencode.binary())
    (root / "agentctl.toml").touch()
    data = root / "data"
    data.mkdir()
    env = opencode.environment(home, model.url)
    env["PATH"] = os.pathsep.join((str(tools), str(Path(sys.executable).parent), env["PATH"]))
    env |= {"AGENTCTL_CONFIG": str(root / "agentctl.toml"), "AGENTCTL_DATA_DIR": str(data)}
    daemon = Daemon(data, env)
    try:
        with anyio.fail_after(PATIENCE_S):
            await daemon.start()
            async with daemon.client() as client:
                yield House(home, env, client)
                await client.agents.stop(stop_all=True)
                whole = [event async for event in client.events(follow=False)]
                assert broken([from_message(event) for event in whole]) == []
    finally:
        with anyio.CancelScope(shield=True):
            await daemon.stop()
    await wait_until_gone(home)


async def test_text_arrives_byte_for_byte_and_each_run_ends_once(house: House) -> None:
    session = await house.client.sessions.create(
        "opencode", str(house.home.workspace), wait_ready=True
    )
    prompt = f"SAYTEXT {json.dumps(ODD, ensure_ascii=False)}"
    complete = await house.end(session, await house.begin(session, prompt))

    assert complete["outcome"] == "completed"
    assert await house.text(session) == "".join(ODD)


async def test_sessions_share_a_server_and_their_approvals_are_answered_by_id(house: House) -> None:
    other = house.home.root / "other"
    await anyio.to_thread.run_sync(opencode.make_repository, other)
    create = house.client.sessions.create
    one = await create("opencode", str(house.home.workspace), wait_ready=True)
    two = await create("opencode", str(other), wait_ready=True)
    assert len((await house.client.agents.list()).agents) == 1
    run = await house.begin(one, "TOOL echo marker")
    beside = await house.end(two, await house.begin(two, "SAYTEXT beside"))
    assert beside["outcome"] == "completed"
    approval = await house.approval()
    await house.client.approvals.respond(approval.approval_id, decision="approve")
    assert (await house.end(one, run))["outcome"] == "completed"
    assert "marker" in await house.text(one)


async def test_a_killed_server_fails_the_run_and_the_next_prompt_brings_the_history_back(
    house: House, model: Model
) -> None:
    session = await house.client.sessions.create(
        "opencode", str(house.home.workspace), wait_ready=True
    )
    await house.end(session, await house.begin(session, "SAYTEXT before"))
    run = await house.begin(session, "HANG")
    await model.wait_for(lambda log: any(each["steps"] == ["HANG"] for each in log))
    agent = (await house.client.agents.list()).agents[0]
    os.kill(agent.pid, signal.SIGKILL)
    failed = await house.end(session, run)
    assert (failed["outcome"], failed["error"]["code"]) == ("failed", "AGENT_EXITED")
    assert (await house.end(session, await house.begin(session, "HISTORY")))[
        "outcome"
    ] == "completed"
    assert "HISTORY 3" in await house.text(session)
    fresh = (await house.client.agents.list()).agents[0]
    assert fresh.agent_id != agent.agent_id


async def test_the_command_line_runs_it_and_leaves_nothing(house: House) -> None:
    code, out = await house.cli("run", "opencode", "SAYTEXT from the shell", "--workspace", ".")
    assert (code, out.strip()) == (0, "from the shell")
    code, _ = await house.cli("run", "opencode", "FAIL 400", "--workspace", ".")
    assert code == 1
    code, _ = await house.cli(
        "run", "opencode", "TOOL echo x", "--workspace", ".", "--on-ask", "deny"
    )
    assert code in (0, 3)
    left = [p for p in processes_of(house.home) if "opencode" in " ".join(p.cmdline()[:1])]
    assert left == []
