"""A worktree for each session: made, found again, kept or removed, whatever happened in between."""

import shutil
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from agentctl.core.errors import AgentFailed, Invalid, NotFound
from agentctl.workspace import worktree as module
from agentctl.workspace.git import Git
from agentctl.workspace.providers import Context, Place, Program
from agentctl.workspace.snapshot import Snapshots
from agentctl.workspace.worktree import Worktrees
from tests.workspace.repos import Repo, environment, files, make

pytestmark = pytest.mark.anyio

SESSION = "ses_01jd0000000000000000abcdefgh"
WORK = ["nothing", "edit", "new file", "commit", "ignored", "reset", "left", "named"]


def worktrees(root: Path) -> Worktrees:
    return of_git(root, environment(root / "home"))


def of_git(root: Path, env: dict[str, str]) -> Worktrees:
    git = Git(env)
    return Worktrees(Context(root / "data", git, Snapshots(root / "data", git)))


def with_a_file(tmp_path: Path) -> Repo:
    repo = make(tmp_path)
    repo.write("a.txt", "one\n")
    repo.write("below/b.txt", "two\n")
    repo.commit()
    return repo


async def planned(
    trees: Worktrees, workspace: Path, session: str = SESSION, **options: str
) -> Place:
    return await trees.plan(session, str(workspace), options, source=None)


async def made(trees: Worktrees, repo: Repo, session: str = SESSION, **options: str) -> Place:
    return await trees.make(session, await planned(trees, repo.path, session, **options))


def there(path: str) -> bool:
    return Path(path).exists()


def at(place: Place, repo: Repo) -> Repo:
    return Repo(Path(place.workspace), repo.home)


