"""Owns what is asked of a server when events may have been missed: children, messages, requests, states.

In that order, so that what was said meanwhile is told before its turn ends; the translator tells only the
difference. A server that lacks one of these routes is asked for the others.
"""

from collections.abc import Collection, Sequence

import anyio

from agentctl.core.errors import AgentctlError
from agentctl_adapters.opencode.client import Answer, Api, Call
from agentctl_adapters.opencode.link import ServerLink
from agentctl_adapters.opencode.roster import Roster
from agentctl_adapters.opencode.shapes import as_object, status_of
from agentctl_adapters.opencode.translate import OpenCodeTranslator

# The reader of events waits meanwhile: a server that hangs must not hold it up for long.
REFETCH_TIMEOUT_S = 10.0
# A turn shows its prompt some milliseconds before it is busy, and its last word up to 330 ms after.
LOOKS = 3
LOOK_PAUSE_S = 0.25
# A long history is not read again for the end of one turn.
MESSAGES_ASKED = "100"


class Refetch:
    """Looks at the sessions of ours on one server."""

    def __init__(
        self, api: Api, link: ServerLink, roster: Roster, translator: OpenCodeTranslator
    ) -> None:
        self._api = api
        self._link = link
        self._roster = roster
        self._book = translator

    def running(self) -> list[str]:
        """Our sessions with an open turn."""
        return [own for own in self._book.book.running() if self._roster.roots.get(own) == own]

    async def all(self) -> bool:
        """After a break of the stream; true when something had been missed."""
        return await self._look(self.running(), {*self._roster.directories.values()})

    async def session(self, native: str) -> bool:
        """One session that seems to be at its end."""
        return await self._look([native], {self._roster.directory_of(native)})

    async def requests(self, directory: str) -> None:
        """What waits for an answer in a directory; for a session that was just resumed."""
        async with self._link.turn:
            self._tell(await self._listed(directory))
            await self._states(directory, [])
            await self._link.deliver()

    async def _look(self, sessions: Sequence[str], directories: Collection[str]) -> bool:
        async with self._link.turn:
            before = self._link.told
            # Read before the messages and told after them: a request that is listed now has its tool
            # in what is read next, so that no card overtakes the calls before it.
            listed = [each for directory in directories for each in await self._listed(directory)]
            for native in sessions:
                await self._messages(native)
            self._tell(listed)
            for native in sessions:
                await self._get(f"/session/{native}/todo", self._roster.directory_of(native))
            for directory in directories:
                await self._states(directory, sessions)
            await self._link.deliver()
            return self._link.told > before

    async def _messages(self, native: str) -> None:
        directory = self._roster.directory_of(native)
        self._roster.learn(await self._get(f"/session/{native}/children", directory))
        for member in self._book.book.family(native):
            await self._get(
                f"/session/{member}/message",
                self._roster.directory_of(member),
                {"limit": MESSAGES_ASKED},
            )

    async def _states(self, directory: str, sessions: Sequence[str]) -> None:
        """Who is busy. One that is not, and has not finished either, is looked at again."""
        call = self._api.open("GET", "/session/status", directory=directory, quiet=True)
        here = [own for own in sessions if self._roster.directory_of(own) == directory]
        for look in range(LOOKS):
            try:
                answer = await self._api.send(call, REFETCH_TIMEOUT_S)
            except AgentctlError:
                return
            idle = [own for own in here if not _works(answer.body, own) and self._unfinished(own)]
            if not idle or look == LOOKS - 1:
                self._api.tell(call, answer)
                return
            await anyio.sleep(LOOK_PAUSE_S)
            for native in idle:
                await self._messages(native)

    def _unfinished(self, native: str) -> bool:
        turn = self._book.book.view(native).turn
        return turn is not None and (turn.last is None or not turn.last.completed)

    async def _listed(self, directory: str) -> list[tuple[Call, Answer]]:
        """The open requests of a directory, not yet told."""
        found: list[tuple[Call, Answer]] = []
        for path in ("/permission", "/question"):
            call = self._api.open("GET", path, directory=directory, quiet=True)
            try:
                answer = await self._api.send(call, REFETCH_TIMEOUT_S)
            except AgentctlError:
                continue
            self._roster.learn(answer.body if answer.ok else None)
            found.append((call, answer))
        return found

    def _tell(self, listed: Sequence[tuple[Call, Answer]]) -> None:
        for call, answer in listed:
            self._api.tell(call, answer)

    async def _get(self, path: str, directory: str, query: dict[str, str] | None = None) -> object:
        try:
            answer = await self._api.call(
                "GET",
                path,
                directory=directory,
                query=query,
                resync=True,
                timeout_s=REFETCH_TIMEOUT_S,
            )
        except AgentctlError:
            return None
        return answer.body if answer.ok else None


def _works(body: object, session: str) -> bool:
    status = status_of({"status": as_object(body).get(session)})
    return status.get("type") in ("busy", "retry")
