"""Cancelling the real Gemini CLI at every moment: one cancelled end, and the next prompt works."""

import anyio
import pytest

from tests.real.harness import Home, Model
from tests.real.served import Served, Turn, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.proves("T6")]

# Gemini acknowledges within 40 ms; anything near this limit would be our own ladder.
SOON_S = 2.5


async def cancelled(served: Served, run: str) -> Turn:
    """Cancels a run twice; returns its turn after a look at what a cancel promises."""
    begun = anyio.current_time()
    await served.client.runs.cancel(run)
    await served.client.runs.cancel(run)
    turn = await served.ended(run)
    assert anyio.current_time() - begun < SOON_S
    assert turn.outcome == "cancelled"
    assert turn.of("error") == []
    return turn


async def next_works(served: Served, session_id: str) -> None:
    made = await served.client.runs.create(session_id, "SAYTEXT next")
    turn = await served.ended(made.run.run_id)
    assert (turn.outcome, turn.text) == ("completed", "next")


async def test_in_the_middle_of_its_text(daemon: Served, gemini_model: Model) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, "SLOW 100 50")
    await daemon.said(run, "slow1")
    turn = await cancelled(daemon, run)
    await gemini_model.wait_for(lambda turns: turns[0]["outcome"] == "client_gone")
    assert gemini_model.turns()[0]["sent_text"].startswith(turn.text)
    await next_works(daemon, session.session_id)


@pytest.mark.parametrize("silence", ["HANG", "HANGMID"])
async def test_while_the_model_is_silent(daemon: Served, gemini_model: Model, silence: str) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, silence)
    await gemini_model.wait_for(lambda turns: len(turns) == 1)
    await cancelled(daemon, run)
    await next_works(daemon, session.session_id)


@pytest.mark.proves("A5")
async def test_while_it_asks_for_leave(daemon: Served) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, "TOOL touch never.txt; echo done")
    await daemon.asked(run)
    turn = await cancelled(daemon, run)
    (resolved,) = turn.of("permission_resolved")
    assert resolved["decision"] == "cancelled"
    assert turn.tool()["status"] == "cancelled"
    assert not (daemon.home.workspace / "never.txt").exists()
    assert list((await daemon.client.approvals.list()).approvals) == []
    await next_works(daemon, session.session_id)


async def test_while_its_command_runs(daemon: Served) -> None:
    session = await daemon.session(mode="yolo")
    run = await daemon.begin(session, "TOOL touch begun.txt; sleep 300")
    with anyio.fail_after(20):
        while not (daemon.home.workspace / "begun.txt").exists():  # noqa: ASYNC110 - a foreign file
            await anyio.sleep(0.02)
    turn = await cancelled(daemon, run)
    assert turn.tool()["status"] == "cancelled"
    assert not any("sleep" in each.name() for each in daemon.agent_processes())
    await next_works(daemon, session.session_id)


async def test_while_it_waits_to_try_a_failed_request_again(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model) as served:
        session = await served.session()
        run = await served.begin(session, "FAIL 500")
        await gemini_model.wait_for(lambda turns: len(turns) == 1)
        await cancelled(served, run)
        await next_works(served, session.session_id)


async def test_right_behind_the_prompt_and_when_nothing_runs(daemon: Served) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, "SLOW 100 50")
    await cancelled(daemon, run)
    idle = await daemon.client.runs.cancel(session_id=session.session_id)
    assert not idle.HasField("run")
    await next_works(daemon, session.session_id)


@pytest.mark.proves("T7")
async def test_prompts_behind_it_stay_and_run_next(daemon: Served) -> None:
    session = await daemon.session()
    first = await daemon.begin(session, "HANG")
    second = await daemon.begin(session, "SAYTEXT second")
    await cancelled(daemon, first)
    assert (await daemon.ended(second)).text == "second"


async def test_by_a_prompt_that_interrupts(daemon: Served) -> None:
    session = await daemon.session()
    first = await daemon.begin(session, "SLOW 100 50")
    await daemon.said(first, "slow0")
    second = await daemon.begin(session, "SAYTEXT second", if_busy="interrupt")
    assert (await daemon.ended(second)).text == "second"
    assert daemon.turn(first).outcome == "cancelled"


async def test_by_its_own_time_limit(daemon: Served) -> None:
    session = await daemon.session()
    turn = await daemon.ask(session, "HANG", timeout_ms=600)
    assert turn.outcome == "timed_out"
    await next_works(daemon, session.session_id)
