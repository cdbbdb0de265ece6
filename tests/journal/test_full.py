import sqlite3
from pathlib import Path

import anyio
import pytest

from agentctl.core.errors import Exhausted
from agentctl.journal import schema
from agentctl.journal import writer as writing
from agentctl.journal.reserve import RESERVE_BYTES, ReserveFile
from agentctl.journal.store import Doc, Intervals
from tests.journal.kit import chunk, chunks, complete, hub_of, opened, read, seqs

pytestmark = pytest.mark.anyio

OFTEN = Intervals(recovery_s=0.01)
LIMIT_S = 30


class Disk:
    """A disk of as many pages as we say, with a reserve of 64 of them; acts on the writer's
    connection, from the writer's thread once it runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = True
        self.released = 0
        self._conns: list[sqlite3.Connection] = []
        prepared = writing.Names

        def names(conn: sqlite3.Connection) -> writing.Names:
            self._conns.append(conn)
            return prepared(conn)

        monkeypatch.setattr(writing, "Names", names)

    def fill(self) -> None:
        self.room = False
        self._limit(0)

    def release(self) -> None:
        self.released += 1
        self._limit(64)

    def restore(self) -> bool:
        if not self._conns:
            return True
        self._limit(1_000_000 if self.room else 0)
        return True

    def _limit(self, more: int) -> None:
        conn = self._conns[-1]
        pages = conn.execute("PRAGMA page_count").fetchone()[0]
        conn.execute(f"PRAGMA max_page_count = {pages + more}").fetchone()


async def test_a_full_disk_refuses_what_can_wait_and_still_writes_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    told: list[bool] = []
    changed = anyio.Event()

    def hear(full: bool) -> None:
        nonlocal changed
        told.append(full)
        changed.set()
        changed = anyio.Event()

    async with opened(tmp_path, reserve=disk, intervals=OFTEN) as journal:
        hub = hub_of(journal)
        journal.watch_full(hear)
        await journal.append(chunks(5), [Doc("run", "run_1", b"", open=True)])
        disk.fill()
        large = journal.submit([chunk("x" * 200_000)])
        end = journal.submit([complete()], [Doc("run", "run_1", b"done")], vital=True)
        with pytest.raises(Exhausted, match=r"is full: free some space") as refused:
            await large
        assert refused.value.reason == "DISK_FULL"
        await end
        assert journal.full
        assert disk.released == 1
        with pytest.raises(Exhausted):
            await journal.append([chunk()])
        assert [told["type"] for told in await read(hub)][-1] == "complete"
        assert seqs(await read(hub)) == [1, 2, 3, 4, 5, 6]
        assert await journal.doc("run", "run_1") == Doc("run", "run_1", b"done")
        disk.room = True
        with anyio.fail_after(LIMIT_S):
            while journal.full:
                await changed.wait()
        assert told == [True, False]
        await journal.append([after := chunk("x" * 200_000)])
        assert after.seq == 7
    async with opened(tmp_path) as journal:
        assert seqs(await read(hub_of(journal))) == [1, 2, 3, 4, 5, 6, 7]


async def test_a_list_refused_on_a_full_disk_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    async with opened(tmp_path, reserve=disk) as journal:
        await journal.append([chunk()])
        disk.fill()
        with pytest.raises(Exhausted):
            await journal.append([chunk("x" * 200_000, "ses_new", "run_new")], [Doc("a", "b", b"")])
        await journal.append([complete("ses_new", "run_new")], vital=True)
        assert await journal.doc("a", "b") is None
        found = await read(hub_of(journal), sessions=frozenset({"ses_new"}))
        assert [told["type"] for told in found] == ["complete"]


async def test_a_disk_with_hardly_any_room_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    looked = 0

    def free(path: Path) -> int:
        nonlocal looked
        looked += 1
        return RESERVE_BYTES + 1

    monkeypatch.setattr(schema, "free_bytes", free)
    async with opened(tmp_path, reserve=disk, intervals=OFTEN) as journal:
        disk.fill()
        with pytest.raises(Exhausted):
            await journal.append([chunk("x" * 200_000)])
        disk.room = True
        with anyio.fail_after(LIMIT_S):
            while looked < 5:
                await journal.docs("run")
        assert journal.full


async def test_a_daemon_that_starts_on_a_full_disk_serves_reads_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as journal:
        await journal.append(chunks(5))

    def refuse(reserve: ReserveFile) -> bool:
        return False

    monkeypatch.setattr(ReserveFile, "restore", refuse)
    async with opened(tmp_path) as journal:
        assert journal.full
        with pytest.raises(Exhausted):
            await journal.append([chunk()])
        await journal.append([complete()], vital=True)
        assert seqs(await read(hub_of(journal))) == [1, 2, 3, 4, 5, 6]


def test_the_reserve_takes_room_and_gives_it_back(tmp_path: Path) -> None:
    reserve = ReserveFile(tmp_path / "journal.reserve")
    assert reserve.restore()
    assert (tmp_path / "journal.reserve").stat().st_blocks * 512 >= RESERVE_BYTES
    reserve.release()
    assert not (tmp_path / "journal.reserve").exists()


def test_a_reserve_that_does_not_fit_takes_nothing(tmp_path: Path) -> None:
    reserve = ReserveFile(tmp_path / "journal.reserve", size=1 << 60)
    assert not reserve.restore()
    assert not (tmp_path / "journal.reserve").exists()
