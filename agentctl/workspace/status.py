"""Owns what a look at a repository tells: branch, commit, and how much differs from it.

It refuses to know when to look, and writes nothing.
"""

import os
from dataclasses import dataclass

from agentctl.workspace.git import GitTooMuch, Job, Repository, without_filters

# Millions of changed files are a number that nobody waits for.
STATUS_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class GitState:
    """The state of a work tree. None is "there is none": no branch when detached, no commit yet.

    `files` counts untracked ones too; lines are those of tracked files. All three are None when
    there are too many to count.
    """

    branch: str | None
    head: str | None
    dirty: bool
    files: int | None = None
    additions: int | None = None
    deletions: int | None = None


def look(job: Job, where: Repository) -> GitState:
    """One look, bounded as the job is.

    Raises:
        GitFailed: git could not tell, or not in time.
    """
    filters = without_filters(job, where.top, own_only=True)
    args = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all")
    quiet = ("--ignore-submodules=dirty", "--no-renames")
    try:
        told = job.run(*args, *quiet, cwd=where.top, env=filters, limit=STATUS_BYTES)
    except GitTooMuch:
        args = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=no")
        head = _parse(job.run(*args, *quiet, cwd=where.top, env=filters))
        return GitState(head.branch, head.head, dirty=True)
    state = _parse(told)
    if not state.dirty or state.head is None:
        return state
    numbers = job.run(
        *("-c", "diff.autoRefreshIndex=false", "diff", "--numstat", "--no-renames"),
        *("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "HEAD", "--"),
        cwd=where.top,
        env=filters,
        limit=STATUS_BYTES,
    )
    more, less = _sum(numbers)
    return GitState(state.branch, state.head, state.dirty, state.files, more, less)


def _parse(told: bytes) -> GitState:
    branch = head = None
    files = 0
    for line in told.split(b"\0"):
        if line.startswith(b"# branch.oid "):
            word = line.removeprefix(b"# branch.oid ").decode()
            head = None if word == "(initial)" else word
        elif line.startswith(b"# branch.head "):
            word = os.fsdecode(line.removeprefix(b"# branch.head "))
            branch = None if word == "(detached)" else word.encode(errors="replace").decode()
        elif line[:2] in (b"1 ", b"2 ", b"u ", b"? "):
            files += 1
    return GitState(branch, head, files > 0, files)


def _sum(numbers: bytes) -> tuple[int, int]:
    more = less = 0
    for line in numbers.splitlines():
        fields = line.split(b"\t", 2)
        if len(fields) == 3 and fields[0].isdigit() and fields[1].isdigit():
            more += int(fields[0])
            less += int(fields[1])
    return more, less
