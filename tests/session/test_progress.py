"""What an agent says while somebody waits for it is seen, during its start and after."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agentctl.core.adapter import Launch, Progress, Sink
from agentctl.core.events import AgentStatus
from agentctl.core.words import AgentState
from tests.session.fakes import FakeAgent, FakeProtocol
from tests.session.house import house

pytestmark = pytest.mark.anyio


class Talkative(FakeProtocol):
    """Keeps what its agents may tell their progress with."""

    tell: Progress

    def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AbstractAsyncContextManager[FakeAgent]:
        self.tell = progress
        return super().connect(launch, sink, progress)


async def test_an_agent_that_is_ready_may_say_what_its_session_waits_for(tmp_path: Path) -> None:
    protocol = Talkative()
    async with house(tmp_path, protocol=protocol) as home:
        await home.ready()
        protocol.tell("waiting 40 s")
        await home.until(lambda: any(s.detail == "waiting 40 s" for s in home.of(AgentStatus)))
        (told,) = [s for s in home.of(AgentStatus) if s.detail == "waiting 40 s"]
        assert told.state is AgentState.READY
