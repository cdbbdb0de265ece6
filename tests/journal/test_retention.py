from pathlib import Path

import anyio
import pytest

from agentctl.journal.store import Doc, Intervals, Journal, Retention
from agentctl.session.hub import Query
from tests.journal.kit import (
    ask,
    batches,
    chunk,
    chunks,
    decode,
    hub_of,
    joined,
    opened,
    read,
    seqs,
)

pytestmark = pytest.mark.anyio

OFTEN = Intervals(retention_s=0.01)
LIMIT_S = 30
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Clock:
    def __init__(self) -> None:
        self.ms = 1_764_500_000_000

    def __call__(self) -> int:
        return self.ms


async def _until_oldest(journal: Journal, seq: int | None) -> None:
    """Waits until retention, on its own thread, has come to this event."""
    with anyio.fail_after(LIMIT_S):
        hub = hub_of(journal)
        while (found := await read(hub)) and (seq is None or found[0]["seq"] < seq):
            await journal.docs("run")


async def test_old_events_go_and_young_ones_stay(tmp_path: Path) -> None:
    clock = Clock()
    rule = Retention(age_s=3600)
    async with opened(tmp_path, rule=rule, intervals=OFTEN, now_ms=clock) as journal:
        await journal.append(chunks(10))
        clock.ms += HOUR_MS // 2
        await journal.append(chunks(10))
        clock.ms += HOUR_MS // 2 + 2 * MINUTE_MS
        await journal.append(chunks(10))
        await _until_oldest(journal, 11)
        assert seqs(await read(hub_of(journal))) == list(range(11, 31))


async def test_a_quiet_journal_forgets_its_last_events_too(tmp_path: Path) -> None:
    clock = Clock()
    rule = Retention(age_s=3600)
    async with opened(tmp_path, rule=rule, intervals=OFTEN, now_ms=clock) as journal:
        await journal.append(chunks(10))
        clock.ms += 2 * HOUR_MS
        await _until_oldest(journal, None)
        assert journal.head == 10


async def test_events_of_an_open_run_are_never_deleted(tmp_path: Path) -> None:
    clock = Clock()
    rule = Retention(age_s=3600)
    async with opened(tmp_path, rule=rule, intervals=OFTEN, now_ms=clock) as journal:
        await journal.append(chunks(3, run="run_0"))
        await journal.append(chunks(5, run="run_1"), [Doc("run", "run_1", b"", open=True)])
        await journal.append(chunks(4, run="run_2"), [Doc("run", "run_2", b"", open=True)])
        await journal.append([], [Doc("run", "run_2", b"", open=False)])
        clock.ms += 2 * HOUR_MS
        await journal.append(chunks(1, run="run_3"))
        await _until_oldest(journal, 4)
        with anyio.fail_after(LIMIT_S):
            while len(found := await read(hub_of(journal))) > 6:
                await journal.docs("run")
        assert seqs(found) == [4, 5, 6, 7, 8, 13]
        await journal.append([], [Doc("run", "run_1", b"", open=False)])
        await _until_oldest(journal, 13)


async def test_a_journal_stays_below_its_size_and_gives_room_back(tmp_path: Path) -> None:
    size = 4 * 1024 * 1024
    async with opened(tmp_path, rule=Retention(size=size), intervals=OFTEN) as journal:
        for _ in range(200):
            await journal.append([chunk("x" * 100_000)])
        await _until_oldest(journal, 160)
        assert seqs(await read(hub_of(journal)))[-1] == 200
        with anyio.fail_after(LIMIT_S):
            while ask(tmp_path, "PRAGMA page_count") * 4096 > 2 * size:
                await journal.docs("run")
    assert (tmp_path / "journal.db").stat().st_size <= 2 * size


@pytest.mark.proves("S1")
async def test_an_expired_cursor_is_told_of_the_gap_and_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    rule = Retention(age_s=3600)
    async with opened(tmp_path, rule=rule, intervals=OFTEN, now_ms=clock) as journal:
        await journal.append(chunks(10))
        cursor = f"{journal.id}:4"
        clock.ms += 2 * HOUR_MS
        await journal.append(chunks(5))
        await _until_oldest(journal, 11)
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        found = await batches(hub, after=cursor)
        assert found[0].gap is not None
        assert found[0].gap.requested == cursor
        assert found[0].gap.first_available == f"{journal.id}:11"
        assert found[0].gap.reason == "expired"
        assert seqs(decode(joined(found))) == list(range(11, 16))
        assert all(batch.gap is None for batch in found[1:])
        assert all(batch.gap is None for batch in await batches(hub))
        later = await batches(hub, after=f"{journal.id}:10")
        assert later[0].gap is None


async def test_a_reader_overtaken_by_retention_is_told_of_the_gap(tmp_path: Path) -> None:
    clock = Clock()
    rule = Retention(age_s=3600)
    async with opened(tmp_path, rule=rule, intervals=OFTEN, now_ms=clock) as journal:
        hub = hub_of(journal, tail_bytes=1000)
        for _ in range(4):
            await journal.append([chunk("x" * 600_000)])
        stream = hub.subscribe(Query())
        first = await anext(stream)
        assert (seqs(decode(first.data)), first.gap) == ([1], None)
        clock.ms += 2 * HOUR_MS
        await journal.append([chunk("x" * 600_000)])
        await _until_oldest(journal, 5)
        second = await anext(stream)
        assert second.gap is not None
        assert (second.gap.requested, second.gap.reason) == (f"{journal.id}:1", "expired")
        assert seqs(decode(second.data)) == [5]
        await stream.aclose()
