"""Owns one reader's stream of `agent.*` events over all connected servers.

Each reader has its own subscription at each daemon, so a slow one costs nobody anything and loses
nothing. It refuses to know how events reach their reader.
"""

import time
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentctl.client import AgentCtl
from agentctl.client.stream import DEFAULT_PATIENCE_S, Subscription, retryable
from agentctl.client.times import iso
from agentctl.core.errors import AgentctlError
from agentctl.gateway.tool.errors import away
from agentctl.gateway.tool.instances import Instances
from agentctl.gateway.tool.track import NOW, TYPES, Place, Track, joined, places
from agentctl.rpc.jsonview import to_dict

Json = dict[str, Any]

# Between two tries to reach a daemon that is away; as short as its restart.
PAUSE_S = 0.5

PAGE = 1_000


class Feed:
    """Use as an async context manager, then iterate: it is there from the moment it is entered.

    Args:
        session_id: only this session's; "" is every session's.
        after: where to go on: a cursor, "" for the oldest that is kept, "now". With None it is now,
            and events carry no `cursor`.
    """

    def __init__(
        self,
        instances: Instances,
        *,
        session_id: str = "",
        after: str | None = None,
        permissions: bool = True,
        reconnect: bool = True,
    ) -> None:
        self._instances = instances
        self._session_id = session_id
        self._marked = after is not None
        self._after = NOW if after is None else after
        self._permissions = permissions
        self._reconnect = reconnect
        self._places = {} if self._after in ("", NOW) else places(self._after)
        self._told: dict[str, Place] = {}
        self._readers: dict[int, anyio.CancelScope] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._send: MemoryObjectSendStream[tuple[Json, Place | None]]
        self._receive: MemoryObjectReceiveStream[tuple[Json, Place | None]]

    def hears(self, session_id: str) -> bool:
        """Whether the events of a session come here now."""
        return self._group is not None and self._session_id in ("", session_id)

    async def __aenter__(self) -> Self:
        if self._session_id:
            await self._instances.of_session(self._session_id)
        else:
            await self._instances.reachable()
        group = anyio.create_task_group()
        await group.__aenter__()
        self._send, self._receive = anyio.create_memory_object_stream(0)
        try:
            changed = self._instances.changed
            await self._look(group)
            group.start_soon(self._watch, group, changed)
        except BaseException:
            await self._leave(group)
            raise
        self._group = group
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        group, self._group = self._group, None
        assert group is not None
        await self._leave(group)

    async def _leave(self, group: anyio.abc.TaskGroup) -> None:
        group.cancel_scope.cancel()
        try:
            await group.__aexit__(None, None, None)
        finally:
            self._send.close()
            self._receive.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Json:
        row, place = await self._receive.receive()
        if place is not None:
            self._told[place.journal] = place
        return {**row, "cursor": joined(self._told)} if self._marked else row

    async def _watch(self, group: anyio.abc.TaskGroup, changed: anyio.Event) -> None:
        """Servers that are connected later are read from then on; disconnected ones no more."""
        while True:
            await changed.wait()
            changed = self._instances.changed
            try:
                await self._look(group)
            except AgentctlError as error:
                await self._trouble(away(error), recoverable=retryable(error))

    async def _look(self, group: anyio.abc.TaskGroup) -> None:
        clients = {id(each.client): each.client for each in self._instances.up}
        for key in [key for key in self._readers if key not in clients]:
            self._readers.pop(key).cancel()
        for key, client in clients.items():
            if key not in self._readers:
                scope = self._readers[key] = anyio.CancelScope()
                try:
                    await group.start(self._read, client, scope)
                except AgentctlError as error:
                    del self._readers[key]
                    if not self._reconnect or not retryable(error):
                        raise

    async def _read(
        self,
        client: AgentCtl,
        scope: anyio.CancelScope,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        with scope:
            track, after = await self._begin(client)
            self._told[track.place.journal] = track.place
            task_status.started()
            reader = client.subscribe(
                after,
                sessions=[self._session_id] if self._session_id else [],
                types=TYPES,
                patience_s=DEFAULT_PATIENCE_S if self._reconnect else 0.0,
            )
            while True:
                try:
                    await self._follow(reader, track)
                    return
                except AgentctlError as error:
                    if not self._reconnect or not retryable(error):
                        self._readers.pop(id(client), None)
                        self._instances.lose(client.address)
                        await self._trouble(away(error), recoverable=retryable(error))
                        return
                await anyio.sleep(PAUSE_S)

    async def _begin(self, client: AgentCtl) -> tuple[Track, str]:
        """Where this reader starts: the track, and the cursor of the daemon to read after."""
        info = await client.daemon.get_info()
        place = self._places.pop(info.journal_id, None)
        if place is not None:
            return Track(info.journal_id, place.told, place.rows), f"{info.journal_id}:{place.base}"
        if self._places:
            # Of a journal that is no more: the daemon says what is missing.
            foreign = self._places.pop(next(iter(self._places)))
            return Track(info.journal_id, 0), f"{foreign.journal}:{foreign.told}"
        if self._after == "":
            return Track(info.journal_id, 0), ""
        track = Track(info.journal_id, info.head_seq)
        await self._catch_up(client, track, info.head_seq)
        return track, info.head_cursor

    async def _catch_up(self, client: AgentCtl, track: Track, head: int) -> None:
        """Shows the track what runs already, so that it knows the texts and tools that are open."""
        runs: list[str] = []
        token = ""
        while True:
            page = await client.runs.list(
                session_id=self._session_id, states=["running"], page_size=PAGE, page_token=token
            )
            runs += [each.run_id for each in page.runs]
            token = page.next_page_token
            if not token:
                break
        if not runs:
            return
        async for batch in client.subscribe(runs=runs, types=TYPES, follow=False).batches():
            for event in batch.events:
                if event.seq <= head:
                    track.feed(to_dict(event))

    async def _follow(self, reader: Subscription, track: Track) -> None:
        """Reads until the stream breaks; the reader knows where to go on."""
        async with aclosing(reader.batches()) as batches:
            async for batch in batches:
                if batch.HasField("gap"):
                    await self._gap(to_dict(batch.gap))
                for event in batch.events:
                    for row, place in track.feed(to_dict(event)):
                        if self._permissions or row["type"] != "agent.permission_request":
                            await self._send.send((row, place))

    async def _gap(self, gap: Json) -> None:
        """Events are gone; a reader with cursors is told as the command line tells it."""
        if self._marked:
            await self._send.send(({"type": "gap", **gap}, None))
        else:
            await self._trouble(f"Events are missing here: {gap['reason']}.", recoverable=True)

    async def _trouble(self, message: str, *, recoverable: bool) -> None:
        row = {
            "type": "agent.error",
            "session_id": self._session_id,
            "error": message,
            "recoverable": recoverable,
            "timestamp": iso(int(time.time() * 1000)),
        }
        await self._send.send((row, None))
