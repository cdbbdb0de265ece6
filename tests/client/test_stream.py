"""The event stream of the client: each event once, in order, whatever happens to the connection."""

import random
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.client.stream import Subscription, retryable
from agentctl.core.errors import DaemonFailed, Invalid, NotFound
from agentctl.core.events import Event, MessageChunk
from agentctl.rpc.convert import encode_frame
from agentctl.session.hub import Batch, Gap, Query
from tests.rpc.fakes import house, make_server

pytestmark = pytest.mark.anyio

TOTAL = 300


def batch(first: int, last: int, gap: Gap | None = None) -> Batch:
    data = b"".join(
        encode_frame(Event(MessageChunk(message_id="m1", text=str(seq)), seq=seq), "abc123")
        for seq in range(first, last + 1)
    )
    return Batch(data, last - first + 1, f"abc123:{last}", caught_up=False, gap=gap)


async def read_into(seen: list[v1.EventBatch], subscription: Subscription) -> None:
    async for each in subscription.batches():
        seen += [each]


class Breaking:
    """Serves TOTAL events in random batches and breaks off at random, `breaks` times."""

    def __init__(self, breaks: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.breaks = breaks

    async def stream(self, query: Query) -> AsyncGenerator[Batch, None]:
        seq = int(query.after.rpartition(":")[2] or 0)
        while seq < TOTAL:
            last = min(TOTAL, seq + self.random.randint(1, 5))
            yield batch(seq + 1, last)
            seq = last
            if self.breaks and self.random.random() < 0.4:
                self.breaks -= 1
                raise DaemonFailed("gone for a moment")


@pytest.fixture
def no_pause(monkeypatch: Any) -> None:
    monkeypatch.setattr("agentctl.client.stream.FIRST_PAUSE_S", 0.0)


@pytest.mark.proves("S2")
@pytest.mark.parametrize("seed", range(3))
async def test_a_connection_that_breaks_30_times_loses_and_doubles_nothing(
    seed: int, no_pause: None
) -> None:
    breaking = Breaking(30, seed)
    async with house() as rooms:
        rooms.hub.stream = breaking.stream
        with anyio.fail_after(30):
            seen = [event.seq async for event in rooms.client.events(follow=False)]
    assert seen == list(range(1, TOTAL + 1))
    assert breaking.breaks == 0


async def test_a_daemon_that_restarts_is_read_on_where_it_stopped() -> None:
    async with house() as rooms:

        async def first(query: Query) -> AsyncGenerator[Batch, None]:
            yield batch(1, 2)
            await anyio.sleep_forever()

        rooms.hub.stream = first
        seen: list[int] = []
        with anyio.fail_after(30):
            async with AgentCtl.connect(f"unix:{rooms.path}") as client:
                events = client.events()
                seen += [(await anext(events)).seq, (await anext(events)).seq]
                await rooms.server.__aexit__(None, None, None)

                async def second(query: Query) -> AsyncGenerator[Batch, None]:
                    assert query.after == "abc123:2"
                    yield batch(3, 4)

                rooms.hub.stream = second
                async with make_server([f"unix:{rooms.path}"], hub=rooms.hub):
                    seen += [event.seq async for event in events]
    assert seen == [1, 2, 3, 4]


async def test_only_new_events_begin_after_the_head_even_when_the_first_try_breaks(
    no_pause: None,
) -> None:
    async with house() as rooms:
        tries: list[str] = []

        async def stream(query: Query) -> AsyncGenerator[Batch, None]:
            tries.append(query.after)
            if len(tries) == 1:
                yield Batch(b"", 0, "", caught_up=False)
                raise DaemonFailed("gone for a moment")
            yield batch(42, 42)

        rooms.hub.stream = stream
        assert [event.seq async for event in rooms.client.events("now")] == [42]
    assert tries == ["abc123:41", "abc123:41"]


async def test_what_a_caller_did_wrong_is_raised_at_once() -> None:
    async with house() as rooms:
        tries: list[str] = []

        async def stream(query: Query) -> AsyncGenerator[Batch, None]:
            tries.append(query.after)
            yield batch(1, 1)
            raise Invalid("retention was there", reason="INVALID_CURSOR")

        rooms.hub.stream = stream
        with pytest.raises(Invalid):
            async for _ in rooms.client.events():
                pass
    assert len(tries) == 1


async def test_a_first_connection_that_fails_is_told_at_once() -> None:
    async with house() as rooms:
        tries: list[str] = []

        async def stream(query: Query) -> AsyncGenerator[Batch, None]:
            tries.append(query.after)
            raise DaemonFailed("not today")
            yield

        rooms.hub.stream = stream
        with pytest.raises(DaemonFailed, match="not today"):
            async for _ in rooms.client.events():
                pass
    assert len(tries) == 1


async def test_a_daemon_that_stays_away_is_given_up_after_the_patience(no_pause: None) -> None:
    async with house() as rooms:
        tries: list[str] = []

        async def stream(query: Query) -> AsyncGenerator[Batch, None]:
            tries.append(query.after)
            if len(tries) == 1:
                yield batch(1, 1)
            raise DaemonFailed("away")

        rooms.hub.stream = stream
        clock = iter(range(0, 1000, 100))
        connection: Any = rooms.client.daemon._connection  # the client's own
        subscription = Subscription(
            connection, v1.SubscribeRequest(), patience_s=250, clock=lambda: next(clock)
        )
        seen: list[v1.EventBatch] = []
        with anyio.fail_after(10):
            with pytest.raises(DaemonFailed, match="away"):
                await read_into(seen, subscription)
    assert len(seen) == 1
    assert subscription.cursor == "abc123:1"
    assert tries == ["", "abc123:1", "abc123:1", "abc123:1"]


async def test_a_gap_is_told_and_reading_goes_on() -> None:
    async with house() as rooms:

        async def stream(query: Query) -> AsyncGenerator[Batch, None]:
            yield batch(5, 6, Gap("old:1", "abc123:5", "foreign"))

        rooms.hub.stream = stream
        gaps: list[v1.Gap] = []
        events = rooms.client.events("old:1", on_gap=gaps.append)
        assert [event.seq async for event in events] == [5, 6]
    assert [gap.reason for gap in gaps] == ["foreign"]


def test_only_an_absent_daemon_is_worth_another_try() -> None:
    assert retryable(DaemonFailed("x"))
    assert not retryable(DaemonFailed("x", reason="SOMETHING_ELSE"))
    assert not retryable(NotFound("x"))
