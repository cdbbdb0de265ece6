import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from agentctl.core.errors import Invalid
from agentctl.journal.store import Journal
from agentctl.session.hub import Batch, Hub, Query
from tests.journal.kit import (
    batches,
    chunk,
    chunks,
    complete,
    decode,
    hub_of,
    joined,
    opened,
    read,
    seqs,
)

pytestmark = pytest.mark.anyio

LIMIT_S = 60
MIB = 1024 * 1024


class Follower:
    """A subscriber in a task of its own, and what it got."""

    def __init__(self, hub: Hub, **query: Any) -> None:
        self.batches: list[Batch] = []
        self.ended = anyio.Event()
        self._stream = hub.subscribe(Query(**query))
        self._news = anyio.Event()

    async def run(self) -> None:
        async for batch in self._stream:
            self.batches.append(batch)
            self._news.set()
            self._news = anyio.Event()
        self.ended.set()

    @property
    def events(self) -> list[dict[str, Any]]:
        return decode(joined(self.batches))

    async def until(self, wanted: Callable[[], bool]) -> None:
        with anyio.fail_after(LIMIT_S):
            while not wanted():
                await self._news.wait()


async def _following(tasks: anyio.abc.TaskGroup, hub: Hub, **query: Any) -> Follower:
    follower = Follower(hub, **query)
    tasks.start_soon(follower.run)
    await follower.until(lambda: bool(follower.batches))
    return follower


