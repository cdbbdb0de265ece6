"""What a session that is resumed tells its agent, and what the agent says while it is waited for."""

from pathlib import Path

import pytest

from agentctl.core.events import AgentStatus
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import SessionSpec
from agentctl.core.words import AgentState, EventType
from agentctl.session.hub import Hub, Query
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


async def test_the_stream_of_a_session_holds_what_its_agent_says_of_itself(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        hub = Hub(home.spy.journal, strip_raw=bytes)
        session, _, agent = await home.running()
        await agent.die()
        await home.until(lambda: AgentState.EXITED in [s.state for s in home.of(AgentStatus)])
        query = Query(
            sessions=frozenset({session}), types=frozenset({EventType.AGENT_STATUS}), follow=False
        )
        shown = sum([batch.count async for batch in hub.subscribe(query)])
        assert shown == len(home.of(AgentStatus)) >= 3
