"""Claude Code through the daemon: many processes at once, and two requests open in one turn."""

import json
from pathlib import Path

import anyio
import pytest

from agentctl import v1
from tests.real.agents import AGENTS
from tests.real.claude import exists
from tests.real.native import local_server
from tests.real.served import Turn

pytestmark = [pytest.mark.anyio, pytest.mark.real]

SESSIONS = 10


@pytest.mark.proves("P5", "S5")
async def test_ten_sessions_start_at_once_and_touch_nothing_of_each_other(tmp_path: Path) -> None:
    turns: dict[int, Turn] = {}
    made: dict[int, v1.Session] = {}
    async with AGENTS["claude"].serving(tmp_path) as served:

        async def story(nth: int) -> None:
            server = local_server()
            server.env["SHOUTER"] = f"session {nth}"
            made[nth] = await served.session(mcp_servers=[server], policy="allow")
            call = 'CALL mcp__local__environment {"text": "SHOUTER"}'
            turns[nth] = await served.ask(made[nth], call)

        async with anyio.create_task_group() as group:
            for nth in range(SESSIONS):
                group.start_soon(story, nth)
        assert len({each.agent_id for each in made.values()}) == SESSIONS
        assert len({each.native_session_id for each in made.values()}) == SESSIONS
        for nth, turn in turns.items():
            assert turn.outcome == "completed" and f"session {nth}" in turn.text
            assert {row["session_id"] for row in turn.rows} == {made[nth].session_id}
        settings = await anyio.Path(served.home.home / ".claude.json").read_text()
        assert json.loads(settings)
    left = [each.name for each in served.home.tmp.iterdir() if each.name.startswith("agentctl")]
    assert left == []
    assert not list(served.home.home.rglob("*.corrupted*"))


@pytest.mark.proves("A1")
async def test_two_requests_of_one_turn_are_open_at_once_and_answered_backwards(
    tmp_path: Path,
) -> None:
    async with AGENTS["claude"].serving(tmp_path) as served:
        session = await served.session()
        helper = {
            "description": "helper",
            "prompt": "TOOL echo a > a",
            "subagent_type": "general-purpose",
            "run_in_background": True,
        }
        call = f"CALL Agent {json.dumps(helper)} || TOOL echo b > b"
        run = await served.begin(session, call)
        first, second = await served.asked(run), await served.asked(run, 2)
        assert len((await served.client.approvals.list()).approvals) == 2
        by_command = {each["details"]["command"]: each for each in (first, second)}
        wanted = (by_command["echo b > b"], "deny"), (by_command["echo a > a"], "approve")
        for request, decision in sorted(wanted, key=lambda each: each[0] is first):
            await served.client.approvals.respond(request["approval_id"], decision)
        turn = await served.ended(run)
        assert turn.outcome == "completed"
        await exists(served.home.workspace / "a")
        assert not (served.home.workspace / "b").exists()
