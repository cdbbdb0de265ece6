"""What a run changed in a git work tree, as a patch that anybody can apply."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace.repos import Repo, files, make
from tests.workspace.shots import applied, snapshots, watched

pytestmark = pytest.mark.anyio


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
