"""Whatever happens in whatever order: each record has its bytes, and no bytes are without a record."""

import random
from pathlib import Path

import anyio
import pytest

from agentctl.core.events import FileChange, ToolCall, ToolUpdate
from agentctl.core.words import ToolKind, ToolStatus
from agentctl.session.artifacts import ArtifactRule
from tests.session.fakes import FakeAgent, FakeProtocol
from tests.session.house import House, house
from tests.session.pictures import Pictures, blobs, content, kept

pytestmark = pytest.mark.anyio

LONG = "o" * 300_000
RULE = ArtifactRule(age_ms=10**9, size=3_000_000, round_s=0.01)


async def work(home: House, chance: random.Random, pictures: Pictures, session: str) -> bool:
    """One run that makes this and that; whether the daemon was killed in it."""
    before = {agent.number: len(agent.named("prompt")) for agent in home.protocol.agents}

    def prompted() -> list[FakeAgent]:
        agents = home.protocol.agents
        return [one for one in agents if len(one.named("prompt")) > before.get(one.number, 0)]

    await home.prompt(session, "go")
    await home.until(prompted)
    (agent,) = prompted()
    await agent.prompted()
    for _ in range(chance.randrange(4)):
        name = chance.choice("abc")
        (home.path / name).write_text(chance.choice(("same", "x" * chance.randrange(9_000))))
        await agent.say(FileChange(name))
    if chance.random() < 0.4:
        await agent.say(ToolCall("t", kind=ToolKind.EXECUTE, command="make"))
        output = f"{chance.randrange(3)}{LONG}"
        await agent.say(ToolUpdate("t", ToolStatus.COMPLETED, output_replace=output))
    pictures.tree = str(chance.randrange(4))
    match chance.randrange(6):
        case 0:
            home.manager.crash()
            return True
        case 1:
            await agent.die()
        case 2:
            await agent.end()
            await home.manager.cancel_session(session)
        case _:
            await agent.end()
    return False


async def check(home: House) -> None:
    """Nothing is on its way: what is listed can be read, and nothing else is on the disk."""
    records = await kept(home, limit=1000)
    there = [record for record in records if not record.deleted]
    for record in there:
        assert len(await content(home, record)) == record.size
    assert len(blobs(home)) == len({record.sha256 for record in there})


@pytest.mark.proves("AR6", "AR13")
@pytest.mark.parametrize("seed", range(6))
async def test_records_and_bytes_stay_together(tmp_path: Path, seed: int) -> None:
    chance, pictures, protocol = random.Random(seed), Pictures(), FakeProtocol()
    for _ in range(4):
        async with house(tmp_path, keep=RULE, snapshots=pictures, protocol=protocol) as home:
            for _ in range(5):
                session = (
                    await home.start()
                    if chance.random() < 0.5 or not home.manager.sessions
                    else chance.choice(sorted(home.manager.sessions))
                )
                if await work(home, chance, pictures, session):
                    break
                if chance.random() < 0.2:
                    await home.manager.delete_session(session)
    async with house(tmp_path, keep=RULE, snapshots=pictures, protocol=protocol) as home:
        for session in sorted(home.manager.sessions):
            await home.manager.close_session(session)
        with anyio.fail_after(10):
            while True:
                try:
                    await check(home)
                    return
                except AssertionError:
                    await anyio.lowlevel.checkpoint()
