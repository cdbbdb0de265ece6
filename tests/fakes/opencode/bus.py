"""The events of the fake server on their way to its subscribers, in the shape that the switches ask for."""

import asyncio
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.models.http import Reply

Json = dict[str, Any]
# As often as the real server is too slow for a test; often enough not to be waited for.
HEARTBEAT_S = 0.2
DROP_AFTER = 7


@dataclass(eq=False)
class Subscriber:
    directory: str | None
    queue: "asyncio.Queue[Json]" = field(default_factory=lambda: asyncio.Queue[Json]())


class Bus:
    """Every event goes to all who listen to its directory, or to all directories."""

    def __init__(self, faults: set[str]) -> None:
        self._faults = faults
        self._subscribers: set[Subscriber] = set()
        self._ids = itertools.count(1)
        self.streams = 0

    @property
    def listened(self) -> bool:
        return bool(self._subscribers)

    def emit(self, directory: str, kind: str, properties: Json) -> None:
        event = {"id": f"evt_{next(self._ids):04d}", "type": kind, "properties": properties}
        for shaped in self._shaped(event):
            for each in self._subscribers:
                if each.directory in (None, directory):
                    each.queue.put_nowait({"directory": directory, "payload": shaped})

    def _shaped(self, event: Json) -> list[Json]:
        properties = event["properties"]
        flat = {"message.updated": "info", "message.part.updated": "part"}.get(event["type"])
        if "flat" in self._faults and flat is not None:
            shown = {**event, "properties": properties[flat]}
            delta = properties[flat].pop("delta", None) or properties.get("delta")
            return [{**shown, "delta": delta} if delta else shown]
        if "old" in self._faults:
            return self._old(event)
        return [event]

    def _old(self, event: Json) -> list[Json]:
        properties = event["properties"]
        match event["type"]:
            case "permission.asked":
                old = {
                    "id": properties["id"],
                    "type": properties["permission"],
                    "pattern": properties["patterns"],
                    "sessionID": properties["sessionID"],
                    "callID": properties["tool"]["callID"],
                    "title": properties["metadata"].get("command", properties["permission"]),
                    "metadata": properties["metadata"],
                }
                return [{**event, "type": "permission.updated", "properties": old}]
            case "permission.replied":
                old = {
                    "sessionID": properties["sessionID"],
                    "permissionID": properties["requestID"],
                    "response": properties["reply"],
                }
                return [{**event, "properties": old}]
            case "message.part.delta" | "server.heartbeat":
                return []
            case "session.status":
                word = properties["status"]["type"]
                return [{**event, "properties": {**properties, "status": word}}]
            case _:
                return [event]

    async def serve(self, reply: Reply, directory: str | None) -> None:
        """One event stream, until the client leaves or the switches cut it."""
        self.streams += 1
        deaf = "deaf" in self._faults and self.streams == 1
        me = Subscriber(directory)
        self._subscribers.add(me)
        sent = 0
        try:
            await reply.start()
            await self._write(reply, me, {"type": "server.connected", "properties": {}})
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        event = await me.queue.get()
                except TimeoutError:
                    if "heartless" not in self._faults:
                        beat: Json = {"type": "server.heartbeat", "properties": {}}
                        await self._write(reply, me, beat)
                    continue
                if deaf:
                    continue
                await self._write(reply, me, event["payload"], event["directory"])
                sent += 1
                if "drops" in self._faults and sent >= DROP_AFTER:
                    return reply.cut()
        finally:
            self._subscribers.discard(me)

    async def _write(self, reply: Reply, me: Subscriber, payload: Json, where: str = "") -> None:
        told: Json = payload
        if me.directory is None:
            told = {"directory": where, "payload": payload} if where else {"payload": payload}
        await reply.write(b"data: " + json.dumps(told).encode() + b"\n\n")

    def cut(self) -> None:
        """Forgets every subscriber: what is said from now on reaches nobody."""
        self._subscribers.clear()
