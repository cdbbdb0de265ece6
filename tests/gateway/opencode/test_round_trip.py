"""Our own OpenCode adapter on our own server: one daemon is the agent of another."""

import json
from pathlib import Path

import anyio
import pytest

from agentctl.gateway.opencode.serving import Options, serving
from agentctl.testing.conformance import Verdict, load, run
from agentctl.testing.conformance.__main__ import row
from agentctl.testing.conformance.demo import SCRIPT
from tests.daemon.harness import daemon, wait_until_gone

pytestmark = pytest.mark.anyio

LIMIT_S = 120
PASSWORD = "correct horse"


def registry(folder: Path, url: str) -> str:
    """A project's registry whose OpenCode is a server that runs already."""
    folder.mkdir()
    file = folder / "agents.json"
    entry = {"id": "opencode", "url": url, "auth": {"password": PASSWORD}}
    file.write_text(json.dumps({"version": 1, "agents": [entry]}))
    return str(file)


@pytest.mark.proves("GO9")
async def test_an_agent_behind_two_daemons_keeps_every_promise(tmp_path: Path) -> None:
    """The inner daemon serves the demo agent as OpenCode; the outer one attaches to it."""
    work = tmp_path / "work"
    work.mkdir()
    with anyio.fail_after(LIMIT_S):
        async with (
            daemon(tmp_path / "inner") as inner,
            inner.client() as inside,
            serving(inside, Options(port=0, password=PASSWORD, directory=work)) as url,
            daemon(tmp_path / "outer", "--registry", registry(tmp_path / "reg", url)) as outer,
            outer.client() as outside,
        ):
            results = await run(outside, "opencode", work, SCRIPT)
    await wait_until_gone(tmp_path / "inner")
    await wait_until_gone(tmp_path / "outer")
    assert [row(each) for each in results if each.verdict is not Verdict.OK] == []
    assert len(results) == len(load())
