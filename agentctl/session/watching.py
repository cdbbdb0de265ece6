"""Owns one session's view of its repository: a `git` event at its start and at every change.

It refuses to know how a repository is looked at (`agentctl.workspace`).
"""

from typing import TYPE_CHECKING

import anyio

from agentctl.core.errors import AgentctlError
from agentctl.core.events import Event, Git
from agentctl.session.writes import Writes
from agentctl.workspace.status import GitState
from agentctl.workspace.watch import Follower, Watchers

if TYPE_CHECKING:
    from agentctl.session.session import Session

# A close waits this long for the last state of the repository, which is told in milliseconds.
LAST_S = 2.0


class Watching:
    """Follows the work tree of one session from its first agent on."""

    def __init__(self, session: "Session", watchers: Watchers | None) -> None:
        self._session = session
        self._watchers = watchers
        self._follower: Follower | None = None
        self._asking = False
        self._followed = anyio.Event()
        self._followed.set()
        self._closed = False
        self._cause = ""
        self._tools = False

    def begin(self) -> None:
        """There is an agent, so that there may be changes."""
        if self._watchers is not None and self._follower is None and not self._asking:
            self._asking = True
            self._followed = anyio.Event()
            self._session.deps.background(self._follow)

    async def _follow(self) -> None:
        if self._watchers is None:
            return
        try:
            workspace = self._session.record.spec.workspace
            follower = await self._watchers.follow(workspace, self._told)
            if follower is not None and self._closed:
                follower.close()
            else:
                self._follower = follower
        finally:
            self._asking = False
            self._followed.set()

    def tool_ended(self, run_id: str) -> None:
        """A tool may have changed files, or made commits."""
        self._cause = run_id
        if self._follower is not None:
            self._follower.nudge()
        else:
            self._tools = True

    def turn_ends(self) -> None:
        """The agent has said its last word of a run."""
        if self._follower is not None:
            self._follower.nudge(at_once=True)
        elif self._tools:
            # It may have made a repository of a directory that was none.
            self._tools = False
            self.begin()

    async def last(self) -> None:
        """The agent is gone: waits for the look that its last tools asked for."""
        with anyio.move_on_after(LAST_S):
            await self._followed.wait()
            if self._follower is not None:
                await self._follower.settle()

    def close(self) -> None:
        self._closed = True
        if self._follower is not None:
            self._follower.close()
            self._follower = None

    async def _told(self, state: GitState) -> None:
        session = self._session
        if self._closed:
            return
        payload = Git(
            branch=state.branch,
            head=state.head,
            dirty=state.dirty,
            files=state.files,
            additions=state.additions,
            deletions=state.deletions,
        )
        running = session.ledger.running
        late = self._cause if running is None else ""
        self._cause = ""
        writes = Writes()
        event = Event(payload, run_id=running.id if running else None, after_run_id=late or None)
        session.ledger.add([event], writes)
        try:
            await session.commit(writes)
        except AgentctlError:
            # With the disk full the next change is told again.
            return
