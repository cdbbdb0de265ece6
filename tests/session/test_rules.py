"""Rules: what they fit, in which order, how they are kept, and which can never fit."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import AgentctlError, Exhausted, Invalid, NotFound
from agentctl.core.events import PermissionRequest, PermissionResolved, ToolCall, ToolUpdate
from agentctl.core.parts import PermissionDetails
from agentctl.core.spec import Rule
from agentctl.core.words import DecidedBy, Decision, Policy, ToolKind, ToolStatus
from agentctl.session.ids import now_ms
from agentctl.session.permissions import Place, check_rule, decide, matches
from agentctl.session.records import Respond
from tests.session.fakes import ALLOW, REJECT
from tests.session.house import house

HOUR_MS = 3_600_000
PLACE = Place("demo", "/w", 1000)


def asked(command: str = "", file: str = "", **more: Any) -> PermissionRequest:
    diff = more.pop("diff", None)
    details = PermissionDetails(command or None, file or None, None, diff)
    kind = more.pop("kind", ToolKind.EXECUTE if command else ToolKind.EDIT)
    return PermissionRequest("apr_1", tool_kind=kind, details=details, options=[ALLOW, REJECT])


def rule(decision: Policy = Policy.ALLOW, rule_id: str = "", **fields: Any) -> Rule:
    return Rule(rule_id, decision=decision, **fields)


ALLOW_RULE, DENY_RULE = Policy.ALLOW, Policy.DENY
EDITED = "--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n-a\n+b\n"
GIT = "--- /dev/null\n+++ /w/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    ("made", "request_", "fits"),
    [
        (rule(command="npm test"), asked("npm test"), True),
        (rule(command="npm test"), asked("npm test; id"), False),
        (rule(command_pattern="npm *"), asked("npm test"), True),
        (rule(command_pattern="npm *"), asked("npm test; id"), False),
        (rule(DENY_RULE, command_pattern="npm *"), asked("npm test; id"), True),
        (rule(command_pattern="*"), asked(file="/w/a"), False),
        (rule(command="npm test"), asked(" npm test\n"), True),
        (rule(path="/w/a"), asked(file="a"), True),
        (rule(path="a"), asked(file="a"), True),
        (rule(path="/w/a"), asked(file="/w/b/../a"), True),
        (rule(path_pattern="/w/src/**"), asked(file="/w/src/../../etc/passwd"), False),
        (rule(path_pattern="/**/.git/**"), asked(file=".git/config"), True),
        (rule(path_pattern="/**"), asked("ls"), False),
        (rule(kind=ToolKind.EDIT), asked(file="/w/a"), True),
        (rule(kind=ToolKind.EDIT), asked("ls"), False),
        (rule(entry_id="demo"), asked("ls"), True),
        (rule(entry_id="other"), asked("ls"), False),
        (rule(workspace="/w"), asked("ls"), True),
        (rule(workspace="/"), asked("ls"), True),
        (rule(workspace="/w/sub"), asked("ls"), False),
        (rule(command="ls", expires_at=1001), asked("ls"), True),
        (rule(command="ls", expires_at=1000), asked("ls"), False),
        (rule(command_pattern="[broken"), asked("ls"), False),
        (rule(command="ls", kind=ToolKind.EDIT), asked("ls"), False),
    ],
)
def test_a_rule_fits_when_all_that_it_names_does(
    made: Rule, request_: PermissionRequest, fits: bool
) -> None:
    assert matches(made, request_, PLACE) is fits


def test_leave_for_one_file_of_a_patch_is_none_for_the_rest() -> None:
    patch = asked(file="/w/src/x.py", diff=EDITED + GIT)
    assert not matches(rule(path_pattern="/w/src/**"), patch, PLACE)
    assert matches(rule(DENY_RULE, path_pattern="/**/.git/**"), patch, PLACE)
    assert matches(rule(path_pattern="/w/**"), patch, PLACE)
    only = asked(file="src/x.py", diff=EDITED)
    assert matches(rule(path_pattern="/w/src/**"), only, PLACE)


def test_what_the_tool_has_told_counts_where_the_request_names_one_file() -> None:
    place = dataclasses.replace(PLACE, paths=frozenset({"/w/src/x.py", ".git/config"}))
    one = asked(file="/w/src/x.py")
    assert matches(rule(path_pattern="/w/src/**"), one, PLACE)
    assert not matches(rule(path_pattern="/w/src/**"), one, place)
    assert matches(rule(DENY_RULE, path_pattern="/**/.git/**"), one, place)


def test_the_first_rule_that_fits_decides_and_a_denial_beats_nothing() -> None:
    allow, deny = rule(rule_id="a", command="ls"), rule(DENY_RULE, "d", kind=ToolKind.EXECUTE)
    first = decide(asked("ls"), Policy.ASK, [allow, deny], PLACE, in_run=True)
    second = decide(asked("ls"), Policy.ASK, [deny, allow], PLACE, in_run=True)
    assert first is not None and (first.decision, first.rule_id) == (Decision.APPROVED, "a")
    assert second is not None and (second.decision, second.rule_id) == (Decision.DENIED, "d")


def test_a_rule_that_asks_stops_an_allowing_policy() -> None:
    rules = [rule(Policy.ASK, command_pattern="git push*"), rule(command_pattern="git *")]
    assert decide(asked("git push -f"), Policy.ALLOW, rules, PLACE, in_run=True) is None
    assert decide(asked("git status"), Policy.ALLOW, rules, PLACE, in_run=True) is not None


@pytest.mark.proves("A4")
def test_no_rule_allows_what_is_asked_outside_a_run() -> None:
    rules = [rule(command_pattern="*")]
    assert decide(asked("ls"), Policy.ALLOW, rules, PLACE, in_run=False) is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (rule(), "rule"),
        (rule(command=" "), "rule.command"),
        (rule(command_pattern="\t"), "rule.command_pattern"),
        (rule(command="ls", command_pattern="l*"), "rule.command_pattern"),
        (rule(path="/a", path_pattern="/*"), "rule.path_pattern"),
        (rule(path="a"), "rule.path"),
        (rule(path_pattern=".git/**"), "rule.path_pattern"),
        (rule(workspace="w"), "rule.workspace"),
        (rule(command="ls", expires_at=1000), "rule.expires_at"),
        (rule(command_pattern="[a"), "rule.command_pattern"),
        (rule(path_pattern="/a**"), "rule.path_pattern"),
        (rule(path_pattern="/a/../b"), "rule.path_pattern"),
    ],
)
def test_a_rule_that_can_never_fit_is_refused_with_its_field(wrong: Rule, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_rule(wrong, 1000)
    assert (refused.value.reason, refused.value.metadata) == (
        "INVALID_PARAMETERS",
        {"field": field},
    )


@pytest.mark.anyio
async def test_a_standing_rule_decides_in_every_session_behind_its_own(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        made = await home.manager.put_rule("", rule(DENY_RULE, command_pattern="npm *"))
        assert made.rule_id.startswith("rul_") and made.created_at > 0 and made.revision == 1
        session, run, agent = await home.running()
        await agent.ask("r1", command="npm test")
        (first,) = home.of(PermissionResolved, run.id)
        assert (first.decision, first.by, first.rule_id) == (
            Decision.DENIED,
            DecidedBy.RULE,
            made.rule_id,
        )
        own = await home.manager.put_rule(session, rule(command="npm test"))
        await agent.ask("r2", command="npm test")
        second = home.of(PermissionResolved, run.id)[-1]
        assert (second.decision, second.rule_id) == (Decision.APPROVED, own.rule_id)
        past, _ = await home.manager.list_approvals(open_only=False)
        assert {record.rule_id for record in past} == {made.rule_id, own.rule_id}
        assert {record.by for record in past} == {DecidedBy.RULE}
        await home.manager.delete_rule(session, own.rule_id)
        await home.manager.delete_rule("", made.rule_id)
        await agent.ask("r3", command="npm test")
        assert (await home.approval()).decision is None


@pytest.mark.anyio
async def test_a_request_for_one_file_of_a_tool_is_held_against_all_of_them(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        await home.manager.put_rule("", rule(DENY_RULE, path_pattern="/**/.git/**"))
        _, run, agent = await home.running(policy=Policy.ALLOW)
        await agent.say(ToolCall("tool-r1", kind=ToolKind.EDIT, paths=["a.py"]))
        await agent.say(ToolUpdate("tool-r1", paths=["a.py", ".git/config"]))
        await agent.ask("r1", command="", file="a.py")
        await agent.say(ToolUpdate("tool-r1", ToolStatus.FAILED))
        await agent.ask("r2", command="", file="b.py")
        await home.until(lambda: len(home.of(PermissionResolved, run.id)) == 2)
        first, second = home.of(PermissionResolved, run.id)
        assert (first.decision, first.by) == (Decision.DENIED, DecidedBy.RULE)
        assert (second.decision, second.by) == (Decision.APPROVED, DecidedBy.POLICY)
        await agent.end()


@pytest.mark.anyio
async def test_standing_rules_outlive_the_daemon_in_their_order(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        made = [await home.manager.put_rule("", rule(command=f"c{n}")) for n in range(5)]
        gone = made.pop(2)
        await home.manager.delete_rule("", gone.rule_id)
        later = now_ms() + HOUR_MS
        change = dataclasses.replace(made[0], command="c9", created_at=0, expires_at=later)
        made[0] = await home.manager.put_rule("", change)
        assert made[0].revision == 2 and made[0].created_at > 0
        assert home.manager.standing_rules() == made
    async with house(tmp_path) as home:
        assert home.manager.standing_rules() == made


@pytest.mark.anyio
async def test_a_rule_of_a_session_is_replaced_in_its_place(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session = await home.start(rules=(rule(command="a"), rule(command="b")))
        rules = home.session(session).record.rules
        assert all(each.rule_id and each.created_at and each.revision == 1 for each in rules)
        await home.manager.put_rule(session, dataclasses.replace(rules[0], command="c"))
        kept = (await home.manager.get_session(session)).rules
        assert [each.command for each in kept] == ["c", "b"]


@pytest.mark.anyio
async def test_what_names_nothing_that_is_there_is_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        for where in ("", session):
            with pytest.raises(Invalid, match="there is no rule"):
                await home.manager.delete_rule(where, "rul_no")
            with pytest.raises(Invalid, match="there is no rule"):
                await home.manager.put_rule(where, rule(rule_id="rul_no", command="ls"))
        with pytest.raises(NotFound) as refused:
            await home.manager.put_rule("", rule(entry_id="nobody"))
        assert refused.value.reason == "AGENT_NOT_FOUND"
        assert (await home.manager.put_rule("", rule(entry_id="off"))).entry_id == "off"
        with pytest.raises(NotFound):
            await home.manager.put_rule("ses_no", rule(command="ls"))
        with pytest.raises(Invalid):
            await home.start(rules=(rule(),))


@pytest.mark.anyio
async def test_a_rule_that_could_not_be_kept_is_not_in_force(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        home.spy.full = True
        failed: list[AgentctlError] = []
        for where in ("", session):
            with pytest.raises(Exhausted) as full:
                await home.manager.put_rule(where, rule(command="ls"))
            failed.append(full.value)
        home.spy.full = False
        assert len(failed) == 2
        assert list(home.manager.standing_rules()) == []
        assert (await home.manager.get_session(session)).rules == []


@pytest.mark.anyio
async def test_an_agent_approves_nothing_by_itself_while_a_rule_is_in_force(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        told: list[bool] = []
        prepare = home.entries.prepare

        def noting(*arguments: Any, rules: bool, **named: Any) -> Any:
            told.append(rules)
            return prepare(*arguments, rules=rules, **named)

        home.entries.prepare = noting
        await home.start(policy=Policy.ALLOW)
        made = await home.manager.put_rule("", rule(DENY_RULE, command="x", entry_id="frail"))
        await home.start(policy=Policy.ALLOW)
        await home.start("frail", policy=Policy.ALLOW)
        await home.manager.delete_rule("", made.rule_id)
        await home.start("frail", policy=Policy.ALLOW)
        await home.start(policy=Policy.ALLOW, rules=(rule(command="ls"),))
        # Each is prepared twice: to refuse what cannot start, and to start it.
        assert told[1::2] == [False, False, True, False, True]


@pytest.mark.anyio
async def test_the_answer_that_makes_a_rule_names_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.ask(command="make test")
        id_ = (await home.approval()).request.approval_id
        await home.manager.respond(Respond(id_, "approve", always=True))
        (made,) = home.session(session).record.rules
        (resolved,) = home.of(PermissionResolved, run.id)
        assert (resolved.by, resolved.rule_id) == (DecidedBy.CLIENT, made.rule_id)
        await agent.end()