@pytest.mark.proves("S2")
async def test_a_subscriber_replays_and_goes_live_without_gap_or_double(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal, anyio.create_task_group() as tasks:
        await journal.append(chunks(50))
        hub = hub_of(journal)
        follower = await _following(tasks, hub)
        assert follower.batches[0].caught_up
        for _ in range(20):
            await journal.append(chunks(5))
        await follower.until(lambda: len(follower.events) >= 150)
        assert seqs(follower.events) == list(range(1, 151))
        tasks.cancel_scope.cancel()


async def test_now_brings_only_what_is_new(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal, anyio.create_task_group() as tasks:
        hub = hub_of(journal)
        await journal.append(chunks(50))
        follower = await _following(tasks, hub, after="now")
        first = follower.batches[0]
        assert (first.count, first.cursor, first.caught_up) == (0, f"{journal.id}:50", True)
        await journal.append(chunks(1))
        await follower.until(lambda: bool(follower.events))
        assert seqs(follower.events) == [51]
        tasks.cancel_scope.cancel()


async def _write(journal: Journal, session: str, total: int) -> None:
    choice = random.Random(session)
    while total > 0:
        number = min(total, choice.randint(1, 40))
        await journal.append([chunk("x" * choice.randint(0, 2000), session) for _ in range(number)])
        total -= number


async def _reconnecting(hub: Hub, total: int, got: list[int]) -> None:
    """Leaves a hundred times, at any place, and comes back with its last cursor."""
    choice, cursor, left = random.Random(7), "", 0
    while len(got) < total:
        stay = choice.randint(1, 3) if left < 100 else 1_000_000
        stream = hub.subscribe(Query(after=cursor))
        async for batch in stream:
            got += seqs(decode(batch.data))
            cursor = batch.cursor
            stay -= 1
            if stay == 0 or len(got) >= total:
                break
        await stream.aclose()
        left += 1
    assert left >= 100


async def _slow(hub: Hub, total: int, got: list[int], turn: Callable[[], Awaitable[None]]) -> None:
    stream = hub.subscribe(Query())
    async for batch in stream:
        got += seqs(decode(batch.data))
        await turn()
        if len(got) >= total:
            break
    await stream.aclose()


@pytest.mark.proves("S2")
async def test_a_slow_and_a_reconnecting_subscriber_see_exactly_the_journal(
    tmp_path: Path,
) -> None:
    total, sessions = 20_000, 4
    quick: list[int] = []
    slow: list[int] = []

    async def turn() -> None:
        await journal.docs("run")
        await anyio.lowlevel.checkpoint()

    async with opened(tmp_path) as journal:
        hub = hub_of(journal, tail_bytes=MIB)
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                for number in range(sessions):
                    tasks.start_soon(_write, journal, f"ses_{number}", total // sessions)
                tasks.start_soon(_reconnecting, hub, total, quick)
                tasks.start_soon(_slow, hub, total, slow, turn)
    assert quick == list(range(1, total + 1))
    assert slow == list(range(1, total + 1))


@pytest.mark.proves("S2")
async def test_a_subscriber_that_does_not_read_slows_nobody_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal, tail_bytes=100_000)
        stuck = hub.subscribe(Query())
        await journal.append([chunk()])
        assert (await anext(stuck)).count == 1
        with anyio.fail_after(LIMIT_S):
            for _ in range(50):
                await journal.append([chunk("x" * 50_000)])
            rest = [await anext(stuck) for _ in range(3)]
        assert seqs(decode(joined(rest))) == list(range(2, 52))
        await stuck.aclose()


async def test_any_cursor_inside_a_block_is_a_place_to_go_on_from(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        await journal.append(chunks(20))
        for seq in range(21):
            cursor = f"{journal.id}:{seq}"
            assert seqs(await read(hub, after=cursor)) == list(range(seq + 1, 21))
            assert seqs(await read(hub_of(journal), after=cursor)) == list(range(seq + 1, 21))


async def test_no_batch_is_larger_than_a_mebibyte(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        for _ in range(40):
            await journal.append([chunk("x" * 100_000)])
        for found in (await batches(hub), await batches(hub_of(journal))):
            assert max(len(batch.data) for batch in found) <= MIB
            assert len(found) == 4
            assert [batch.caught_up for batch in found] == [False, False, False, True]
            assert seqs(decode(joined(found))) == list(range(1, 41))
            for batch in found:
                last = decode(batch.data)[-1]["seq"]
                assert batch.cursor == f"{journal.id}:{last}"


@pytest.mark.proves("S1")
async def test_a_cursor_of_another_journal_gets_a_gap_and_then_all_that_is_kept(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "old") as old:
        await old.append(chunks(100))
        cursor = (await batches(hub_of(old)))[-1].cursor
    async with opened(tmp_path / "new") as journal:
        hub = hub_of(journal)
        await journal.append(chunks(3))
        found = await batches(hub, after=cursor)
        gap = found[0].gap
        assert gap is not None
        assert (gap.requested, gap.reason) == (cursor, "foreign")
        assert gap.first_available == f"{journal.id}:1"
        assert seqs(decode(joined(found))) == [1, 2, 3]


@pytest.mark.proves("S1")
async def test_a_cursor_that_was_never_given_is_refused_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        await journal.append(chunks(3))
        for cursor in (f"{journal.id}:4", "nonsense", "7", f"{journal.id}:", f"{journal.id}:-1"):
            with pytest.raises(Invalid) as refused:
                hub.subscribe(Query(after=cursor))
            assert refused.value.reason == "INVALID_CURSOR"


async def test_a_stream_that_does_not_follow_ends_at_the_head_of_its_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        empty = await batches(hub)
        assert [(batch.count, batch.caught_up) for batch in empty] == [(0, True)]
        await journal.append(chunks(3))
        stream = hub.subscribe(Query(follow=False))
        await journal.append(chunks(3))
        assert seqs(decode(joined([batch async for batch in stream]))) == [1, 2, 3]
        nothing = await batches(hub, sessions=frozenset({"ses_unknown"}))
        assert [(batch.count, batch.cursor) for batch in nothing] == [(0, f"{journal.id}:6")]


async def test_a_stream_that_starts_between_a_commit_and_its_announcement_has_all_of_it(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        await journal.append(chunks(3))
        done = journal.submit(chunks(3))
        while journal.head < 6:
            pass
        stream = hub.subscribe(Query(follow=False, sessions=frozenset({"ses_1"})))
        with anyio.fail_after(LIMIT_S):
            first = await anext(stream)
            assert seqs(decode(first.data)) == [1, 2, 3, 4, 5, 6]
            assert first.caught_up
            await stream.aclose()
            await done


async def test_a_quiet_stream_gets_an_empty_batch_that_moves_its_cursor(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal, anyio.create_task_group() as tasks:
        hub = hub_of(journal, beat_s=0.02)
        follower = await _following(tasks, hub, sessions=frozenset({"ses_quiet"}))
        await journal.append(chunks(9))
        await follower.until(lambda: follower.batches[-1].cursor == f"{journal.id}:9")
        assert all((batch.count, batch.caught_up) == (0, True) for batch in follower.batches)
        await journal.append(chunks(1, "ses_quiet"))
        await follower.until(lambda: bool(follower.events))
        assert seqs(follower.events) == [10]
        tasks.cancel_scope.cancel()


async def test_a_commit_wakes_only_those_whom_it_concerns(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal, anyio.create_task_group() as tasks:
        hub = hub_of(journal)
        idle = [
            await _following(tasks, hub, after="now", sessions=frozenset({f"ses_{number}"}))
            for number in range(100)
        ]
        busy = await _following(tasks, hub, after="now", sessions=frozenset({"ses_busy"}))
        for _ in range(10):
            await journal.append(chunks(1, "ses_busy"))
        await busy.until(lambda: len(busy.events) == 10)
        assert all(len(follower.batches) == 1 for follower in idle)
        await journal.append(chunks(1, "ses_7"))
        await idle[7].until(lambda: len(idle[7].events) == 1)
        assert sum(len(follower.events) for follower in idle) == 1
        tasks.cancel_scope.cancel()


async def test_a_run_s_stream_ends_after_its_complete(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal, anyio.create_task_group() as tasks:
        hub = hub_of(journal)
        runs = frozenset({"run_1", "run_2"})
        follower = Follower(hub, runs=runs)
        only_text = Follower(hub, runs=runs, types=frozenset({chunk().type}))
        tasks.start_soon(follower.run)
        tasks.start_soon(only_text.run)
        await journal.append([*chunks(2), complete()])
        await journal.append(chunks(2, run=None))
        await journal.append(chunks(2, "ses_2", "run_3"))
        assert not follower.ended.is_set()
        await journal.append([*chunks(2, "ses_2", "run_2"), complete("ses_2", "run_2")])
        with anyio.fail_after(LIMIT_S):
            await follower.ended.wait()
            await only_text.ended.wait()
        assert seqs(follower.events) == [1, 2, 3, 8, 9, 10]
        assert seqs(only_text.events) == [1, 2, 8, 9]
        assert only_text.batches[-1].cursor == f"{journal.id}:10"


async def test_the_stream_of_a_run_that_ended_long_ago_ends_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        await journal.append([*chunks(2), complete()])
        await journal.append(chunks(2, run="run_9"))
        runs = frozenset({"run_1"})
        with anyio.fail_after(LIMIT_S):
            for after in ("", "now", f"{journal.id}:3"):
                stream = hub_of(journal).subscribe(Query(after=after, runs=runs))
                found = [batch async for batch in stream]
                assert seqs(decode(joined(found))) == ([1, 2, 3] if after == "" else [])
