"""Owns pictures of a git work tree, and the patch between two of them.

A snapshot is a tree made through a private index, its new objects in a private directory that
borrows the repository's own. It refuses to write anything of the user's: index, refs, objects.
"""

import hashlib
import logging
import os
import shutil
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread

from agentctl.workspace.git import (
    Git,
    GitFailed,
    GitLate,
    GitTooMuch,
    Job,
    Repository,
    has_git,
    locate,
    quoted_path,
    without_filters,
)

logger = logging.getLogger(__name__)

# A prompt waits for its baseline: a work tree that takes longer goes without a patch.
TAKE_S = 10.0
# The end of a run waits for its patch, a little longer.
PATCH_S = 20.0
# A work tree that was too slow or too large is not tried again at once: each try costs a prompt, and
# the wait doubles up to a day.
RETRY_S = 600.0
RETRY_MOST_S = 86_400.0
# A larger patch is no longer a patch that anybody reads or applies.
PATCH_BYTES = 64 << 20
# What is new or changed is copied into the private directory; more than this is data, not source.
TREE_BYTES = 256 << 20
# A daemon that stops waits no longer for its objects to go.
CLOSE_S = 2.0
# Private objects that no snapshot needs any more are dropped once they are as old as this.
RENEW_S = 3600.0

_EMPTY = frozenset(
    {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Snapshot:
    """What a work tree held. `head` is "" before the first commit; `clean`: nothing differs from it.

    `root` is the top of the work tree and `prefix` where in it the workspace is ("" or "a/b/").
    """

    tree: str
    head: str
    clean: bool
    root: str
    prefix: str
    where: Repository = field(repr=False)


@dataclass(frozen=True, slots=True)
class Patch:
    """What `git apply` takes at the top of a checkout. Counts are of files and lines.

    `commit` is the commit that it applies to; None when the work tree held other changes before.
    """

    data: bytes
    files: int
    additions: int
    deletions: int
    commit: str | None


class _Store:
    """The private objects of one repository; dropped when no snapshot needs them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.objects = home / "objects"
        self._lock = threading.Lock()
        self._busy = 0
        self._made = 0.0
        self._alive: weakref.WeakSet[Snapshot] = weakref.WeakSet()

    @contextmanager
    def used(self) -> Generator[None]:
        with self._lock:
            idle = not self._busy and not self._alive
            if idle and self._made and time.monotonic() - self._made > RENEW_S:
                shutil.rmtree(self.home, ignore_errors=True)
            if not self.objects.is_dir():
                self.objects.mkdir(mode=0o700, parents=True)
                self._made = time.monotonic()
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def keep(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._alive.add(snapshot)

    @contextmanager
    def index(self, source: str = "") -> Generator[str]:
        """A private index that begins as a copy of `source`.

        The copy keeps the time of the original, by which git knows what it must look at again.
        """
        with tempfile.TemporaryDirectory(dir=self.home, prefix="index-") as folder:
            path = Path(folder, "index")
            if source and Path(source).is_file():
                shutil.copy2(source, path)
            yield str(path)


class Snapshots:
    """Takes and compares them; one for a daemon, whose data directory nobody else uses."""

    def __init__(self, data_dir: Path, git: Git | None = None) -> None:
        self._all = data_dir / "snapshots"
        self._home = self._all / uuid4().hex[:12]
        self._git = git or Git()
        self._stores: dict[str, _Store] = {}
        self._slow: dict[str, tuple[float, float]] = {}
        self._why: dict[str, str] = {}
        self._lock = threading.Lock()

    async def take(self, workspace: str) -> Snapshot | None:
        """The work tree that `workspace` is in, as it is now.

        None where there is no work tree, git is missing, or it is too large or too slow for this.
        """
        until, wait = self._slow.get(workspace, (0.0, RETRY_S))
        # Whoever works without git waits for nobody's turn.
        if time.monotonic() < until or not await anyio.to_thread.run_sync(has_git, workspace):
            return None
        try:
            taken = await self._git.do(partial(self._take, workspace), TAKE_S)
            self._slow.pop(workspace, None)
            self._why.pop(workspace, None)
            return taken
        except (GitLate, GitTooMuch) as error:
            self._slow[workspace] = (time.monotonic() + wait, min(2 * wait, RETRY_MOST_S))
            self._why[workspace] = str(error)
            minutes = round(wait / 60)
            logger.warning(
                "no snapshot of %s for the next %d minutes: %s", workspace, minutes, error
            )
        except (GitFailed, OSError) as error:
            logger.info("no snapshot of %s: %s", workspace, error)
        return None

    def trouble(self, workspace: str) -> str:
        """Why its work tree, too large or too slow, is left alone for now; "" when it is not."""
        return self._why.get(workspace, "")

    async def patch(self, before: Snapshot, after: Snapshot) -> Patch | None:
        """What leads from one to the other; None when nothing does, or it is too large."""
        if before.tree == after.tree:
            return None
        try:
            return await self._git.do(partial(self._patch, before, after), PATCH_S)
        except (GitFailed, OSError) as error:
            logger.warning("no patch of %s: %s", after.root, error)
            return None

    async def uncommitted(self, workspace: str) -> Patch | None:
        """What the work tree holds beyond its commit; None when nothing, or it is too large."""
        after = await self.take(workspace)
        if after is None or after.clean or not after.head:
            return None
        before = replace(after, tree=f"{after.head}^{{tree}}")
        return await self.patch(before, after)

    async def clean(self) -> None:
        """Drops what earlier daemons left: minutes of work, which a caller that leaves ends."""
        await self._remove(own=False)

    async def _remove(self, *, own: bool) -> None:
        left = threading.Event()
        try:
            await anyio.to_thread.run_sync(self._removed, own, left, abandon_on_cancel=True)
        finally:
            left.set()

    def _removed(self, own: bool, left: threading.Event) -> None:
        if not self._all.is_dir():
            return
        for each in [each for each in self._all.iterdir() if (each == self._home) == own]:
            for part in each.glob("*/objects/*"):
                if left.is_set():
                    return
                shutil.rmtree(part, ignore_errors=True)
            shutil.rmtree(each, ignore_errors=True)

    async def close(self) -> None:
        """Drops all private objects, or the next start does: none is compared any more."""
        with anyio.move_on_after(CLOSE_S):
            await self._remove(own=True)

    def _store(self, where: Repository) -> _Store:
        key = hashlib.sha256(os.fsencode(where.common)).hexdigest()[:16]
        with self._lock:
            return self._stores.setdefault(key, _Store(self._home / key))

    def _take(self, workspace: str, job: Job) -> Snapshot | None:
        where = locate(job, workspace)
        if where is None:
            return None
        store = self._store(where)
        with store.used(), store.index(where.index) as index:
            env = _private(where, store, index) | without_filters(job, where.top, own_only=False)
            head, tree = _head(job, where.top, env)
            try:
                _record(job, where.top, env)
            except (GitLate, GitTooMuch):
                raise
            except GitFailed:
                # Somebody wrote or removed a file while it was read.
                _record(job, where.top, env)
            made = _words(job.run("write-tree", "--missing-ok", cwd=where.top, env=env))
            clean = made == tree if head else made in _EMPTY
            snapshot = Snapshot(made, head, clean, where.top, where.prefix, where)
            store.keep(snapshot)
        return snapshot

    def _patch(self, before: Snapshot, after: Snapshot, job: Job) -> Patch | None:
        where = after.where
        store = self._store(where)
        with store.used(), store.index() as index:
            env = _private(where, store, index)
            tree = _with_ignored(job, before, after, env)
            told = job.run(
                *("diff-tree", "-r", "-p", "--numstat", "--binary", "--full-index", "-M"),
                *("--no-ext-diff", "--no-textconv", "--no-color"),
                *("--src-prefix=a/", "--dst-prefix=b/", before.tree, tree),
                cwd=where.top,
                env=env,
                limit=PATCH_BYTES,
            )
        numbers, _, data = told.partition(b"\n\n")
        if not data:
            return None
        lines = [line.split(b"\t", 2)[:2] for line in numbers.split(b"\n")]
        return Patch(
            data=data,
            files=len(lines),
            additions=sum(int(more) for more, _ in lines if more != b"-"),
            deletions=sum(int(less) for _, less in lines if less != b"-"),
            commit=before.head if before.clean and before.head else None,
        )


def _private(where: Repository, store: _Store, index: str) -> dict[str, str]:
    return {
        "GIT_DIR": where.git_dir,
        "GIT_WORK_TREE": where.top,
        "GIT_INDEX_FILE": index,
        "GIT_OBJECT_DIRECTORY": str(store.objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted_path(where.objects),
    }


def _words(told: bytes) -> str:
    return told.decode().strip()


def _head(job: Job, top: str, env: dict[str, str]) -> tuple[str, str]:
    """The commit that is checked out and its tree; both "" before the first one."""
    told = job.run("rev-parse", "HEAD", "HEAD^{tree}", cwd=top, env=env, ok=(0, 128))
    lines = told.decode(errors="replace").split()
    return (lines[0], lines[1]) if len(lines) == 2 and lines[0] != "HEAD" else ("", "")


def _record(job: Job, top: str, env: dict[str, str]) -> None:
    """Brings the private index to what the work tree holds, ignored files left out."""
    told = job.run("ls-files", "-z", "-o", "-m", "--exclude-standard", cwd=top, env=env)
    paths = {path for path in told.split(b"\0") if path and not path.endswith(b"/")}
    room = TREE_BYTES
    kept: list[bytes] = []
    for path in sorted(paths):
        full = os.path.join(os.fsencode(top), path)  # noqa: PTH118  (bytes: any file name)
        try:
            found = os.lstat(full)
        except OSError:
            kept.append(path)
            continue
        if stat.S_ISREG(found.st_mode):
            room -= found.st_size
            if not os.access(full, os.R_OK):
                continue
        kept.append(path)
    if room < 0:
        raise GitTooMuch(f"more than {TREE_BYTES >> 20} MiB are new or changed in it")
    if kept:
        args = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        job.run(*args, cwd=top, env=env, feed=b"\0".join([*kept, b""]))


def _with_ignored(job: Job, before: Snapshot, after: Snapshot, env: dict[str, str]) -> str:
    """The tree of `after` with what vanished from it and is still there: it is ignored by now."""
    told = job.run(
        *("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=D", before.tree, after.tree),
        cwd=after.root,
        env=env,
    )
    fields = told.split(b"\0")
    still: Sequence[bytes] = [
        b"%s %s\t%s\0" % (raw.split()[0][1:], raw.split()[2], path)
        for raw, path in zip(fields[::2], fields[1::2], strict=False)
        if _is_file(os.fsencode(after.root), path)
    ]
    if not still:
        return after.tree
    job.run("read-tree", after.tree, cwd=after.root, env=env)
    args = ("update-index", "--add", "--replace", "-z", "--index-info")
    job.run(*args, cwd=after.root, env=env, feed=b"".join(still))
    return _words(job.run("write-tree", "--missing-ok", cwd=after.root, env=env))


def _is_file(top: bytes, path: bytes) -> bool:
    """Whether a file or link is there, under that very path and not through a link."""
    folder, name = os.path.split(path)
    real = os.path.realpath(os.path.join(top, folder))  # noqa: PTH118  (bytes: any file name)
    if real != os.path.normpath(os.path.join(os.path.realpath(top), folder)):  # noqa: PTH118
        return False
    try:
        mode = os.lstat(os.path.join(real, name)).st_mode  # noqa: PTH118
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)
