"""Snapshots harm no repository, stay within bounds, and take work trees as they are."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.workspace import snapshot as module
from agentctl.workspace.git import Git
from agentctl.workspace.snapshot import Snapshots
from tests.workspace.repos import Repo, environment, files, git_state, make
from tests.workspace.shots import TEST_S, applied, snapshots, watched

pytestmark = pytest.mark.anyio


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
    assert "are new or changed in it" in shots.trouble(str(repo.path))
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


async def test_who_does_not_wait_for_old_objects_to_go_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "data" / "snapshots" / "earlier" / "repo" / "objects"
    for name in ("aa", "bb", "cc"):
        (old / name).mkdir(parents=True)
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()
    real = shutil.rmtree

    def slow(path: Path, **options: Any) -> None:
        begun.set()
        go_on.wait()
        real(path, **options)
        done.set()

    monkeypatch.setattr(shutil, "rmtree", slow)
    shots = snapshots(tmp_path)
    with anyio.fail_after(TEST_S):
        async with anyio.create_task_group() as group:
            group.start_soon(shots.clean)
            await anyio.to_thread.run_sync(begun.wait)
            group.cancel_scope.cancel()
        go_on.set()
        await anyio.to_thread.run_sync(done.wait)
    assert len(list(old.iterdir())) == 2


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


async def test_what_is_no_file_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("a.txt")
    repo.commit()
    async with watched(repo, tmp_path) as made:
        os.mkfifo(repo.path / "pipe")
        repo.write("b.txt")
        nested = make(tmp_path, "repo/nested")
        nested.write("inside.txt")
        nested.commit()
    (patch,) = made
    assert patch is not None and patch.files == 1


async def test_a_folder_that_became_a_link_is_a_link_in_the_patch(tmp_path: Path) -> None:
    repo = make(tmp_path)
    repo.write("folder/a.txt")
    repo.write("other/a.txt")
    repo.commit()
    async with watched(repo, tmp_path) as made:
        (repo.path / "folder" / "a.txt").unlink()
        (repo.path / "folder").rmdir()
        (repo.path / "folder").symlink_to("other")
    assert files(applied(repo, made[0], tmp_path).path) == files(repo.path)


async def test_files_that_a_filter_keeps_elsewhere_are_in_the_patch_as_they_are(
    tmp_path: Path,
) -> None:
    repo = make(tmp_path)
    repo.git("config", "--global", "filter.store.clean", "sed s/.*/pointer/")
    repo.git("config", "--global", "filter.store.smudge", "cat")
    repo.write(".gitattributes", "*.big filter=store\n")
    repo.write("x.big", "content\n")
    repo.commit()
    assert repo.git("show", "HEAD:x.big") == "pointer"
    async with watched(repo, tmp_path) as made:
        repo.write("y.big", "made by the agent\n")
    (patch,) = made
    assert patch is not None and patch.files == 1
    assert b"made by the agent" in patch.data


async def test_a_repository_of_the_newer_hash_has_patches_too(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", tmp_path)
    repo.path.mkdir()
    repo.git("init", "-q", "--object-format=sha256")
    shots = Snapshots(tmp_path / "data", Git(environment(tmp_path)))
    before = await shots.take(str(repo.path))
    repo.write("a.txt")
    after = await shots.take(str(repo.path))
    assert before is not None and after is not None and before.clean and not after.clean
    patch = await shots.patch(before, after)
    assert patch is not None and patch.files == 1
