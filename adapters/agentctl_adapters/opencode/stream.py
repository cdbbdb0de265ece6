"""Owns the event stream of an OpenCode server: one reader, its watchdog, and what to do after a break.

The stream has no ids and replays nothing: after each break what was missed is refetched. Heartbeats
show that the connection lives and not that events arrive. It refuses to know what an event means.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import orjson

from agentctl.core.adapter import Draft, Frame
from agentctl.core.events import Error
from agentctl.transport.frames import LineFramer, Oversized
from agentctl_adapters.opencode.client import CONNECT_TIMEOUT_S
from agentctl_adapters.opencode.link import DEATH_S, ServerLink
from agentctl_adapters.opencode.roster import Roster
from agentctl_adapters.opencode.shapes import as_object, as_text

logger = logging.getLogger(__name__)

LOG_CHARS = 2_000


class NoStream(Exception):
    """The server has no event stream at this place; the message says what came instead."""


class Locked(Exception):
    """The server wants other credentials for its events."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The patience of the reader, in seconds.

    `silence_s`: heartbeats come every 10 s; three that are missed mean a dead connection.
    `quiet_s`: while a turn runs and nothing but heartbeats comes for so long, we look ourselves.
    `quiet_most_s`: the longest pause between such looks. `tick_s`: how often the watchdog wakes.
    `retry_s`, `retry_most_s`: pauses before another connection; `gone_s`: then the server is lost.
    `open_s`: a stream of a cold directory was seen to need 70 s for its first event.
    """

    silence_s: float = 30.0
    quiet_s: float = 30.0
    quiet_most_s: float = 300.0
    tick_s: float = 5.0
    retry_s: float = 0.1
    retry_most_s: float = 2.0
    gone_s: float = 60.0
    open_s: float = 120.0


PACE = Pace()
_CONNECTED: dict[str, Any] = {"type": "server.connected", "properties": {}}
Refetch = Callable[[], Awaitable[bool]]


class SseDecoder:
    """Bytes to the data of events, sans-IO. Names, ids and comments are not used by any server."""

    def __init__(self) -> None:
        self._framer = LineFramer()
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """The data of all events that the chunk completes."""
        events: list[bytes | Oversized] = []
        for line in self._framer.feed(chunk):
            if isinstance(line, Oversized):
                events.append(line)
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events


class EventStream:
    """The events of one server, or of one directory of it. `run` ends when the server is lost."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        link: ServerLink,
        roster: Roster,
        refetch: Refetch,
        busy: Callable[[], bool],
        *,
        path: str = "/global/event",
        directory: str = "",
        first: bool = True,
        pace: Pace = PACE,
    ) -> None:
        self.opened = anyio.Event()
        self.failure: NoStream | Locked | None = None
        self._http = http
        self._link = link
        self._roster = roster
        self._refetch = refetch
        self._busy = busy
        self._path = path
        self._params = {"directory": directory} if directory else {}
        self._first = first
        self._pace = pace
        self._again = False
        self._beating = False
        self._heard_at = 0.0
        self._event_at = 0.0
        self._reading = anyio.CancelScope()

    def cut(self) -> None:
        """Ends this connection; the next one begins at once, with a look at what was missed."""
        self._reading.cancel()

    async def run(self) -> None:
        """Reads, and connects again after each break, until the server is lost or has no stream."""
        pace, lost_at = self._pace, anyio.current_time()
        wait_s = pace.retry_s
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            while True:
                before, grace_s = self._heard_at, 0.0
                try:
                    await self._connect()
                except (NoStream, Locked) as error:
                    if not self._again:
                        self.failure = error
                        break
                    logger.info("events of %s: %s", self._path, error)
                except httpx.HTTPError as error:
                    logger.info("events of %s broke off: %s", self._path, error)
                    grace_s = DEATH_S
                if self._heard_at > before:
                    lost_at, wait_s = anyio.current_time(), pace.retry_s
                if await self._link.dies(grace_s):
                    break
                if self._link.process is None and anyio.current_time() - lost_at > pace.gone_s:
                    break
                await anyio.sleep(wait_s)
                wait_s = min(wait_s * 2, pace.retry_most_s)
            group.cancel_scope.cancel()
        if self.failure is None and self._link.process is None:
            self._link.say(Draft(Error("AGENT_FAILED", "The server cannot be reached any more.")))
            self._link.lose()
        self.opened.set()

    async def _connect(self) -> None:
        headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
        # The silence between events is the watchdog's business.
        timeout = httpx.Timeout(CONNECT_TIMEOUT_S, read=None)
        request = self._http.build_request(
            "GET", self._path, params=self._params, headers=headers, timeout=timeout
        )
        with anyio.CancelScope() as self._reading:
            response = await self._opening(request)
            try:
                self._check(response)
                await self._read(response)
            finally:
                with anyio.CancelScope(shield=True), anyio.move_on_after(1.0):
                    await response.aclose()

    async def _opening(self, request: httpx.Request) -> httpx.Response:
        try:
            with anyio.fail_after(self._pace.open_s):
                return await self._http.send(request, stream=True)
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer to the request for events") from error

    def _check(self, response: httpx.Response) -> None:
        ctype = response.headers.get("content-type", "")
        if response.status_code in (401, 403):
            raise Locked(f"HTTP {response.status_code}")
        if response.status_code != 200 or not ctype.startswith("text/event-stream"):
            raise NoStream(f"HTTP {response.status_code} {ctype}")

    async def _read(self, response: httpx.Response) -> None:
        decoder = SseDecoder()
        self._heard_at = self._event_at = anyio.current_time()
        begun = False
        async for chunk in response.aiter_bytes():
            self._heard_at = anyio.current_time()
            events = decoder.feed(chunk)
            if not begun and events:
                begun = True
                await self._begin()
            if events:
                async with self._link.turn:
                    for data in events:
                        self._take(data)
                    await self._link.deliver()

    async def _begin(self) -> None:
        """A new connection: of what the translator shows, something may have been missed."""
        if self._again or self._first:
            self._link.feed(Frame("sse", dict(_CONNECTED)))
        again, self._again = self._again, True
        self.opened.set()
        if again:
            await self._refetch()

    def _take(self, data: bytes | Oversized) -> None:
        if isinstance(data, Oversized):
            text = f"an event of {data.size} bytes was skipped"
            self._link.say(Draft(Error("LINE_TOO_LONG", text)))
            return
        try:
            event: Any = orjson.loads(data)
        except ValueError:
            raw = data[:LOG_CHARS].decode("utf-8", "replace")
            self._link.feed(Frame("sse", raw=raw))
            return
        told = as_object(event)
        kind = as_text(as_object(told.get("payload", told)).get("type"))
        if kind in ("server.heartbeat", "server.connected"):
            self._beating = self._beating or kind == "server.heartbeat"
            return
        self._event_at = self._heard_at
        if kind and self._roster.takes(told):
            self._link.feed(Frame("sse", event))

    async def _watch(self) -> None:
        """Ends a connection that is silent; looks for itself where only heartbeats come."""
        pace = self._pace
        looked_at, pause_s = 0.0, pace.quiet_s
        while True:
            await anyio.sleep(pace.tick_s)
            now = anyio.current_time()
            if self._beating and now - self._heard_at > pace.silence_s:
                self.cut()
                continue
            if self._event_at > looked_at:
                pause_s = pace.quiet_s
            if not self._busy() or now - max(self._event_at, looked_at) < pause_s:
                continue
            looked_at, pause_s = now, min(pause_s * 2, pace.quiet_most_s)
            if await self._refetch():
                logger.warning("%s had only heartbeats; connecting again", self._path)
                self.cut()
                looked_at = anyio.current_time()
