"""What survives a killed daemon, what an ordinary stop says, and how sessions are closed."""

from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Feature
from agentctl.core.errors import NotFound, Refused
from agentctl.core.events import AgentStatus, Complete, SessionStatus
from agentctl.core.parts import RunError
from agentctl.core.words import (
    AgentState,
    Decision,
    Outcome,
    RunState,
    SessionChange,
    SessionState,
)
from agentctl.session.records import SessionFilter
from tests.session.house import PATIENT, House, house

pytestmark = pytest.mark.anyio


async def crash_in_a_run(path: Path) -> tuple[str, str, str]:
    """A daemon that is killed with a tool and two requests open and a prompt waiting."""
    async with house(path) as home:
        session, run, agent = await home.running(close_when_done=True)
        await agent.tool()
        await agent.tool("t2")
        await agent.tool_done("t2")
        await agent.ask()
        await agent.question()
        queued = (await home.prompt(session, "p1")).run
        home.manager.crash()
    return session, run.id, queued.id


@pytest.mark.proves("S6")
async def test_runs_of_a_killed_daemon_are_failed_with_all_they_left_open(tmp_path: Path) -> None:
    session, run, queued = await crash_in_a_run(tmp_path)
    async with house(tmp_path) as home:
        ended = await home.manager.get_run(run)
        assert ended.state is RunState.FAILED and ended.error is not None
        assert ended.error.code == "DAEMON_RESTARTED" and ended.error.recoverable
        assert home.types(run) == [
            "permission_resolved",
            "question_resolved",
            "tool_update",
            "tool_update",
            "complete",
        ]
        assert await home.manager.list_approvals() == ([], "")
        ((answered,), _) = await home.manager.list_approvals(open_only=False)
        assert answered.decision is Decision.CANCELLED
        record = home.session(session).record
        assert record.state is SessionState.INTERRUPTED and record.queue_held
        (status,) = home.of(SessionStatus)
        assert status.queue_held and status.status is SessionChange.INTERRUPTED
        assert (await home.manager.get_run(queued)).state is RunState.QUEUED
        assert home.protocol.entered == 0


@pytest.mark.proves("S6")
async def test_resuming_after_a_restart_lets_the_queue_go(tmp_path: Path) -> None:
    session, _, queued = await crash_in_a_run(tmp_path)
    async with house(tmp_path) as home:
        await home.manager.resume_session(session)
        assert home.agent.named("resume_session") == ["native-1-1"]
        assert await home.agent.prompted() == "p1"
        await home.agent.end()
        assert (await home.ended(queued)).state is RunState.COMPLETED


async def test_a_second_restart_says_nothing_new(tmp_path: Path) -> None:
    session, run, _ = await crash_in_a_run(tmp_path)
    async with house(tmp_path):
        pass
    async with house(tmp_path) as home:
        assert home.spy.committed == []
        assert (await home.manager.get_run(run)).state is RunState.FAILED
        assert home.session(session).record.state is SessionState.INTERRUPTED


