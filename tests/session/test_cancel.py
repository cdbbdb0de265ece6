"""Ends that do not come by themselves: cancel in every position, time-outs, stalls."""

from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Feature, PermissionAnswer
from agentctl.core.errors import Refused
from agentctl.core.events import Complete, Error, PermissionResolved, QuestionResolved, ToolUpdate
from agentctl.core.words import (
    DecidedBy,
    Decision,
    Outcome,
    QuestionOutcome,
    RunState,
    SessionChange,
    SessionState,
    ToolStatus,
)
from agentctl.session.ending import Limits
from tests.session.house import PATIENT, House, house

pytestmark = [pytest.mark.anyio, pytest.mark.proves("T6")]


async def goes_on(home: House, session: str) -> None:
    """The next prompt works."""
    run = (await home.prompt(session, "next")).run
    await home.until(lambda: "next" in home.agent.named("prompt"))
    while await home.agent.prompted() != "next":
        pass
    await home.agent.end()
    assert (await home.ended(run.id)).state is RunState.COMPLETED


async def cancelled_once(home: House, run_id: str) -> None:
    ended = await home.ended(run_id)
    assert ended.state is RunState.CANCELLED and ended.error is None
    (complete,) = home.of(Complete, run_id)
    assert complete.outcome is Outcome.CANCELLED
    assert home.types(run_id)[-1] == "complete"


