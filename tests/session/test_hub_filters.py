import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.events import Event
from agentctl.core.words import AgentState, EventType
from agentctl.journal.store import Journal
from agentctl.session.hub import Hub, Query
from tests.journal.kit import (
    agent_status,
    batches,
    chunk,
    chunks,
    complete,
    decode,
    event,
    hub_of,
    joined,
    log,
    opened,
    plan,
    read,
    seqs,
)

pytestmark = pytest.mark.anyio

LIMIT_S = 60


def _hubs(hub: Hub, journal: Journal) -> Iterator[Hub]:
    """From memory, and from the database: both must say the same."""
    yield hub
    yield hub_of(journal)


async def test_filters_are_or_within_and_between(tmp_path: Path) -> None:
    choice = random.Random(3)
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        written: list[Event] = []
        for _ in range(300):
            session = choice.choice(["ses_1", "ses_2", "ses_3"])
            run = choice.choice([None, f"run_{session}_a", f"run_{session}_b"])
            events = [
                choice.choice([chunk("t", session, run), plan(session, run)])
                for _ in range(choice.randint(1, 4))
            ]
            written += events
            await journal.append(events)
        sets: list[tuple[str, list[frozenset[Any]]]] = [
            ("sessions", [frozenset(), frozenset({"ses_1"}), frozenset({"ses_1", "ses_3", "no"})]),
            (
                "runs",
                [frozenset(), frozenset({"run_ses_1_a"}), frozenset({"run_ses_2_b", "run_x"})],
            ),
            (
                "agents",
                [frozenset(), frozenset({"agt_ses_1"}), frozenset({"agt_ses_1", "agt_ses_2"})],
            ),
            ("types", [frozenset(), frozenset({EventType.PLAN})]),
        ]
        for values in product(*(options for _, options in sets)):
            query = {name: value for (name, _), value in zip(sets, values, strict=True)}
            expected = [
                event.seq
                for event in written
                if (not query["sessions"] or event.session_id in query["sessions"])
                and (not query["runs"] or event.run_id in query["runs"])
                and (not query["agents"] or event.agent_id in query["agents"])
                and (not query["types"] or event.type in query["types"])
            ]
            for one in _hubs(hub, journal):
                assert seqs(await read(one, **query)) == expected, query


async def test_a_hundred_sessions_are_read_in_the_order_of_the_journal(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        for number in range(400):
            await journal.append(chunks(2, f"ses_{number % 200}"))
        for size in (60, 100):
            sessions = frozenset(f"ses_{number}" for number in range(size))
            memory, disk = [await read(one, sessions=sessions) for one in _hubs(hub, journal)]
            assert memory == disk
            assert seqs(memory) == sorted(seqs(memory))
            assert len(memory) == size * 4


async def test_logs_and_raw_come_only_when_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        with_raw = chunk()
        with_raw.raw = b'{"native":1}'
        await journal.append([log(), with_raw, chunk(), log()])
        for one in _hubs(hub, journal):
            usual = await read(one)
            assert seqs(usual) == [2, 3]
            assert not any("raw" in told for told in usual)
            assert seqs(await read(one, include_log=True)) == [1, 2, 3, 4]
            assert (await read(one, include_raw=True))[0]["raw"] == '{"native":1}'
            assert seqs(await read(one, types=frozenset({EventType.LOG}))) == [1, 4]
            (batch,) = await batches(one)
            assert (batch.count, batch.cursor) == (2, f"{journal.id}:4")


async def test_an_agent_s_own_events_are_seen_by_each_session_it_serves(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        await journal.append([agent_status("agt_x", AgentState.STARTING)])
        await journal.append([event(plan().payload, session="ses_1", agent="agt_x")])
        await journal.append([agent_status("agt_x"), agent_status("agt_y")])
        await journal.append(
            [
                event(plan().payload, session="ses_2", run=None, agent="agt_x"),
                event(plan().payload, session="ses_3", run=None, agent="agt_y"),
            ]
        )
        await journal.append([agent_status("agt_x", AgentState.EXITED)])
        expected = {
            ("ses_1",): [2, 3, 7],
            ("ses_2",): [5, 7],
            ("ses_3",): [6],
            ("ses_1", "ses_2"): [2, 3, 5, 7],
        }
        for one in _hubs(hub, journal):
            for sessions, found in expected.items():
                assert seqs(await read(one, sessions=frozenset(sessions))) == found
            assert seqs(await read(one, agents=frozenset({"agt_x"}))) == [1, 2, 3, 5, 7]
            assert seqs(await read(one, runs=frozenset({"run_1"}))) == [2]
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        await journal.append([agent_status("agt_x", AgentState.LOST)])
        for one in _hubs(hub, journal):
            assert seqs(await read(one, sessions=frozenset({"ses_2"}))) == [5, 7, 8]


async def test_the_end_of_an_agent_wakes_the_followers_of_its_sessions(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        await journal.append([event(plan().payload, session="ses_1", agent="agt_x")])
        stream = hub.subscribe(Query(after="now", sessions=frozenset({"ses_1"})))
        assert (await anext(stream)).caught_up
        found: list[dict[str, Any]] = []
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    found.extend(decode((await anext(stream)).data))

                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                await journal.append([agent_status("agt_x", AgentState.EXITED)])
        assert seqs(found) == [2]
        await stream.aclose()


async def test_a_follower_of_a_quiet_session_stays_exact_while_the_tail_moves_on(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal, tail_bytes=50_000)
        stream = hub.subscribe(Query(sessions=frozenset({"ses_quiet"})))
        assert (await anext(stream)).count == 0
        got: list[int] = []

        async def follow() -> None:
            async for batch in stream:
                got.extend(seqs(decode(batch.data)))
                if len(got) == 10:
                    return

        expected: list[int] = []
        with anyio.fail_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                for _ in range(10):
                    for _ in range(5):
                        await journal.append([chunk("x" * 20_000, "ses_busy")])
                    await journal.append([own := chunk("mine", "ses_quiet")])
                    expected.append(own.seq)
        assert got == expected
        await stream.aclose()


async def test_a_deleted_session_is_gone_from_memory_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        hub = hub_of(journal)
        await journal.append([*chunks(3), complete()])
        await journal.append(chunks(2, "ses_2", "run_2"))
        assert len(await read(hub)) == 6
        await journal.forget_session("ses_1")
        for one in _hubs(hub, journal):
            assert seqs(await read(one)) == [5, 6]
            assert await read(one, sessions=frozenset({"ses_1"})) == []
            assert joined(await batches(one, runs=frozenset({"run_1"}))) == b""
