"""Whoever follows a work tree is told its state, and each one that differs from the last."""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.workspace import watch as module
from agentctl.workspace.git import Git
from agentctl.workspace.status import GitState
from agentctl.workspace.watch import Follower, Watchers
from tests.workspace.repos import Repo, environment, git_state, make

pytestmark = pytest.mark.anyio

# Git on a loaded machine may take its time; a test that waits longer has found a hang.
TEST_S = 60.0


@dataclass
class Seen:
    """The states that one follower was told."""

    states: list[GitState] = field(default_factory=list[GitState])
    news: anyio.Event = field(default_factory=anyio.Event)

    async def __call__(self, state: GitState) -> None:
        self.states.append(state)
        self.news.set()
        self.news = anyio.Event()

    async def until(self, holds: Callable[[GitState], object]) -> GitState:
        with anyio.fail_after(TEST_S):
            while not self.states or not holds(self.states[-1]):
                await self.news.wait()
        return self.states[-1]


@asynccontextmanager
async def watchers(root: Path) -> AsyncGenerator[Watchers]:
    async with anyio.create_task_group() as group:

        def background(what: Callable[[], Coroutine[Any, Any, None]]) -> None:
            group.start_soon(what)

        made = Watchers(Git(environment(root / "home")), background)
        yield made
        made.close()


async def followed(made: Watchers, repo: Repo) -> tuple[Seen, Follower]:
    seen = Seen()
    follower = await made.follow(str(repo.path), seen)
    assert follower is not None
    return seen, follower


def with_a_file(tmp_path: Path) -> tuple[Repo, str]:
    repo = make(tmp_path)
    repo.write("a.txt", "one\ntwo\n")
    return repo, repo.commit()


@pytest.mark.proves("W4")
async def test_a_follower_is_told_branch_commit_and_changes(tmp_path: Path) -> None:
    repo, head = with_a_file(tmp_path)
    repo.write("a.txt", "one\n2\nthree\n")
    repo.write("deep/new.txt")
    repo.write("deep/newer.txt")
    async with watchers(tmp_path) as made:
        seen, _ = await followed(made, repo)
        state = await seen.until(lambda state: state.dirty)
    assert state == GitState("main", head, True, 3, 2, 1)


@pytest.mark.proves("W4")
@pytest.mark.parametrize("move", ["commit", "switch", "detach", "reset", "stage"])
async def test_what_somebody_does_with_git_is_noticed_by_itself(tmp_path: Path, move: str) -> None:
    repo, first = with_a_file(tmp_path)
    repo.write("b.txt")
    second = repo.commit()
    async with watchers(tmp_path) as made:
        seen, _ = await followed(made, repo)
        await seen.until(lambda state: state.head == second and not state.dirty)
        if move == "commit":
            repo.git("commit", "-q", "--allow-empty", "-m", "empty")
            new = repo.git("rev-parse", "HEAD")
            await seen.until(lambda state: state.head == new)
        elif move == "switch":
            repo.git("checkout", "-qb", "side")
            await seen.until(lambda state: state.branch == "side")
        elif move == "detach":
            repo.git("checkout", "-q", first)
            await seen.until(lambda state: (state.branch, state.head) == (None, first))
        elif move == "reset":
            repo.git("reset", "-q", "--soft", first)
            await seen.until(lambda state: (state.head, state.files) == (first, 1))
        else:
            repo.write("c.txt")
            repo.git("add", "c.txt")
            await seen.until(lambda state: state.additions == 1)


async def test_a_nudge_shows_what_no_git_command_did(tmp_path: Path) -> None:
    repo, _ = with_a_file(tmp_path)
    async with watchers(tmp_path) as made:
        seen, follower = await followed(made, repo)
        await seen.until(lambda state: not state.dirty)
        repo.write("b.txt")
        follower.nudge()
        await seen.until(lambda state: state.files == 1)
        for _ in range(100):
            follower.nudge()
        repo.write("c.txt")
        follower.nudge()
        await seen.until(lambda state: state.files == 2)
    assert [state.files for state in seen.states] == [0, 1, 2]


async def test_before_the_first_commit_there_is_a_branch_and_no_commit(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    async with watchers(tmp_path) as made:
        seen, _ = await followed(made, repo)
        state = await seen.until(bool)
    assert state == GitState("main", None, True, 1)


async def test_sessions_in_one_work_tree_share_its_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, _ = with_a_file(tmp_path)
    (repo.path / "below").mkdir()
    looks: list[str] = []
    look = module.look

    def counted(job: Any, where: Any) -> GitState:
        looks.append(where.top)
        return look(job, where)

    monkeypatch.setattr(module, "look", counted)
    async with watchers(tmp_path) as made:
        first, follower = await followed(made, repo)
        second, _ = await followed(made, Repo(repo.path / "below", repo.home))
        await first.until(bool)
        await second.until(bool)
        await follower.settle()
        before = len(looks)
        repo.write("b.txt")
        follower.nudge()
        await second.until(lambda state: state.dirty)
        await first.until(lambda state: state.dirty)
        assert len(looks) == before + 1
        follower.close()
        repo.git("add", "-A")
        await second.until(lambda state: state.additions == 1)
    assert first.states[-1].additions == 0


@pytest.mark.proves("W2")
async def test_looking_writes_nothing_and_runs_no_program_of_the_repository(
    tmp_path: Path,
) -> None:
    repo, _ = with_a_file(tmp_path)
    trap = tmp_path / "trap"
    program = repo.write(".git/trap.sh", f"#!/bin/sh\ntouch {trap}\ncat\n")
    program.chmod(0o755)
    repo.write(".gitattributes", "* filter=evil diff=evil\n")
    for key in ("core.fsmonitor", "filter.evil.clean", "diff.evil.command", "diff.evil.textconv"):
        repo.git("config", key, str(program))
    repo.write("a.txt", "one\nTWO\n")
    (repo.path / "a.txt").touch()
    state = git_state(repo)
    async with watchers(tmp_path) as made:
        seen, follower = await followed(made, repo)
        await seen.until(lambda told: told.additions == 1)
        follower.nudge()
        repo.write("b.txt")
        await seen.until(lambda told: told.files == 3)
    assert git_state(repo) == state
    assert not trap.exists()


async def test_a_directory_without_git_is_not_followed(tmp_path: Path) -> None:
    async with watchers(tmp_path) as made:
        assert await made.follow(str(tmp_path), Seen()) is None


async def test_a_repository_that_goes_away_is_no_error(tmp_path: Path) -> None:
    repo, _ = with_a_file(tmp_path)
    other = make(tmp_path, "other")
    async with watchers(tmp_path) as made:
        seen, follower = await followed(made, repo)
        await seen.until(bool)
        (repo.path / ".git").rename(tmp_path / "away")
        follower.nudge()
        (tmp_path / "away").rename(repo.path / ".git")
        second, _ = await followed(made, other)
        await second.until(bool)
