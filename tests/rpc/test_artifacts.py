"""Artifacts over gRPC: their bytes in ranges, the trajectory of a run, and who leaves early."""

import dataclasses
import io
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import anyio
import orjson
import pytest

from agentctl import v1
from agentctl.core.errors import AgentctlError, Invalid, NotFound, Unsupported
from agentctl.core.events import Complete, Event, MessageChunk
from agentctl.core.parts import RunError
from agentctl.core.words import ArtifactKind, Outcome, RunState
from agentctl.rpc.convert import encode_frame
from agentctl.rpc.services import artifacts as service
from agentctl.session.hub import Batch, Query
from agentctl.session.records import ArtifactRecord
from tests.rpc.fakes import RUN, House, house

pytestmark = pytest.mark.anyio

TEXT = bytes(range(256)) * 4000
RECORD = ArtifactRecord(
    "art_1",
    ArtifactKind.LOG,
    "ses_1",
    ["run_0", "run_1"],
    title="Output of make",
    mime_type="text/plain",
    size=len(TEXT),
    sha256="ab" * 32,
    path="/w/log",
    tool_call_id="t1",
    redacted=True,
    created_at=5,
    expires_at=9,
)
TOLD = ArtifactRecord("art_2", ArtifactKind.TRAJECTORY, "ses_1", ["run_1"])


class Bytes(io.BytesIO):
    """A file that knows how it was read."""

    largest = 0

    def read(self, size: int | None = -1) -> bytes:
        Bytes.largest = max(Bytes.largest, size or 0)
        return super().read(size)


async def got(rooms: House, **asked: Any) -> bytes:
    stream = rooms.client.artifacts.download("art_1", **asked)
    pieces = [chunk.data async for chunk in stream]
    assert all(0 < len(piece) <= service.CHUNK_BYTES for piece in pieces)
    return b"".join(pieces)


def serve(rooms: House, record: ArtifactRecord = RECORD, data: bytes = TEXT) -> list[Bytes]:
    files: list[Bytes] = []

    async def opened(_: ArtifactRecord) -> Bytes:
        files.append(Bytes(data))
        return files[-1]

    rooms.manager.answers |= {"get_artifact": record, "open_artifact": opened}
    return files


async def test_an_artifact_is_shown_with_all_that_is_known_of_it() -> None:
    async with house() as rooms:
        rooms.manager.answers |= {"get_artifact": RECORD, "list_artifacts": ([RECORD], "art_1")}
        shown = await rooms.client.artifacts.get("art_1")
        assert shown == v1.ArtifactSummary(
            artifact_id="art_1",
            kind=v1.ArtifactKind.ARTIFACT_KIND_LOG,
            session_id="ses_1",
            run_id="run_1",
            title="Output of make",
            mime_type="text/plain",
            size=len(TEXT),
            created_at=5,
            expires_at=9,
            sha256="ab" * 32,
            path="/w/log",
            tool_call_id="t1",
            redacted=True,
        )
        page = await rooms.client.artifacts.list(
            session_id="ses_1", run_id="run_0", kinds=["log", "patch"], page_token="art_9"
        )
        assert page.next_page_token == "art_1"
        assert [each.run_id for each in page.artifacts] == ["run_0"]
        assert rooms.manager.calls[-1] == (
            "list_artifacts",
            (),
            {
                "session_id": "ses_1",
                "run_id": "run_0",
                "kinds": frozenset({ArtifactKind.LOG, ArtifactKind.PATCH}),
                "after": "art_9",
                "limit": 100,
            },
        )
        with pytest.raises(Invalid, match="page_token"):
            await rooms.client.artifacts.list(page_token="../x")


@pytest.mark.proves("AR15")
async def test_bytes_come_in_pieces_and_any_range_of_them() -> None:
    async with house() as rooms:
        files = serve(rooms)
        assert await got(rooms) == TEXT
        assert await got(rooms, offset=1_000_000) == TEXT[1_000_000:]
        assert await got(rooms, offset=10, length=300_000) == TEXT[10:300_010]
        assert await got(rooms, offset=5, length=10**9) == TEXT[5:]
        assert await got(rooms, offset=len(TEXT)) == b""
        assert await got(rooms, length=0) == b""
        assert Bytes.largest <= service.CHUNK_BYTES
        assert len(files) == 6 and all(file.closed for file in files)
        for wrong in ({"offset": len(TEXT) + 1}, {"offset": -1}, {"length": -1}):
            with pytest.raises(Invalid) as told:
                await got(rooms, **wrong)
            assert told.value.metadata["field"] in wrong
        assert all(file.closed for file in files)


