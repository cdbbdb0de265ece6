"""Standing rules at the command line, and who decided what was asked."""

import json
import time
from pathlib import Path

import pytest

from agentctl import v1
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import SESSION, FakeDaemon

DAY_MS = 86_400_000
OWN = v1.Rule(
    rule_id="rul_01m8pk21d0aaaaaaaaaaaa55cc",
    kind=v1.ToolKind.TOOL_KIND_EXECUTE,
    command="pytest -q",
    decision=v1.Policy.POLICY_ALLOW,
)
GIT = v1.Rule(
    rule_id="rul_01m8pk21d0aaaaaaaaaaaa66cc",
    path_pattern="/**/.git/**",
    decision=v1.Policy.POLICY_DENY,
    expires_at=4_000_000_000_000,
    note="history is ours",
)


@pytest.fixture
def ruled(daemon: FakeDaemon) -> FakeDaemon:
    session = v1.Session(session_id=SESSION, entry_id="demo", rules=[OWN])
    daemon.answers |= {
        "Sessions/List": lambda request: v1.ListSessionsResponse(sessions=[session]),
        "Approvals/ListRules": lambda request: v1.ListRulesResponse(
            rules=[OWN] if request.session_id else [GIT]
        ),
        "Approvals/PutRule": lambda request: v1.Rule(
            rule_id="rul_new", command=request.rule.command or None
        ),
        "Approvals/DeleteRule": lambda request: v1.DeleteRuleResponse(),
    }
    return daemon


@pytest.mark.parametrize("words", [("rules",), ("rules", "ls"), ("rules", SESSION)])
def test_rules_of_sessions_come_before_those_of_all(
    with_daemon: Cli, ruled: FakeDaemon, words: tuple[str, ...]
) -> None:
    head, own, git = with_daemon(*words).out.splitlines()
    assert head.split() == ["RULE", "DECISION", "KIND", "WHERE", "LEFT", "WHAT"]
    assert own.split()[:5] == [OWN.rule_id, "allow", "execute", SESSION, "-"]
    assert git.split()[:4] == [GIT.rule_id, "deny", "any", "all"]
    assert git.endswith("/**/.git/** (history is ours)")
    rows = [json.loads(line) for line in with_daemon(*words, "--json").out.splitlines()]
    assert [row.get("session_id") for row in rows] == [SESSION, None]


def test_a_rule_is_added_with_all_that_it_names(
    with_daemon: Cli, ruled: FakeDaemon, tmp_path: Path
) -> None:
    begun = time.time() * 1000
    words = "rules add --deny --command npm* --path .git/ --kind edit --agent demo --expires 7d"
    done = with_daemon(*words.split(), "--workspace", str(tmp_path), "--note", "no")
    assert (done.code, done.err) == (0, "")
    (put,) = ruled.called("Approvals/PutRule")
    rule = put.rule
    assert put.session_id == ""
    assert (rule.decision, rule.kind) == (v1.Policy.POLICY_DENY, v1.ToolKind.TOOL_KIND_EDIT)
    assert (rule.command_pattern, rule.command) == ("npm*", "")
    assert (rule.path_pattern, rule.path) == (f"{tmp_path}/.git/**", "")
    assert (rule.entry_id, rule.workspace, rule.note) == ("demo", str(tmp_path), "no")
    assert begun + 7 * DAY_MS <= rule.expires_at <= begun + 8 * DAY_MS


def test_what_has_no_wildcard_is_meant_exactly(with_daemon: Cli, ruled: FakeDaemon) -> None:
    done = with_daemon("rules", "add", "--allow", "--command", "npm test", "--session", SESSION)
    assert done.out == "allow npm test: rul_new\n"
    assert with_daemon("rules", "add", "--ask", "--path", "~/.netrc").code == 0
    one, other = ruled.called("Approvals/PutRule")
    assert (one.session_id, one.rule.command, one.rule.HasField("kind")) == (
        SESSION,
        "npm test",
        False,
    )
    assert other.rule.path == str(Path("~/.netrc").expanduser())


@pytest.mark.parametrize(
    "words",
    [
        ("--command", "ls"),
        ("--allow", "--deny", "--command", "ls"),
        ("--allow", "--command", "ls", "--expires", "soon"),
        ("--allow", "--command", "ls", "--expires", "0d"),
    ],
)
def test_a_rule_that_says_two_things_or_none_is_a_slip(
    with_daemon: Cli, ruled: FakeDaemon, words: tuple[str, ...]
) -> None:
    assert with_daemon("rules", "add", *words).code == 2
    assert ruled.called("Approvals/PutRule") == []


def test_a_rule_is_removed_by_the_end_of_its_id_wherever_it_is(
    with_daemon: Cli, ruled: FakeDaemon
) -> None:
    assert with_daemon("rules", "rm", "55cc").out == f"removed {OWN.rule_id}\n"
    assert json.loads(with_daemon("rules", "rm", "rul_01m…66cc", "--json").out) == {
        "rule_id": GIT.rule_id
    }
    assert with_daemon("rules", "rm", "cc").code != 0
    own, git = ruled.called("Approvals/DeleteRule")
    assert (own.session_id, own.rule_id) == (SESSION, OWN.rule_id)
    assert (git.session_id, git.rule_id) == ("", GIT.rule_id)


def test_the_history_tells_who_decided_and_by_which_rule(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    request = v1.PermissionRequest(details=v1.PermissionDetails(command="npm test"))
    by = v1.DecidedBy
    found = [
        v1.Approval(
            approval_id=f"apr_{number}",
            session_id="ses_1",
            request=request,
            decision=v1.Decision.DECISION_DENIED,
            by=who,
            rule_id=rule,
        )
        for number, (who, rule) in enumerate(
            [(by.DECIDED_BY_RULE, "rul_7"), (by.DECIDED_BY_POLICY, None)]
        )
    ]
    daemon.answers["Approvals/List"] = lambda request: v1.ListApprovalsResponse(approvals=found)
    head, one, two = with_daemon("approvals", "--history").out.splitlines()
    assert head.split() == ["APPROVAL", "SESSION", "AGE", "STATE", "BY", "KIND", "WHAT"]
    assert " denied  rule rul_7  " in one and " denied  policy " in two
    assert daemon.called("Approvals/List")[0].include_resolved
