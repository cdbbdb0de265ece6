"""The real agents work in worktrees: each session in its own, also where they share a process."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl import v1
from agentctl.core.errors import Unsupported
from tests.real.agents import AGENTS
from tests.real.opencode import make_repository
from tests.real.served import Served

pytestmark = [pytest.mark.anyio, pytest.mark.real]

COMMIT = "git add -A && git -c user.name=a -c user.email=a@example.com commit -qm made"


@pytest.fixture(params=list(AGENTS))
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with AGENTS[request.param].serving(tmp_path) as it:
        await anyio.to_thread.run_sync(make_repository, it.home.workspace)
        yield it


async def in_worktree(served: Served, **more: Any) -> v1.Session:
    made = await served.session(environment="worktree", policy="allow", **more)
    assert made.source_workspace == str(served.home.workspace)
    return made


def there(session: v1.Session, name: str) -> bool:
    return Path(session.workspace, name).exists()


async def test_each_session_works_in_its_own_and_its_commit_is_told(served: Served) -> None:
    first, second = await in_worktree(served), await in_worktree(served)
    # The git directory of a worktree lies outside of it, where the sandbox of Codex ends.
    commits = served.entry != "codex"
    made = f"touch first && {COMMIT}" if commits else "touch first"
    one = await served.ask(first, f"TOOL {made} || SAYTEXT done")
    two = await served.ask(second, "TOOL pwd > second || SAYTEXT done")
    assert (one.outcome, two.outcome) == ("completed", "completed")
    assert there(first, "first") and not there(first, "second")
    assert there(second, "second") and not there(second, "first")
    where = await anyio.Path(second.workspace, "second").read_text()
    assert where.strip() == second.workspace
    assert not (served.home.workspace / "first").exists()
    told = [
        row["data"]
        for row in served.rows
        if row["type"] == "git" and one.run_id in (row.get("run_id"), row.get("after_run_id"))
    ]
    assert told and told[-1]["branch"] == first.branch and told[-1]["dirty"] is not commits
    patches = await served.client.artifacts.list(run_id=two.run_id)
    assert v1.ArtifactKind.ARTIFACT_KIND_PATCH in [each.kind for each in patches.artifacts]
    await served.client.sessions.close(first.session_id)
    assert there(first, "first")
    three = await served.ask(second, "TOOL touch third || SAYTEXT done")
    assert three.outcome == "completed" and there(second, "third")


async def test_a_fork_works_in_its_own_where_the_agent_can_fork(served: Served) -> None:
    session = await in_worktree(served)
    await served.ask(session, "TOOL touch first || SAYTEXT done")
    forking = served.client.sessions.fork(session.session_id, wait_ready=True)
    if served.entry == "gemini":
        with pytest.raises(Unsupported):
            await forking
        return
    fork = await forking
    assert fork.workspace != session.workspace and there(fork, "first")
    turn = await served.ask(fork, "TOOL pwd > where || SAYTEXT done")
    assert turn.outcome == "completed"
    where = await anyio.Path(fork.workspace, "where").read_text()
    assert where.strip() == fork.workspace
