"""When the model or the real Gemini CLI itself fails: each run ends once, and says why."""

import signal

import anyio
import pytest

from tests.real.harness import Home, Model, age_gemini_sessions
from tests.real.served import Served, kill_agents, reason_of, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

# The settings of these tests allow one more try, which Gemini makes after about 5 s.
RETRIED_S = 20.0
# The promise is a second; a machine with all its cores busy is given another one.
DEATH_S = 2.0


@pytest.mark.proves("T9")
async def test_a_refused_key_fails_the_run_at_once(daemon: Served, gemini_model: Model) -> None:
    session = await daemon.session()
    turn = await daemon.ask(session, "FAIL 401")
    assert (turn.outcome, turn.error) == ("failed", "AUTH_REQUIRED")
    assert "scripted failure 401" in str(turn.complete["error"])
    assert len(gemini_model.turns()) == 1
    assert (await daemon.client.sessions.get(session.session_id)).session_id
    assert (await daemon.ask(session, "SAYTEXT next")).text == "next"


@pytest.mark.parametrize(
    ("status", "code"), [(429, "RATE_LIMITED"), (500, "MODEL_ERROR"), (400, "MODEL_ERROR")]
)
async def test_a_model_that_fails_for_ever_fails_the_run(
    daemon: Served, status: int, code: str
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, f"FAIL {status}")
    await daemon.until(lambda: "complete" in daemon.turn(run).kinds, RETRIED_S)
    turn = daemon.turn(run)
    assert (turn.outcome, turn.error) == ("failed", code)
    assert f"scripted failure {status}" in str(turn.complete["error"])
    assert turn.text == ""
    assert (await daemon.ask(session, "SAYTEXT next")).text == "next"


async def test_a_model_that_fails_once_costs_a_wait_and_no_text(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, "FAIL 503 1")
    await daemon.until(lambda: "complete" in daemon.turn(run).kinds, RETRIED_S)
    assert daemon.turn(run).outcome == "completed"
    assert daemon.turn(run).text == gemini_model.sent_text() == "recovered"


async def test_an_answer_that_breaks_off_fails_the_run_and_keeps_its_text(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model) as served:
        session = await served.session()
        run = await served.begin(session, "FAILMID")
        await served.until(lambda: "complete" in served.turn(run).kinds, RETRIED_S)
        turn = served.turn(run)
        assert turn.outcome == "failed"
        assert turn.text.startswith("partial ")
        assert gemini_model.sent_text().startswith(turn.text)


async def test_without_a_key_the_start_says_how_to_log_in(home: Home, gemini_model: Model) -> None:
    async with serving(home, gemini_model, without=["GEMINI_API_KEY"]) as served:
        assert await reason_of(served.session()) == "AUTH_REQUIRED"
        (failed,) = await served.until(lambda: served.of("session_status", status="failed"))
        assert "GEMINI_API_KEY" in failed["data"]["reason"]
        assert served.agent_processes() == []


async def test_a_command_that_is_not_there_says_how_to_get_it(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model, shell={"PATH": "/usr/bin:/bin"}) as served:
        with pytest.raises(Exception, match="npm install -g @google/gemini-cli"):
            await served.session()


@pytest.mark.proves("T5", "S4", "M5")
@pytest.mark.parametrize(
    ("prompt", "remembered"),
    # Gemini writes a prompt down only with the end of its first answer.
    [("SLOW 200 50", 2), ("TOOL touch never.txt; echo done", 3)],
)
async def test_a_killed_agent_fails_its_run_and_the_next_prompt_resumes(
    home: Home, gemini_model: Model, prompt: str, remembered: int
) -> None:
    # Without its `min_resume_age_s` the resume need not wait: the session's file is made older.
    async with serving(home, gemini_model, protocol_config={}) as served:
        session = await served.session()
        await served.ask(session, "SAYTEXT one")
        run = await served.begin(session, prompt)
        if prompt.startswith("SLOW"):
            await served.said(run, "slow1")
        else:
            await served.asked(run)
        kill_agents(served)
        killed = anyio.current_time()
        turn = await served.ended(run)
        assert anyio.current_time() - killed < DEATH_S
        assert (turn.outcome, turn.error) == ("failed", "AGENT_EXITED")
        assert turn.complete["error"]["signal"] == signal.SIGKILL
        await served.until(lambda: served.of("session_status", status="interrupted"))
        await served.no_agent_left()
        assert list((await served.client.approvals.list()).approvals) == []
        age_gemini_sessions(home)

        told = len(served.of("message_chunk"))
        again = await served.ask(session, "HISTORY")
        assert again.text == f"HISTORY {remembered}"
        assert len(served.of("message_chunk")) == told + 1
        assert not (home.workspace / "never.txt").exists()
