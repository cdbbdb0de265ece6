"""Sessions in worktrees on a real daemon with the demo agent, and what is told of repositories."""

from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import Invalid, Unsupported
from tests.daemon.harness import Daemon, daemon
from tests.workspace.repos import Repo, make

pytestmark = pytest.mark.anyio

# Starts of daemons and agents on a loaded machine.
TEST_S = 120
ALLOW = "allow"
DENY = v1.Policy.POLICY_DENY


def with_a_file(root: Path) -> Repo:
    repo = make(root)
    repo.write("a.txt", "one\n")
    repo.write("below/b.txt", "two\n")
    repo.commit()
    return repo


async def in_worktree(client: AgentCtl, workspace: Path, **options: str) -> v1.Session:
    made = await client.sessions.create(
        "demo",
        str(workspace),
        environment="worktree",
        environment_options=options,
        policy=ALLOW,
        wait_ready=True,
    )
    return await client.sessions.get(made.session_id)


async def prompted(client: AgentCtl, session: str, prompt: str) -> str:
    run = (await client.runs.create(session, prompt)).run.run_id
    async for event in client.events(runs=[run]):
        if event.HasField("complete"):
            assert event.complete.outcome == v1.Outcome.OUTCOME_COMPLETED, prompt
    return run


async def said(client: AgentCtl, run: str) -> str:
    events = client.events(runs=[run], types=["message_chunk"])
    return "".join([event.message_chunk.text async for event in events])


def there(path: str) -> bool:
    return Path(path).exists()


def text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


@pytest.mark.proves("W6", "W7")
async def test_a_session_in_a_worktree_from_its_start_to_its_end(tmp_path: Path) -> None:
    repo = with_a_file(tmp_path)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            shown = await in_worktree(client, repo.path)
            assert shown.source_workspace == str(repo.path)
            assert shown.workspace == f"{served.data_dir}/worktrees/{shown.session_id}"
            assert shown.branch == f"agentctl/{shown.session_id[-10:]}"
            listed = await client.environments.status("worktree")
            assert listed.sessions == 1 and listed.available
            run = await prompted(client, shown.session_id, "cwd")
            assert await said(client, run) == (
                f"session: {shown.workspace}\nprocess: {shown.workspace}"
            )
            await prompted(client, shown.session_id, "write a.txt changed")
            assert text(f"{shown.workspace}/a.txt").strip() == "changed"
            assert (repo.path / "a.txt").read_text() == "one\n"
            found = (await client.sessions.list(workspace=str(repo.path))).sessions
            assert [each.session_id for each in found] == [shown.session_id]
            await client.sessions.close(shown.session_id)
            assert there(shown.workspace)
            await kept_artifact(client, shown)
            resumed = await client.sessions.resume(shown.session_id, wait_ready=True)
            assert resumed.workspace == shown.workspace
            await client.sessions.delete(shown.session_id)
            assert not there(shown.workspace)
            other = await in_worktree(client, repo.path / "below")
            assert other.workspace.endswith("/below")
            await client.sessions.close(other.session_id)
            assert not there(other.workspace)
            assert repo.git("branch", "--format=%(refname:short)") == "main"
            assert (await client.environments.status("worktree")).sessions == 0


async def kept_artifact(client: AgentCtl, session: v1.Session) -> None:
    """The worktree that stays is told as an artifact of the last run."""
    listed = (await client.artifacts.list(session_id=session.session_id)).artifacts
    (kept,) = [each for each in listed if each.kind == v1.ArtifactKind.ARTIFACT_KIND_WORKSPACE]
    assert kept.path == session.workspace and kept.title == session.branch


async def test_what_is_no_environment_or_not_for_this_directory_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "plain").mkdir()
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            with pytest.raises(Invalid, match="in no git repository"):
                await in_worktree(client, tmp_path / "plain")
            with pytest.raises(Unsupported, match="not available"):
                await client.sessions.create("demo", str(tmp_path), environment="container")
            with pytest.raises(Invalid, match='no environment "moon"'):
                await client.environments.status("moon")
            listed = (await client.environments.list()).environments
            assert [(each.name, each.available) for each in listed] == [
                ("local", True), ("worktree", True), ("sandbox", False), ("container", False),
            ]  # fmt: skip
            assert set(listed[1].options) == {"branch", "base", "keep"}
            first = await client.environments.list(page_size=3)
            rest = await client.environments.list(page_token=first.next_page_token)
            assert [each.name for each in rest.environments] == ["container"]
            assert not (await client.sessions.list()).sessions


@pytest.mark.proves("W7")
async def test_after_a_kill_a_session_finds_its_worktree_or_says_that_it_is_gone(
    tmp_path: Path,
) -> None:
    repo = with_a_file(tmp_path)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served:
            async with served.client() as client:
                kept = await in_worktree(client, repo.path)
                lost = await in_worktree(client, repo.path)
                await prompted(client, kept.session_id, "write new.txt hello")
                await prompted(client, lost.session_id, "say hello")
            served.kill()
            repo.git("worktree", "remove", "--force", lost.workspace)
            await served.start()
            async with served.client() as client:
                run = await prompted(client, kept.session_id, "read new.txt")
                assert there(f"{kept.workspace}/new.txt")
                shown = (await client.runs.create(lost.session_id, "say hello")).run.run_id
                ended = (await client.runs.wait(shown)).run
                assert ended.error.code == "PROJECT_NOT_FOUND"
                assert "is gone" in ended.error.message
                assert run
            await unknown_worktrees(served, repo)


