"""The tools of a session through the daemon: as policy, rules and what was seen say at this moment."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl, NotFound, Session, Tool
from agentctl.testing.fake_daemon import FakeDaemon, Say, UseTool

pytestmark = [pytest.mark.anyio, pytest.mark.proves("D5")]

TEST_S = 30.0
LISTED = {"permission_config": {"tools_requiring_permission": ["edit", "bash"]}}


@pytest.fixture
async def daemon() -> AsyncGenerator[FakeDaemon]:
    with anyio.fail_after(TEST_S):
        made = FakeDaemon("coder")
        made.agent("listed", **LISTED).on("", Say("hi"), UseTool("odd"))
        made.agent("coder").on("", UseTool("bash", "execute", command="ls"))
        async with made:
            yield made


@pytest.fixture
async def client(daemon: FakeDaemon) -> AsyncGenerator[AgentCtl]:
    async with daemon.client() as made:
        yield made


async def worked(client: AgentCtl, daemon: FakeDaemon, agent: str = "coder") -> Session:
    """A session after one turn."""
    session = await client.agent(agent).session(workspace=daemon.workspace)
    await (await session.send("x")).wait()
    return session


async def bash(session: Session) -> Tool:
    tool = (await session.tool_space()).get("bash")
    assert tool is not None
    return tool


async def test_whether_a_tool_asks_follows_policy_and_rules_at_once(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    session = await worked(client, daemon)
    assert (await bash(session)).requires_approval is True
    await session.update(policy="allow")
    assert (await bash(session)).requires_approval is False
    guard = v1.Rule(kind=v1.ToolKind.TOOL_KIND_EXECUTE, decision=v1.Policy.POLICY_DENY)
    rule = await client.approvals.put_rule("", guard)
    assert (await bash(session)).requires_approval is True
    await client.approvals.delete_rule("", rule.rule_id)
    await session.update(policy="ask")
    allow = v1.Rule(kind=v1.ToolKind.TOOL_KIND_EXECUTE, decision=v1.Policy.POLICY_ALLOW)
    await client.approvals.put_rule(session.id, allow)
    assert (await bash(session)).requires_approval is False


async def test_what_an_entry_names_is_listed_where_the_agent_lists_nothing(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    space = await (await worked(client, daemon, "listed")).tool_space()
    told = {tool.name: (tool.access, tool.requires_approval, tool.calls) for tool in space}
    assert told == {
        "bash": (None, True, 0),
        "edit": ("write", True, 0),
        "odd": (None, None, 1),
    }


async def test_a_session_that_starts_is_waited_for_and_one_at_rest_starts_nothing(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    session = await client.agent("coder").session(workspace=daemon.workspace)
    assert len(await session.tool_space()) == 0
    assert (await session.info()).state == "idle"
    await (await session.send("x")).wait()
    await daemon.restart()
    assert (await bash(session)).calls == 1
    assert (await session.info()).state == "interrupted"
    await session.close()
    assert (await bash(session)).calls == 1


async def test_a_session_that_nobody_knows_has_no_tools(client: AgentCtl) -> None:
    with pytest.raises(NotFound) as caught:
        await client.session("ses_none").tool_space()
    assert caught.value.reason == "SESSION_NOT_FOUND"
