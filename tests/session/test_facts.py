"""What was done in a session is counted, and the count is right whatever ends the daemon."""

from pathlib import Path
from typing import Any

import pytest

from agentctl.core.adapter import Draft, Feature, TurnEnded
from agentctl.core.events import (
    FileChange,
    Message,
    MessageChunk,
    Payload,
    Plan,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock, Location, PlanEntry, Usage
from agentctl.core.words import (
    ChangeKind,
    ContentType,
    Outcome,
    PlanStatus,
    SessionPhase,
    SessionState,
    ToolKind,
    ToolStatus,
)
from agentctl.session.progress import TEXT_BYTES, add_usage, phase_of
from agentctl.session.records import (
    Progress,
    SeenRecord,
    SessionFilter,
    TallyRecord,
)
from agentctl.session.store import load
from tests.session.fakes import FakeAgent
from tests.session.house import House, house

pytestmark = pytest.mark.anyio

DONE = ToolStatus.COMPLETED


def progress_of(home: House, session: str) -> Progress:
    return home.session(session).record.progress


def text(words: str) -> list[ContentBlock]:
    return [ContentBlock(ContentType.TEXT, text=words)]


async def command(agent: FakeAgent, tool: str, line: str, output: str = "", **end: Any) -> None:
    await agent.say(ToolCall(tool, kind=ToolKind.EXECUTE, command=line))
    if output:
        await agent.say(ToolUpdate(tool, output_delta=output))
    await agent.say(ToolUpdate(tool, end.get("status", DONE)))


async def finish(agent: FakeAgent, **told: Any) -> None:
    native = agent.native
    await agent.emit(TurnEnded(native, agent.turns.pop(native), Outcome.COMPLETED, **told))


@pytest.mark.proves("F2")
async def test_a_session_tells_what_was_done_in_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running("fix it")
        for path in ("a.py", "./a.py", str(tmp_path / "a.py"), "b.py"):
            await agent.say(ToolCall(f"r{path}", kind=ToolKind.READ, locations=[Location(path)]))
            await agent.say(ToolUpdate(f"r{path}", DONE))
        await agent.say(ToolCall("rx", kind=ToolKind.READ, paths=["gone.py"]))
        await agent.say(ToolUpdate("rx", ToolStatus.FAILED))
        await agent.say(FileChange("a.py"))
        await agent.say(FileChange(str(tmp_path / "a.py")))
        await agent.say(FileChange("new.py", ChangeKind.CREATE))
        await command(agent, "c1", "ls")
        await command(agent, "c2", "pytest -q", "1 failed, 3 passed in 0.1s\n")
        await command(agent, "c3", "sleep 9", status=ToolStatus.CANCELLED)
        steps = (PlanStatus.COMPLETED, PlanStatus.IN_PROGRESS, PlanStatus.PENDING)
        entries = [PlanEntry(f"step {at}", status) for at, status in enumerate(steps)]
        await agent.say(Plan(entries))
        await agent.text("I fixed ")
        await agent.text("it.")
        await finish(agent, usage=Usage(input=10, output=2), cost_usd=0.25)
        assert progress_of(home, session) == Progress(
            message_count=2,
            runs=1,
            files_open=2,
            files_changed=2,
            files_created=1,
            commands_run=2,
            last_command="pytest -q",
            tests_passed=3,
            tests_failed=1,
            current_task="step 1",
            percent=100 / 3,
            last_message="I fixed it.",
        )
        await home.prompt(session, "and more")
        await agent.prompted()
        assert progress_of(home, session).last_message == "and more"
        await finish(agent, usage=Usage(input=1, total=5), cost_usd=0.5)
        record = home.session(session).record
        assert record.usage == Usage(input=11, output=2, total=5) and record.cost_usd == 0.75
        assert record.progress.message_count == 3 and record.progress.runs == 2
        assert record.last_active_at == home.spy.committed[-1].ts


@pytest.mark.proves("F2")
async def test_messages_are_counted_as_a_reader_sees_them(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running("go")

        async def sub(payload: Payload) -> None:
            await agent.emit(Draft(payload, agent.native, parent_tool_call_id="task"))

        await agent.say(MessageChunk("a", text="one "))
        await sub(MessageChunk("s", text="subagent"))
        await agent.say(MessageChunk("a", text="two"))
        assert progress_of(home, session).last_message == "one two"
        await agent.say(MessageChunk("b", text="wrong"))
        assert progress_of(home, session).message_count == 3
        await agent.say(Message("b", retracted=True))
        assert progress_of(home, session).message_count == 2
        assert progress_of(home, session).last_message == "one two"
        await agent.say(Message("a", content=text("whole")))
        await agent.say(Message("c", content=text("last")))
        await sub(Message("s", content=text("subagent")))
        assert progress_of(home, session).message_count == 3
        assert progress_of(home, session).last_message == "last"
        native = agent.native
        await agent.end()
        await agent.emit(Draft(MessageChunk("d", text="late"), native))
        assert progress_of(home, session).message_count == 4
        assert progress_of(home, session).last_message == "late"


@pytest.mark.parametrize("letter", ["x", "\u20ac", "\U0001f600"])
async def test_a_long_last_message_is_cut_between_characters(tmp_path: Path, letter: str) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running("go")
        for _ in range(3):
            await agent.say(MessageChunk("a", text="." + letter * 1000))
        said = progress_of(home, session).last_message or ""
        whole = ("." + letter * 1000) * 3
        assert whole.startswith(said) and len(said.encode()) <= TEXT_BYTES
        await agent.say(MessageChunk("a", text="." + letter * 2000))
        said = progress_of(home, session).last_message or ""
        whole += "." + letter * 2000
        assert whole.startswith(said) and TEXT_BYTES - 4 < len(said.encode()) <= TEXT_BYTES
        await agent.say(Message("a", content=text(letter * 9000)))
        said = progress_of(home, session).last_message or ""
        assert TEXT_BYTES - 4 < len(said.encode()) <= TEXT_BYTES


async def test_halves_of_characters_break_nothing(tmp_path: Path) -> None:
    half = "\ud83d"
    async with house(tmp_path) as home:
        session, _, agent = await home.running("go")
        await agent.say(MessageChunk(f"m{half}", text=f"a{half}"))
        await agent.say(FileChange(f"{half}.py", ChangeKind.CREATE))
        await agent.say(ToolCall("r", kind=ToolKind.READ, paths=[f"{half}.txt"]))
        await agent.say(ToolUpdate("r", DONE))
        await command(agent, "c", f"echo {half}", half)
        await agent.say(Plan([PlanEntry(half, PlanStatus.IN_PROGRESS)]))
        await agent.say(ToolCall(f"open{half}", kind=ToolKind.EXECUTE, command=half))
        await agent.say(ToolUpdate(f"open{half}", output_delta=half, background=True))
        await agent.end()
        progress = progress_of(home, session)
        assert (progress.last_message, progress.last_command) == ("a?", "echo ?")


@pytest.mark.proves("F2")
async def test_output_that_comes_after_the_end_of_a_command_is_read_too(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running("go")
        await command(agent, "c1", "npm test")
        await agent.say(ToolUpdate("c1", output_delta="  7 passing (1s)\n"))
        assert progress_of(home, session).tests_passed == 7
        await command(agent, "c2", "grep passing log", "  9 passing (1s)\n")
        assert progress_of(home, session).tests_passed == 7
        await agent.end()


@pytest.mark.proves("F2")
async def test_a_background_command_that_ends_late_counts(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running("go")
        await agent.say(ToolCall("bg", kind=ToolKind.EXECUTE, command="make"))
        await agent.say(ToolUpdate("bg", background=True))
        await agent.end()
        assert progress_of(home, session).commands_run == 0
        await home.prompt(session, "next")
        await agent.prompted()
        await agent.say(ToolUpdate("bg", DONE))
        await agent.say(FileChange("late.py", tool_call_id="bg"))
        assert progress_of(home, session).commands_run == 1
        await agent.end()
        tally = await tally_of(home, run.id)
        assert (tally.tools, tally.commands) == (1, 1)


async def tally_of(home: House, run_id: str) -> TallyRecord:
    doc = await home.spy.doc("tally", run_id)
    assert doc is not None
    return load(TallyRecord, doc)


@pytest.mark.parametrize(
    ("state", "outcome", "phase"),
    [
        (SessionState.STARTING, None, "active"),
        (SessionState.ACTIVE, None, "active"),
        (SessionState.IDLE, Outcome.FAILED, "active"),
        (SessionState.AWAITING, None, "active"),
        (SessionState.ASLEEP, None, "paused"),
        (SessionState.INTERRUPTED, Outcome.FAILED, "paused"),
        (SessionState.FAILED, None, "failed"),
        (SessionState.CLOSED, None, "completed"),
        (SessionState.CLOSED, Outcome.COMPLETED, "completed"),
        (SessionState.CLOSED, Outcome.CANCELLED, "completed"),
        (SessionState.CLOSED, Outcome.FAILED, "failed"),
        (SessionState.CLOSED, Outcome.TIMED_OUT, "failed"),
    ],
)
def test_a_session_has_a_phase(state: SessionState, outcome: Outcome | None, phase: str) -> None:
    assert phase_of(state, outcome) == phase


def test_every_state_has_a_phase() -> None:
    assert {phase_of(state, None) for state in SessionState} == set(SessionPhase)


@pytest.mark.proves("F3")
async def test_lists_filter_by_phase_and_directory_and_tell_the_total(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with house(tmp_path) as home:
        manager = home.manager
        open_ = await home.start(workspace=str(tmp_path / "other"))
        ids: dict[str, str] = {}
        for outcome in (Outcome.COMPLETED, Outcome.FAILED):
            session, _, agent = await home.running(project="p", labels={"o": outcome.value})
            await agent.end(outcome)
            await manager.close_session(session)
            ids[outcome] = session
        lost, _, agent = await home.running()
        await agent.die()
        for where, found in (
            (SessionFilter(), [lost, ids["failed"], ids["completed"], open_]),
            (SessionFilter(phases=frozenset({SessionPhase.ACTIVE})), [open_]),
            (SessionFilter(phases=frozenset({SessionPhase.PAUSED})), [lost]),
            (SessionFilter(phases=frozenset({SessionPhase.FAILED})), [ids["failed"]]),
            (
                SessionFilter(phases=frozenset({SessionPhase.COMPLETED, SessionPhase.PAUSED})),
                [lost, ids["completed"]],
            ),
            (SessionFilter(workspace=str(tmp_path / "other")), [open_]),
            (SessionFilter(project="p"), [ids["failed"], ids["completed"]]),
            (SessionFilter(labels=(("o", "failed"),)), [ids["failed"]]),
            (SessionFilter(project="p", include_closed=False), []),
        ):
            records, token = await manager.list_sessions(where)
            assert [record.id for record in records] == found and token == ""
            assert await manager.count_sessions(where) == len(found)
            walked: list[str] = []
            after = ""
            while True:
                page, after = await manager.list_sessions(where, after=after, limit=1)
                walked += [record.id for record in page]
                if not after:
                    break
            assert walked == found


@pytest.mark.proves("F3")
async def test_the_last_session_of_a_directory_is_found(tmp_path: Path) -> None:
    async with house(tmp_path, workspace_root=tmp_path.parent) as home:
        manager = home.manager
        first, second = await home.start(), await home.start()
        here = SessionFilter(workspace=str(tmp_path))
        assert (await manager.resolve_session(here)).id == second
        await manager.close_session(second)
        assert (await manager.resolve_session(here)).id == first
        await manager.close_session(first)
        relative = SessionFilter(workspace=tmp_path.name)
        assert (await manager.resolve_session(relative)).id == second


async def test_a_refused_prompt_counts_for_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        home.spy.full = True
        with pytest.raises(Exception, match="full"):
            await home.prompt(session, "no room")
        home.spy.full = False
        assert progress_of(home, session) == Progress()


def test_what_was_not_told_is_no_zero() -> None:
    assert add_usage(None, None) is None
    assert add_usage(Usage(input=1), None) == Usage(input=1)
    assert add_usage(None, Usage(input=1)) == Usage(input=1)
    assert add_usage(Usage(input=1), Usage(output=2)) == Usage(input=1, output=2)


async def test_a_copy_of_a_session_begins_its_own_count(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.protocol.plan.features |= {Feature.FORK, Feature.MANY_SESSIONS}
        session, _, agent = await home.running("p")
        await agent.text("hello")
        await agent.end()
        fork = await home.manager.fork_session(session)
        assert fork.progress == Progress() and fork.usage is None
        assert progress_of(home, session).message_count == 2
        assert home.session(fork.id).ledger.facts.seen == SeenRecord(fork.id, open=True)
