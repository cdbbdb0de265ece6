"""Making, finding and changing sessions; bad input; the table of moves."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.adapter import Draft, NativeSession
from agentctl.core.errors import (
    AgentctlError,
    Conflict,
    Exhausted,
    Invalid,
    NotFound,
    Refused,
    TimedOut,
)
from agentctl.core.events import SessionOptions, SessionStatus
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import SessionSpec
from agentctl.core.state import AGENT_MOVES, RUN_MOVES, SESSION_MOVES, IllegalMove, move
from agentctl.core.words import AgentState, Policy, RunState, SessionChange, SessionState
from agentctl.session.records import SessionFilter, SessionUpdate
from tests.session.house import house

pytestmark = pytest.mark.anyio


async def test_create_returns_at_once_and_ready_comes_when_it_is(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        held = home.protocol.plan.holds["start"] = anyio.Event()
        record = await home.create()
        assert record.state is SessionState.STARTING
        with pytest.raises(TimedOut):
            await home.manager.wait_ready(record.id, 5)
        held.set()
        ready = await home.manager.wait_ready(record.id[-8:], 5000)
        assert ready.state is SessionState.IDLE and ready.native_session_id == "native-1-1"
        starting = SessionChange.STARTING
        assert home.told(record.id) == [starting, starting, SessionChange.CREATED]


async def test_bad_input_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        file = tmp_path / "file"
        file.touch()
        cases: list[tuple[str, dict[str, Any], str, str]] = [
            ("nobody", {}, "AGENT_NOT_FOUND", "nobody"),
            ("off", {}, "AGENT_DISABLED", "off"),
            ("fake", {"workspace": str(tmp_path / "missing")}, "INVALID_PARAMETERS", "not exist"),
            ("fake", {"workspace": str(file)}, "INVALID_PARAMETERS", "is a file"),
            ("fake", {"workspace": "here"}, "INVALID_PARAMETERS", "workspace_root"),
            ("fake", {"additional_directories": ("/no",)}, "INVALID_PARAMETERS", "/no does not"),
            ("fake", {"additional_directories": (str(file),)}, "INVALID_PARAMETERS", "is a file"),
            ("fake", {"environment": "moon"}, "INVALID_PARAMETERS", 'no environment "moon"'),
            ("fake", {"environment": "sandbox"}, "UNSUPPORTED", "not available"),
            ("fake", {"environment_options": {"a": "b"}}, "INVALID_PARAMETERS", "no option"),
        ]
        for agent, options, reason, says in cases:
            with pytest.raises(AgentctlError, match=says) as refused:
                await home.create(agent, **options)
            assert refused.value.reason == reason
        assert home.manager.sessions == {} and home.protocol.entered == 0
        assert await home.manager.list_sessions(SessionFilter()) == ([], "")


async def test_what_the_registry_cannot_start_is_refused_at_once_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        home.entries.fails = Refused("set FAKE_KEY first", reason="AGENT_NOT_INSTALLED")
        with pytest.raises(Refused, match="FAKE_KEY"):
            await home.create()
        assert home.manager.sessions == {} and home.protocol.entered == 0


async def test_what_the_registry_can_no_longer_start_fails_the_resume_with_its_reason(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        record = await home.create()
        await home.manager.wait_ready(record.id, None)
        await home.manager.close_session(record.id)
        home.entries.fails = Refused("set FAKE_KEY first", reason="AGENT_NOT_INSTALLED")
        with pytest.raises(Refused, match="FAKE_KEY"):
            await home.manager.resume_session(record.id)
        assert (await home.manager.get_session(record.id)).state is SessionState.FAILED


async def test_a_relative_workspace_lies_under_the_root_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    async with house(tmp_path, workspace_root=tmp_path) as home:
        record = await home.create(workspace="here")
        assert record.spec.workspace == str(tmp_path / "here")


async def test_the_default_agent_is_the_one_that_is_set(tmp_path: Path) -> None:
    async with house(tmp_path, default_agent="shared") as home:
        assert (await home.create("default")).spec.entry_id == "shared"


async def test_a_key_is_unique_among_open_sessions(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start(key="chat-1")
        with pytest.raises(Conflict, match=session):
            await home.start(key="chat-1")
        await home.manager.close_session(session)
        second = await home.start(key="chat-1")
        assert (await home.manager.resolve_session(SessionFilter(key="chat-1"))).id == second
        with pytest.raises(Conflict):
            await home.manager.resume_session(session)


async def test_more_sessions_than_the_limit_are_refused(tmp_path: Path) -> None:
    async with house(tmp_path, max_sessions=2) as home:
        sessions = [await home.start() for _ in range(2)]
        with pytest.raises(Exhausted) as limit:
            await home.create()
        assert limit.value.reason == "SESSION_LIMIT"
        await home.manager.close_session(sessions[0])
        await home.start()
        with pytest.raises(Exhausted):
            await home.manager.resume_session(sessions[0])


async def test_sessions_are_found_by_what_is_known_of_them(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        manager = home.manager
        made = [
            await home.start(name=f"n{n}", project="p" if n % 2 else "q", labels={"n": str(n)})
            for n in range(5)
        ]
        await manager.close_session(made[4])
        first, after = await manager.list_sessions(SessionFilter(), limit=3)
        rest, end = await manager.list_sessions(SessionFilter(), after=after, limit=3)
        assert [record.id for record in first + rest] == made[::-1] and end == ""
        for where, found in (
            (SessionFilter(project="p"), [made[3], made[1]]),
            (SessionFilter(labels=(("n", "2"),)), [made[2]]),
            (SessionFilter(states=frozenset({SessionState.CLOSED})), [made[4]]),
            (SessionFilter(include_closed=False), made[3::-1]),
            (SessionFilter(entry_id="other"), []),
        ):
            records, _ = await manager.list_sessions(where)
            assert [record.id for record in records] == found
        assert (await manager.resolve_session(SessionFilter(name="n4"))).id == made[4]
        assert (
            await manager.resolve_session(SessionFilter(native_session_id="native-2-1"))
        ).id == made[1]
        assert (await manager.resolve_session(SessionFilter(project="q"))).id == made[2]
        with pytest.raises(NotFound):
            await manager.resolve_session(SessionFilter(name="none"))
        assert manager.counts().sessions_open == 4


async def test_what_was_chosen_is_asked_for_again_on_resume(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.end()
        await home.ended(run.id)
        change = SessionUpdate(title="T", model="big", mode="plan", policy=Policy.DENY)
        await home.manager.update_session(session, change)
        assert (agent.named("set_model"), agent.named("set_mode")) == (["big"], ["plan"])
        await agent.die(1)
        await home.manager.resume_session(session)
        spec = home.session(session).spec()
        assert (spec.model, spec.mode, spec.policy) == ("big", "plan", Policy.DENY)
        status = home.of(SessionStatus)[-1]
        assert (status.title, status.model) == ("T", "big")


async def test_what_the_agent_tells_of_its_model_is_remembered(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        native = NativeSessionId(home.session(session).record.native_session_id)
        await home.agent.emit(Draft(SessionOptions(model="m1"), native))
        assert (await home.manager.get_session(session)).model == "m1"


async def test_a_conversation_that_the_agent_kept_is_adopted_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        spec = SessionSpec("", str(tmp_path))
        found = await home.manager.list_native("fake", None)
        assert found == [NativeSession(NativeSessionId("kept"))]
        adopted: list[str] = []

        async def adopt() -> None:
            record = await home.manager.resume_session(
                entry_id="fake", native_session_id="kept", spec=spec
            )
            adopted.append(record.id)

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(adopt)
        assert len(set(adopted)) == 1
        assert home.agent.named("resume_session") == ["kept"]
        with pytest.raises(Invalid):
            await home.manager.resume_session(entry_id="fake")


async def test_login_goes_by_the_methods_that_the_agent_names(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        (method,) = await home.manager.auth_methods("fake")
        await home.manager.authenticate("fake", method.id)
        assert home.agent.named("authenticate") == ["key"]
        with pytest.raises(NotFound):
            await home.manager.authenticate("fake", "other")


async def test_drafts_of_strangers_are_not_kept_for_ever(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await home.start()
        process = home.session(session).agent
        for number in range(200):
            stranger = NativeSessionId(f"stranger-{number}")
            await home.agent.emit(Draft(SessionOptions(model="m"), stranger))
        assert len(process._early) <= 64
        await home.agent.die(1)
        assert process._early == {}


def test_the_table_allows_what_the_diagram_shows_and_nothing_else() -> None:
    ends = {RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.TIMED_OUT}
    assert RUN_MOVES[RunState.RUNNING] == ends
    assert RUN_MOVES[RunState.QUEUED] == ends | {RunState.RUNNING}
    assert all(not RUN_MOVES[end] for end in ends)
    assert all(AgentState.LOST in AGENT_MOVES[s] for s in AgentState if s is not AgentState.LOST)
    assert SESSION_MOVES[SessionState.CLOSED] == {SessionState.STARTING}
    for state in SessionState:
        if state is not SessionState.CLOSED:
            assert SessionState.CLOSED in SESSION_MOVES[state]
    for table, old, new in (
        (SESSION_MOVES, SessionState.FAILED, SessionState.IDLE),
        (SESSION_MOVES, SessionState.ASLEEP, SessionState.ACTIVE),
        (SESSION_MOVES, SessionState.INTERRUPTED, SessionState.IDLE),
    ):
        with pytest.raises(IllegalMove):
            move(table, old, new)
    with pytest.raises(IllegalMove):
        move(RUN_MOVES, RunState.COMPLETED, RunState.RUNNING)
    with pytest.raises(IllegalMove):
        move(AGENT_MOVES, AgentState.STOPPING, AgentState.READY)
