"""Whose history a conversation is read from: the agent's own where it keeps one, else none is asked."""

from pathlib import Path
from typing import Any

import pytest

from agentctl.core.adapter import HistoryPage
from agentctl.core.errors import AgentFailed, NotFound, Unsupported
from agentctl.core.events import Message
from tests.session.fakes import FakeAgent
from tests.session.house import House, house

pytestmark = pytest.mark.anyio

PAGE = HistoryPage((Message("m1"),), before="p2")


def keeping(agent: FakeAgent) -> list[tuple[str, int, str]]:
    """Makes an agent one that keeps history; returns what it is asked."""
    asked: list[tuple[str, int, str]] = []

    async def messages(native: str, *, limit: int = 100, before: str = "") -> HistoryPage:
        asked.append((native, limit, before))
        return PAGE

    methods: Any = agent
    methods.messages = messages
    methods.revert = methods.unrevert = methods.mcp_status = messages
    return asked


def remembering(home: House) -> None:
    """Has the protocol say that its agents keep history."""
    protocol: Any = home.manager.deps.entries.adapter("fake")
    protocol.keeps_history = True


async def test_an_agent_that_keeps_a_history_is_asked_for_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        asked = keeping(home.agent)
        record, page = await home.manager.messages(session, limit=5, before="p1")
        assert (record.id, page) == (session, PAGE)
        assert asked == [(record.native_session_id, 5, "p1")]


async def test_no_agent_is_started_to_see_that_it_keeps_no_history(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        with pytest.raises(Unsupported):
            await home.manager.messages(session)
        agent = home.agent
        await agent.die(1)
        await home.until(lambda: home.session(session).agent is None)
        with pytest.raises(Unsupported, match="keeps no history"):
            await home.manager.messages(session)
        assert home.agent is agent


async def test_an_agent_that_cannot_be_brought_back_is_no_reason_to_fail(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        remembering(home)
        await home.agent.die(1)
        await home.until(lambda: home.session(session).agent is None)

        async def fail(*_: Any) -> Any:
            raise AgentFailed("it is gone for good.")

        home.manager._history = fail  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]  the failure is what matters, not how it comes
        with pytest.raises(Unsupported, match="gone for good"):
            await home.manager.messages(session)


async def test_a_closed_session_is_not_asked_for_and_an_unknown_one_is_not_found(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        await home.manager.close_session(session)
        with pytest.raises(Unsupported, match="closed"):
            await home.manager.messages(session)
        with pytest.raises(NotFound) as caught:
            await home.manager.messages("ses_none")
        assert caught.value.reason == "SESSION_NOT_FOUND"
