"""The conversation as the agent remembers it, over the wire."""

import pytest

from agentctl import v1
from tests.rpc.fakes import house

pytestmark = pytest.mark.anyio


async def test_a_history_comes_in_pages_as_events_without_a_place_in_the_journal() -> None:
    async with house() as rooms:
        page = await rooms.client.sessions.messages("ses_1", page_size=5, page_token="p1")
    assert rooms.manager.calls[-1] == ("messages", ("ses_1",), {"limit": 5, "before": "p1"})
    assert page.next_page_token == "p2"
    (event,) = page.events
    assert (event.message.message_id, event.session_id) == ("m1", "ses_1")
    assert (event.seq, event.cursor) == (0, "")


async def test_a_session_is_compacted_reverted_and_asked_for_its_mcp_servers() -> None:
    async with house() as rooms:
        compacted = await rooms.client.sessions.compact("ses_1")
        await rooms.client.sessions.revert("ses_1", "msg_1")
        await rooms.client.sessions.unrevert("ses_1")
        status = await rooms.client.sessions.mcp_status("ses_1")
    assert compacted.run_id == "run_1"
    assert [name for name, _, _ in rooms.manager.calls] == [
        "compact_session",
        "revert",
        "unrevert",
        "mcp_status",
    ]
    assert status.servers[0].state == v1.McpState.MCP_STATE_CONNECTED
