"""Environments that other packages bring: found by entry point, used like ours, contained when broken."""

from pathlib import Path

import anyio
import pytest

from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError, Invalid
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio

# Starts of daemons and agents on a loaded machine.
TEST_S = 120

MOON = """
from dataclasses import replace
from pathlib import Path

from agentctl.core.errors import Invalid
from agentctl.workspace.providers import Context, Left, Place


class Moon:
    id = "moon"
    detail = "Far away."
    available = True
    capabilities = frozenset({"sandbox", "logs"})
    options = {"crater": "Which one."}

    def __init__(self, context: Context) -> None:
        self._home = context.data_dir / "moon"

    async def plan(self, session_id, workspace, options, *, source):
        if options.get("crater") == "none":
            raise Invalid("there is no such crater.")
        return Place(str(self._home / session_id), source=workspace, facts=dict(options))

    async def make(self, session_id, place):
        Path(place.workspace).mkdir(parents=True, exist_ok=True)
        return replace(place, made=True)

    def bind(self, place, program):
        return replace(program, env={**program.env, "CRATER": place.facts["crater"]})

    async def leave(self, session_id, place, *, delete):
        if place.facts["crater"] == "deep":
            raise RuntimeError("stuck in it")
        Path(place.workspace).rmdir()
        return Left(replace(place, made=False))

    async def recover(self, known):
        raise RuntimeError("no signal")


class Liar(Moon):
    id = "liar"
    capabilities = frozenset({"teleport"})
"""
POINTS = "[agentctl.environments]\nmoon = moon:Moon\nliar = moon:Liar\nlost = nowhere:Lost\n"


def installed(root: Path) -> str:
    """A directory with a package as an installer leaves it."""
    site = root / "site"
    info = site / "moon-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moon\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (site / "moon.py").write_text(MOON)
    return str(site)


async def answer(client: AgentCtl, session: str, prompt: str) -> str:
    run = (await client.runs.create(session, prompt)).run.run_id
    events = client.events(runs=[run], types=["message_chunk"])
    return "".join([event.message_chunk.text async for event in events])


@pytest.mark.proves("W8")
async def test_a_package_brings_an_environment_of_its_own(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path, PYTHONPATH=installed(tmp_path)) as served:
            async with served.client() as client:
                listed = (await client.environments.list()).environments
                names = [each.name for each in listed]
                assert names == ["local", "worktree", "sandbox", "container", "moon"]
                assert list(listed[-1].capabilities) == ["logs", "sandbox"]
                with pytest.raises(Invalid, match="no such crater"):
                    await client.sessions.create(
                        "demo",
                        str(work),
                        environment="moon",
                        environment_options={"crater": "none"},
                    )
                await used(client, work, "tycho")
                await used(client, work, "deep")
            await served.stop()
            log = (tmp_path / "daemon.log").read_text()
            assert "the environment lost cannot be used" in log
            assert "claims teleport" in log
            assert "no signal" in log and "stuck in it" in log


async def used(client: AgentCtl, work: Path, crater: str) -> None:
    made = await client.sessions.create(
        "demo",
        str(work),
        environment="moon",
        environment_options={"crater": crater},
        wait_ready=True,
    )
    shown = await client.sessions.get(made.session_id)
    assert shown.source_workspace == str(work) and "/moon/ses_" in shown.workspace
    assert await answer(client, made.session_id, "env CRATER") == f"CRATER={crater}"
    closed = await client.sessions.close(made.session_id)
    assert closed.HasField("closed_at")


@pytest.mark.proves("W8")
async def test_a_session_whose_environment_was_uninstalled_says_so(tmp_path: Path) -> None:
    site = installed(tmp_path)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path, PYTHONPATH=site) as served:
            async with served.client() as client:
                made = await client.sessions.create(
                    "demo",
                    str(tmp_path),
                    environment="moon",
                    environment_options={"crater": "tycho"},
                    wait_ready=True,
                )
            await served.stop()
            (tmp_path / "site" / "moon-1.0.dist-info" / "entry_points.txt").unlink()
            await served.start()
            async with served.client() as client:
                with pytest.raises(AgentctlError, match="not available") as refused:
                    await client.sessions.resume(made.session_id, wait_ready=True)
                assert refused.value.reason == "UNSUPPORTED"
                await client.sessions.delete(made.session_id)
                assert not (await client.sessions.list()).sessions