@pytest.mark.proves("P11")
async def test_the_daemons_own_stop_is_no_failure_of_the_agent(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.ask()
        idle = await home.start()
        await home.prompt(session, "p1")
    (complete,) = home.of(Complete, run.id)
    assert complete.error.code == "DAEMON_RESTARTED"
    reasons = [s.reason for s in home.of(SessionStatus) if s.status is SessionChange.INTERRUPTED]
    assert reasons == ["the daemon stopped"] * 2
    assert home.told(idle)[-1] is SessionChange.INTERRUPTED
    states = [status.state for status in home.of(AgentStatus)]
    assert states.count(AgentState.EXITED) == states.count(AgentState.STOPPING) == 2
    assert not home.protocol.alive
    async with house(tmp_path) as home:
        assert home.session(session).record.queue_held
        assert [r.state for r in home.session(session).ledger.queue] == [RunState.QUEUED]


@pytest.mark.proves("P1", "T10")
async def test_stopping_the_daemon_in_the_middle_of_a_start_keeps_the_prompt(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.holds["start"] = anyio.Event()
        session = (await home.create()).id
        run = (await home.prompt(session, "p0")).run
        await home.protocol.starting()
    assert not home.protocol.alive and home.of(Complete) == []
    async with house(tmp_path) as home:
        await home.manager.resume_session(session)
        assert await home.agent.prompted() == "p0"
        await home.agent.end()
        assert (await home.ended(run.id)).state is RunState.COMPLETED


async def test_closing_a_session_cancels_its_run_and_drops_its_queue(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        session, run, agent = await home.running()
        await agent.ask()
        queued = (await home.prompt(session, "p1")).run
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(home.manager.close_session, session)
        assert not home.protocol.alive
        for each in (run.id, queued.id):
            (complete,) = home.of(Complete, each)
            assert complete.outcome is Outcome.CANCELLED
        assert home.told(session).count(SessionChange.CLOSED) == 1
        assert agent.named("cancel") and agent.named("close_session") == ["native-1-1"]
        closed = await home.manager.close_session(session)
        assert closed.state is SessionState.CLOSED and closed.closed_at is not None
        with pytest.raises(Refused) as refused:
            await home.prompt(session, "again")
        assert refused.value.reason == "SESSION_CLOSED"


@pytest.mark.proves("P1")
async def test_a_close_goes_on_when_its_caller_leaves(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.hears_cancel = False
        session, run, _ = await home.running()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(home.manager.close_session, session)
                await home.until(lambda: home.agent.named("cancel"))
                scope.cancel()
        await home.until(lambda: SessionChange.CLOSED in home.told(session))
        assert (await home.manager.get_run(run.id)).state is RunState.CANCELLED


async def test_a_session_that_closes_when_done_stops_its_agent_by_itself(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running(close_when_done=True)
        queued = (await home.prompt(session, "p1")).run
        await agent.end()
        await home.ended(run.id)
        assert await agent.prompted() == "p1"
        await agent.end()
        await home.ended(queued.id)
        await home.until(lambda: SessionChange.CLOSED in home.told(session))
        await home.until(lambda: not home.protocol.alive)


async def test_a_closed_session_can_be_resumed_once_whoever_asks_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.end()
        await home.ended(run.id)
        await home.manager.close_session(session)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(home.manager.resume_session, session)
        assert home.protocol.entered == 2
        assert home.agent.named("resume_session") == ["native-1-1"]
        assert home.session(session).record.state is SessionState.IDLE
        assert home.session(session).record.closed_at is None


async def test_resuming_brings_the_environment_that_is_never_kept(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, _ = await home.running(env={"KEY": "secret"})
        assert home.agent.launch.env == {"KEY": "secret"}
        spec = home.session(session).record.spec
    async with house(tmp_path) as home:
        assert home.session(session).record.spec.env == {}
        await home.manager.resume_session(session, spec=spec)
        assert home.agent.launch.env == {"KEY": "secret"}


async def test_deleting_a_session_forgets_all_of_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, _ = await home.running(idempotency_key="k")
        await home.manager.delete_session(session)
        assert not home.protocol.alive
        for gone in (home.manager.get_session(session), home.manager.get_run(run.id)):
            with pytest.raises(NotFound):
                await gone
        assert await home.manager.list_sessions(SessionFilter()) == ([], "")
        assert (await home.create(idempotency_key="k")).id != session


async def test_deleting_the_agents_own_copy_needs_an_agent_that_can(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.features |= {Feature.DELETE}
        session, _, agent = await home.running()
        await home.manager.delete_session(session, native=True)
        assert agent.named("delete_session") == ["native-1-1"]


async def shared(home: House) -> tuple[str, str]:
    home.protocol.plan.features |= {Feature.MANY_SESSIONS}
    first, _, _ = await home.running(agent="shared")
    return first, await home.start("shared")


@pytest.mark.proves("P1")
async def test_stopping_an_agent_closes_all_its_sessions(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        sessions = await shared(home)
        (agent,) = await home.manager.list_agents()
        await home.manager.stop_agent(agent.id)
        assert not home.protocol.alive and home.manager.sessions == {}
        for session in sessions:
            assert (await home.manager.get_session(session)).state is SessionState.CLOSED
        assert (await home.manager.stop_agent(agent.id)).state is AgentState.EXITED
        assert await home.manager.stop_all() == []


async def test_closing_one_session_of_a_shared_process_leaves_the_other(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        first, second = await shared(home)
        await home.manager.close_session(first)
        assert len(home.protocol.alive) == 1
        run = (await home.prompt(second, "still")).run
        assert await home.agent.prompted() == "still"
        await home.agent.end()
        await home.ended(run.id)
        await home.manager.close_session(second)
        assert not home.protocol.alive


async def test_restarting_an_agent_moves_its_sessions_and_keeps_their_queues(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        first, second = await shared(home)
        running = home.session(first).ledger.running
        queued = (await home.prompt(first, "p1")).run
        old = home.agent
        (agent,) = await home.manager.list_agents()
        fresh = await home.manager.restart_agent(agent.id)
        assert fresh.id != agent.id and fresh.session_ids == sorted([first, second])
        assert old not in home.protocol.alive and len(home.protocol.alive) == 1
        assert (await home.ended(running.id)).state is RunState.CANCELLED
        assert await home.agent.prompted() == "p1"
        assert old.named("prompt") == ["go"]
        await home.agent.end()
        assert (await home.ended(queued.id)).state is RunState.COMPLETED
        assert SessionChange.ASLEEP in home.told(first)


async def test_a_fork_is_a_session_of_its_own_on_the_same_process(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.features |= {Feature.FORK, Feature.MANY_SESSIONS}
        session, run, agent = await home.running()
        await agent.end(Outcome.FAILED, error=RunError("MODEL_ERROR", "no"))
        await home.ended(run.id)
        fork = await home.manager.fork_session(session, name="other way")
        assert fork.forked_from == session and fork.state is SessionState.IDLE
        mine = (await home.prompt(fork.id, "mine")).run
        assert await agent.prompted() == "mine"
        await agent.end()
        await home.ended(mine.id)
        await home.manager.close_session(session)
        assert agent in home.protocol.alive


async def test_a_fork_of_an_agent_that_holds_one_conversation_gets_a_process_of_its_own(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.features |= {Feature.FORK}
        session, run, agent = await home.running()
        await agent.end()
        await home.ended(run.id)
        fork = await home.manager.fork_session(session)
        assert fork.forked_from == session and fork.state is SessionState.IDLE
        (native,) = home.agent.named("fork_session")
        assert native == (await home.manager.get_session(session)).native_session_id
        assert home.agent is not agent and len(home.protocol.alive) == 2
        mine = (await home.prompt(fork.id, "mine")).run
        assert await home.agent.prompted() == "mine"
        await home.agent.end()
        await home.ended(mine.id)
        await home.manager.close_session(session)
        assert len(home.protocol.alive) == 1
        assert SessionChange.FORKED in home.told(fork.id)