@pytest.mark.proves("W7")
async def test_a_prompt_to_a_live_agent_whose_worktree_was_removed_says_that_it_is_gone(
    tmp_path: Path,
) -> None:
    repo = with_a_file(tmp_path)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            shown = await in_worktree(client, repo.path)
            await prompted(client, shown.session_id, "say hello")
            repo.git("worktree", "remove", "--force", shown.workspace)
            for _again in range(2):
                run = (await client.runs.create(shown.session_id, "say on")).run.run_id
                ended = (await client.runs.wait(run)).run
                assert ended.error.code == "PROJECT_NOT_FOUND"
                assert shown.branch in ended.error.message
            repo.git("worktree", "add", "-q", shown.workspace, shown.branch)
            await prompted(client, shown.session_id, "say here")


async def unknown_worktrees(served: Daemon, repo: Repo) -> None:
    """A daemon that lost its journal clears away worktrees that nobody works in."""
    home = served.data_dir / "worktrees"
    await served.stop()
    for file in served.data_dir.glob("journal.db*"):
        file.unlink()
    before = {path.name for path in home.iterdir() if path.is_dir()}
    assert len(before) == 1
    extra = home / "ses_unknown"
    repo.git("worktree", "add", "-q", "-b", "agentctl/unknown", str(extra))
    base = repo.git("rev-parse", "HEAD")
    note = f'{{"top":"{extra}","base":"{base}","repository":"{repo.path}/.git","branch":"x"}}'
    (home / "ses_unknown.json").write_text(note)
    await served.start()
    async with served.client() as client:
        await in_worktree(client, repo.path)
        while extra.exists():  # noqa: ASYNC110  # no event tells
            await anyio.sleep(0.02)
    assert {path.name for path in home.iterdir() if path.is_dir()} > before


@pytest.mark.proves("W6")
async def test_rules_of_the_source_hold_in_its_worktrees_and_a_fork_has_its_own(
    tmp_path: Path,
) -> None:
    repo = with_a_file(tmp_path)
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            shown = await in_worktree(client, repo.path)
            rule = v1.Rule(workspace=str(repo.path), command="rm x", decision=DENY)
            await client.approvals.put_rule("", rule)
            await prompted(client, shown.session_id, "run rm x")
            (denied,) = (await client.approvals.list(include_resolved=True)).approvals
            assert denied.by == v1.DecidedBy.DECIDED_BY_RULE
            await prompted(client, shown.session_id, "write new.txt hello")
            fork = await client.sessions.fork(shown.session_id, wait_ready=True)
            assert fork.workspace != shown.workspace and fork.branch != shown.branch
            assert fork.source_workspace == str(repo.path)
            assert text(f"{fork.workspace}/new.txt") == text(f"{shown.workspace}/new.txt")
            run = await prompted(client, fork.session_id, "cwd")
            assert f"session: {fork.workspace}\n" in await said(client, run)


@pytest.mark.proves("W4")
async def test_the_state_of_the_repository_is_told_as_it_changes(tmp_path: Path) -> None:
    repo = with_a_file(tmp_path)
    head = repo.git("rev-parse", "HEAD")
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            made = await client.sessions.create(
                "demo", str(repo.path), policy=ALLOW, wait_ready=True
            )
            session = made.session_id
            events = client.events(sessions=[session], types=["git"], follow=True)
            first = await anext(events)
            assert (first.git.branch, first.git.head, first.git.dirty) == ("main", head, False)
            assert not first.HasField("run_id")
            run = await prompted(client, session, "write a.txt changed")
            second = await anext(events)
            assert (second.git.dirty, second.git.files) == (True, 1)
            assert run in (second.run_id, second.after_run_id)
            repo.commit()
            third = await anext(events)
            assert third.git.head == repo.git("rev-parse", "HEAD") and not third.git.dirty


@pytest.mark.proves("W5")
async def test_a_pull_request_is_told_once_and_belongs_to_its_run(tmp_path: Path) -> None:
    url = "https://github.com/o/r/pull/12"
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            made = await client.sessions.create(
                "demo", str(tmp_path), policy=ALLOW, wait_ready=True
            )
            session = made.session_id
            first = await prompted(client, session, f"run echo {url}/files || say See {url}")
            second = await prompted(client, session, f"say {url} again")
            found = [
                (event.run_id, event.git.pull_request_url)
                async for event in client.events(runs=[first, second], types=["git"])
            ]
            assert found == [(first, url)]
            listed = (await client.artifacts.list(run_id=first)).artifacts
            assert [each.url for each in listed if each.url] == [url]


@pytest.mark.proves("W4")
async def test_a_repository_that_the_agent_makes_is_followed_from_then_on(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with anyio.fail_after(TEST_S):
        async with daemon(tmp_path) as served, served.client() as client:
            made = await client.sessions.create("demo", str(work), policy=ALLOW, wait_ready=True)
            session = made.session_id
            events = client.events(sessions=[session], types=["git"], follow=True)
            run = await prompted(client, session, "run git init -q -b trunk .")
            first = await anext(events)
            assert (first.git.branch, first.git.HasField("head")) == ("trunk", False)
            assert run in (first.run_id, first.after_run_id)
            await prompted(client, session, "write a.txt hello")
            second = await anext(events)
            assert second.git.dirty and second.git.files == 1
