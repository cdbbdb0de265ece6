"""One `async for` over the events goes on through a hundred ends of the daemon, sudden and ordered."""

import random
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError
from tests.daemon.harness import Daemon, daemon

pytestmark = pytest.mark.anyio

RESTARTS = 100
# A start takes half a second; a loaded machine some times as long.
ALL_S = 600


class Reader:
    """Reads all events for as long as it lives; `news` is set at each one."""

    def __init__(self, client: AgentCtl) -> None:
        self.events: list[v1.AgentEvent] = []
        self._client = client
        self._news = anyio.Event()

    async def run(self) -> None:
        async for event in self._client.events():
            self.events.append(event)
            self._news.set()
            self._news = anyio.Event()

    async def until(self, seq: int) -> None:
        while not self.events or self.events[-1].seq < seq:
            await self._news.wait()


async def rename(client: AgentCtl, session: str, title: str) -> None:
    """One event without any work of an agent; the daemon may die over it."""
    try:
        await client.sessions.update(session, title=title)
    except AgentctlError:
        return


async def one_life(served: Daemon, session: str, life: int, pick: random.Random) -> None:
    """Some events, some of them answered for, and an end in the middle of others."""
    async with served.client() as client, anyio.create_task_group() as group:
        for number in range(pick.randrange(3)):
            await rename(client, session, f"life {life}, {number}")
        for number in range(pick.randrange(4)):
            group.start_soon(rename, client, session, f"life {life}, unheard {number}")
        await anyio.lowlevel.checkpoint()
        if life % 3:
            served.kill()
        else:
            await served.stop()
    await served.start()


async def live_and_die(served: Daemon, reader: Reader, group: TaskGroup, root: Path) -> None:
    async with served.client() as client:
        session = await client.sessions.create("demo", str(root), wait_ready=True)
        run = (await client.runs.create(session.session_id, "say hello")).run
        await client.runs.wait(run.run_id)
        group.start_soon(reader.run)
        # Before its first answer a daemon that is away is an error, and no break.
        await reader.until((await client.daemon.get_info()).head_seq)
    pick = random.Random(7)
    for life in range(RESTARTS):
        await one_life(served, session.session_id, life, pick)
        if life % 2:
            async with served.client() as client:
                head = (await client.daemon.get_info()).head_seq
            await reader.until(head)


@pytest.mark.proves("S3", "F8")
async def test_a_reader_survives_a_hundred_restarts_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctl.client.stream.LAST_PAUSE_S", 0.1)
    with anyio.fail_after(ALL_S):
        async with daemon(tmp_path) as served, served.client() as client:
            reader = Reader(client)
            truth: list[v1.AgentEvent] = []
            async with anyio.create_task_group() as group:
                await live_and_die(served, reader, group, tmp_path)
                async with served.client() as other:
                    truth += [each async for each in other.events(follow=False)]
                await reader.until(truth[-1].seq)
                group.cancel_scope.cancel()
            assert [each.seq for each in reader.events] == [each.seq for each in truth]
            assert reader.events == truth
            titles = [each.session_status.title for each in truth if each.session_status.title]
            assert len(titles) > RESTARTS / 2