async def test_an_artifact_without_bytes_is_told_in_words() -> None:
    async with house() as rooms:
        serve(rooms)

        async def refuse(_: ArtifactRecord) -> Bytes:
            raise Unsupported("art_1 is a pull_request and has no bytes: https://forge.example/7")

        rooms.manager.answers["open_artifact"] = refuse
        with pytest.raises(Unsupported, match=r"https://forge\.example/7"):
            await got(rooms)
        with pytest.raises(Invalid, match="artifact_id is missing"):
            await rooms.client.artifacts.get("")


async def test_a_caller_who_leaves_in_the_middle_leaves_no_file_open() -> None:
    async with house() as rooms:
        files = serve(rooms, data=b"x" * (32 << 20))
        stream = rooms.client.artifacts.download("art_1")
        async with aclosing(cast(AsyncGenerator[v1.ArtifactChunk], stream)) as chunks:
            assert (await anext(chunks)).data
        with anyio.fail_after(10):
            while not files[0].closed:
                await anyio.lowlevel.checkpoint()


def batch(number: int, *events: Event) -> Batch:
    data = b"".join(encode_frame(event, "abc") for event in events)
    return Batch(data, len(events), f"abc:{number}", caught_up=False)


@pytest.mark.proves("AR16")
async def test_the_trajectory_of_a_run_is_its_events_one_a_line_and_in_ranges() -> None:
    async def told(query: Query) -> AsyncGenerator[Batch, None]:
        assert (query.runs, query.follow) == (frozenset({"run_1"}), False)
        for number in range(1, 4):
            chunk = MessageChunk("m1", text=f"{number}" * 300_000)
            yield batch(number, Event(chunk, run_id="run_1", seq=number))
        error = RunError("MODEL_ERROR", "a secret in it")
        yield batch(9, Event(Complete(Outcome.FAILED, error=error), run_id="run_1", seq=9))

    async with house() as rooms:
        serve(rooms, TOLD)
        rooms.hub.stream = told
        whole = await got(rooms)
        lines = [orjson.loads(line) for line in whole.splitlines()]
        assert [line["seq"] for line in lines] == [1, 2, 3, 9]
        assert lines[-1] == {
            "version": 1,
            "cursor": "abc:9",
            "seq": 9,
            "ts": 0,
            "type": "complete",
            "run_id": "run_1",
            "data": {
                "outcome": "failed",
                "error": {
                    "code": "MODEL_ERROR",
                    "message": "a [redacted] in it",
                    "recoverable": False,
                },
            },
        }
        assert await got(rooms, offset=299_000, length=400_000) == whole[299_000:699_000]
        assert await got(rooms, offset=len(whole)) == b""
        assert await got(rooms, offset=7, length=0) == b""
        with pytest.raises(Invalid, match="is beyond the end"):
            await got(rooms, offset=len(whole) + 1)
        assert rooms.hub.closed == len(rooms.hub.queries)


async def test_a_trajectory_that_the_journal_no_longer_has_is_told_as_gone() -> None:
    async with house() as rooms:
        serve(rooms, TOLD)
        with pytest.raises(NotFound, match="events of run_1 are gone") as gone:
            await got(rooms)
        assert gone.value.reason == "ARTIFACT_NOT_FOUND"


async def test_a_run_is_got_and_waited_for_with_its_artifacts() -> None:
    async with house() as rooms:
        ended = dataclasses.replace(RUN, state=RunState.COMPLETED)
        rooms.manager.answers |= {"run_artifacts": [RECORD, TOLD], "wait_run": (ended, True)}
        run = await rooms.client.runs.get("run_1")
        assert [each.artifact_id for each in run.artifacts] == ["art_1", "art_2"]
        waited = await rooms.client.runs.wait("run_1")
        assert [each.run_id for each in waited.run.artifacts] == ["run_1", "run_1"]


async def test_what_cannot_be_found_is_the_error_of_the_call() -> None:
    async def missing(*_: Any, **__: Any) -> None:
        raise NotFound("there is none", reason="ARTIFACT_NOT_FOUND")

    async with house() as rooms:
        rooms.manager.answers |= {"get_artifact": missing, "list_artifacts": missing}
        calls = rooms.client.artifacts
        for call in (calls.get("art_1", run_id="run_1"), calls.list(run_id="run_2"), got(rooms)):
            with pytest.raises(AgentctlError) as told:
                await call
            assert told.value.reason == "ARTIFACT_NOT_FOUND"
        assert rooms.manager.calls[0] == ("get_artifact", ("art_1",), {"run_id": "run_1"})
