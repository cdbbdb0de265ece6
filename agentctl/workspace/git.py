"""Owns how git is run: on a thread, bounded in time and output, with no program of the repository.

No hook, file system monitor, pager, prompt, filter or transport of a repository runs, nothing of the
daemon's own GIT_* is inherited, and no lock is taken that the user could meet. It refuses to know
what git is asked for.
"""

import math
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")

# Answers that are lists or words; patches have a limit of their own.
OUTPUT_BYTES = 64 << 20
# Why a command failed fits into this much of what it wrote to stderr.
ERROR_BYTES = 4 << 10
# A git that was killed is gone at once; one that the kernel holds must not hold the daemon.
REAP_S = 2.0
# Threads that wait for git at one time: more of them only wait for the same disk.
AT_ONCE = 4
# Who waits for a turn waits behind looks and snapshots, which are bounded themselves.
TURN_S = 15.0
CHUNK = 1 << 18

_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "TMPDIR")
_SET = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
}
_OPTIONS = (
    "--no-pager",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.splitIndex=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.safecrlf=false"),
    *("-c", "diff.suppressBlankEmpty=false"),
    *("-c", "submodule.recurse=false"),
    *("-c", "gc.auto=0"),
)


class GitFailed(Exception):
    """Git ended with an error; the text is its own last words."""


class GitMissing(GitFailed):
    """There is no git on the PATH."""


class GitLate(GitFailed):
    """It took longer than it may."""


class GitBusy(GitFailed):
    """It did not get its turn."""


class GitTooMuch(GitFailed):
    """It wrote more, or would have to read more, than it may."""


@dataclass(frozen=True, slots=True)
class Repository:
    """Where a work tree and its git files are: absolute paths, `prefix` ends with / or is ""."""

    top: str
    prefix: str
    git_dir: str
    common: str
    index: str
    objects: str


class Job:
    """Some git commands in a row under one deadline; it blocks, so it lives on a thread."""

    def __init__(self, seconds: float, environ: Mapping[str, str]) -> None:
        self._seconds = seconds
        self._ends = 0.0
        self._environ = {**{k: environ[k] for k in _PASSED if k in environ}, **_SET}
        self._stopped = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Its time runs from now on."""
        self._ends = time.monotonic() + self._seconds

    def stop(self) -> None:
        """Ends what runs and lets nothing more begin; called from another thread."""
        self._stopped.set()
        if (process := self._process) is not None:
            _kill(process)

    def run(
        self,
        *args: str,
        cwd: str,
        env: Mapping[str, str] | None = None,
        feed: bytes = b"",
        limit: int = OUTPUT_BYTES,
        ok: Sequence[int] = (0,),
    ) -> bytes:
        """What one command says on stdout.

        Raises:
            GitFailed: it ended with a code that is not in `ok`, could not start, took too long or
                said too much.
        """
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as errors:
            told.write(feed)
            told.seek(0)
            process = self._spawn(args, cwd, env or {}, told, errors)
            try:
                out = self._read(process, limit)
                code = process.wait(max(0.0, self._ends - time.monotonic()) + REAP_S)
            except BaseException:
                _kill(process)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(REAP_S)
                raise
            finally:
                self._process = None
                assert process.stdout is not None
                process.stdout.close()
            if code not in ok:
                errors.seek(0)
                words = errors.read(ERROR_BYTES).decode(errors="replace").strip()
                raise GitFailed(words or f"git {args[0]} ended with code {code}")
        return out

    def _spawn(
        self,
        args: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        told: IO[bytes],
        errors: IO[bytes],
    ) -> subprocess.Popen[bytes]:
        if self._stopped.is_set():
            raise GitLate("it was given up")
        try:
            process = subprocess.Popen(
                ("git", *_OPTIONS, *args),
                cwd=cwd,
                env={**self._environ, **env},
                stdin=told,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            if not Path(cwd).is_dir():
                raise GitFailed(f"{cwd} is gone") from error
            raise GitMissing(f"git cannot be run: {error.strerror}") from error
        self._process = process
        if self._stopped.is_set():
            _kill(process)
        return process

    def _read(self, process: subprocess.Popen[bytes], limit: int) -> bytes:
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        parts: list[bytes] = []
        size = 0
        while True:
            left = self._ends - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise GitLate("git took too long")
            part = os.read(descriptor, CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
            if size > limit:
                raise GitTooMuch(f"git said more than {limit} bytes")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class Git:
    """Runs jobs beside the loop, some at a time."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._turns = anyio.CapacityLimiter(AT_ONCE)
        self._threads = anyio.CapacityLimiter(math.inf)

    def apart(self) -> "Git":
        """The same with turns of its own, for jobs that take minutes."""
        return Git(self._environ)

    async def do(self, work: Callable[[Job], T], seconds: float) -> T:
        """Runs `work` on a thread; a caller that leaves ends it.

        Raises:
            GitFailed: what `work` raised, or it did not get its turn in time.
        """
        job = Job(seconds, self._environ)
        try:
            with anyio.fail_after(TURN_S):
                await self._turns.acquire_on_behalf_of(job)
        except TimeoutError as error:
            raise GitBusy("too much else was asked of git") from error
        try:
            job.begin()
            with anyio.fail_after(seconds + REAP_S):
                return await anyio.to_thread.run_sync(
                    work, job, abandon_on_cancel=True, limiter=self._threads
                )
        except TimeoutError as error:
            raise GitLate("git took too long") from error
        finally:
            job.stop()
            self._turns.release_on_behalf_of(job)


