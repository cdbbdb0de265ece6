"""Owns the event streams of clients: each has a bounded queue, and who falls behind is told and let go.

An event is encoded once, whoever listens. A client whose stream was ended reads the state again, as after
any break: that is what OpenCode's clients do on `server.instance.disposed`.
"""

import itertools
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import anyio
import orjson

from agentctl.gateway.opencode.message import Said
from agentctl.gateway.opencode.words import Json

# As often as OpenCode's server: clients and proxies take a longer silence for a dead connection.
HEARTBEAT_S = 10.0

# What may wait for one client. A flood of ten seconds fits; more is a reader that stopped.
MAX_WAITING = 32 << 20

# What a newcomer is told of the last minute; who was away for longer reads it all.
MAX_STATE = 4 << 20

_numbers = itertools.count(1)


def passing_id(what: str) -> str:
    """An id for an event that is in no journal."""
    return f"evt_{what}_{time.time_ns() // 1_000_000:x}{next(_numbers) & 0xFFF:03x}"


class Event:
    """One event for clients, and its two forms on the wire."""

    def __init__(self, own: str, said: Said, directory: str = "", project: str = "") -> None:
        self.directory = directory
        self.view: Json = {"id": own, "type": said.type, "properties": said.properties}
        self._project = project

    @cached_property
    def plain(self) -> bytes:
        return frame(self.view)

    @cached_property
    def enveloped(self) -> bytes:
        if not self.directory:
            return frame({"payload": self.view})
        out = {"directory": self.directory, "project": self._project, "payload": self.view}
        return frame(out)


def frame(value: Json) -> bytes:
    return b"event: message\ndata: " + orjson.dumps(value) + b"\n\n"


@dataclass(eq=False, slots=True)
class Client:
    """One open stream. `directory` None: it wants those of all."""

    directory: str | None
    waiting: deque[bytes] = field(default_factory=deque[bytes])
    size: int = 0
    lost: bool = False
    news: anyio.Event = field(default_factory=anyio.Event)

    def put(self, event: Event) -> None:
        if self.directory is not None and event.directory not in ("", self.directory):
            return
        self.add(event.enveloped if self.directory is None else event.plain)

    def add(self, data: bytes) -> None:
        if self.lost:
            return
        # One event alone may be larger: who reads must not be cut off for it.
        if self.size > MAX_WAITING:
            self.lost = True
            self.waiting.clear()
            self.size = 0
        else:
            self.waiting.append(data)
            self.size += len(data)
        self.news.set()

    def take(self) -> bytes:
        """All that waits, in one piece."""
        data = b"".join(self.waiting)
        self.waiting.clear()
        self.size = 0
        self.news = anyio.Event()
        return data


class Bus:
    """Everyone who listens. `state` says what a newcomer may have missed while nobody told it."""

    def __init__(
        self, state: Callable[[], Iterable[Event]] = lambda: (), heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self._clients: set[Client] = set()
        self._state = state
        self._heartbeat_s = heartbeat_s
        self._closed = False

    @property
    def listeners(self) -> int:
        return len(self._clients)

    def publish(self, event: Event) -> None:
        for client in self._clients:
            client.put(event)

    def close(self) -> None:
        """Ends every stream: the server stops."""
        self._closed = True
        for client in self._clients:
            client.lost = True
            client.news.set()

    async def stream(
        self, directory: str | None, about: str, project: str
    ) -> AsyncGenerator[bytes]:
        """The bytes of one stream, until its client leaves or falls behind.

        Args:
            directory: Only events of this directory; None: all, with their envelope.
            about: The directory that the first event names.
            project: Its project.
        """
        client = Client(directory)
        self._clients.add(client)
        try:
            first = Event(passing_id("connected"), Said("server.connected", {}), about, project)
            client.put(first)
            for event in self._state():
                if client.size < MAX_STATE:
                    client.put(event)
            while not self._closed:
                if client.lost:
                    told = Said("server.instance.disposed", {"directory": about})
                    gone = Event(passing_id("behind"), told, about, project)
                    yield gone.enveloped if directory is None else gone.plain
                    return
                if client.waiting:
                    yield client.take()
                    continue
                with anyio.move_on_after(self._heartbeat_s):
                    await client.news.wait()
                    continue
                beat = Event(passing_id("heartbeat"), Said("server.heartbeat", {}), about, project)
                client.put(beat)
        finally:
            self._clients.discard(client)
