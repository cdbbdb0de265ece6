"""Codex through the daemon: many sessions on one app-server."""

from pathlib import Path

import anyio
import pytest

from tests.real.agents import AGENTS
from tests.real.measure_sessions import MB, memory
from tests.real.served import Turn

pytestmark = [pytest.mark.anyio, pytest.mark.real]

SESSIONS = 10
# A thread costs a few MB; a process of its own would be ten times that.
LOOSE_MB = 30


@pytest.mark.proves("P5", "T8")
async def test_ten_sessions_share_one_app_server_and_never_mix(tmp_path: Path) -> None:
    agent = AGENTS["codex"]
    turns: dict[int, Turn] = {}
    async with agent.serving(tmp_path) as served:
        first = await served.session(mode="untrusted")
        await served.ask(first, "SAYTEXT warm")
        warm = memory(served, agent)
        sessions = [await served.session(mode="untrusted") for _ in range(SESSIONS)]

        async def story(nth: int) -> None:
            turns[nth] = await served.ask(sessions[nth], f"SLOW 5 20 || SAYTEXT {nth}")

        async with anyio.create_task_group() as group:
            for nth in range(SESSIONS):
                group.start_soon(story, nth)
        assert {each.agent_id for each in sessions} == {first.agent_id}
        assert len({each.native_session_id for each in sessions}) == SESSIONS
        for nth, turn in turns.items():
            assert turn.outcome == "completed"
            assert turn.text == "slow0 slow1 slow2 slow3 slow4 "
            assert {row["session_id"] for row in turn.rows} == {sessions[nth].session_id}
        assert (memory(served, agent) - warm) / SESSIONS < LOOSE_MB * MB
        await served.client.sessions.close(sessions[0].session_id)
        assert (await served.ask(sessions[1], "HISTORY")).text == "HISTORY 2"
