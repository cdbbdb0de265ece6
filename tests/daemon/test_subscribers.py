"""Any number of readers see the journal, whole and in order."""

import random
from pathlib import Path

import anyio
import pytest

from agentctl.client import AgentCtl
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio

RECONNECTS = 100
CHUNKS = 20_000


async def read_all(client: AgentCtl, run_id: str) -> list[bytes]:
    events = client.events(runs=[run_id])
    return [event.SerializeToString() async for event in events]


async def read_slowly(client: AgentCtl, run_id: str, go_on: anyio.Event) -> list[bytes]:
    """Takes one event, then nothing until it is told; a real clock would prove no more."""
    seen: list[bytes] = []
    async for event in client.events(runs=[run_id]):
        seen.append(event.SerializeToString())
        if len(seen) == 1:
            await go_on.wait()
    return seen


async def read_in_pieces(client: AgentCtl, run_id: str) -> list[bytes]:
    """Leaves and comes back at random cursors, 100 times."""
    dice = random.Random(7)
    seen: list[bytes] = []
    cursor, done, left = "", False, RECONNECTS
    while not done:
        limit = dice.randrange(1, 2 * CHUNKS // RECONNECTS) if left else None
        left = max(0, left - 1)
        async for event in client.events(cursor, runs=[run_id]):
            seen.append(event.SerializeToString())
            cursor, done = event.cursor, event.HasField("complete")
            limit = None if limit is None else limit - 1
            if limit == 0:
                break
    return seen


@pytest.mark.proves("S2")
async def test_a_slow_reader_and_one_that_keeps_reconnecting_see_exactly_the_journal(
    tmp_path: Path,
) -> None:
    results: dict[str, list[bytes]] = {}

    async def keep(name: str, reading: object) -> None:
        results[name] = await reading  # type: ignore[misc]  # a coroutine of one of the readers

    with anyio.fail_after(120):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create("demo", str(tmp_path), policy="allow")
            run = (await client.runs.create(session.session_id, f"chunks {CHUNKS} 60")).run
            go_on = anyio.Event()
            async with anyio.create_task_group() as group:
                group.start_soon(keep, "slow", read_slowly(client, run.run_id, go_on))
                group.start_soon(keep, "pieces", read_in_pieces(client, run.run_id))
                await client.runs.wait(run.run_id)
                go_on.set()
            journal = await read_all(client, run.run_id)
            assert len(journal) > CHUNKS
            assert results["slow"] == journal
            assert results["pieces"] == journal
