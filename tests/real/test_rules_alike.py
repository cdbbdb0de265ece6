"""Rules of ours give the same decisions on every agent, each asked in its own protocol.

One table holds for all: what a rule decides, what is left to a person or the policy, and what is on
the disk afterwards. The agents are started as they come, without a mode that somebody chose.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl import v1
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.gemini import GeminiEndpoint
from tests.real.agents import AGENTS
from tests.real.harness import GEMINI, Model, age_gemini_sessions, make_home
from tests.real.opencode import make_repository
from tests.real.served import Cli, Served, Turn, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

NAMES = ["demo", "gemini", "opencode", "claude", "codex"]
ALLOW, DENY = v1.Policy.POLICY_ALLOW, v1.Policy.POLICY_DENY
ALLOWED, OTHERWISE = "allowed", "otherwise"
DENIED, DENIED_COMMAND, DENIED_ALSO = "denied", "denied command", "denied also"
# How each acts without asking: a flag at its start, a mode, or leave by the policy.
FREE: dict[str, dict[str, Any]] = {
    "demo": {"policy": "allow"},
    "gemini": {"policy": "allow"},
    "opencode": {"policy": "allow"},
    "claude": {"mode": "acceptEdits"},
    "codex": {"mode": "never-ask"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """What an agent is told to do, who decides it, and what its workspace holds if it was allowed.

    `rule` is the rule that decides, or OTHERWISE. An agent in `itself` refuses by its own, before it
    asks: there is no request, and nothing is on the disk either.
    """

    script: str
    demo: str
    rule: str
    made: str
    itself: frozenset[str] = frozenset()


TABLE = {
    "the command that is allowed": Case("TOOL npm test", "run npm test", ALLOWED, "tested"),
    "another command": Case("TOOL touch other", "run touch other", OTHERWISE, "other"),
    "a command on .git": Case(
        "TOOL echo x > .git/made", "run echo x > .git/made", DENIED_COMMAND, ".git/made"
    ),
    "a file under .git": Case(
        "WRITE .git/hooks/made x",
        "write .git/hooks/made x",
        DENIED,
        ".git/hooks/made",
        # To Gemini CLI everything under .git lies outside the workspace.
        itself=frozenset({"gemini"}),
    ),
    "a file under secrets": Case(
        "WRITE secrets/key x", "write secrets/key x", DENIED_ALSO, "secrets/key"
    ),
    "an ordinary file": Case("WRITE plain x", "write plain x", OTHERWISE, "plain"),
    "a change of an ordinary file": Case(
        "READ readme.md || EDIT readme.md hello changed", "write changed x", OTHERWISE, "readme.md"
    ),
}
BY_POLICY = {
    "ask": ("approved", "client", None),
    "allow": ("approved", "policy", None),
    "deny": ("denied", "policy", None),
}


@asynccontextmanager
async def house(name: str, root: Path) -> AsyncGenerator[Served]:
    if name != "demo":
        async with AGENTS[name].serving(root) as served:
            yield served
        return
    home = await anyio.to_thread.run_sync(make_home, root, GEMINI)
    with in_thread(GeminiEndpoint()) as url:
        async with serving(home, Model(url)) as served:
            served.entry = "demo"
            yield served


@pytest.fixture(params=NAMES)
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with house(request.param, tmp_path) as it:
        workspace = it.home.workspace
        await anyio.to_thread.run_sync(make_repository, workspace)
        (workspace / "secrets").mkdir()
        package = {"name": "it", "version": "1.0.0", "scripts": {"test": "touch tested"}}
        await anyio.Path(workspace / "package.json").write_text(json.dumps(package))
        yield it


async def put(served: Served, session_id: str = "", **rule: Any) -> str:
    return (await served.client.approvals.put_rule(session_id, v1.Rule(**rule))).rule_id


async def rules(served: Served) -> dict[str, str]:
    """Puts the rules, for all sessions; returns their ids."""
    return {
        ALLOWED: await put(served, command="npm test", decision=ALLOW),
        DENIED: await put(served, path_pattern="/**/.git/**", decision=DENY),
        DENIED_COMMAND: await put(served, command_pattern="*.git*", decision=DENY),
        DENIED_ALSO: await put(served, path_pattern="/**/secrets/**", decision=DENY),
    }


async def told(served: Served, session: v1.Session, script: str, demo: str, **answer: Any) -> Turn:
    """Prompts; a person who is asked says yes, or `answer`."""
    run = await served.begin(session, demo if served.entry == "demo" else script)

    def waits() -> bool:
        turn = served.turn(run)
        asked, answered = turn.of("permission_request"), turn.of("permission_resolved")
        return "complete" in turn.kinds or len(asked) > len(answered)

    while True:
        await served.until(waits)
        if "complete" in served.turn(run).kinds:
            return served.turn(run)
        known = len(served.turn(run).of("permission_resolved"))
        for each in (await served.client.approvals.list()).approvals:
            said: dict[str, Any] = {"decision": "approve", **answer}
            await served.client.approvals.respond(each.approval_id, **said)
        await served.until(
            lambda known=known: len(served.turn(run).of("permission_resolved")) > known
        )


def decisions(turn: Turn) -> list[tuple[str, str, str | None]]:
    told = turn.of("permission_resolved")
    return [(each["decision"], each["by"], each.get("rule_id")) for each in told]


def is_made(served: Served, case: Case) -> bool:
    path = served.home.workspace / case.made
    return path.exists() and path.read_text() != "hello\n"


@pytest.mark.proves("A9")
@pytest.mark.parametrize("policy", list(BY_POLICY))
async def test_one_table_of_decisions_holds_for_every_agent(served: Served, policy: str) -> None:
    ids = await rules(served)
    session = await served.session(policy=policy)
    found: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    for name, case in TABLE.items():
        turn = await told(served, session, case.script, case.demo)
        # Some ask for each step of it: the same is decided each time.
        found[name] = sorted(set(decisions(turn))), is_made(served, case)
        decision = "approved" if case.rule == ALLOWED else "denied"
        row = (decision, "rule", ids[case.rule]) if case.rule in ids else BY_POLICY[policy]
        refused = served.entry in case.itself
        # The demo agent's second file stands for the change.
        made = row[0] == "approved" and not (served.entry == "demo" and "change" in name)
        wanted[name] = ([] if refused else [row], made)
    assert found == wanted


@pytest.mark.proves("A9")
async def test_always_is_the_same_rule_of_ours_on_every_agent(served: Served) -> None:
    await put(served, path_pattern="/**/secrets/**", decision=DENY)
    session = await served.session()
    first = await told(served, session, "TOOL touch a b", "run touch a b", always=True)
    (rule,) = (await served.client.approvals.list_rules(session.session_id)).rules
    assert (rule.command, rule.kind) == ("touch a b", v1.ToolKind.TOOL_KIND_EXECUTE)
    assert decisions(first) == [("approved", "client", rule.rule_id)]
    again = await told(served, session, "TOOL touch a b", "run touch a b", decision="deny")
    assert decisions(again) == [("approved", "rule", rule.rule_id)]
    other = await told(served, session, "TOOL touch a c", "run touch a c", decision="deny")
    assert decisions(other) == [("denied", "client", None)]
    elsewhere = await served.session()
    also = await told(served, elsewhere, "TOOL touch a b", "run touch a b", decision="deny")
    assert decisions(also) == [("denied", "client", None)]
    assert not (served.home.workspace / "c").exists()

    history = await served.client.approvals.list(include_resolved=True)
    kept = [(each.decision, each.rule_id) for each in history.approvals]
    assert len(kept) == 4 and [rule_id for _, rule_id in kept].count(rule.rule_id) == 2
    done = await Cli.of(served.home, served.model)("approvals", "--history")
    shown = [line.split() for line in done.out.splitlines() if rule.rule_id[-4:] in line]
    assert len(shown) == 2 and sum("rule" in " ".join(line) for line in shown) >= 1


@pytest.mark.proves("A10")
async def test_a_rule_reaches_an_agent_that_was_left_to_itself(served: Served) -> None:
    """Each in the freest way that it has; the same conversation goes on."""
    session = await served.session(**FREE[served.entry])
    free = await told(served, session, "WRITE free x", "write free x", decision="deny")
    assert (served.home.workspace / "free").exists()
    assert {each[1] for each in decisions(free)} <= {"policy"}
    rule = await put(served, path_pattern="/**/secrets/**", decision=DENY)
    if served.entry == "gemini":
        # It cannot load a conversation within the minute of its beginning.
        await anyio.to_thread.run_sync(age_gemini_sessions, served.home)
    held = await told(served, session, "WRITE secrets/key x", "write secrets/key x")
    assert decisions(held) == [("denied", "rule", rule)]
    assert not (served.home.workspace / "secrets/key").exists()
    now = await served.client.sessions.get(session.session_id)
    assert now.native_session_id == session.native_session_id


@pytest.mark.proves("A9")
async def test_leave_that_the_user_gave_claude_passes_no_rule_by(tmp_path: Path) -> None:
    """The agent's own settings let it do all of this without asking."""
    async with house("claude", tmp_path) as served:
        await anyio.to_thread.run_sync(make_repository, served.home.workspace)
        own = served.home.home / ".claude"
        own.mkdir(exist_ok=True)
        allow = {"permissions": {"allow": ["Bash(touch:*)", "Edit", "Write"]}}
        await anyio.Path(own / "settings.json").write_text(json.dumps(allow))
        before = await served.session()
        assert decisions(await told(served, before, "TOOL touch free", "")) == []
        rule = await put(served, command_pattern="touch secret*", decision=DENY)
        also = await put(served, path_pattern="/**/secrets/**", decision=DENY)
        for session in (before, await served.session(mode="acceptEdits")):
            command = await told(served, session, "TOOL touch secret", "")
            assert decisions(command) == [("denied", "rule", rule)]
            file = await told(served, session, "WRITE secrets/key x", "")
            assert decisions(file) == [("denied", "rule", also)]
        names = {each.name for each in served.home.workspace.iterdir()}
        assert "free" in names and not {"secret", "secrets"} & names


@pytest.mark.proves("A9")
async def test_a_rule_on_reading_has_claude_ask_before_it_reads(tmp_path: Path) -> None:
    async with house("claude", tmp_path) as served:
        await anyio.to_thread.run_sync(make_repository, served.home.workspace)
        (served.home.workspace / "secret").write_text("x")
        kind = v1.ToolKind.TOOL_KIND_READ
        rule = await put(served, kind=kind, path_pattern="/**/secret", decision=DENY)
        session = await served.session()
        turn = await told(served, session, "READ secret", "")
        assert decisions(turn) == [("denied", "rule", rule)]
        assert decisions(await told(served, session, "READ readme.md", "")) == [
            ("approved", "client", None)
        ]
