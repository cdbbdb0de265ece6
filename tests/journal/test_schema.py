import sqlite3
from pathlib import Path

import anyio
import pytest

from agentctl.core.errors import DaemonFailed
from agentctl.journal import schema
from agentctl.journal.store import Doc
from tests.journal.kit import ask, chunk, chunks, hub_of, opened, read, seqs

pytestmark = pytest.mark.anyio


async def _die_after(path: Path, boot: str) -> int:
    """Leaves the file as a killed daemon does; returns the head."""
    async with opened(path, boot_id=boot) as journal:
        await journal.append(chunks(10))
        head = journal.head
    conn = sqlite3.connect(path / "journal.db")
    conn.execute("UPDATE meta SET clean = 0")
    conn.commit()
    conn.close()
    return head


async def test_a_number_never_returns_after_a_power_cut(tmp_path: Path) -> None:
    head = await _die_after(tmp_path, "boot-1")
    async with opened(tmp_path, boot_id="boot-2") as journal:
        assert journal.head == head + 1_000_000
        await journal.append([fresh := chunk()])
        assert fresh.seq == head + 1_000_001
        assert seqs(await read(hub_of(journal)))[-2:] == [10, 1_000_011]


async def test_numbers_go_on_after_a_kill_under_the_same_kernel(tmp_path: Path) -> None:
    head = await _die_after(tmp_path, "boot-1")
    async with opened(tmp_path, boot_id="boot-1") as journal:
        assert journal.head == head


async def test_numbers_go_on_over_a_reboot_after_an_orderly_end(tmp_path: Path) -> None:
    async with opened(tmp_path, boot_id="boot-1") as journal:
        await journal.append(chunks(10))
        name = journal.id
    async with opened(tmp_path, boot_id="boot-2") as journal:
        assert (journal.head, journal.id) == (10, name)


async def test_the_highest_number_survives_the_deletion_of_its_event(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        await journal.append(chunks(10))
        await journal.forget_session("ses_1")
    async with opened(tmp_path) as journal:
        assert journal.head == 10


async def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    conn = sqlite3.connect(tmp_path / "journal.db")
    conn.execute("PRAGMA user_version = 99")
    conn.close()
    with pytest.raises(DaemonFailed, match="newer agentctl"):
        async with opened(tmp_path):
            pass


async def test_an_old_journal_is_migrated_and_keeps_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as journal:
        await journal.append(chunks(10), [Doc("run", "run_1", b"body")])
    added = "CREATE TABLE extra (x INTEGER); INSERT INTO extra SELECT head FROM meta;"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, added))
    async with opened(tmp_path) as journal:
        assert seqs(await read(hub_of(journal))) == list(range(1, 11))
        assert await journal.doc("run", "run_1") == Doc("run", "run_1", b"body")
    assert ask(tmp_path, "PRAGMA user_version") == len(schema.MIGRATIONS)
    assert ask(tmp_path, "SELECT x FROM extra") == 10


async def test_a_migration_that_fails_leaves_the_old_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as journal:
        await journal.append(chunks(10))
    broken = "CREATE TABLE extra (x INTEGER); INSERT INTO nowhere VALUES (1);"
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))
        with pytest.raises(DaemonFailed):
            async with opened(tmp_path):
                pass
    async with opened(tmp_path) as journal:
        assert journal.head == 10


async def test_a_damaged_journal_says_what_to_do(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        await journal.append([chunk("x" * 50_000) for _ in range(20)])
    path = tmp_path / "journal.db"
    data = bytearray(path.read_bytes())
    data[4096:20_480] = b"\xff" * 16_384
    path.write_bytes(data)
    with pytest.raises(DaemonFailed, match=r"damaged.*move the file"):
        async with opened(tmp_path):
            pass


async def test_a_file_that_is_no_database_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not a database, really not" * 100)
    with pytest.raises(DaemonFailed, match=r"damaged.*move the file"):
        async with opened(tmp_path):
            pass


async def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DaemonFailed, match=r"data directory .*--data-dir"):
        async with opened(tmp_path / "file"):
            pass
    (tmp_path / "journal.db").mkdir()
    with pytest.raises(DaemonFailed, match=r"data directory .*--data-dir"):
        async with opened(tmp_path):
            pass


async def test_a_new_journal_is_private_and_shrinks_in_steps(tmp_path: Path) -> None:
    async with opened(tmp_path):
        assert await anyio.Path(tmp_path / "journal.db").exists()
    assert (tmp_path / "journal.db").stat().st_mode & 0o777 == 0o600
    assert ask(tmp_path, "PRAGMA auto_vacuum") == 2
    assert ask(tmp_path, "PRAGMA journal_mode") == "wal"
