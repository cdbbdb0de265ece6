"""Owns the Artifacts service. What an artifact is made of, and how long it is kept, others decide."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, BinaryIO, cast

import anyio.lowlevel
import anyio.to_thread
import orjson

from agentctl import v1
from agentctl.core.errors import Invalid, NotFound
from agentctl.core.words import ArtifactKind
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.enums import word
from agentctl.rpc.jsonview import to_dict
from agentctl.rpc.pages import TURN, fitted
from agentctl.rpc.ports import HubApi
from agentctl.rpc.records import artifact_message
from agentctl.rpc.requests import need, optional, page_size, page_token
from agentctl.session.api import ArtifactsApi
from agentctl.session.hub import Query
from agentctl.session.records import ArtifactRecord

CHUNK_BYTES = 256 << 10
"""The largest piece of a download."""


class ArtifactsService:
    """What runs made."""

    def __init__(self, manager: ArtifactsApi, hub: HubApi, calls: Calls) -> None:
        self._manager = manager
        self._hub = hub
        self._calls = calls

    async def list(
        self, request: v1.ListArtifactsRequest, context: Context
    ) -> v1.ListArtifactsResponse:
        kinds = (word(v1.ArtifactKind, each, field="kinds") for each in request.kinds)
        records, token = await self._manager.list_artifacts(
            session_id=request.session_id,
            run_id=request.run_id,
            kinds=frozenset(ArtifactKind(each) for each in kinds if each),
            after=page_token(request, "art"),
            limit=page_size(request.page_size),
        )
        shown = (artifact_message(each, request.run_id) for each in records)
        artifacts, token = await fitted(shown, token, lambda each: each.artifact_id)
        return v1.ListArtifactsResponse(artifacts=artifacts, next_page_token=token)

    async def get(self, request: v1.GetArtifactRequest, context: Context) -> v1.ArtifactSummary:
        id_ = need(request.artifact_id, "artifact_id")
        record = await self._manager.get_artifact(id_, run_id=request.run_id)
        return artifact_message(record, request.run_id)

    async def download(self, request: v1.DownloadArtifactRequest, context: Context) -> None:
        """Writes the asked bytes, piece by piece, as fast as the caller takes them."""
        offset, length = request.offset, optional(request, "length")
        for name, value in (("offset", offset), ("length", length or 0)):
            if value < 0:
                message = f"{name} is {value}: give a number of bytes from 0."
                raise Invalid(message, metadata={"field": name})
        id_ = need(request.artifact_id, "artifact_id")
        record = await self._manager.get_artifact(id_, run_id=request.run_id)
        if record.kind is ArtifactKind.TRAJECTORY:
            pieces = _cut(self._trajectory(record), offset, length, record)
        else:
            file = await self._manager.open_artifact(record)
            pieces = _read(file, offset, length, record)
        await self._calls.stream(self._send(pieces, context))

    async def _send(self, pieces: AsyncGenerator[bytes], context: Context) -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                await context.write(v1.ArtifactChunk(data=piece))

    async def _trajectory(self, record: ArtifactRecord) -> AsyncGenerator[bytes]:
        """The events of a run as lines of JSON, a batch at a time."""
        query, any_kept = Query(runs=frozenset(record.runs), follow=False), False
        redact = self._manager.redact_for(record.session_id)
        async with aclosing(self._hub.subscribe(query)) as batches:
            async for batch in batches:
                events = v1.EventBatch.FromString(batch.data).events
                for start in range(0, len(events), TURN):
                    any_kept = True
                    rows = (_clean(to_dict(each), redact) for each in events[start : start + TURN])
                    yield b"".join(orjson.dumps(row) + b"\n" for row in rows)
                    await anyio.lowlevel.checkpoint()
        if not any_kept:
            raise NotFound(
                f"the events of {record.runs[-1]} are gone: the journal no longer keeps them "
                "(retention_days, retention_bytes).",
                reason="ARTIFACT_NOT_FOUND",
            )


def _clean(value: Any, redact: Callable[[str], str]) -> Any:
    """The same with every text redacted."""
    match value:
        case str():
            return redact(value)
        case dict():
            found = cast(dict[str, Any], value)
            return {key: _clean(item, redact) for key, item in found.items()}
        case list():
            return [_clean(item, redact) for item in cast(list[Any], value)]
        case _:
            return value


async def _read(
    file: BinaryIO, offset: int, length: int | None, record: ArtifactRecord
) -> AsyncGenerator[bytes]:
    """A part of a file, which is closed whoever leaves."""
    with file:
        size = await anyio.to_thread.run_sync(file.seek, 0, 2)
        if offset > size:
            raise _beyond(record, offset, size)
        left = size - offset if length is None else min(length, size - offset)
        await anyio.to_thread.run_sync(file.seek, offset)
        while left > 0:
            piece = await anyio.to_thread.run_sync(file.read, min(CHUNK_BYTES, left))
            if not piece:
                return
            left -= len(piece)
            yield piece


async def _cut(
    batches: AsyncGenerator[bytes], offset: int, length: int | None, record: ArtifactRecord
) -> AsyncGenerator[bytes]:
    """A part of what is made on the way."""
    seen, left = 0, length
    async with aclosing(batches):
        async for batch in batches:
            start, seen = seen, seen + len(batch)
            part = batch[max(0, offset - start) :]
            if left is not None:
                part = part[:left]
                left -= len(part)
            for piece in _pieces(part):
                yield piece
            if left == 0 and seen >= offset:
                return
    if offset > seen:
        raise _beyond(record, offset, seen)


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]


def _beyond(record: ArtifactRecord, offset: int, size: int) -> Invalid:
    return Invalid(
        f"offset {offset} is beyond the end of {record.id}, which has {size} bytes.",
        metadata={"field": "offset"},
    )