@pytest.mark.proves("W6")
async def test_a_session_gets_a_directory_and_a_branch_of_its_own(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    repo.write("a.txt", "not committed\n")
    plan = await planned(trees, repo.path)
    assert plan.workspace == str(tmp_path / "data" / "worktrees" / SESSION)
    assert not there(plan.workspace) and not plan.made
    place = await trees.make(SESSION, plan)
    assert place.made and place.source == str(repo.path)
    tree = at(place, repo)
    assert tree.git("branch", "--show-current") == place.branch == f"agentctl/{SESSION[-10:]}"
    assert (tree.path / "a.txt").read_text() == "one\n"
    tree.write("a.txt", "the agent's\n")
    assert (repo.path / "a.txt").read_text() == "not committed\n"
    assert repo.git("branch", "--show-current") == "main"


async def test_the_same_directory_below_the_top_is_the_workspace(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    (repo.path / "new").mkdir()
    below = await trees.make(SESSION, await planned(trees, repo.path / "below"))
    assert files(Path(below.workspace)) == files(repo.path / "below")
    other = "ses_01jd0000000000000000other001"
    new = await trees.make(other, await planned(trees, repo.path / "new", other))
    assert there(new.workspace) and new.workspace.endswith("/new")


async def test_a_branch_is_made_or_taken_and_base_says_where_it_starts(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    first = repo.git("rev-parse", "HEAD")
    repo.write("c.txt")
    repo.commit()
    fresh = await made(trees, repo, "ses_fresh", branch="topic/one", base="HEAD~1")
    assert at(fresh, repo).git("rev-parse", "HEAD", "topic/one") == f"{first}\n{first}"
    repo.git("branch", "mine", first)
    taken = await made(trees, repo, "ses_taken", branch="mine")
    assert at(taken, repo).git("branch", "--show-current") == "mine"
    assert await trees.leave("ses_taken", taken, delete=False)
    assert repo.git("rev-parse", "mine") == first


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"branch": "main"}, "is checked out in"),
        ({"branch": "bad..name"}, "is no name for a branch"),
        ({"branch": "-x"}, "is no name for a branch"),
        ({"branch": "HEAD"}, "is no name for a branch"),
        ({"branch": "@{-1}"}, "is no name for a branch"),
        ({"branch": "old/new"}, 'there is a branch "old", beside which git has none'),
        ({"branch": "deep"}, 'there is a branch "deep/er", beside which git has none'),
        ({"base": "nothing"}, 'no commit "nothing"'),
        ({"base": "--help"}, 'no commit "--help"'),
        ({"keep": "maybe"}, "keep is changed, always, never"),
        ({"branch": "old", "base": "HEAD"}, "not at HEAD"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, options: dict[str, str], says: str
) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    repo.git("branch", "old")
    repo.git("branch", "deep/er")
    repo.git("checkout", "-q", "old")
    repo.git("checkout", "-q", "main")
    repo.write("c.txt")
    repo.commit()
    with pytest.raises(Invalid, match=says) as refused:
        await planned(trees, repo.path, **options)
    assert refused.value.metadata["field"] == "environment_options"
    assert not (tmp_path / "data").exists()


async def test_a_directory_without_a_repository_or_a_commit_is_refused(tmp_path: Path) -> None:
    trees = worktrees(tmp_path)
    empty = make(tmp_path, "empty")
    (tmp_path / "odd" / ".git").mkdir(parents=True)
    for workspace, says in (
        (tmp_path, "in no git repository"),
        (tmp_path / "odd", "in no git repository"),
        (empty.path, "no commit yet"),
    ):
        with pytest.raises(Invalid, match=says) as refused:
            await planned(trees, workspace)
        assert refused.value.metadata["field"] == "environment"


@pytest.mark.proves("W7")
@pytest.mark.parametrize("work", WORK)
async def test_a_worktree_goes_unless_there_is_work_in_it(tmp_path: Path, work: str) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    repo.write(".gitignore", "*.log\n")
    repo.commit()
    place = await made(trees, repo)
    tree = at(place, repo)
    match work:
        case "edit":
            tree.write("a.txt", "changed\n")
        case "new file":
            tree.write("new/x.txt")
        case "commit":
            tree.write("c.txt")
            tree.commit()
        case "ignored":
            tree.write("x.log")
        case "reset":
            tree.git("reset", "-q", "--hard", "HEAD~1")
        case "left" | "named":
            tree.git("checkout", "-q", *(["--detach"] if work == "left" else ["-b", "kept"]))
            tree.git("commit", "-q", "--allow-empty", "-m", "more")
            tree.git("checkout", "-q", place.branch)
        case _:
            pass
    left = await trees.leave(SESSION, place, delete=False)
    stays = work not in {"nothing", "ignored", "named"}
    assert left.kept == left.place.made == stays == tree.path.exists()
    branches = repo.git("branch", "--list", "--format=%(refname:short)").split()
    assert (place.branch in branches) == stays
    if stays:
        assert str(tree.path) in left.note and place.branch in left.note
    else:
        assert not list((tmp_path / "data" / "worktrees").iterdir())
        assert "prunable" not in repo.git("worktree", "list")


@pytest.mark.parametrize("keep", ["always", "never"])
async def test_keep_decides_when_it_is_told(tmp_path: Path, keep: str) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await made(trees, repo, keep=keep)
    tree = at(place, repo)
    if keep == "never":
        tree.write("c.txt")
        tip = tree.commit()
        tree.write("d.txt")
        left = await trees.leave(SESSION, place, delete=False)
        assert not left.kept and not tree.path.exists()
        assert repo.git("rev-parse", place.branch) == tip
    else:
        assert (await trees.leave(SESSION, place, delete=False)).kept
        assert tree.path.exists()
        assert not (await trees.leave(SESSION, place, delete=True)).kept
        assert not tree.path.exists()


async def test_a_removed_worktree_is_made_anew_and_a_lost_one_is_named(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await made(trees, repo)
    assert await trees.make(SESSION, place) == place
    left = await trees.leave(SESSION, place, delete=False)
    again = await trees.make(SESSION, left.place)
    assert files(Path(again.workspace)) == files(repo.path)
    shutil.rmtree(again.workspace)
    with pytest.raises(NotFound, match="is gone") as gone:
        await worktrees(tmp_path).make(SESSION, again)
    assert gone.value.reason == "PROJECT_NOT_FOUND"
    left = await trees.leave(SESSION, again, delete=False)
    assert not left.kept
    assert (await trees.make(SESSION, left.place)).made


async def test_files_that_stand_where_a_lost_worktree_was_are_never_removed(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await made(trees, repo)
    shutil.rmtree(place.workspace)
    at(place, repo).write("written-later.txt", "work")
    late = f"{place.workspace}/written-later.txt"
    left = await trees.leave(SESSION, place, delete=False)
    assert left.kept and "git does not know the files in it" in left.note

    async def unknown(session_id: str) -> bool:
        return False

    await worktrees(tmp_path).recover(unknown)
    assert there(late)
    assert not (await trees.leave(SESSION, place, delete=True)).kept
    assert not there(late)


async def test_a_removal_that_a_kill_has_left_half_done_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await made(trees, repo)

    def killed(*_: object) -> None:
        (Path(place.workspace) / ".git").unlink()
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_drop", killed)
        assert (await trees.leave(SESSION, place, delete=False)).kept

    async def unknown(session_id: str) -> bool:
        return False

    await worktrees(tmp_path).recover(unknown)
    assert not there(place.workspace)


async def test_a_fork_gets_the_files_of_its_origin_and_a_branch_of_its_own(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await made(trees, repo, branch="topic")
    tree = at(place, repo)
    tree.write("c.txt")
    tip = tree.commit()
    tree.write("a.txt", "not committed\n")
    tree.write("picture.bin", bytes(range(256)))
    fork_id = "ses_01jd0000000000000000fork0001"
    plan = await trees.plan(fork_id, place.workspace, {"branch": "topic"}, source=place)
    fork = await trees.make(fork_id, plan)
    assert fork.source == str(repo.path)
    assert fork.branch == f"agentctl/{fork_id[-10:]}"
    assert at(fork, repo).git("rev-parse", "HEAD") == tip
    assert files(Path(fork.workspace)) == files(tree.path)
    assert (await trees.leave(fork_id, fork, delete=False)).kept


@pytest.mark.proves("W7")
async def test_what_a_killed_daemon_left_breaks_nothing(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    for name in ("ses_gone", "ses_work", "ses_known"):
        await made(trees, repo, name)
    home = tmp_path / "data" / "worktrees"
    Repo(home / "ses_work", repo.home).write("work.txt")
    (home / "ses_strange").mkdir()
    (home / "ses_note.json").write_text("{")

    async def known(session_id: str) -> bool:
        return session_id == "ses_known"

    later = worktrees(tmp_path)
    await later.recover(known)
    left = sorted(path.name for path in home.iterdir() if path.is_dir())
    assert left == ["ses_known", "ses_strange", "ses_work"]
    repo.git("worktree", "prune")
    assert "ses_gone" not in repo.git("worktree", "list")


@pytest.mark.proves("W7")
async def test_a_checkout_that_was_killed_in_the_middle_is_made_anew(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    plan = await planned(trees, repo.path)
    real = shutil.which("git")
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *"reset --hard"*) "{real}" "$@"\n'
        f"rm -rf {plan.workspace}/below; touch {repo.path}/.git/worktrees/{SESSION}/locked\n"
        "kill -9 $$;; esac\n"
        f'exec "{real}" "$@"\n'
    )
    fake.chmod(0o755)
    env = {**environment(tmp_path / "home"), "PATH": f"{fake.parent}:/usr/bin:/bin"}
    with pytest.raises(AgentFailed, match="could not be made"):
        await of_git(tmp_path, env).make(SESSION, plan)
    assert there(plan.workspace) and not there(f"{plan.workspace}/below")
    assert not (await trees.leave(SESSION, plan, delete=False)).kept
    assert not there(plan.workspace)
    with pytest.raises(AgentFailed, match="could not be made"):
        await of_git(tmp_path, env).make(SESSION, plan)
    place = await trees.make(SESSION, plan)
    assert files(Path(place.workspace)) == files(repo.path)


async def test_no_hook_and_no_filter_of_the_repository_runs_at_a_checkout(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    trap = tmp_path / "trap"
    program = repo.write(".git/trap.sh", f"#!/bin/sh\ntouch {trap}\ncat\n")
    program.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction"):
        repo.write(f".git/hooks/{hook}", program.read_bytes()).chmod(0o755)
    repo.write(".gitattributes", "*.txt filter=evil\n")
    repo.commit()
    trap.unlink(missing_ok=True)
    repo.git("config", "filter.evil.smudge", str(program))
    repo.git("config", "filter.evil.clean", str(program))
    place = await made(trees, repo)
    assert there(f"{place.workspace}/a.txt")
    assert not (await trees.leave(SESSION, place, delete=False)).kept
    assert not trap.exists()


async def test_a_process_that_others_share_stands_in_the_source(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await planned(trees, repo.path)
    alone = Program(("x",), {}, place.workspace)
    assert trees.bind(place, alone) == alone
    shared = replace(alone, shared=True)
    assert trees.bind(place, shared).cwd == str(repo.path)


async def test_a_repository_that_is_gone_does_not_keep_its_worktree(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await made(trees, repo)
    shutil.rmtree(repo.path)
    left = await trees.leave(SESSION, place, delete=False)
    assert left.kept and "git could not tell" in left.note
    assert not (await trees.leave(SESSION, place, delete=True)).kept
    assert not there(place.workspace)


async def test_many_sessions_begin_at_once_in_one_repository(tmp_path: Path) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    places: dict[str, Place] = {}

    async def begin(session: str) -> None:
        places[session] = await made(trees, repo, session)

    async def end(session: str) -> None:
        assert not (await trees.leave(session, places[session], delete=False)).kept

    for step in (begin, end):
        async with anyio.create_task_group() as group:
            for number in range(24):
                group.start_soon(step, f"ses_many{number:06}")
    assert len({place.branch for place in places.values()}) == 24
    assert repo.git("branch", "--format=%(refname:short)") == "main"
    assert len(repo.git("worktree", "list").splitlines()) == 1


@pytest.mark.proves("W7")
@pytest.mark.parametrize("until", ["rmtree", "unlink"])
async def test_a_removal_that_was_killed_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: str
) -> None:
    repo, trees = with_a_file(tmp_path), worktrees(tmp_path)
    place = await made(trees, repo)

    def killed(*_: object, **__: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patch:
        if until == "rmtree":
            patch.setattr(module, "_drop", killed)
        else:
            patch.setattr(module, "_drop_branch", killed)
        assert (await trees.leave(SESSION, place, delete=False)).kept
    if until == "rmtree":
        (Path(place.workspace) / "a.txt").unlink()
    again = await worktrees(tmp_path).make(SESSION, place)
    assert files(Path(again.workspace)) == files(repo.path)
    assert not (await trees.leave(SESSION, again, delete=False)).kept
