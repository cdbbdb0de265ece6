"""What becomes of an agent that acts without asking when a rule of ours may say no."""

from pathlib import Path
from typing import Any

import pytest

from agentctl.core.adapter import Feature
from agentctl.core.events import Error
from agentctl.core.spec import Rule, SessionSpec
from agentctl.core.words import Policy, RunState, ToolKind
from agentctl.session.ports import Prepared
from agentctl.session.rules import own_rules
from tests.session.house import House, house

pytestmark = [pytest.mark.anyio, pytest.mark.proves("A10")]


def denying(**fields: Any) -> Rule:
    return Rule("", decision=Policy.DENY, **fields)


def with_flag(home: House) -> None:
    """An entry whose agent approves by itself under allow, unless a rule is in force."""

    def prepare(entry: Any, spec: SessionSpec, *, policy: Policy, rules: bool) -> Prepared:
        free = policy is Policy.ALLOW and not rules
        argv = ("fake", entry.id, "--yolo") if free else ("fake", entry.id)
        return Prepared(argv, dict(spec.env), spec.workspace)

    home.entries.prepare = prepare


async def turn(home: House, session: str, text: str) -> None:
    run = (await home.prompt(session, text)).run
    await home.until(lambda: run.state is RunState.RUNNING)
    agent = home.agent
    assert await agent.prompted() == text
    await agent.end()
    await home.ended(run.id)


async def test_one_that_cannot_be_resumed_is_kept_and_says_so_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        with_flag(home)
        session = await home.start("frail", policy=Policy.ALLOW)
        await turn(home, session, "one")
        await home.manager.put_rule("", denying(command="rm"))
        await turn(home, session, "two")
        await turn(home, session, "three")
        (told,) = home.of(Error)
        assert told.code == "RULES_PASSED_BY" and "frail" in told.message
        assert len(home.protocol.agents) == 1


async def test_one_that_never_ran_is_opened_again_without_a_resume(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        with_flag(home)
        session = await home.start("frail", policy=Policy.ALLOW)
        await home.manager.put_rule(session, denying(command="rm"))
        await turn(home, session, "one")
        assert len(home.protocol.agents) == 2 and not home.of(Error)


async def test_a_running_turn_is_not_torn_down(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        with_flag(home)
        session, run, agent = await home.running(policy=Policy.ALLOW)
        await home.manager.put_rule("", denying(command="rm"))
        await home.manager.resume_session(session)
        assert home.agent is agent
        await agent.end()
        await home.ended(run.id)
        await turn(home, session, "next")
        assert home.agent is not agent


async def test_one_that_heeds_rules_when_it_is_opened_is_told_of_new_ones(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.features |= {Feature.GUARDED}
        session = await home.start()
        await turn(home, session, "one")
        await home.manager.put_rule("", denying(path="/etc/passwd"))
        await turn(home, session, "two")
        await home.manager.put_rule("", denying(path="/etc/shadow"))
        await turn(home, session, "three")
        assert len(home.protocol.agents) == 2
        assert set(home.session(session).spec().guarded) == {
            ToolKind.EDIT,
            ToolKind.DELETE,
            ToolKind.MOVE,
        }


@pytest.mark.parametrize(
    ("fields", "guarded"),
    [
        ({"command": "ls"}, {ToolKind.EXECUTE}),
        ({"kind": ToolKind.READ, "path": "/x"}, {ToolKind.READ}),
        ({"entry_id": "other"}, set[ToolKind]()),
        ({"command": "ls", "decision": Policy.ALLOW}, set[ToolKind]()),
    ],
)
async def test_what_a_rule_guards(
    tmp_path: Path, fields: dict[str, Any], guarded: set[ToolKind]
) -> None:
    async with house(tmp_path) as home:
        told: dict[str, Any] = {"decision": Policy.DENY, **fields}
        rules = own_rules([Rule("", **told)], 0)
        session = await home.start(rules=tuple(rules))
        assert set(home.session(session).spec().guarded) == guarded
