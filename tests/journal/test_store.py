import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentctl.core.errors import DaemonFailed, Invalid
from agentctl.core.events import Event
from agentctl.journal.keeper import Keeper
from agentctl.journal.store import Doc, Intervals
from tests.journal.kit import ask, chunk, chunks, encode, hub_of, opened, read, seqs

pytestmark = pytest.mark.anyio

LIMIT_S = 30


async def test_calls_land_in_their_order_and_share_transactions(tmp_path: Path) -> None:
    commits: list[int] = []
    async with opened(tmp_path) as journal:
        journal.listen(lambda _, head: commits.append(head), lambda _: None)
        lists = [chunks(3, session=f"ses_{index}") for index in range(200)]
        futures = [journal.submit(events) for events in lists]
        for future in futures:
            await future
        assert [event.seq for events in lists for event in events] == list(range(1, 601))
        assert seqs(await read(hub_of(journal))) == list(range(1, 601))
    assert commits == sorted(commits)
    assert len(commits) < 100


async def test_append_returns_once_its_events_can_be_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        for number in range(1, 20):
            await journal.append([chunk()])
            assert len(await read(hub)) == number == journal.head


async def test_who_is_cancelled_while_appending_has_appended(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await journal.append([chunk()])
        await journal.append([second := chunk()])
        assert second.seq == 2


async def test_one_bad_event_fails_its_own_list_only(tmp_path: Path) -> None:
    def picky(event: Event) -> bytes:
        if event.session_key == "bad":
            raise ValueError("cannot encode that")
        return encode(event)

    async with opened(tmp_path, encode=picky) as journal:
        bad = chunk()
        bad.session_key = "bad"
        first, second, third = (
            journal.submit([chunk()]),
            journal.submit([chunk(), bad], [Doc("run", "run_bad", b"")]),
            journal.submit([chunk()]),
        )
        await first
        with pytest.raises(ValueError, match="cannot encode"):
            await second
        await third
        assert seqs(await read(hub_of(journal))) == [1, 2]
        assert await journal.doc("run", "run_bad") is None


async def test_an_event_larger_than_a_batch_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        with pytest.raises(Invalid):
            await journal.append([chunk("x" * 1_100_000)])
        await journal.append([chunk()])
        assert journal.head == 1


async def test_docs_are_written_with_their_events_and_found_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        for number in range(5):
            doc = Doc("run", f"run_{number}", b"v1", f"ses_{number % 2}", open=number > 2)
            await journal.append([chunk()], [doc])
        assert [doc.id for doc in await journal.docs("run")] == [f"run_{n}" for n in range(5)]
        assert [doc.id for doc in await journal.docs("run", open=True)] == ["run_3", "run_4"]
        own = await journal.docs("run", session_id="ses_0", newest_first=True, limit=2)
        assert [doc.id for doc in own] == ["run_4", "run_2"]
        rest = await journal.docs("run", session_id="ses_0", newest_first=True, after_id="run_2")
        assert [doc.id for doc in rest] == ["run_0"]
        changes = [Doc("run", "run_4", b"v2", "ses_0"), Doc("run", "run_0", None)]
        await journal.append([], changes)
        assert await journal.doc("run", "run_4") == changes[0]
        assert await journal.doc("run", "run_0") is None
    async with opened(tmp_path) as journal:
        assert await journal.doc("run", "run_4") == changes[0]


async def test_a_forgotten_session_leaves_nothing_and_the_others_all(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        docs = [Doc("session", "ses_1", b""), Doc("approval", "apr_1", b"", "ses_1")]
        await journal.append(chunks(500, "ses_1"), docs)
        await journal.append(chunks(5, "ses_2", "run_2"), [Doc("session", "ses_2", b"")])
        await journal.forget_session("ses_1")
        assert {told["session"] for told in await read(hub)} == {"ses_2"}
        assert [doc.id for doc in await journal.docs("session")] == ["ses_2"]
        assert await journal.docs("approval") == []
        await journal.append(chunks(1, "ses_1"))
        assert seqs(await read(hub, sessions=frozenset({"ses_1"}))) == [506]
    async with opened(tmp_path) as journal:
        assert seqs(await read(hub_of(journal))) == [*range(501, 507)]


async def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        pass
    with pytest.raises(DaemonFailed, match="closed"):
        await journal.append([chunk()])
    with pytest.raises(DaemonFailed, match="closed"):
        await journal.docs("run")


async def test_the_wal_stays_bounded_while_much_is_written(tmp_path: Path) -> None:
    bound = 8 * 1024 * 1024
    highest = 0
    async with opened(tmp_path, intervals=Intervals(wal_bytes=bound)) as journal:
        for _ in range(300):
            await journal.append([chunk("x" * 200_000)])
            highest = max(highest, (tmp_path / "journal.db-wal").stat().st_size)
    assert highest < 5 * bound
    assert not (tmp_path / "journal.db-wal").exists()


async def test_the_wal_stays_bounded_when_its_keeper_does_not_keep_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asleep(keeper: Keeper) -> None:
        return None

    monkeypatch.setattr(Keeper, "_checkpoint", asleep)
    bound = 4 * 1024 * 1024
    highest = 0
    async with opened(tmp_path, intervals=Intervals(wal_bytes=bound)) as journal:
        for _ in range(100):
            await journal.append([chunk("x" * 200_000)])
            highest = max(highest, (tmp_path / "journal.db-wal").stat().st_size)
    assert highest < 3 * bound


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.journal.kit import chunks, opened

async def main():
    async with opened(Path(sys.argv[1])) as journal:
        async def work(session):
            while True:
                events = chunks(7, session)
                await journal.append(events)
                print(events[-1].seq, flush=True)
        await asyncio.gather(*(work(f"ses_{n}") for n in range(4)))

asyncio.run(main())
"""


def _acknowledged_before_kill(path: Path) -> int:
    acknowledged = 0
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            acknowledged = max(acknowledged, int(line))
            if acknowledged > 700:
                child.send_signal(signal.SIGKILL)
                break
        for line in child.stdout:
            if line.endswith(b"\n"):
                acknowledged = max(acknowledged, int(line))
    return acknowledged


@pytest.mark.proves("S2")
async def test_what_was_acknowledged_outlives_a_killed_daemon(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    acknowledged = _acknowledged_before_kill(tmp_path)
    assert ask(tmp_path, "SELECT clean FROM meta") == 0
    with anyio.fail_after(LIMIT_S):
        async with opened(tmp_path) as journal:
            assert journal.head >= acknowledged > 700
            assert seqs(await read(hub_of(journal))) == list(range(1, journal.head + 1))
