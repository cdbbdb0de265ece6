"""Standing rules on a real daemon and the demo agent: `npm test` yes, `.git` no, the rest is asked."""

from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import Invalid
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio

ALLOW, DENY = v1.Policy.POLICY_ALLOW, v1.Policy.POLICY_DENY
# The demo agent's path for a new file and its command; npm itself is not needed: a refusal by the
# shell comes after the leave.
TEST = "run npm test"
GIT = "write .git/hooks/pre-commit exit 1"
GIT_COMMAND = "run rm -rf .git"
SMUGGLED = "run npm test; touch smuggled"
OTHER = "write src/x.py pass"


async def decided(client: AgentCtl, session: str, prompt: str) -> v1.PermissionResolved | None:
    """What became of the one request of a prompt; None when a person is asked."""
    run = (await client.runs.create(session, prompt)).run.run_id
    found: v1.PermissionResolved | None = None
    asked = False
    async for event in client.events(runs=[run]):
        if event.HasField("permission_request"):
            open_ones = (await client.approvals.list(session_id=session)).approvals
            if open_ones:
                asked = True
                await client.approvals.respond(open_ones[0].approval_id, "deny")
        if event.HasField("permission_resolved"):
            found = event.permission_resolved
    assert found is not None, prompt
    return None if asked else found


async def test_rules_decide_the_same_in_every_session_and_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with anyio.fail_after(120):
        async with daemon(tmp_path) as served:
            async with served.client() as client:
                put = client.approvals.put_rule
                test = await put("", v1.Rule(command_pattern="npm test*", decision=ALLOW))
                git = await put("", v1.Rule(path_pattern="/**/.git/**", decision=DENY))
                also = await put("", v1.Rule(command_pattern="*.git*", decision=DENY))
                with pytest.raises(Invalid) as refused:
                    await put("", v1.Rule(path_pattern=".git/**", decision=DENY))
                assert refused.value.metadata["field"] == "rule.path_pattern"
                await check(client, tmp_path, test.rule_id, git.rule_id, also.rule_id)
            served.kill()
            await served.start()
            async with served.client() as client:
                assert list((await client.approvals.list_rules()).rules) == [test, git, also]
                await check(client, tmp_path, test.rule_id, git.rule_id, also.rule_id)
                history = await client.approvals.list(include_resolved=True)
                by_rule = [a.rule_id for a in history.approvals if a.HasField("rule_id")]
                assert sorted(by_rule) == sorted([test.rule_id, git.rule_id, also.rule_id] * 2)
                await client.approvals.delete_rule("", test.rule_id)
                assert list((await client.approvals.list_rules()).rules) == [git, also]


async def check(client: AgentCtl, workspace: Path, test: str, git: str, also: str) -> None:
    made = await client.sessions.create("demo", str(workspace), wait_ready=True)
    session = made.session_id
    by_rule = v1.DecidedBy.DECIDED_BY_RULE
    approved, denied = v1.Decision.DECISION_APPROVED, v1.Decision.DECISION_DENIED
    for prompt, decision, rule in (
        (TEST, approved, test),
        (GIT, denied, git),
        (GIT_COMMAND, denied, also),
    ):
        found = await decided(client, session, prompt)
        assert found is not None, prompt
        assert (found.decision, found.by, found.rule_id) == (decision, by_rule, rule), prompt
    assert await decided(client, session, OTHER) is None
    assert await decided(client, session, SMUGGLED) is None
    assert (workspace / ".git").is_dir() and not (workspace / ".git/hooks").exists()
    assert not (workspace / "smuggled").exists()
    await client.sessions.close(session)
