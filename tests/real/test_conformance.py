"""One scenario file, played unchanged on each real agent through the daemon: the same events of each."""

from pathlib import Path

import pytest

from agentctl.testing.conformance import Verdict, run
from tests.real.agents import AGENTS

pytestmark = [pytest.mark.anyio, pytest.mark.real]

UNSUPPORTED = {"gemini": {"question"}}


@pytest.mark.proves("E8")
@pytest.mark.parametrize("agent", AGENTS)
async def test_every_agent_gives_the_same_sequence_of_events(tmp_path: Path, agent: str) -> None:
    real = AGENTS[agent]
    async with real.serving(tmp_path) as served:
        script = real.script(served.home)
        # What is shared lives as long as one of its sessions: nine cold starts prove no more.
        await served.session(**script.create())
        results = await run(served.client, agent, served.home.workspace, script)
    failed = [f"{r.scenario.name}: {r.why}; seen {' '.join(r.words)}" for r in results]
    assert [line for line, r in zip(failed, results, strict=True) if r.verdict == "FAILED"] == []
    cannot = {r.scenario.name for r in results if r.verdict is Verdict.UNSUPPORTED}
    assert cannot == UNSUPPORTED.get(agent, set())
