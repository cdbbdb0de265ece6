"""Sessions of the real Gemini CLI that outlive their process: resumed whole, or not at all."""

import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl import v1
from tests.real.harness import Home, Model, age_gemini_sessions
from tests.real.served import Served, kill_agents, reason_of, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

REPOSITORY = Path(__file__).parents[2]
# Gemini cannot load a session in the minute that made it, so the packaged entry makes us wait. These
# tests make the session's file older instead, and take the wait away.
NO_WAIT: dict[str, Any] = {"protocol_config": {}}
MINUTE_S = 60.0
# A session made so late in a minute could be resumed after it.
ROOM_S = 20.0


@pytest.mark.proves("M5", "S4", "S5")
async def test_a_fresh_daemon_resumes_a_session_without_telling_its_history_again(
    home: Home, gemini_model: Model
) -> None:
    server = v1.McpServer(
        name="local",
        command=sys.executable,
        args=["-m", "tests.fakes.mcp_server"],
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    async with serving(home, gemini_model, **NO_WAIT) as served:
        session = await served.session(
            mcp_servers=[server], model="gemini-2.5-pro", mode="autoEdit"
        )
        await served.ask(session, f"WRITE {home.workspace}/new.txt hello")
        await served.ask(session, "THINK 2")
        await served.restart(meanwhile=lambda: age_gemini_sessions(home))
        resumed = await served.client.sessions.resume(session.session_id, wait_ready=True)
        assert resumed.native_session_id == session.native_session_id
        assert (resumed.model, resumed.mode) == ("gemini-2.5-pro", "autoEdit")
        await served.until(lambda: served.of("session_status", status="resumed"))
        at = len(served.rows)
        turn = await served.ask(session, "HISTORY")
        assert turn.text == "HISTORY 3"
        spoken = {"message", "message_chunk", "reasoning", "tool_call", "file_change"}
        assert [r["type"] for r in served.rows[at:] if r["type"] in spoken] == ["message_chunk"]
        assert gemini_model.turns()[-1]["model"] == "gemini-2.5-pro"
        assert "mcp_local_shout" in gemini_model.turns()[-1]["tools"]
        text = "".join(row["data"]["text"] for row in served.of("message_chunk"))
        assert text == gemini_model.sent_text()


async def test_a_closed_session_is_resumed_twice(home: Home, gemini_model: Model) -> None:
    async with serving(home, gemini_model, **NO_WAIT) as served:
        session = await served.session()
        await served.ask(session, "SAYTEXT one")
        for nth in (2, 3):
            await served.client.sessions.close(session.session_id)
            assert served.agent_processes() == []
            age_gemini_sessions(home)
            await served.client.sessions.resume(session.session_id, wait_ready=True)
            assert (await served.ask(session, "HISTORY")).text == f"HISTORY {nth}"


async def test_a_conversation_of_the_agents_own_is_taken_up(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model, **NO_WAIT) as served:
        session = await served.session()
        await served.ask(session, "SAYTEXT one")
        await served.client.sessions.close(session.session_id)
        age_gemini_sessions(home)
        create = v1.CreateSessionRequest(workspace=str(home.workspace))
        taken = await served.client.sessions.resume(
            entry_id="gemini",
            native_session_id=session.native_session_id,
            create=create,
            wait_ready=True,
        )
        assert taken.session_id != session.session_id
        assert (await served.ask(taken, "HISTORY")).text == "HISTORY 2"


@pytest.mark.proves("S4")
async def test_a_conversation_that_is_not_there_is_an_error_and_no_fresh_one(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model) as served:
        create = v1.CreateSessionRequest(workspace=str(home.workspace))
        resuming = served.client.sessions.resume(
            entry_id="gemini",
            native_session_id="00000000-0000-4000-8000-000000000000",
            create=create,
            wait_ready=True,
        )
        assert await reason_of(resuming) in ("AGENT_FAILED", "SESSION_NOT_FOUND")
        assert served.agent_processes() == []
        assert gemini_model.turns() == []


@pytest.mark.proves("S4")
async def test_a_session_that_never_ran_is_started_when_it_is_resumed(daemon: Served) -> None:
    session = await daemon.session()
    await daemon.client.sessions.close(session.session_id)
    again = await daemon.client.sessions.resume(session.session_id, wait_ready=True)
    assert again.native_session_id != session.native_session_id
    assert (await daemon.ask(session, "HISTORY")).text == "HISTORY 1"


def _files(home: Home, native: str) -> list[tuple[str, bytes]]:
    found = (home.home / ".gemini").rglob(f"session-*-{native[:8]}.jsonl")
    return sorted((path.name, path.read_bytes()) for path in found)


async def test_a_resume_within_the_minute_waits_and_says_so_and_destroys_nothing(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model) as served:
        with anyio.fail_after(MINUTE_S):
            while time.time() % MINUTE_S > MINUTE_S - ROOM_S:  # noqa: ASYNC110 - a clock
                await anyio.sleep(0.1)
        session = await served.session()
        await served.ask(session, "SAYTEXT one")
        kill_agents(served)
        await served.until(lambda: served.of("session_status", status="interrupted"))
        before = _files(home, session.native_session_id)

        run = await served.begin(session, "HISTORY")
        await served.until(lambda: waits(served))
        assert "within the minute" in waits(served)[0]
        await served.client.sessions.close(session.session_id)
        assert (await served.ended(run)).outcome == "cancelled"
        assert served.agent_processes() == []
        assert _files(home, session.native_session_id) == before
    age_gemini_sessions(home)
    async with serving(home, gemini_model, **NO_WAIT) as served:
        resumed = await served.client.sessions.resume(session.session_id, wait_ready=True)
        assert (await served.ask(resumed, "HISTORY")).text == "HISTORY 2"


def waits(served: Served) -> list[str]:
    told = [row["data"].get("detail", "") for row in served.of("agent_status")]
    return [detail for detail in told if detail.startswith("waiting ")]


@pytest.mark.proves("S6")
async def test_a_killed_daemon_leaves_no_agent_and_its_run_is_told_as_failed(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model, **NO_WAIT) as served:
        session = await served.session()
        await served.ask(session, "SAYTEXT one")
        run = await served.begin(session, "SLOW 200 50")
        await served.said(run, "slow2")
        await served.restart(kill=True, meanwhile=lambda: age_gemini_sessions(home))
        turn = await served.ended(run)
        assert (turn.outcome, turn.error) == ("failed", "DAEMON_RESTARTED")
        assert (await served.ask(session, "HISTORY")).text == "HISTORY 2"
