"""A session may be closed for good: then nothing of it can be taken up again."""

from pathlib import Path

import pytest

from agentctl.core.adapter import Feature
from agentctl.core.errors import AgentFailed, Refused
from agentctl.core.events import SessionStatus
from agentctl.core.words import RunState, SessionChange, SessionState
from agentctl.session.records import SessionFilter
from tests.session.house import House, house

pytestmark = pytest.mark.anyio


def deletable(home: House) -> None:
    home.protocol.plan.features |= {Feature.DELETE}


@pytest.mark.proves("F5")
async def test_a_session_closed_without_its_state_is_gone_for_good(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        deletable(home)
        session, run, agent = await home.running()
        record = await home.manager.close_session(session, reason="enough", save_state=False)
        assert record.state is SessionState.CLOSED and record.state_saved is False
        assert (await home.manager.get_run(run.id)).state is RunState.CANCELLED
        assert agent.named("delete_session") == [record.native_session_id]
        assert agent.named("close_session") == []
        (told,) = [s for s in home.of(SessionStatus) if s.status is SessionChange.CLOSED]
        assert told.reason == "enough"
        for call in (
            home.manager.resume_session(session),
            home.prompt(session, "hello?"),
            home.manager.fork_session(session),
        ):
            with pytest.raises(Refused, match="without saving its state") as refused:
                await call
            assert refused.value.reason == "SESSION_CLOSED"
    async with house(tmp_path) as home:
        with pytest.raises(Refused, match="agentctl start fake"):
            await home.manager.resume_session(session)
        assert not home.protocol.agents


@pytest.mark.proves("F5")
async def test_a_session_closed_as_usual_is_saved_and_comes_back(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        deletable(home)
        session, _, agent = await home.running()
        record = await home.manager.close_session(session)
        assert record.state_saved is True and not agent.named("delete_session")
        back = await home.manager.resume_session(session)
        assert back.state_saved is None and back.state is SessionState.IDLE


@pytest.mark.proves("F5")
async def test_a_closed_session_can_be_given_up_later(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        deletable(home)
        session, _, agent = await home.running()
        await agent.end()
        await home.manager.close_session(session)
        record = await home.manager.close_session(session, save_state=False)
        assert record.state_saved is False
        assert home.agent is not agent
        assert home.agent.named("delete_session") == [record.native_session_id]
        with pytest.raises(Refused):
            await home.manager.resume_session(session)


async def test_an_agent_that_cannot_delete_is_asked_for_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running()
        record = await home.manager.close_session(session, save_state=False)
        assert record.state_saved is False and not agent.named("delete_session")
        assert home.protocol.agents == [agent]


async def test_an_agent_that_fails_to_delete_keeps_no_session_open(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        deletable(home)
        home.protocol.plan.fails["delete_session"] = AgentFailed("it is locked")
        session, _, _ = await home.running()
        record = await home.manager.close_session(session, save_state=False)
        assert record.state is SessionState.CLOSED and record.state_saved is False


async def test_the_last_session_of_a_directory_is_one_that_can_be_resumed(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        saved, given_up = await home.start(), await home.start()
        await home.manager.close_session(saved)
        await home.manager.close_session(given_up, save_state=False)
        here = SessionFilter(workspace=str(tmp_path))
        assert (await home.manager.resolve_session(here)).id == saved
