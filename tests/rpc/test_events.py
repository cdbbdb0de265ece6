"""The event stream as it travels: bytes as they were stored, at the pace of each subscriber."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import anyio
import grpc.aio
import pytest

from agentctl import v1
from agentctl.core.errors import Invalid
from agentctl.core.events import Event, MessageChunk
from agentctl.core.words import EventType
from agentctl.rpc.calls import Calls
from agentctl.rpc.convert import encode_frame
from agentctl.rpc.services.events import EventsService
from agentctl.session.hub import Batch, Gap, Query
from tests.rpc.fakes import FakeHub, House, house

pytestmark = pytest.mark.anyio


def frames(first: int, count: int, size: int = 20) -> bytes:
    return b"".join(
        encode_frame(Event(MessageChunk(message_id="m1", text="x" * size), seq=seq), "abc123")
        for seq in range(first, first + count)
    )


async def test_a_subscription_asks_for_all_that_was_named() -> None:
    async with house() as rooms:
        subscription = rooms.client.subscribe(
            "abc123:3",
            sessions=["s1", "s2"],
            runs=["r1"],
            agents=["a1"],
            types=[EventType.COMPLETE, "log"],
            follow=False,
            include_raw=True,
            include_log=True,
        )
        assert [batch.cursor async for batch in subscription.batches()] == ["abc123:0"]
    assert rooms.hub.queries == [
        Query(
            after="abc123:3",
            sessions=frozenset({"s1", "s2"}),
            runs=frozenset({"r1"}),
            agents=frozenset({"a1"}),
            types=frozenset({EventType.COMPLETE, EventType.LOG}),
            follow=False,
            include_raw=True,
            include_log=True,
        )
    ]


async def test_stored_bytes_go_out_as_they_are_with_cursor_and_gap_behind() -> None:
    async def stream(query: Query) -> AsyncGenerator[Batch, None]:
        yield Batch(frames(1, 3), 3, "abc123:3", False, Gap("old:9", "abc123:1", "foreign"))
        yield Batch(b"", 0, "abc123:8", True)

    async with house() as rooms:
        rooms.hub.stream = stream
        first, second = [batch async for batch in rooms.client.batches("old:9")]
    assert [event.seq for event in first.events] == [1, 2, 3]
    assert first.gap == v1.Gap(requested="old:9", first_available="abc123:1", reason="foreign")
    assert (first.cursor, first.caught_up) == ("abc123:3", False)
    assert (list(second.events), second.cursor, second.caught_up) == ([], "abc123:8", True)
    assert not second.HasField("gap")


async def test_a_bad_cursor_is_refused_with_its_reason() -> None:
    async def stream(query: Query) -> AsyncGenerator[Batch, None]:
        raise Invalid("ahead of the head", reason="INVALID_CURSOR")
        yield

    async with house() as rooms:
        rooms.hub.stream = stream
        with pytest.raises(Invalid) as caught:
            async for _ in rooms.client.events("abc123:99"):
                pass
    assert caught.value.reason == "INVALID_CURSOR"


async def test_an_unknown_type_is_refused() -> None:
    async with house() as rooms:
        with pytest.raises(Invalid, match="agent_status"):
            async for _ in rooms.client.events(types=["everything"]):
                pass
    assert rooms.hub.queries == []


async def test_a_subscriber_who_leaves_ends_its_stream_in_the_daemon() -> None:
    async with house() as rooms:
        with anyio.fail_after(10):
            async for _ in rooms.client.batches():
                break
            while not rooms.hub.closed:
                await anyio.lowlevel.checkpoint()


async def read_slowly(rooms: House, total: int) -> list[int]:
    """Reads nothing until the daemon cannot write any more, then all."""
    written: list[int] = []
    blocked = anyio.Event()

    async def stream(query: Query) -> AsyncGenerator[Batch, None]:
        for number in range(total):
            written.append(number)
            yield Batch(frames(number + 1, 1, 500_000), 1, f"abc123:{number + 1}", False)

    rooms.hub.stream = stream
    seen: list[int] = []
    async for event in rooms.client.events(follow=False):
        seen.append(event.seq)
        while not blocked.is_set():
            before = len(written)
            await rooms.client.daemon.get_info()
            await rooms.client.daemon.get_info()
            if len(written) == before:
                blocked.set()
                assert len(written) < total
    return seen


async def test_a_slow_subscriber_holds_up_only_itself_and_loses_nothing() -> None:
    total = 60
    async with house() as rooms:
        with anyio.fail_after(60):
            assert await read_slowly(rooms, total) == list(range(1, total + 1))


async def test_a_subscriber_that_dies_in_mid_batch_is_no_error_of_the_daemon() -> None:
    class Dead:
        async def write(self, data: bytes) -> None:
            raise grpc.aio.InternalError('Failed "execute_batch"')

    hub = FakeHub()
    await EventsService(hub, Calls()).subscribe(v1.SubscribeRequest(), cast(Any, Dead()))
    assert hub.closed == 1
