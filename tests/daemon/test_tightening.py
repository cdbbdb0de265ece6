"""A rule or a policy that changes while an agent approves by itself: it holds from the next prompt on."""

from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from tests.daemon.harness import daemon

pytestmark = [pytest.mark.anyio, pytest.mark.proves("A10")]

ALLOW, DENY = v1.Policy.POLICY_ALLOW, v1.Policy.POLICY_DENY


async def spoken(client: AgentCtl, session: str, prompt: str) -> tuple[str, list[v1.AgentEvent]]:
    """What the agent said in a run, and what was decided in it."""
    run = (await client.runs.create(session, prompt)).run.run_id
    text, decided = "", list[v1.AgentEvent]()
    async for event in client.events(runs=[run]):
        if event.HasField("message_chunk"):
            text += event.message_chunk.text
        if event.HasField("permission_resolved"):
            decided.append(event)
    return text, decided


async def agents(client: AgentCtl) -> list[str]:
    return [each.agent_id for each in (await client.agents.list()).agents]


async def test_a_rule_that_denies_starts_a_free_agent_again_and_resumes_it(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with daemon(tmp_path) as served, served.client() as client:
            made = await client.sessions.create(
                "demo", str(tmp_path), policy="allow", wait_ready=True
            )
            session = made.session_id
            text, decided = await spoken(client, session, "argv || run touch free")
            assert "--yolo" in text and not decided
            first = await agents(client)
            await client.approvals.put_rule("", v1.Rule(command="npm test", decision=ALLOW))
            await spoken(client, session, "run touch still-free")
            assert await agents(client) == first

            rule = v1.Rule(command_pattern="touch held*", decision=DENY)
            put = await client.approvals.put_rule("", rule)
            text, decided = await spoken(client, session, "argv || run touch held")
            assert "--yolo" not in text
            assert [each.permission_resolved.rule_id for each in decided] == [put.rule_id]
            assert not (tmp_path / "held").exists()
            text, decided = await spoken(client, session, "history || run touch other")
            assert "4 user turns" in text
            assert decided[0].permission_resolved.by == v1.DecidedBy.DECIDED_BY_POLICY
            second = await agents(client)
            assert len(second) == 1 and second != first
            now = await client.sessions.get(session)
            assert now.native_session_id == made.native_session_id

            await client.approvals.delete_rule("", put.rule_id)
            await spoken(client, session, "run touch held")
            assert (tmp_path / "held").exists() and await agents(client) == second


async def test_a_policy_that_no_longer_allows_holds_from_the_next_prompt_on(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with daemon(tmp_path) as served, served.client() as client:
            made = await client.sessions.create(
                "demo", str(tmp_path), policy="allow", wait_ready=True
            )
            await spoken(client, made.session_id, "run touch free")
            await client.sessions.update(made.session_id, policy="deny")
            _, decided = await spoken(client, made.session_id, "run touch held")
            assert [each.permission_resolved.by for each in decided] == [
                v1.DecidedBy.DECIDED_BY_POLICY
            ]
            assert (tmp_path / "free").exists() and not (tmp_path / "held").exists()


async def test_a_mode_that_asks_nothing_is_left_while_a_rule_may_deny(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with daemon(tmp_path) as served, served.client() as client:
            made = await client.sessions.create("demo", str(tmp_path), mode="auto", wait_ready=True)
            session = made.session_id
            _, decided = await spoken(client, session, "run touch free")
            assert not decided and (tmp_path / "free").exists()
            rule = v1.Rule(command_pattern="touch held", decision=DENY)
            put = await client.approvals.put_rule(session, rule)
            for mode in ("", "auto"):
                if mode:
                    await client.sessions.update(session, mode=mode)
                _, decided = await spoken(client, session, "run touch held")
                assert [each.permission_resolved.rule_id for each in decided] == [put.rule_id]
            assert (await client.sessions.get(session)).mode == "ask"
            assert not (tmp_path / "held").exists()