@pytest.mark.proves("A5")
async def test_a_cancel_answers_the_open_approval_before_the_agent_is_told(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        session, run, agent = await home.running()
        await agent.ask()
        await agent.question()
        assert home.session(session).record.state is SessionState.AWAITING
        await home.manager.cancel_run(run.id)
        await cancelled_once(home, run.id)
        (resolved,) = home.of(PermissionResolved, run.id)
        assert (resolved.decision, resolved.by) == (Decision.CANCELLED, DecidedBy.CLIENT)
        (question,) = home.of(QuestionResolved, run.id)
        assert question.outcome is QuestionOutcome.CANCELLED
        assert [name for name, _ in agent.calls[-3:]] == [
            "answer_permission",
            "answer_question",
            "cancel",
        ]
        assert agent.named("answer_permission") == [PermissionAnswer(Decision.CANCELLED)]
        await goes_on(home, session)


async def test_what_the_agent_asks_after_a_cancel_is_answered_as_cancelled(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        home.protocol.plan.hears_cancel = False
        session, run, agent = await home.running(policy="allow")
        await home.manager.cancel_run(run.id)
        await agent.ask("late")
        await agent.question()
        (resolved,) = home.of(PermissionResolved, run.id)
        assert resolved.decision is Decision.CANCELLED
        await agent.end(Outcome.COMPLETED)
        await cancelled_once(home, run.id)
        await goes_on(home, session)


@pytest.mark.proves("M9")
async def test_a_cancel_closes_the_tool_that_runs(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        session, run, agent = await home.running()
        await agent.tool()
        await home.manager.cancel_session(session)
        await cancelled_once(home, run.id)
        assert home.of(ToolUpdate, run.id)[-1].status is ToolStatus.CANCELLED
        await goes_on(home, session)


async def test_a_cancel_right_behind_its_prompt_reaches_the_agent_after_it(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        session = await home.start()
        ledger = home.session(session).ledger
        run = (await home.prompt(session, "go")).run
        await home.until(lambda: ledger.running is run)
        await home.manager.cancel_run(run.id)
        await cancelled_once(home, run.id)
        assert [name for name, _ in home.agent.calls[-2:]] == ["prompt", "cancel"]
        await goes_on(home, session)


async def test_a_cancel_never_overtakes_a_prompt_that_is_being_journalled(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        session = await home.start()
        run = (await home.prompt(session, "go")).run
        await home.manager.cancel_run(run.id)
        await cancelled_once(home, run.id)
        assert [name for name, _ in home.agent.calls] in (
            ["new_session"],
            ["new_session", "prompt", "cancel"],
        )
        await goes_on(home, session)


async def test_cancelling_twice_is_cancelling_once(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        session, run, agent = await home.running()
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(home.manager.cancel_run, run.id)
        await cancelled_once(home, run.id)
        assert len(agent.named("cancel")) == 1
        assert (await home.manager.cancel_run(run.id)).state is RunState.CANCELLED
        await goes_on(home, session)


async def test_cancelling_an_idle_session_does_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        assert await home.manager.cancel_session(session) is None
        assert home.agent.named("cancel") == []
        await goes_on(home, session)


async def test_a_finished_run_cannot_be_cancelled(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        await agent.end()
        await home.ended(run.id)
        with pytest.raises(Refused) as finished:
            await home.manager.cancel_run(run.id)
        assert finished.value.reason == "RUN_FINISHED"


async def test_a_queued_run_is_cancelled_without_a_word_to_the_agent(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        queued = (await home.prompt(session, "p1")).run
        await home.manager.cancel_run(queued.id)
        assert home.types(queued.id) == ["run_status", "run_status", "complete"]
        assert agent.named("cancel") == []
        await agent.end()
        await home.ended(run.id)


@pytest.mark.proves("S5")
async def test_an_agent_that_does_not_hear_a_cancel_is_left_and_the_next_run_has_a_fresh_one(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        plan.hears_cancel = False
        session, run, deaf = await home.running()
        await deaf.tool()
        queued = (await home.prompt(session, "p1")).run
        await home.manager.cancel_run(run.id)
        await cancelled_once(home, run.id)
        assert home.types(run.id)[-3:] == ["error", "tool_update", "complete"]
        assert home.of(Error, run.id)[0].code == "CANCEL_NOT_ACKNOWLEDGED"
        await home.until(lambda: len(home.protocol.agents) == 2)
        assert deaf not in home.protocol.alive
        assert await home.agent.prompted() == "p1"
        assert home.agent.named("resume_session") == ["native-1-1"]
        await home.agent.end()
        assert (await home.ended(queued.id)).state is RunState.COMPLETED
        assert SessionChange.ASLEEP in home.told(session)


async def test_on_a_shared_process_only_the_session_that_was_not_heard_moves(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        plan.features |= {Feature.MANY_SESSIONS}
        plan.hears_cancel = False
        session, run, shared = await home.running(agent="shared")
        other = await home.start("shared")
        assert home.protocol.agents == [shared]
        await home.manager.cancel_run(run.id)
        await cancelled_once(home, run.id)
        await shared.ask("too-late")
        await home.until(lambda: shared.named("cancel"))
        again = (await home.prompt(session, "p1")).run
        await home.until(lambda: len(home.protocol.agents) == 2)
        assert await home.agent.prompted() == "p1"
        await home.agent.end()
        await home.ended(again.id)
        assert shared in home.protocol.alive
        assert home.session(other).agent.id != home.session(session).agent.id
        assert len(shared.named("answer_permission")) == 1


async def test_force_ends_the_run_and_its_process_at_once(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        home.protocol.plan.hears_cancel = False
        session, run, deaf = await home.running()
        await home.manager.cancel_run(run.id)
        await home.manager.cancel_run(run.id, force=True)
        await cancelled_once(home, run.id)
        await goes_on(home, session)
        assert deaf not in home.protocol.alive


async def test_a_run_that_takes_too_long_is_timed_out(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        run = (await home.prompt(session, "go", timeout_ms=20)).run
        ended = await home.ended(run.id)
        assert ended.state is RunState.TIMED_OUT
        assert ended.error is not None and ended.error.code == "TIMEOUT"
        (complete,) = home.of(Complete, run.id)
        assert complete.outcome is Outcome.TIMED_OUT and "20 ms" in complete.error.message
        await goes_on(home, session)


async def test_a_run_that_times_out_on_a_deaf_agent_says_so_too(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.hears_cancel = False
        session = await home.start()
        run = (await home.prompt(session, "go", timeout_ms=10)).run
        assert (await home.ended(run.id)).state is RunState.TIMED_OUT
        await goes_on(home, session)


@pytest.mark.proves("T4")
async def test_a_silent_agent_is_reported_once_and_its_run_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(stall_s=0.05)) as home:
        _, run, agent = await home.running()
        await home.until(lambda: home.of(Error, run.id))
        await quiet(home, 0.2)
        (error,) = home.of(Error, run.id)
        assert error.code == "STALLED" and error.recoverable
        assert run.state is RunState.RUNNING
        await agent.text("here I am")
        await home.until(lambda: len(home.of(Error, run.id)) == 2)
        await agent.end()
        assert (await home.ended(run.id)).state is RunState.COMPLETED


@pytest.mark.proves("T4")
async def test_nobody_is_called_silent_while_a_person_is_asked(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(stall_s=0.05)) as home:
        _, run, agent = await home.running()
        await agent.ask()
        await quiet(home, 0.2)
        assert home.of(Error, run.id) == []
        await agent.end()
        await home.ended(run.id)


@pytest.mark.proves("T4")
async def test_a_running_tool_is_given_more_time(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(stall_s=0.05, stall_tool_s=60)) as home:
        _, run, agent = await home.running()
        await agent.tool()
        await quiet(home, 0.2)
        assert home.of(Error, run.id) == []
        await agent.end()
        await home.ended(run.id)


async def test_no_clock_ticks_on_after_the_end(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        run = (await home.prompt(session, "go", timeout_ms=60_000)).run
        await home.agent.prompted()
        ending = home.session(session).ending
        await home.agent.ask(expires_at=4_000_000_000_000)
        assert ending.timers == 3
        await home.agent.end()
        await home.ended(run.id)
        assert ending.timers == 0


async def quiet(home: House, seconds: float) -> None:
    """Lets that much time pass, in which nothing is expected."""
    with anyio.move_on_after(seconds):
        await anyio.Event().wait()
