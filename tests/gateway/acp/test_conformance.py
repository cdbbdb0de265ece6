"""A daemon in a daemon: our own ACP adapter drives `agentctl acp`, and the user sees the same story."""

import json
import sys
from pathlib import Path

import anyio
import pytest

from agentctl.testing.conformance import Verdict, load, run
from agentctl.testing.conformance.__main__ import row
from agentctl.testing.conformance.demo import SCRIPT
from tests.daemon.harness import daemon, wait_until_gone

pytestmark = pytest.mark.anyio

# Nine scenarios, each with two daemons and two processes between the user and the agent.
LIMIT_S = 120


@pytest.mark.proves("GA1")
async def test_an_agent_behind_two_daemons_gives_the_same_sequence_of_events(
    tmp_path: Path,
) -> None:
    work, inner_root, outer_root = (tmp_path / name for name in ("work", "inner", "outer"))
    for each in (work, inner_root, outer_root):
        each.mkdir()
    with anyio.fail_after(LIMIT_S):
        async with daemon(inner_root) as inner:
            command = [sys.executable, "-m", "agentctl", "acp", "--agent", "demo"]
            entry = {
                "id": "inner",
                "name": "Demo, one daemon further",
                "protocol": "acp",
                "enabled": True,
                "cmd": [*command, "--address", inner.address],
            }
            registry = outer_root / "agents.json"
            registry.write_text(json.dumps({"version": 1, "agents": [entry]}))
            async with (
                daemon(outer_root, "--registry", str(registry)) as outer,
                outer.client() as client,
            ):
                results = await run(client, "inner", work, SCRIPT)
    await wait_until_gone(outer_root)
    await wait_until_gone(inner_root)
    assert [row(each) for each in results if each.why] == []
    assert {each.verdict for each in results} == {Verdict.OK}
    assert len(results) == len(load())
