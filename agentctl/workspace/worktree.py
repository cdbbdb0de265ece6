"""Owns the environment `worktree`: a git worktree and a branch for each session.

Worktrees lie under the data directory, each beside a small file that says what it was made from, so
that a later daemon can tell whether there is work in one. It refuses to know what a session is.
"""

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import orjson

from agentctl.core.errors import AgentctlError, AgentFailed, Invalid, NotFound
from agentctl.workspace.git import (
    GitFailed,
    GitMissing,
    Job,
    Repository,
    locate,
    unreached,
    without_filters,
)
from agentctl.workspace.providers import Context, Known, Left, Place, Program, unmade

logger = logging.getLogger(__name__)

# Questions to a repository; none of them reads a work tree.
ASK_S = 10.0
# A checkout writes every file of a large repository, on a slow disk.
MAKE_S = 600.0
# To see whether a work tree differs reads all of it; what cannot be seen in time is kept.
LEAVE_S = 60.0

# What a fork's place says until it is made: where the files are that are not committed.
CARRY = "carry"
# What a worktree's file says from the beginning of its removal on.
REMOVING = "removing"
KEEP = ("changed", "always", "never")
OPTIONS = {
    "branch": "The branch to make, or to take when there is one; agentctl/… is made without it.",
    "base": "The commit to start from; the one that is checked out in the workspace without it.",
    "keep": "What closing keeps: changed (the default: only worktrees with work in them), always, "
    "never.",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is remembered of a worktree. `own`: the branch was made by us."""

    top: str
    base: str
    repository: str
    keep: str = "changed"
    own: bool = True
    branch: str = ""

    def told(self) -> dict[str, str]:
        return {
            "top": self.top,
            "base": self.base,
            "repository": self.repository,
            "keep": self.keep,
            "own": "1" if self.own else "",
            "branch": self.branch,
        }


def facts_of(told: Mapping[str, str]) -> Facts:
    return Facts(
        told["top"],
        told["base"],
        told["repository"],
        told.get("keep", "changed"),
        bool(told.get("own")),
        told.get("branch", ""),
    )


class Worktrees:
    """The provider."""

    id = "worktree"
    detail = "The agent works in a git worktree of its own, on a branch of its own."
    available = True
    capabilities = frozenset(
        {"checkout", "secrets", "artifacts", "logs", "pull_requests", "long_running"}
    )
    options: Mapping[str, str] = OPTIONS

    def __init__(self, context: Context) -> None:
        self._home = context.data_dir / "worktrees"
        self._git = context.git.apart()
        self._snapshots = context.snapshots
        self._locks: dict[str, anyio.Lock] = {}

    def _changing(self, facts: Facts) -> anyio.Lock:
        """Held while the list of a repository's worktrees changes: git trips over itself there."""
        return self._locks.setdefault(facts.repository, anyio.Lock())

    async def plan(
        self, session_id: str, workspace: str, options: Mapping[str, str], *, source: Place | None
    ) -> Place:
        if source is not None:
            options = {k: v for k, v in options.items() if k == "keep"} | {"base": "HEAD"}
            workspace = source.workspace
        keep = options.get("keep", "changed")
        if keep not in KEEP:
            raise _wrong(f'keep is {", ".join(KEEP)}, and not "{keep}"')
        work = partial(self._plan, session_id, workspace, options)
        try:
            planned = await self._git.do(work, ASK_S)
        except GitMissing as error:
            raise Invalid(f"a worktree needs git: {error}. Install it, or leave it out.") from error
        except GitFailed as error:
            raise _wrong(f"{workspace} cannot be looked at: {error}") from error
        if source is None:
            return planned
        facts = {**planned.facts, CARRY: source.workspace}
        return replace(planned, source=source.source or workspace, facts=facts)

    def _plan(self, session_id: str, workspace: str, options: Mapping[str, str], job: Job) -> Place:
        where = locate(job, workspace)
        if where is None:
            raise Invalid(
                f"{workspace} is in no git repository, which a worktree is made from. Leave the "
                "environment out, or make one: git init, and a first commit.",
                metadata={"field": "environment"},
            )
        base = _commit(job, where, options.get("base", "HEAD"), given="base" in options)
        branch = options.get("branch", "")
        own = True
        if branch:
            tip = _tip(job, where, branch)
            own = tip is None
            if own:
                _refuse_beside(job, where, branch)
            if tip is not None:
                if "base" in options and base != tip:
                    raise _wrong(
                        f'there is a branch "{branch}" already, and it is not at {options["base"]}: '
                        "leave base out, or name another branch"
                    )
                base = tip
                _refuse_taken(job, where, branch)
        else:
            branch = f"agentctl/{session_id[-10:]}"
        top = Path(os.path.realpath(self._home), session_id)
        facts = Facts(str(top), base, where.common, options.get("keep", "changed"), own, branch)
        return Place(
            workspace=str(top / where.prefix) if where.prefix else str(top),
            source=workspace,
            branch=branch,
            facts=facts.told(),
        )

    async def make(self, session_id: str, place: Place) -> Place:
        facts = facts_of(place.facts)
        state = await anyio.to_thread.run_sync(self._state, session_id, facts)
        if place.made and state == "there":
            return place
        if place.made and state == "lost":
            raise NotFound(
                f"the worktree {facts.top} of this session is gone. Its commits are on the branch "
                f"{facts.branch}: start a new session with environment_options branch="
                f"{facts.branch}.",
                reason="PROJECT_NOT_FOUND",
            )
        try:
            async with self._changing(facts):
                await self._git.do(partial(self._add, session_id, facts), MAKE_S)
            await self._git.do(partial(_check_out, place, facts), MAKE_S)
            await self._carry(place.facts.get(CARRY, ""), facts)
        except (GitFailed, OSError) as error:
            raise AgentFailed(
                f"the worktree {facts.top} could not be made: {error}. Mend that, then prompt or "
                "resume the session."
            ) from error
        return replace(place, made=True, facts=facts.told())

    async def _carry(self, origin: str, facts: Facts) -> None:
        """Brings what is not committed where the origin of a fork works."""
        if origin and (patch := await self._snapshots.uncommitted(origin)) is not None:
            data = patch.data
            args = ("apply", "--whitespace=nowarn")
            await self._git.do(lambda job: job.run(*args, cwd=facts.top, feed=data), MAKE_S)

    def _add(self, session_id: str, facts: Facts, job: Job) -> None:
        """The branch, the directory and git's knowledge of them; no files yet."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _drop(job, facts)
        self._note(session_id).write_bytes(orjson.dumps(facts.told()))
        env = _env(job, facts)
        refs = job.run("for-each-ref", f"refs/heads/{facts.branch}", cwd=facts.repository, env=env)
        exists = any(line.endswith(f"\trefs/heads/{facts.branch}") for line in _lines(refs))
        new = () if exists else ("-b", facts.branch)
        start = facts.branch if exists else facts.base
        args = ("worktree", "add", "--quiet", "--no-checkout", *new, "--", facts.top, start)
        job.run(*args, cwd=facts.repository, env=env)

    def _note(self, session_id: str) -> Path:
        return self._home / f"{session_id}.json"

    def _state(self, session_id: str, facts: Facts) -> str:
        """there, lost, or removed: by us, even if a kill came before that was remembered."""
        try:
            note = orjson.loads(self._note(session_id).read_bytes())
        except (OSError, ValueError):
            return "there" if _exists(facts.top) else "removed"
        if REMOVING in note:
            return "removed"
        return "there" if _exists(facts.top) else "lost"

    def bind(self, place: Place, program: Program) -> Program:
        """A process that others share must not stand in a directory that goes before it does."""
        return replace(program, cwd=place.source) if program.shared else program

    async def leave(self, session_id: str, place: Place, *, delete: bool) -> Left:
        """Removes the worktree unless there is work in it, or it was asked to stay."""
        facts = facts_of(place.facts)
        if place.made and not delete and facts.keep == "always":
            return Left(place, kept=True, note=f"its worktree stays: {facts.top}")
        # Nobody has worked in one that was never finished.
        force = delete or not place.made or facts.keep == "never"
        why = await self._leave(session_id, facts, force=force)
        if why:
            note = f"its worktree stays, because {why}: {facts.top}, branch {facts.branch}"
            return Left(place, kept=True, note=note)
        return Left(unmade(place))

    async def _leave(self, session_id: str, facts: Facts, *, force: bool) -> str:
        """Why the worktree stays; "" when it was removed."""
        try:
            if not force and (why := await self._git.do(partial(_work_in, facts=facts), LEAVE_S)):
                return why
        except (GitFailed, OSError) as error:
            return f"git could not tell what is in it ({error})"
        try:
            async with self._changing(facts):
                await self._git.do(partial(self._remove, session_id, facts), LEAVE_S)
        except (GitFailed, OSError) as error:
            return f"it could not be removed ({error})"
        return ""

    def _remove(self, session_id: str, facts: Facts, job: Job) -> None:
        if (note := self._note(session_id)).exists():
            note.write_bytes(orjson.dumps(facts.told() | {REMOVING: "1"}))
        _drop(job, facts)
        _drop_branch(job, facts)
        self._note(session_id).unlink(missing_ok=True)

    async def recover(self, known: Known) -> None:
        """Removes worktrees of sessions that nobody knows, when there is no work in them."""
        for session_id in await anyio.to_thread.run_sync(self._all):
            if await known(session_id):
                continue
            try:
                facts = await anyio.to_thread.run_sync(self._remembered, session_id)
                removing = await anyio.to_thread.run_sync(self._state, session_id, facts)
                why = await self._leave(session_id, facts, force=removing == "removed")
            except AgentctlError as error:
                why = error.message
            top = self._home / session_id
            if why:
                logger.warning("the worktree %s belongs to no session and stays: %s", top, why)
            else:
                logger.info("removed the worktree %s, which belonged to no session", top)

    def _all(self) -> list[str]:
        if not self._home.is_dir():
            return []
        return sorted({path.name.removesuffix(".json") for path in self._home.iterdir()})

    def _remembered(self, session_id: str) -> Facts:
        try:
            return facts_of(orjson.loads(self._note(session_id).read_bytes()))
        except (OSError, ValueError, KeyError) as error:
            raise Invalid("nothing says what it was made from") from error


def _wrong(what: str) -> Invalid:
    return Invalid(f"{what}.", metadata={"field": "environment_options"})


def _lines(told: bytes) -> list[str]:
    return os.fsdecode(told).splitlines()


def _exists(path: str) -> bool:
    return Path(path, ".git").exists()


def _env(job: Job, facts: Facts) -> dict[str, str]:
    return without_filters(job, facts.repository, own_only=True)


def _commit(job: Job, where: Repository, name: str, *, given: bool) -> str:
    args = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    told = job.run(*args, cwd=where.top, ok=(0, 1, 128)).decode(errors="replace").strip()
    if told:
        return told
    if given:
        raise _wrong(f'the repository {where.top} has no commit "{name}"')
    raise Invalid(
        f"the repository {where.top} has no commit yet, which a worktree starts from. Make a first "
        "commit, or leave the environment out.",
        metadata={"field": "environment"},
    )


def _tip(job: Job, where: Repository, branch: str) -> str | None:
    """The commit of a branch; None when there is no such branch, so that it can be made."""
    try:
        told = job.run("check-ref-format", "--branch", branch, cwd=where.top)
    except GitMissing:
        raise
    except GitFailed as error:
        raise _wrong(f'"{branch}" is no name for a branch') from error
    # Git also takes words such as @{-1} here, and tells which branch is meant.
    if os.fsdecode(told).strip() != branch:
        raise _wrong(f'"{branch}" is no name for a branch')
    args = ("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
    told = job.run(*args, cwd=where.top, ok=(0, 1, 128)).decode(errors="replace").strip()
    return told or None


def _refuse_taken(job: Job, where: Repository, branch: str) -> None:
    told = job.run("worktree", "list", "--porcelain", cwd=where.top)
    path = ""
    for line in _lines(told):
        if line.startswith("worktree "):
            path = line.removeprefix("worktree ")
        elif line == f"branch refs/heads/{branch}":
            raise _wrong(
                f'the branch "{branch}" is checked out in {path}, and git has a branch in one '
                "worktree at a time: name another branch, or check out another one there"
            )


def _refuse_beside(job: Job, where: Repository, branch: str) -> None:
    """Git has no branch a beside a branch a/b."""
    first = branch.partition("/")[0]
    args = ("for-each-ref", "--format=%(refname)", f"refs/heads/{first}")
    for ref in _lines(job.run(*args, cwd=where.top)):
        other = ref.removeprefix("refs/heads/")
        if other.startswith(f"{branch}/") or branch.startswith(f"{other}/"):
            raise _wrong(
                f'there is a branch "{other}", beside which git has none called "{branch}": name '
                "another one"
            )


def _check_out(place: Place, facts: Facts, job: Job) -> None:
    env = without_filters(job, facts.top, own_only=True)
    job.run("reset", "--hard", "--quiet", cwd=facts.top, env=env)
    Path(place.workspace).mkdir(parents=True, exist_ok=True)


def _work_in(job: Job, facts: Facts) -> str:
    """What would be lost; "" when nothing would."""
    if not _exists(facts.top):
        # Somebody removed it, and perhaps an agent wrote on in its place.
        path = Path(facts.top)
        return "git does not know the files in it" if path.is_dir() and any(path.iterdir()) else ""
    env = without_filters(job, facts.top, own_only=True)
    head = job.run("rev-parse", "HEAD", cwd=facts.top, env=env).decode().strip()
    args = ("status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty")
    if job.run(*args, cwd=facts.top, env=env).strip():
        return "there are changes in it"
    args = ("rev-parse", "--path-format=absolute", "--git-path", "modules")
    if Path(os.fsdecode(job.run(*args, cwd=facts.top, env=env)).rstrip("\n")).is_dir():
        return "there are submodules in it"
    if head != facts.base:
        return "there are commits in it"
    return "a commit in it is on no branch" if unreached(job, facts.top, env, facts.base) else ""


def _drop(job: Job, facts: Facts) -> None:
    """Removes the directory and git's knowledge of it, whatever state they are in."""
    if Path(facts.repository).is_dir():
        told = job.run("worktree", "list", "--porcelain", cwd=facts.repository, ok=(0, 128))
        if f"worktree {facts.top}" in _lines(told):
            # Once more force for one that a killed git has left locked.
            args = ("worktree", "remove", "--force", "--force", facts.top)
            job.run(*args, cwd=facts.repository, ok=(0, 128))
    if Path(facts.top).exists():
        shutil.rmtree(facts.top)


def _drop_branch(job: Job, facts: Facts) -> None:
    """A branch of ours without a commit of its own goes with its worktree."""
    if facts.own and Path(facts.repository).is_dir():
        args = ("update-ref", "-d", f"refs/heads/{facts.branch}", facts.base)
        job.run(*args, cwd=facts.repository, ok=(0, 1, 128))