def has_git(folder: str) -> bool:
    """Whether this directory or one above it holds a repository; starts nothing."""
    path = Path(folder)
    return any(os.path.lexists(each / ".git") for each in (path, *path.parents))


def locate(job: Job, folder: str) -> Repository | None:
    """The repository whose work tree `folder` is in; None when it is in none."""
    if not has_git(folder):
        return None
    try:
        told = job.run(
            "rev-parse",
            "--path-format=absolute",
            *("--show-toplevel", "--git-dir", "--git-common-dir"),
            *("--git-path", "index", "--git-path", "objects", "--show-prefix"),
            cwd=folder,
        )
    except GitFailed as error:
        # A `.git` may be anything, for instance an empty place that a sandbox has mounted.
        if "not a git repository" in str(error):
            return None
        raise
    lines = os.fsdecode(told).split("\n")
    # Git before 2.31 repeats what it does not know; a line end in a path gives a line too many.
    if len(lines) != 7 or not all(line.startswith("/") for line in lines[:5]):
        raise GitFailed("its path holds a line end, or git is older than 2.31")
    top, git_dir, common, index, objects, prefix, _ = lines
    return Repository(top, prefix, git_dir, common, index, objects)


def without_filters(job: Job, cwd: str, *, own_only: bool) -> dict[str, str]:
    """Environment that turns off filter programs: all of them, or those that the repository names.

    Those of the user's own configuration are the user's to run; a repository's may be anybody's.
    """
    told = job.run(
        *("config", "--null", "--show-scope", "--name-only"),
        *("--get-regexp", r"^filter\..*\.(clean|smudge|process|required)$"),
        cwd=cwd,
        ok=(0, 1),
    )
    fields = os.fsdecode(told).split("\0")
    drivers = {
        name.removeprefix("filter.").rpartition(".")[0]
        for scope, name in zip(fields[::2], fields[1::2], strict=False)
        if not own_only or scope in ("local", "worktree")
    }
    values = {"clean": "", "smudge": "", "process": "", "required": "false"}
    settings = [(f"filter.{d}.{key}", value) for d in drivers for key, value in values.items()]
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return env


def quoted_path(path: str) -> str:
    """A path as an item of GIT_ALTERNATE_OBJECT_DIRECTORIES, whose separator is a colon."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unreached(job: Job, top: str, env: Mapping[str, str], base: str) -> bool:
    """Whether a commit was checked out in that work tree which no ref reaches; `base` is not asked for."""
    told = job.run("rev-list", "--walk-reflogs", "HEAD", "--", cwd=top, env=env, ok=(0, 128))
    seen = {*told.split()} - {base.encode()}
    if not seen:
        return False
    args = ("rev-list", "--max-count=1", "--ignore-missing", "--stdin", "--not", "--all")
    return bool(job.run(*args, cwd=top, env=env, feed=b"\n".join([*seen, b""])).strip())
