"""The queue of a session: order, the four answers when busy, keys, what holds it and lets it go."""

from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Feature
from agentctl.core.errors import (
    AgentFailed,
    Conflict,
    Exhausted,
    Invalid,
    NotFound,
    Refused,
    Unsupported,
)
from agentctl.core.events import Complete, Message, RunStatus
from agentctl.core.parts import RunError
from agentctl.core.words import Outcome, Role, RunChange, RunState, SessionState
from agentctl.session.ending import Limits
from tests.session.house import House, house

pytestmark = pytest.mark.anyio


async def finish_all(home: House, number: int) -> list[str]:
    """Ends what runs, one after the other; the prompts in the order in which they came."""
    agent, told = home.agent, list[str]()
    for _ in range(number):
        told.append(await agent.prompted())
        await agent.end()
    return told


@pytest.mark.proves("T8")
async def test_prompts_to_a_busy_session_wait_and_run_in_their_order(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        made = [await home.prompt(session, f"p{n}") for n in range(4)]
        assert [one.position for one in made] == [None, 1, 2, 3]
        assert home.agent.named("prompt") in ([], ["p0"])
        assert await finish_all(home, 4) == ["p0", "p1", "p2", "p3"]
        assert (await home.ended(made[-1].run.id)).state is RunState.COMPLETED


async def test_a_prompt_appears_once_and_its_run_ends_with_its_one_complete(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running("hello")
        await agent.text("hi")
        await agent.end()
        await home.ended(run.id)
        assert home.types(run.id) == ["run_status", "run_status", "message_chunk", "complete"]
        created, started = home.of(RunStatus, run.id)
        assert created.prompt[0].text == "hello" and started.prompt is None
        (complete,) = home.of(Complete, run.id)
        assert complete.started_at <= complete.ended_at


async def test_the_queue_outlives_the_daemon_and_waits_for_a_client(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, first, _ = await home.running("p0")
        waiting = [(await home.prompt(session, f"p{n}")).run.id for n in (1, 2)]
    async with house(tmp_path) as home:
        assert (await home.manager.get_run(first.id)).state is RunState.FAILED
        assert home.session(session).record.queue_held
        assert home.protocol.agents == []
        last = await home.prompt(session, "p3")
        await home.until(lambda: home.protocol.agents)
        assert await finish_all(home, 3) == ["p1", "p2", "p3"]
        assert (await home.ended(last.run.id)).state is RunState.COMPLETED
        assert [(await home.manager.get_run(run)).state for run in waiting] == [
            RunState.COMPLETED,
            RunState.COMPLETED,
        ]


async def test_a_caller_may_have_a_busy_session_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        with pytest.raises(Refused, match=run.id) as refused:
            await home.prompt(session, "again", if_busy="reject")
        assert refused.value.reason == "SESSION_BUSY"
        await agent.end()
        await home.ended(run.id)
        assert (await home.prompt(session, "again", if_busy="reject")).position is None


async def test_an_interrupting_prompt_runs_next_and_those_behind_stay(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running("p0")
        await home.prompt(session, "p1")
        urgent = await home.prompt(session, "urgent", if_busy="interrupt")
        assert (await home.ended(run.id)).state is RunState.CANCELLED
        assert await finish_all(home, 2) == ["urgent", "p1"]
        assert (await home.ended(urgent.run.id)).state is RunState.COMPLETED
        assert len(agent.named("cancel")) == 1


async def test_steering_adds_to_the_running_turn_and_makes_no_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.features |= {Feature.STEER}
        session, run, agent = await home.running()
        steered = await home.prompt(session, "left", if_busy="steer", idempotency_key="k")
        assert steered.steered and steered.run is run
        (message,) = home.of(Message, run.id)
        assert message.role is Role.USER and message.content[0].text == "left"
        again = await home.prompt(session, "left", if_busy="steer", idempotency_key="k")
        assert again.steered and again.run.id == run.id
        assert agent.named("steer") == ["left"]
        await agent.end()


async def test_steering_a_turn_that_has_just_ended_queues_the_prompt(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.features |= {Feature.STEER}
        home.protocol.plan.steers = False
        session, run, agent = await home.running()
        queued = await home.prompt(session, "left", if_busy="steer")
        assert not queued.steered and queued.run.id != run.id
        await agent.end()
        assert await agent.prompted() == "left"
        await agent.end()
        await home.ended(queued.run.id)


async def test_a_steer_that_hangs_holds_up_nobody_else(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        plan.features |= {Feature.STEER}
        held = plan.holds["steer"] = anyio.Event()
        session, run, agent = await home.running()
        steered: list[bool] = []

        async def steer() -> None:
            made = await home.prompt(session, "left", if_busy="steer", idempotency_key="k")
            steered.append(made.steered)

        async with anyio.create_task_group() as group:
            group.start_soon(steer)
            group.start_soon(steer)
            await home.until(lambda: agent.named("steer"))
            other = await home.start(idempotency_key="s")
            await home.prompt(other, "hello", idempotency_key="k")
            held.set()
        assert steered == [True, True] and agent.named("steer") == ["left"]
        assert home.manager._keys == {}
        await agent.end()
        await home.ended(run.id)


async def test_an_agent_that_cannot_be_steered_says_so(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, _ = await home.running()
        with pytest.raises(Unsupported, match="if-busy interrupt"):
            await home.prompt(session, "left", if_busy="steer")


async def test_a_full_queue_refuses_and_loses_nothing(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(max_queue=2, cancel_ack_s=0.05)) as home:
        session, _, _ = await home.running()
        for text in ("p1", "p2"):
            await home.prompt(session, text)
        with pytest.raises(Exhausted) as full:
            await home.prompt(session, "p3")
        assert full.value.reason == "QUEUE_FULL"
        assert len(home.session(session).ledger.queue) == 2


async def test_an_empty_prompt_and_an_unknown_session_are_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        with pytest.raises(Invalid):
            await home.prompt(session, "")
        with pytest.raises(NotFound) as unknown:
            await home.prompt("ses_unknown", "hello")
        assert unknown.value.reason == "SESSION_NOT_FOUND"
        with pytest.raises(NotFound) as no_run:
            await home.manager.get_run("run_unknown")
        assert no_run.value.reason == "RUN_NOT_FOUND"


async def test_the_same_key_gives_the_same_run_also_after_a_restart(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        made = [
            await home.prompt(session, "once", idempotency_key="k"),
            await home.prompt(session, "once", idempotency_key="k"),
        ]
        assert made[0].run.id == made[1].run.id
        with pytest.raises(Conflict) as conflict:
            await home.prompt(session, "twice", idempotency_key="k")
        assert conflict.value.reason == "IDEMPOTENCY_CONFLICT"
        await home.agent.prompted()
        await home.agent.end()
        await home.ended(made[0].run.id)
    async with house(tmp_path) as home:
        again = await home.prompt(session, "once", idempotency_key="k")
        assert again.run.id == made[0].run.id and again.run.state is RunState.COMPLETED
        assert home.protocol.agents == []


async def test_the_same_key_gives_the_same_run_when_its_session_is_closed(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start(close_when_done=True)
        made = await home.prompt(session, "once", idempotency_key="k")
        await home.agent.prompted()
        await home.agent.end()
        await home.ended(made.run.id)
        again = await home.prompt(session, "once", idempotency_key="k")
        assert again.run.id == made.run.id and again.run.state is RunState.COMPLETED
        with pytest.raises(Conflict):
            await home.prompt(session, "twice", idempotency_key="k")


@pytest.mark.proves("P5")
async def test_the_same_key_at_the_same_moment_gives_one_run_and_one_session(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        sessions, runs = set[str](), set[str]()

        async def create() -> None:
            sessions.add((await home.create(idempotency_key="s")).id)

        async def prompt() -> None:
            runs.add((await home.prompt(min(sessions), "once", idempotency_key="r")).run.id)

        for what in (create, prompt):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(what)
        assert len(sessions) == len(runs) == 1
        with pytest.raises(Conflict):
            await home.create(idempotency_key="s", name="other")
        await home.until(lambda: home.protocol.agents)
        await home.agent.prompted()
        assert home.agent.named("prompt") == ["once"]


@pytest.mark.proves("T7")
async def test_prompts_behind_a_cancelled_run_stay_unless_they_are_dropped(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running("p0")
        kept = (await home.prompt(session, "p1")).run
        await home.manager.cancel_run(run.id)
        assert await agent.prompted() == "p1"
        dropped = (await home.prompt(session, "p2")).run
        await home.manager.cancel_run(kept.id, drop_queue=True)
        for each in (kept, dropped):
            assert (await home.ended(each.id)).state is RunState.CANCELLED
        assert agent.named("prompt") == ["p0", "p1"]


@pytest.mark.proves("T10")
async def test_a_failed_start_fails_its_prompt_and_holds_those_behind(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        plan.fails["start"] = AgentFailed("fake: it said no")
        plan.holds["start"] = anyio.Event()
        session = (await home.create()).id
        runs = [(await home.prompt(session, f"p{n}")).run for n in range(3)]
        plan.holds.pop("start").set()
        first = await home.ended(runs[0].id)
        assert first.state is RunState.FAILED and first.error is not None
        assert first.error.message == "fake: it said no"
        record = home.session(session).record
        assert record.state is SessionState.FAILED and record.queue_held
        assert [run.state for run in runs[1:]] == [RunState.QUEUED, RunState.QUEUED]
        with pytest.raises(AgentFailed, match="it said no"):
            await home.manager.wait_ready(session, None)
        del plan.fails["start"]
        last = (await home.prompt(session, "p3")).run
        await home.until(lambda: home.protocol.agents)
        assert await finish_all(home, 3) == ["p1", "p2", "p3"]
        await home.ended(last.id)
        assert home.agent.named("prompt") == ["p1", "p2", "p3"]


@pytest.mark.proves("T10")
async def test_a_prompt_that_comes_while_a_start_is_failing_starts_anew(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        plan.fails["start"] = AgentFailed("fake: no")
        session = (await home.create()).id
        driver = home.session(session).driver
        failed = driver._start_failed

        async def meanwhile(error: AgentFailed) -> None:
            del plan.fails["start"]
            await failed(error)
            await home.prompt(session, "late")

        driver._start_failed = meanwhile
        await home.until(lambda: home.protocol.agents)
        assert await home.agent.prompted() == "late"


async def test_a_usage_limit_holds_the_queue_until_a_cancel_lets_it_go(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running("p0")
        held = (await home.prompt(session, "p1")).run
        last = (await home.prompt(session, "p2")).run
        await agent.end(Outcome.FAILED, error=RunError("RATE_LIMITED", "come back at five"))
        await home.ended(run.id)
        assert home.session(session).record.queue_held
        await home.manager.cancel_session(session)
        assert (await home.ended(held.id)).state is RunState.CANCELLED
        assert await agent.prompted() == "p2"
        await agent.end()
        await home.ended(last.id)


async def test_waiting_for_a_run_ends_with_its_own_time(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        assert await home.manager.wait_run(run.id, 1) == (run, False)
        await agent.end()
        found, ended = await home.manager.wait_run(run.id, 5000)
        assert ended and found.state is RunState.COMPLETED
        assert home.session(run.session_id)._waiters == {}


async def test_runs_are_listed_newest_first_in_pages(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, _ = await home.running("p0")
        for n in range(1, 5):
            await home.prompt(session, f"p{n}")
        first, after = await home.manager.list_runs(session_id=session, limit=3)
        rest, end = await home.manager.list_runs(session_id=session, limit=3, after=after)
        assert [r.prompt.blocks[0].text for r in first + rest] == ["p4", "p3", "p2", "p1", "p0"]
        assert end == ""
        states = frozenset({RunState.RUNNING})
        running, _ = await home.manager.list_runs(states=states)
        assert [run.prompt.blocks[0].text for run in running] == ["p0"]


async def test_a_refused_prompt_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        session = await home.start()
        plan.fails["prompt"] = Invalid("no images here")
        refused = await home.ended((await home.prompt(session, "p0")).run.id)
        assert refused.error is not None and refused.error.code == "INVALID_PARAMETERS"
        del plan.fails["prompt"]
        await home.prompt(session, "p1")
        assert await home.agent.prompted() == "p1"


@pytest.mark.proves("T3")
async def test_a_turn_the_agent_begins_itself_is_a_run_and_prompts_wait_for_it(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        native = home.session(session).record.native_session_id
        await home.agent.own_turn(native)
        own = home.session(session).ledger.running
        mine = await home.prompt(session, "mine")
        assert mine.position == 1
        await home.agent.end()
        assert (await home.ended(own.id)).state is RunState.COMPLETED
        assert await home.agent.prompted() == "mine"
        assert [s.status for s in home.of(RunStatus, own.id)] == [
            RunChange.CREATED,
            RunChange.STARTED,
        ]
