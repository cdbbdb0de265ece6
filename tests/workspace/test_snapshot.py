"""What a run changed in a git work tree, as a patch that anybody can apply."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from agentctl.workspace import snapshot as module
from agentctl.workspace.git import Git
from agentctl.workspace.snapshot import Patch, Snapshots
from tests.workspace.repos import Repo, environment, files, git_state, make

pytestmark = pytest.mark.anyio

# Git on a loaded machine may take its time; a test that waits longer has found a hang.
TEST_S = 60.0


def snapshots(root: Path, **env: str) -> Snapshots:
    return Snapshots(root / "data", Git({**environment(root / "home"), **env}))


@asynccontextmanager
async def watched(
    repo: Repo, root: Path, workspace: Path | None = None
) -> AsyncGenerator[list[Patch | None]]:
    """The patch of what the body does."""
    shots = snapshots(root)
    where = str(workspace or repo.path)
    made: list[Patch | None] = []
    with anyio.fail_after(TEST_S):
        before = await shots.take(where)
        assert before is not None
        yield made
        after = await shots.take(where)
        assert after is not None
        made.append(await shots.patch(before, after))


def applied(repo: Repo, patch: Patch | None, root: Path) -> Repo:
    """A clean checkout of the commit that the patch names, with the patch applied."""
    assert patch is not None and patch.commit
    other = repo.clone(root / "clean", patch.commit)
    other.git("apply", feed=patch.data)
    return other


def text(repo: Repo) -> None:
    repo.write("a.txt", "one\n2\nthree\n")


def binary(repo: Repo) -> None:
    repo.write("picture.bin", bytes(range(256)) * 40 + b"\0end")
    repo.write("new.bin", b"\0\1\2\n\n\3")


def renamed(repo: Repo) -> None:
    (repo.path / "a.txt").rename(repo.path / "b.txt")


def deleted(repo: Repo) -> None:
    (repo.path / "a.txt").unlink()
    (repo.path / "picture.bin").unlink()


def new(repo: Repo) -> None:
    repo.write("deep/er/new.py", "print()\n")
    repo.write("empty", b"")


def mode(repo: Repo) -> None:
    (repo.path / "a.txt").chmod(0o755)


def link(repo: Repo) -> None:
    (repo.path / "link").symlink_to("a.txt")
    (repo.path / "away").symlink_to("/nowhere/at all")
    (repo.path / "picture.bin").unlink()
    (repo.path / "picture.bin").symlink_to("a.txt")


def names(repo: Repo) -> None:
    repo.write("with space.txt", "s\n")
    repo.write("with\nnewline", "n\n")
    repo.write('tab\tand "quote"', "q\n")
    repo.write("größe/日本.txt", "u\n")
    repo.write(":(top)odd*[name]", "o\n")
    repo.write("-n", "dash\n")
    Path(os.fsdecode(os.fsencode(repo.path) + b"/not-\xff-utf8")).write_text("b\n")


def no_line_end(repo: Repo) -> None:
    repo.write("a.txt", "one\ntwo\nthree")
    repo.write("b.txt", "no end")


def file_to_folder(repo: Repo) -> None:
    (repo.path / "a.txt").unlink()
    repo.write("a.txt/inside", "i\n")


def committed(repo: Repo) -> None:
    repo.write("c.txt", "committed\n")
    repo.commit("by the agent")
    repo.write("d.txt", "left over\n")


def other_branch(repo: Repo) -> None:
    repo.git("checkout", "-qb", "feature")
    repo.write("a.txt", "on the branch\n")
    repo.commit("on the branch")
    (repo.path / "picture.bin").unlink()


def staged(repo: Repo) -> None:
    repo.write("staged.txt", "s\n")
    repo.write("meant.txt", "m\n")
    repo.git("add", "staged.txt")
    repo.git("add", "-N", "meant.txt")
    repo.git("rm", "-q", "--cached", "a.txt")


CHANGES = [
    text, binary, renamed, deleted, new, mode, link, names, no_line_end, file_to_folder, committed,
    other_branch, staged,
]  # fmt: skip


@pytest.mark.proves("W1")
@pytest.mark.parametrize("change", CHANGES)
async def test_a_clean_checkout_with_the_patch_is_what_the_agent_left(
    tmp_path: Path, change: Callable[[Repo], None]
) -> None:
    repo = make(tmp_path)
    repo.write("a.txt", "one\ntwo\nthree\n")
    repo.write("picture.bin", bytes(range(256)) * 40)
    repo.commit()
    async with watched(repo, tmp_path) as made:
        change(repo)
    (patch,) = made
    assert files(applied(repo, patch, tmp_path).path) == files(repo.path)
    assert patch is not None and patch.files > 0


async def test_the_patch_counts_files_and_lines(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt", "one\ntwo\nthree\n")
    head = repo.commit()
    async with watched(repo, tmp_path) as made:
        repo.write("a.txt", "one\n2\nthree\nfour\n")
        repo.write("b.bin", b"\0\n\0\n")
    (patch,) = made
    assert patch is not None
    assert (patch.files, patch.additions, patch.deletions) == (2, 2, 1)
    assert patch.commit == head
    assert patch.data.startswith(b"diff --git a/a.txt b/a.txt\n")


async def test_line_ends_that_git_converts_are_applied_as_they_were(tmp_path: Path) -> None:
    repo = make(tmp_path, core_autocrlf="true", core_safecrlf="true")
    repo.write("a.txt", b"one\r\ntwo\r\n")
    repo.commit()
    async with watched(repo, tmp_path) as made:
        repo.write("a.txt", b"one\r\n2\r\nthree\r\n")
        repo.write("b.txt", b"new\r\n")
    assert files(applied(repo, made[0], tmp_path).path) == files(repo.path)


async def test_a_workspace_below_the_top_gives_a_patch_for_the_top(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("packages/a/x.py")
    repo.write("packages/b/y.py")
    repo.commit()
    workspace = repo.path / "packages" / "a"
    shot = await snapshots(tmp_path).take(str(workspace))
    assert shot is not None and (shot.root, shot.prefix) == (str(repo.path), "packages/a/")
    async with watched(repo, tmp_path, workspace) as made:
        repo.write("packages/a/x.py", "changed\n")
        repo.write("packages/b/y.py", "changed too\n")
    assert files(applied(repo, made[0], tmp_path).path) == files(repo.path)


async def test_before_the_first_commit_the_patch_makes_everything(tmp_path: Path) -> None:
    repo = make(tmp_path)
    async with watched(repo, tmp_path) as made:
        repo.write("a.txt", "first\n")
    (patch,) = made
    assert patch is not None and patch.commit is None
    other = make(tmp_path, "other")
    other.git("apply", feed=patch.data)
    assert files(other.path) == files(repo.path)


async def test_a_first_commit_by_the_agent_is_in_the_patch(tmp_path: Path) -> None:
    repo = make(tmp_path)
    async with watched(repo, tmp_path) as made:
        repo.write("a.txt", "first\n")
        repo.commit()
    assert made[0] is not None and made[0].files == 1


async def test_a_linked_worktree_is_looked_at_by_itself(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    repo.commit()
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Repo(tmp_path / "side", repo.home)
    async with watched(side, tmp_path) as made:
        side.write("a.txt", "on the side\n")
        repo.write("b.txt", "not there\n")
    (patch,) = made
    assert patch is not None and patch.files == 1
    assert files(applied(side, patch, tmp_path).path) == files(side.path)


async def test_what_the_user_had_changed_before_is_not_the_runs_work(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt", "one\n")
    repo.write("b.txt", "one\n")
    repo.commit()
    repo.write("a.txt", "mine\n")
    repo.write("untracked", "mine\n")
    async with watched(repo, tmp_path) as made:
        repo.write("b.txt", "the agent's\n")
    (patch,) = made
    assert patch is not None and patch.files == 1
    assert patch.commit is None
    assert b"mine" not in patch.data


async def test_nothing_changed_is_no_patch(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    repo.commit()
    repo.write("untracked")
    async with watched(repo, tmp_path) as made:
        (repo.path / "a.txt").touch()
    assert made == [None]


async def test_ignored_files_are_left_out_and_newly_ignored_ones_are_not_deleted(
    tmp_path: Path,
) -> None:
    repo = make(tmp_path)
    repo.write(".gitignore", "*.log\n")
    repo.commit()
    repo.write("build/out.o", "o\n")
    async with watched(repo, tmp_path) as made:
        repo.write("noise.log", "l\n")
        repo.write(".gitignore", "*.log\nbuild/\n")
    (patch,) = made
    assert patch is not None and patch.files == 1
    assert b"out.o" not in patch.data and b"noise" not in patch.data


@pytest.mark.proves("W2")
async def test_nothing_of_the_users_repository_is_written(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    repo.commit()
    repo.write("staged.txt")
    repo.git("add", "staged.txt")
    repo.write("a.txt", "changed\n")
    repo.write("large.bin", os.urandom(1 << 20))
    seen = git_state(repo)
    index = (repo.path / ".git" / "index").stat()
    shots = snapshots(tmp_path)
    before = await shots.take(str(repo.path))
    repo.write("b.txt")
    after = await shots.take(str(repo.path))
    assert before is not None and after is not None
    assert await shots.patch(before, after) is not None
    assert git_state(repo) == seen
    assert (repo.path / ".git" / "index").stat() == index


@pytest.mark.proves("W2")
async def test_no_program_of_the_repository_runs(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt", "one\n")
    repo.write(".gitattributes", "* filter=evil diff=evil\n")
    repo.commit()
    trap = tmp_path / "trap"
    program = repo.write(".git/trap.sh", f"#!/bin/sh\ntouch {trap}\ncat\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.process", "diff.evil.command"):
        repo.git("config", key, str(program))
    for key in ("filter.evil.smudge", "diff.evil.textconv", "diff.external", "core.pager"):
        repo.git("config", key, str(program))
    repo.git("config", "filter.evil.required", "true")
    for hook in ("post-index-change", "pre-commit", "reference-transaction"):
        hooks = repo.write(f".git/hooks/{hook}", program.read_bytes())
        hooks.chmod(0o755)
    async with watched(repo, tmp_path) as made:
        repo.write("a.txt", "two\n")
        repo.write("b.txt", "new\n")
    assert made[0] is not None and made[0].files == 2
    assert not trap.exists()


async def test_two_sessions_in_one_workspace_do_not_disturb_each_other(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    repo.commit()
    shots = snapshots(tmp_path)
    found: list[str] = []

    async def look() -> None:
        shot = await shots.take(str(repo.path))
        assert shot is not None
        found.append(shot.tree)

    repo.write("b.txt", "new\n")
    with anyio.fail_after(TEST_S):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(look)
    assert len(found) == 8 and len(set(found)) == 1


async def test_a_directory_without_git_has_no_snapshot_and_starts_nothing(tmp_path: Path) -> None:
    shots = snapshots(tmp_path, PATH=str(tmp_path))
    assert await shots.take(str(tmp_path)) is None
    assert await shots.take(str(tmp_path / "gone")) is None
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("break_it", ["no git", "bare", "inside", "broken"])
async def test_where_git_cannot_look_there_is_no_snapshot(tmp_path: Path, break_it: str) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    repo.commit()
    shots, where = snapshots(tmp_path), repo.path
    if break_it == "no git":
        shots = snapshots(tmp_path, PATH=str(tmp_path))
    elif break_it == "bare":
        repo.git("config", "core.bare", "true")
    elif break_it == "inside":
        where = repo.path / ".git" / "refs"
    else:
        (repo.path / ".git" / "HEAD").unlink()
    assert await shots.take(str(where)) is None


@pytest.mark.proves("W3")
async def test_a_work_tree_that_is_too_large_goes_without_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    repo.commit()
    repo.write("data.bin", b"0" * 2000)
    monkeypatch.setattr(module, "TREE_BYTES", 1000)
    shots = snapshots(tmp_path)
    assert await shots.take(str(repo.path)) is None
    assert "no snapshot of" in caplog.text
    (repo.path / "data.bin").unlink()
    assert await shots.take(str(repo.path)) is None
    assert await snapshots(tmp_path).take(str(repo.path)) is not None


@pytest.mark.proves("W3")
async def test_a_patch_that_is_too_large_is_none_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "PATCH_BYTES", 1000)
    repo = make(tmp_path)
    async with watched(repo, tmp_path) as made:
        repo.write("a.txt", "line\n" * 1000)
    assert made == [None]
    assert "no patch of" in caplog.text


@pytest.mark.proves("W3")
async def test_a_git_that_hangs_is_ended_and_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    repo = make(tmp_path)
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 1000\n")
    fake.chmod(0o755)
    monkeypatch.setattr(module, "TAKE_S", 0.3)
    shots = snapshots(tmp_path, PATH=f"{fake.parent}:{os.environ['PATH']}")
    with anyio.fail_after(TEST_S):
        assert await shots.take(str(repo.path)) is None
    assert "took too long" in caplog.text
    for pid in (tmp_path / "pids").read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


async def test_private_objects_go_when_nobody_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make(tmp_path)
    repo.write("a.txt", "first\n")
    stale = tmp_path / "data" / "snapshots" / "earlier" / "objects"
    stale.mkdir(parents=True)
    shots = snapshots(tmp_path)
    first = await shots.take(str(repo.path))
    await shots.clean()
    assert not stale.exists()
    (home,) = (tmp_path / "data" / "snapshots").iterdir()

    def objects() -> set[str]:
        return {path.name for path in home.rglob("objects/*/*")}

    old = objects()
    monkeypatch.setattr(module, "RENEW_S", 0)
    repo.write("a.txt", "second\n")
    second = await shots.take(str(repo.path))
    assert first is not None and second is not None and old < objects()
    assert await shots.patch(first, second) is not None
    del first, second
    repo.write("a.txt", "third\n")
    assert await shots.take(str(repo.path)) is not None
    assert not old & objects()
    await shots.close()
    assert not home.exists()


async def test_a_colon_in_the_path_is_no_border(tmp_path: Path) -> None:
    (tmp_path / 'a:b"c').mkdir()
    repo = make(tmp_path / 'a:b"c')
    repo.write("a.txt")
    repo.commit()
    shots = Snapshots(tmp_path / "data", Git(environment(tmp_path)))
    before = await shots.take(str(repo.path))
    repo.write("a.txt", "two\n")
    after = await shots.take(str(repo.path))
    assert before is not None and after is not None and before.clean and not after.clean
    assert await shots.patch(before, after) is not None


async def test_sparse_and_split_indexes_are_read_as_they_are(tmp_path: Path) -> None:
    repo = make(tmp_path, core_splitIndex="true")
    repo.write("in/a.txt")
    repo.write("out/b.txt")
    repo.commit()
    repo.git("sparse-checkout", "set", "in")
    assert not (repo.path / "out").exists()
    repo.write("in/a.txt", "changed\n")
    seen = git_state(repo)
    async with watched(repo, tmp_path) as made:
        repo.write("in/c.txt")
    (patch,) = made
    assert patch is not None and patch.files == 1
    assert git_state(repo) == seen
