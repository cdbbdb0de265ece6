"""What was done in a session is counted right whatever ends the daemon, also from older journals."""

import dataclasses
import random
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from agentctl.core.adapter import Draft
from agentctl.core.events import (
    FileChange,
    Message,
    MessageChunk,
    Plan,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.ids import NativeTurnId
from agentctl.core.parts import PlanEntry, Usage
from agentctl.core.words import (
    ChangeKind,
    PlanStatus,
    ToolKind,
    ToolStatus,
)
from agentctl.journal.select import Selection
from agentctl.rpc.convert import decode_block
from agentctl.session import ledger
from agentctl.session.progress import Facts
from agentctl.session.records import (
    Progress,
    SessionFilter,
    SessionRecord,
)
from tests.journal.kit import ask
from tests.session.fakes import FakeAgent
from tests.session.house import House, house
from tests.session.test_facts import DONE, finish, progress_of, text

pytestmark = pytest.mark.anyio


async def everything_again(home: House, record: SessionRecord) -> Facts:
    """The facts of a session counted from its first event in the journal."""
    fresh = dataclasses.replace(
        record, progress=Progress(), usage=None, cost_usd=None, last_outcome=None
    )
    facts = Facts(fresh)
    selection = Selection(sessions=frozenset({record.id}))
    after = 0
    while True:
        page = await home.spy.page(selection, after)
        for data in page.data:
            for event in decode_block(data):
                if event.session_id == record.id:
                    facts.feed(event)
        if page.to >= page.head:
            return facts
        after = page.to


Step = Callable[[House, str, FakeAgent, random.Random], Awaitable[None]]


async def _chunk(_h: House, _s: str, agent: FakeAgent, pick: random.Random) -> None:
    await agent.say(MessageChunk(pick.choice("abc"), text=pick.choice(["x", "yy ", "\u20ac"])))


async def _whole(_h: House, _s: str, agent: FakeAgent, pick: random.Random) -> None:
    gone = pick.random() < 0.3
    await agent.say(Message(pick.choice("abc"), content=text("whole"), retracted=gone or None))


async def _sub(_h: House, _s: str, agent: FakeAgent, _p: random.Random) -> None:
    chunk = MessageChunk("sub", text="no")
    await agent.emit(Draft(chunk, agent.native, parent_tool_call_id="t"))


async def _tool(_h: House, _s: str, agent: FakeAgent, pick: random.Random) -> None:
    kind = pick.choice([ToolKind.READ, ToolKind.EXECUTE, ToolKind.SEARCH])
    tool = f"t{pick.randrange(1000)}"
    await agent.say(ToolCall(tool, kind=kind, command="pytest", paths=[f"{pick.randrange(4)}.py"]))
    if pick.random() < 0.7:
        await agent.say(ToolUpdate(tool, output_delta=f"{pick.randrange(9)} passed in 0.1s\n"))
    if pick.random() < 0.8:
        await agent.say(ToolUpdate(tool, pick.choice([DONE, ToolStatus.FAILED])))


async def _file(_h: House, _s: str, agent: FakeAgent, pick: random.Random) -> None:
    kind = pick.choice([ChangeKind.CREATE, ChangeKind.MODIFY])
    await agent.say(FileChange(f"{pick.randrange(5)}.py", kind))


async def _plan(_h: House, _s: str, agent: FakeAgent, pick: random.Random) -> None:
    await agent.say(Plan([PlanEntry("do", pick.choice(list(PlanStatus))) for _ in range(3)]))


async def _queue(home: House, session: str, _a: FakeAgent, _p: random.Random) -> None:
    await home.prompt(session, "queued")


async def _end(home: House, session: str, agent: FakeAgent, pick: random.Random) -> None:
    usage = pick.choice([None, Usage(input=1), Usage(output=2, total=3)])
    native, queue = agent.native, len(home.session(session).ledger.queue)
    await finish(agent, usage=usage, cost_usd=pick.choice([None, 0.5]))
    if pick.random() < 0.5:
        await agent.emit(Draft(MessageChunk("a", text="late"), native))
    if not queue:
        await home.prompt(session, "again")
    await agent.prompted()


async def _chunk_late(_h: House, _s: str, agent: FakeAgent, pick: random.Random) -> None:
    late = ToolUpdate(f"t{pick.randrange(1000)}", DONE)
    await agent.emit(Draft(late, agent.native, turn=NativeTurnId("unknown")))


STEPS: Mapping[Step, int] = {
    _chunk: 8,
    _whole: 2,
    _sub: 1,
    _tool: 4,
    _file: 2,
    _plan: 1,
    _queue: 1,
    _end: 2,
    _chunk_late: 1,
}


@pytest.mark.proves("F2")
@pytest.mark.parametrize("seed", range(12))
async def test_a_count_that_goes_on_after_a_crash_is_that_of_the_whole_journal(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = random.Random(seed)
    monkeypatch.setattr(ledger, "REMEMBER_EVENTS", pick.choice([3, 20, 10_000]))
    session = ""
    for life in range(3):
        async with house(tmp_path) as home:
            if life:
                record = home.session(session).record
                again = await everything_again(home, record)
                assert record.progress == again.record.progress
                assert (record.usage, record.cost_usd) == (
                    again.record.usage,
                    again.record.cost_usd,
                )
                assert record.last_outcome == again.record.last_outcome
                await home.manager.resume_session(session)
                await home.prompt(session, "back")
                agent = home.agent
                await agent.prompted()
            else:
                session, _, agent = await home.running()
            for _ in range(30):
                (step,) = pick.choices(list(STEPS), list(STEPS.values()))
                await step(home, session, agent, pick)
            record = home.session(session).record
            again = await everything_again(home, record)
            assert record.progress == again.record.progress
            assert home.session(session).ledger.facts.seen.opened == again.seen.opened
            if pick.random() < 0.7:
                home.manager.crash()


@pytest.mark.proves("F2")
async def test_a_clean_restart_counts_nothing_twice(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running()
        await agent.text("hello")
        await agent.say(FileChange("a.py"))
        await agent.end()
        before = dataclasses.replace(progress_of(home, session))
    async with house(tmp_path) as home:
        assert progress_of(home, session) == before
        await home.manager.resume_session(session)
        await home.prompt(session, "go on")
        await home.agent.prompted()
        await home.agent.say(FileChange("a.py"))
        assert progress_of(home, session).files_changed == 1
        await home.agent.end()
        await home.manager.close_session(session)
        closed = await home.manager.get_session(session)
        assert closed.progress.runs == 2 and closed.progress.files_changed == 1
        await home.manager.resume_session(session)
        await home.prompt(session, "once more")
        await home.agent.prompted()
        await home.agent.say(FileChange("a.py"))
        await home.agent.say(FileChange("b.py"))
        assert progress_of(home, session).files_changed == 2
        await home.agent.end()


@pytest.mark.proves("F2")
async def test_sessions_of_an_older_journal_are_counted_once_in_the_background(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        ids: list[str] = []
        for _ in range(3):
            session, _, agent = await home.running()
            await agent.say(FileChange("a.py"))
            await agent.text("hello")
            await finish(agent, usage=Usage(input=3))
            ids.append(session)
        for session in ids[1:]:
            await home.manager.close_session(session)
    conn = sqlite3.connect(tmp_path / "journal.db")
    conn.executescript(
        "DELETE FROM doc WHERE kind IN ('seen', 'tally'); DROP TABLE brief;"
        "ALTER TABLE doc DROP COLUMN seq; UPDATE doc SET body = CAST(json_remove("
        "CAST(body AS TEXT), '$.progress', '$.usage') AS BLOB) WHERE kind = 'session';"
        "PRAGMA user_version = 1;"
    )
    conn.close()
    async with house(tmp_path) as home:
        assert progress_of(home, ids[0]).files_changed == 1
        assert [r.id for r in (await home.manager.list_sessions(SessionFilter()))[0]] == ids[::-1]
        await home.until(lambda: ask(tmp_path, "SELECT count(*) FROM doc WHERE kind='seen'") == 3)
        for session in ids:
            record = await home.manager.get_session(session)
            assert record.progress.last_message == "hello" and record.usage == Usage(input=3)
    assert ask(tmp_path, "SELECT count(*) FROM doc WHERE kind = 'tally'") == 3
