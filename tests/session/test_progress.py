"""What a session that is resumed tells its agent, and what the agent says while it is waited for."""

from pathlib import Path

import pytest

from agentctl.core.events import AgentStatus
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import SessionSpec
from agentctl.core.words import AgentState
from tests.session.fakes import FakeAgent
from tests.session.house import house

pytestmark = pytest.mark.anyio


async def test_an_agent_that_is_ready_may_say_what_its_session_waits_for(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.start()
        home.agent.progress("waiting 40 s")
        await home.until(lambda: any(s.detail == "waiting 40 s" for s in home.of(AgentStatus)))
        (told,) = [s for s in home.of(AgentStatus) if s.detail == "waiting 40 s"]
        assert told.state is AgentState.READY


async def test_a_resume_tells_when_its_own_conversation_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int | None] = []
    resume = FakeAgent.resume_session

    async def spy(agent: FakeAgent, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        told.append(spec.native_created_at)
        return await resume(agent, native, spec)

    monkeypatch.setattr(FakeAgent, "resume_session", spy)
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        made = home.session(session).record.native_created_at
        await agent.die()
        await home.ended(run.id)
        await home.manager.resume_session(session)
        assert told == [made] != [None]
        await home.manager.close_session(session)
        spec = SessionSpec("fake", str(tmp_path))
        await home.manager.resume_session(
            entry_id="fake", native_session_id="native-1-1", spec=spec
        )
        assert told == [made, made]
