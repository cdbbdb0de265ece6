"""The real Codex behind a real daemon: one process for many sessions, queues, restarts, kills."""

import contextlib
import os
import signal
from collections.abc import AsyncGenerator

import psutil
import pytest

from tests.real.codex import configure, running_in, until
from tests.real.harness import FAKE_KEY, Home, Model
from tests.real.served import Served, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]
CODEX = "codex"


@pytest.fixture
async def house(codex_home: Home, responses: Model) -> AsyncGenerator[Served]:
    """A daemon with the packaged registry, in whose environment Codex is installed."""
    configure(codex_home, responses, key="OPENAI_API_KEY")
    shell = {"OPENAI_API_KEY": FAKE_KEY}
    async with serving(codex_home, responses, shell=shell) as served:
        yield served


def servers(house: Served) -> list[int]:
    """Pids of the app-servers that run; a probe of the sandbox is none."""
    found: list[int] = []
    for each in house.agent_processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            if each.name() == CODEX and "app-server" in each.cmdline():
                found.append(each.pid)
    return found


@pytest.mark.proves("T8")
async def test_five_quick_prompts_are_five_runs_in_order(house: Served) -> None:
    session = await house.session(CODEX)
    runs = [await house.begin(session, f"SLOW {n} 20") for n in range(1, 6)]
    turns = [await house.ended(run) for run in runs]
    assert [turn.outcome for turn in turns] == ["completed"] * 5
    assert [turn.text.count("slow") for turn in turns] == [1, 2, 3, 4, 5]
    ended = [row["run_id"] for row in house.of("complete")]
    assert ended == runs


@pytest.mark.proves("A1")
async def test_ten_sessions_share_one_process_and_are_answered_in_any_order(house: Served) -> None:
    sessions = [await house.session(CODEX, mode="untrusted") for _ in range(10)]
    runs = [await house.begin(session, "TOOL echo hi") for session in sessions]
    asked = [await house.asked(run) for run in runs]
    for request in reversed(asked):
        await house.client.approvals.respond(request["approval_id"], "approve")
    turns = [await house.ended(run) for run in runs]
    assert [turn.outcome for turn in turns] == ["completed"] * 10
    assert {turn.tool()["status"] for turn in turns} == {"completed"}
    assert len(servers(house)) == 1


@pytest.mark.proves("T5", "S4")
async def test_a_killed_codex_fails_its_runs_and_the_next_prompt_resumes(house: Served) -> None:
    session = await house.session(CODEX)
    await house.ask(session, "SAY 1")
    run = await house.begin(session, "HANGMID")
    await house.said(run, "partial")
    (pid,) = servers(house)
    os.kill(pid, signal.SIGKILL)
    turn = await house.ended(run)
    assert (turn.outcome, turn.error) == ("failed", "AGENT_EXITED")
    after = await house.ask(session, "HISTORY")
    assert (after.outcome, after.text) == ("completed", "HISTORY 3")


@pytest.mark.proves("S6")
async def test_a_restarted_daemon_resumes_the_conversation(house: Served) -> None:
    session = await house.session(CODEX)
    await house.ask(session, "SAY 1")
    await house.restart(kill=True, meanwhile=lambda: None)
    turn = await house.ask(session, "HISTORY")
    assert (turn.outcome, turn.text) == ("completed", "HISTORY 2")


@pytest.mark.proves("T6", "P1")
async def test_a_cancelled_run_leaves_no_command_and_no_queue_behind(house: Served) -> None:
    session = await house.session(CODEX)
    run = await house.begin(session, "TOOL sleep 65")
    queued = await house.begin(session, "SAYTEXT next")
    await until(lambda: running_in(house.home, "sleep"))
    await house.client.runs.cancel(run)
    assert (await house.ended(run)).outcome == "cancelled"
    assert (await house.ended(queued)).text == "next"
    await until(lambda: not running_in(house.home, "sleep"))


@pytest.mark.proves("A7")
async def test_policies_answer_for_the_user(house: Served) -> None:
    free = await house.session(CODEX, policy="allow", mode="untrusted")
    turn = await house.ask(free, "TOOL touch made.txt")
    assert turn.of("permission_resolved")[0]["by"] == "policy"
    assert (house.home.workspace / "made.txt").exists()
    strict = await house.session(CODEX, policy="deny", mode="read-only")
    turn = await house.ask(strict, "WRITE never.txt no")
    assert turn.of("permission_resolved")[0]["decision"] == "denied"
    assert not (house.home.workspace / "never.txt").exists()
