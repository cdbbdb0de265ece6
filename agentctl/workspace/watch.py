"""Owns when repositories are looked at: one watcher for each work tree, whoever follows it.

A look follows a notice of the file system about the git directory, or a nudge after a tool; never a
clock. It refuses to know sessions and events.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from agentctl.workspace.git import Git, GitFailed, GitLate, Job, Repository, has_git, locate
from agentctl.workspace.status import GitState, look

logger = logging.getLogger(__name__)

# A work tree that takes longer to look at is looked at no more for a while.
LOOK_S = 10.0
RETRY_S = 600.0
# A look that failed met git at work, or a repository that is gone.
FAILED_S = 5.0
# Tools end in bursts and git writes several files: one look for all of them.
SETTLE_S = 0.2
# At least so many times the time of a look lies between two: looking never takes a whole core.
REST_FACTOR = 5
# How long the notifier joins what comes together, and how often it looks for more, in ms.
DEBOUNCE_MS = 300
STEP_MS = 200
# The thread that waits for notices looks this often whether its caller is gone.
WAIT_MS = 5_000
# Notices that cannot be had (too many watches on this machine) are asked for again after this long.
AGAIN_S = 60.0

Background = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
Told = Callable[[GitState], Awaitable[None]]


class Follower:
    """One who wants to know of a work tree. `told` is called with every new state."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._last: GitState | None = None
        self._tree: _Tree | None = None

    def nudge(self, *, at_once: bool = False) -> None:
        """Something may have changed; `at_once`: and nothing more will for now."""
        if self._tree is not None:
            self._tree.want(at_once=at_once)

    async def settle(self) -> None:
        """Returns when what was nudged has been looked at."""
        while self._tree is not None and self._tree.wanted:
            self._tree.hurry()
            await self._tree.looked.wait()

    def close(self) -> None:
        if self._tree is not None:
            self._tree.leave(self)
            self._tree = None

    def join(self, tree: "_Tree") -> None:
        self._tree = tree
        tree.followers.append(self)
        tree.want(at_once=True)

    async def tell(self, state: GitState) -> None:
        if state != self._last:
            self._last = state
            await self._told(state)


class _Tree:
    """One work tree; looked at by one task at a time."""

    def __init__(self, owner: "Watchers", where: Repository) -> None:
        self.where = where
        self.followers: list[Follower] = []
        self._owner = owner
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self._again = False
        self._not_before = 0.0
        self.looked = anyio.Event()

    @property
    def wanted(self) -> bool:
        """Whether a look is on its way."""
        return self._looking or self._timer is not None

    def hurry(self) -> None:
        """The look that is wanted comes at once."""
        if not self._looking:
            self.want(at_once=True)

    def want(self, *, at_once: bool = False) -> None:
        """A look soon, joined with those that are wanted already."""
        if self._looking:
            self._again = True
            return
        if self._timer is not None:
            if not at_once:
                return
            self._timer.cancel()
        wait = max(0.0 if at_once else SETTLE_S, self._not_before - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(wait, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._looking = True
        self._owner.background(self._look)

    def leave(self, follower: Follower) -> None:
        if follower in self.followers:
            self.followers.remove(follower)
        if not self.followers:
            self.stop()
            self._owner.forget(self)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _look(self) -> None:
        begun = time.monotonic()
        rest = 0.0
        try:
            state = await self._owner.git.do(partial(look, where=self.where), LOOK_S)
        except GitFailed as error:
            logger.info("no state of %s: %s", self.where.top, error)
            rest = RETRY_S if isinstance(error, GitLate) else FAILED_S
            state = None
        finally:
            self._looking = False
            self._not_before = time.monotonic() + max(
                rest, REST_FACTOR * (time.monotonic() - begun)
            )
        if state is not None:
            for follower in list(self.followers):
                await follower.tell(state)
        if self._again and self.followers:
            self.want()
        self._again = False
        self.looked.set()
        self.looked = anyio.Event()


class Watchers:
    """All work trees that are followed. `background` runs what nobody waits for."""

    def __init__(self, git: Git, background: Background) -> None:
        # Looks wait for looks; a prompt waits for its snapshot alone.
        self.git = git.apart()
        self.background = background
        self._trees: dict[str, _Tree] = {}
        self._stop: anyio.Event | None = None
        self._running = False

    async def follow(self, workspace: str, told: Told) -> Follower | None:
        """Tells the state of the work tree soon, and each one that differs; None without one."""
        if not await anyio.to_thread.run_sync(has_git, workspace):
            return None
        try:
            where = await self.git.do(partial(_find, workspace), LOOK_S)
        except GitFailed as error:
            logger.info("the repository of %s is not followed: %s", workspace, error)
            return None
        if where is None:
            return None
        tree = self._trees.get(where.top)
        if tree is None:
            tree = self._trees[where.top] = _Tree(self, where)
            self._renew()
        follower = Follower(told)
        follower.join(tree)
        return follower

    def forget(self, tree: _Tree) -> None:
        self._trees.pop(tree.where.top, None)
        self._renew()

    def close(self) -> None:
        """Looks at nothing any more."""
        for tree in list(self._trees.values()):
            tree.stop()
        self._trees.clear()
        self._renew()

    def _renew(self) -> None:
        """The set of watched directories has changed."""
        if self._stop is not None:
            self._stop.set()
        if self._trees and not self._running:
            self._running = True
            self.background(self._run)

    async def _run(self) -> None:
        try:
            while self._trees:
                await self._wait()
        finally:
            self._running = False

    async def _wait(self) -> None:
        """Notices of one set of directories, until it changes."""
        # The notifier is loaded once somebody works in a repository.
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  its stop_event

        self._stop = stop = anyio.Event()
        owners: dict[str, list[_Tree]] = {}
        for tree in self._trees.values():
            for folder in _folders(tree.where):
                owners.setdefault(folder, []).append(tree)
        there = await anyio.to_thread.run_sync(_existing, [*owners])
        try:
            async for changes in awatch(
                *there,
                recursive=False,
                watch_filter=None,
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                rust_timeout=WAIT_MS,
                stop_event=stop,
                ignore_permission_denied=True,
            ):
                for _, path in changes:
                    for tree in () if path.endswith(".lock") else owners.get(_folder(path), ()):
                        tree.want()
        except (OSError, RuntimeError) as error:
            logger.warning("repositories are looked at after tools only: %s", error)
            with anyio.move_on_after(AGAIN_S):
                await stop.wait()


def _find(workspace: str, job: Job) -> Repository | None:
    return locate(job, workspace)


def _folders(where: Repository) -> set[str]:
    """HEAD, index and packed-refs lie in the git directories; every move of HEAD is in its log."""
    return {where.git_dir, f"{where.git_dir}/logs", where.common}


def _existing(folders: list[str]) -> list[str]:
    return [folder for folder in folders if Path(folder).is_dir()]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
