"""Owns which event streams of a server are read: one of all directories, one for each, or none at all.

A server of another make may have only the older route, or no events: then its answers have to do.
"""

import logging

import anyio
import httpx
from anyio.abc import TaskGroup

from agentctl.core.errors import AgentFailed, Refused
from agentctl_adapters.opencode.link import ServerLink
from agentctl_adapters.opencode.refetch import Refetch
from agentctl_adapters.opencode.roster import Roster
from agentctl_adapters.opencode.stream import PACE, EventStream, Locked, Pace

logger = logging.getLogger(__name__)

ALL = "/global/event"
ONE = "/event"
# The stream is open within milliseconds; a cold directory with plugins needs over a minute.
FIRST_S = 20.0
DIRECTORY_S = 120.0


class Streams:
    """The readers of one server."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        link: ServerLink,
        roster: Roster,
        refetch: Refetch,
        group: TaskGroup,
        pace: Pace = PACE,
    ) -> None:
        self.live = False
        """Whether events come at all."""
        self.readers: list[EventStream] = []
        self._http = http
        self._link = link
        self._roster = roster
        self._refetch = refetch
        self._group = group
        self._pace = pace
        self._by_directory: dict[str, EventStream] = {}
        self._each = False

    async def start(self) -> None:
        """Opens the stream of all directories, where the server has one.

        Raises:
            Refused: AUTH_REQUIRED.
            AgentFailed: it does not begin.
        """
        stream = await self._open(ALL, "", FIRST_S)
        self.live = stream.failure is None
        self._each = not self.live

    async def open(self, directory: str) -> None:
        """Sees to it that events of a directory come from now on, if the server has any."""
        if not self._each or directory in self._by_directory:
            return
        stream = await self._open(ONE, directory, DIRECTORY_S)
        self._by_directory[directory] = stream
        self.live = self.live or stream.failure is None

    async def _open(self, path: str, directory: str, timeout_s: float) -> EventStream:
        first = not self._by_directory
        stream = EventStream(
            self._http,
            self._link,
            self._roster,
            self._refetch.all,
            lambda: bool(self._refetch.running()),
            path=path,
            directory=directory,
            first=first,
            pace=self._pace,
        )
        self.readers.append(stream)
        self._group.start_soon(stream.run)
        with anyio.move_on_after(timeout_s):
            await stream.opened.wait()
            if isinstance(stream.failure, Locked):
                raise Refused(
                    f"the server refuses its events ({stream.failure}). Check the auth of the entry.",
                    reason="AUTH_REQUIRED",
                )
            if stream.failure is not None:
                logger.info("no events at %s: %s", path, stream.failure)
            return stream
        raise AgentFailed(f"the event stream {path} did not begin within {timeout_s:g} s")
