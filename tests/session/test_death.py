"""Agents that die, do not start, cannot resume; starts that nobody waits for any more."""

from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Feature
from agentctl.core.errors import AgentFailed, NotFound, Refused, Unsupported
from agentctl.core.events import AgentStatus, Complete, PermissionResolved, ToolUpdate
from agentctl.core.words import (
    AgentState,
    Decision,
    Outcome,
    RunState,
    SessionChange,
    SessionState,
    ToolStatus,
)
from tests.session.fakes import FakeAgent
from tests.session.house import PATIENT, house

pytestmark = pytest.mark.anyio


@pytest.mark.proves("T5")
async def test_an_agent_that_dies_in_mid_turn_fails_its_run_and_the_next_one_resumes(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.tool()
        await agent.ask()
        await agent.die(7)
        ended = await home.ended(run.id)
        assert ended.state is RunState.FAILED and ended.error is not None
        assert (ended.error.code, ended.error.exit_code) == ("AGENT_EXITED", 7)
        assert ended.error.stderr_tail == ["last words"]
        assert home.types(run.id)[-1] == "complete"
        assert home.of(PermissionResolved, run.id)[0].decision is Decision.CANCELLED
        closed = [u for u in home.of(ToolUpdate, run.id) if u.status is ToolStatus.FAILED]
        assert closed
        record = home.session(session).record
        assert record.state is SessionState.INTERRUPTED and not record.queue_held
        again = (await home.prompt(session, "again")).run
        await home.until(lambda: len(home.protocol.agents) == 2)
        assert await home.agent.prompted() == "again"
        assert home.agent.named("resume_session") == ["native-1-1"]
        assert home.agent.named("new_session") == []
        await home.agent.end()
        assert (await home.ended(again.id)).state is RunState.COMPLETED
        (one,) = home.of(Complete, run.id)
        assert one.outcome is Outcome.FAILED


@pytest.mark.proves("T5", "S5")
async def test_the_next_process_waits_until_the_dead_one_is_gone(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        overlap: list[int] = []

        def count(agent: FakeAgent, method: str, argument: object) -> None:
            overlap.append(len(home.protocol.alive))

        home.protocol.plan.on_call = count
        queued = (await home.prompt(session, "p1")).run
        await agent.die(None, 9)
        await home.ended(run.id)
        assert home.session(session).record.queue_held
        await home.prompt(session, "p2")
        await home.until(lambda: len(home.protocol.agents) == 2)
        assert await home.agent.prompted() == "p1"
        await home.agent.end()
        await home.ended(queued.id)
        assert await home.agent.prompted() == "p2"
        await home.agent.end()
        assert set(overlap) == {1}


async def test_a_death_of_an_idle_agent_interrupts_and_the_next_prompt_is_not_lost(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        await home.agent.die(1)
        run = (await home.prompt(session, "hello")).run
        await home.until(lambda: len(home.protocol.agents) == 2)
        assert await home.agent.prompted() == "hello"
        await home.agent.end()
        assert (await home.ended(run.id)).state is RunState.COMPLETED
        assert SessionChange.INTERRUPTED in home.told(session)


@pytest.mark.proves("S4")
async def test_a_session_that_never_ran_is_started_instead_of_resumed(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        await home.agent.die(1)
        record = await home.manager.resume_session(session)
        assert record.native_session_id == "native-2-1"
        assert home.agent.named("resume_session") == []


@pytest.mark.proves("S4")
@pytest.mark.parametrize("entry", ["frail", "fake"])
async def test_what_cannot_be_resumed_is_an_error_and_never_a_fresh_session(
    tmp_path: Path, entry: str
) -> None:
    async with house(tmp_path) as home:
        if entry == "fake":
            home.protocol.plan.features = frozenset()
        session, run, agent = await home.running(agent=entry)
        await agent.die(1)
        await home.ended(run.id)
        again = await home.ended((await home.prompt(session, "again")).run.id)
        assert again.error is not None and again.error.code == "UNSUPPORTED"
        assert home.agent.named("new_session") == []
        with pytest.raises(Unsupported):
            await home.manager.resume_session(session)
        assert home.session(session).record.state is SessionState.INTERRUPTED
        assert len(home.protocol.alive) == 0


@pytest.mark.proves("S4", "T10")
async def test_a_resume_that_fails_fails_its_prompt_and_keeps_the_conversation(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.die(1)
        await home.ended(run.id)
        home.protocol.plan.fails["resume_session"] = AgentFailed("fake: it is not there")
        lost = await home.ended((await home.prompt(session, "p1")).run.id)
        assert lost.error is not None and lost.error.message == "fake: it is not there"
        assert home.session(session).record.native_session_id == "native-1-1"
        assert not home.protocol.alive
        home.protocol.plan.fails.clear()
        assert (await home.manager.resume_session(session)).state is SessionState.IDLE


@pytest.mark.proves("P6")
async def test_a_death_in_the_start_fails_all_who_wait_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        held = plan.holds["start"] = anyio.Event()
        plan.fails["start"] = AgentFailed("fake exited with code 3: no key")
        sessions = [(await home.create("shared")).id for _ in range(3)]
        failed: list[str] = []

        async def wait(session: str) -> None:
            with pytest.raises(AgentFailed, match="no key"):
                await home.manager.wait_ready(session, None)
            failed.append(session)

        async with anyio.create_task_group() as group:
            for session in sessions:
                group.start_soon(wait, session)
            await home.protocol.starting()
            pool = home.manager.pool
            await home.until(lambda: sum(len(a.members) for a in pool._agents.values()) == 3)
            held.set()
        assert sorted(failed) == sorted(sessions)
        assert home.protocol.entered == 1
        (status,) = [s for s in home.of(AgentStatus) if s.state is AgentState.EXITED]
        assert "no key" in status.detail


@pytest.mark.proves("P5")
async def test_a_caller_who_gives_up_leaves_no_process_behind(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.holds["start"] = anyio.Event()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(home.manager.start_agent, "fake")
                await home.protocol.starting()
                scope.cancel()
        assert not home.protocol.alive
        assert await home.manager.list_agents() == []


@pytest.mark.proves("P5")
async def test_two_creates_at_once_on_a_shared_entry_give_one_process(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        plan = home.protocol.plan
        plan.features |= {Feature.MANY_SESSIONS}
        held = plan.holds["start"] = anyio.Event()
        sessions = [(await home.create("shared")).id for _ in range(4)]
        await home.protocol.starting()
        await anyio.wait_all_tasks_blocked()
        held.set()
        for session in sessions:
            await home.manager.wait_ready(session, None)
        assert home.protocol.entered == 1
        (record,) = await home.manager.list_agents()
        assert record.session_ids == sorted(sessions)


async def test_a_process_that_holds_one_session_at_a_time_is_not_shared(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        held = home.protocol.plan.holds["start"] = anyio.Event()
        sessions = [(await home.create("shared")).id for _ in range(3)]
        await home.protocol.starting()
        await anyio.wait_all_tasks_blocked()
        held.set()
        for session in sessions:
            await home.manager.wait_ready(session, None)
        assert len({home.session(session).agent.id for session in sessions}) == 3
        with pytest.raises(Unsupported):
            await home.start(home.session(sessions[0]).agent.id)


@pytest.mark.proves("P1", "P5")
async def test_closing_in_the_middle_of_a_start_leaves_nothing(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        home.protocol.plan.holds["start"] = anyio.Event()
        session = (await home.create()).id
        run = (await home.prompt(session, "go")).run
        await home.protocol.starting()
        errors: list[str] = []

        async def wait() -> None:
            with pytest.raises(Refused) as closed:
                await home.manager.wait_ready(session, None)
            errors.append(closed.value.reason)

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await home.manager.close_session(session)
        assert errors == ["SESSION_CLOSED"]
        assert not home.protocol.alive and home.protocol.agents == []
        assert (await home.manager.get_run(run.id)).state is RunState.CANCELLED
        assert (await home.manager.get_session(session)).state is SessionState.CLOSED


@pytest.mark.parametrize("method", ["new_session", "resume_session"])
async def test_a_defect_of_the_adapter_fails_the_start_and_not_the_daemon(
    tmp_path: Path, method: str
) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.end()
        await home.ended(run.id)
        home.protocol.plan.fails[method] = ValueError("a bug")
        if method == "new_session":
            session = (await home.create()).id
        else:
            await agent.die(1)
        failed = await home.ended((await home.prompt(session, "p1")).run.id)
        assert failed.state is RunState.FAILED
        home.protocol.plan.fails.clear()
        assert (await home.manager.resume_session(session)).state is SessionState.IDLE


@pytest.mark.proves("P5")
async def test_a_named_process_serves_exactly_who_names_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        agent = await home.manager.start_agent("fake", workspace=str(tmp_path))
        session = await home.start(agent.id)
        assert home.session(session).agent.id == agent.id
        assert home.protocol.entered == 1
        with pytest.raises(NotFound) as unknown:
            await home.start("agt_unknown")
        assert unknown.value.reason == "AGENT_NOT_FOUND"


@pytest.mark.proves("T5")
async def test_a_broken_pipe_is_told_as_the_death_it_is(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        agent = home.agent
        agent.gone = True
        run = (await home.prompt(session, "go")).run
        await home.until(lambda: agent.named("prompt"))
        await agent.die(5)
        ended = await home.ended(run.id)
        assert ended.error is not None
        assert (ended.error.code, ended.error.exit_code) == ("AGENT_EXITED", 5)


async def test_an_agent_without_a_session_stops_when_it_stays_idle(tmp_path: Path) -> None:
    async with house(tmp_path, idle_agent_s=0.02) as home:
        started = await home.manager.start_agent("fake", workspace=str(tmp_path))
        await home.until(lambda: [s for s in home.of(AgentStatus) if s.state is AgentState.EXITED])
        assert not home.protocol.alive
        assert (await home.manager.get_agent(started.id)).state is AgentState.EXITED
