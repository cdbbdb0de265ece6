"""The real OpenCode server where it hurts: killed, restarted, shared, cut off, attached, distrusted."""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from agentctl.core.errors import Invalid, NotFound, Refused
from agentctl.core.events import (
    Error,
    FileChange,
    PermissionRequest,
    SessionOptions,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import McpServer
from agentctl.core.words import Outcome, ToolKind, ToolStatus
from tests.adapters.opencode.live import Live, running, text
from tests.adapters.opencode.scenarios import GROUPS, ODD
from tests.adapters.opencode.test_adapter_stream import QUICK, SCRIPT, essence, whole_run
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.openai import OpenAiEndpoint
from tests.real import opencode
from tests.real.harness import START_TIMEOUT_S, Home, Model, make_home, wait_until_gone

pytestmark = [pytest.mark.anyio, pytest.mark.real]
MCP_SERVER = Path(__file__).parents[1] / "fakes/mcp_server.py"


@pytest.fixture
def place(tmp_path: Path) -> Home:
    home = make_home(tmp_path)
    opencode.make_repository(home.workspace)
    return home


@pytest.fixture
def model() -> Generator[Model]:
    with in_thread(OpenAiEndpoint()) as url:
        yield Model(url)


@asynccontextmanager
async def server(place: Home, model: Model, **how: Any) -> AsyncGenerator[Live]:
    env = {**opencode.environment(place, model.url), **how.pop("env", {})}
    async with running(opencode.command(), str(place.workspace), env=env, **how) as live:
        yield live
    await wait_until_gone(place)


@asynccontextmanager
async def somebodys(place: Home, model: Model, password: str) -> AsyncGenerator[str]:
    """A real server that we did not start: its URL."""
    env = {**opencode.environment(place, model.url), "OPENCODE_SERVER_PASSWORD": password}
    process = await anyio.open_process(
        opencode.command(), env=env, cwd=place.workspace, stderr=None
    )
    try:
        assert process.stdout is not None
        with anyio.fail_after(START_TIMEOUT_S):
            line = (await process.stdout.receive()).decode()
        yield line.split()[-1]
        assert process.returncode is None, "somebody stopped it"
    finally:
        with anyio.CancelScope(shield=True):
            process.kill()
            await process.aclose()


@pytest.mark.proves("T5", "P1", "P2")
async def test_a_server_killed_during_a_tool_leaves_no_shell_and_the_next_one_resumes(
    place: Home, model: Model
) -> None:
    async with server(place, model) as live:
        session = await live.session()
        await live.ask(session, "SAYTEXT before")
        await live.begin(session, "TOOL echo begun; sleep 300")
        await live.approve(session)
        await live.until(lambda: any(u.output_delta for u in live.of_type(ToolUpdate, session)))
        os.kill(live.connection.info.pid or 0, signal.SIGKILL)
        run = await live.ended(session, 2)
        assert run.complete.outcome is Outcome.FAILED
        assert run.complete.error and run.complete.error.code == "AGENT_EXITED"
        assert live.gone[-1].signal == signal.SIGKILL
    async with server(place, model) as again:
        await again.connection.resume_session(session, again.spec())
        assert again.completes(session) == []
        assert (await again.ask(session, "HISTORY")).text == "HISTORY 3"


@pytest.mark.proves("P2")
async def test_a_stop_during_a_tool_leaves_no_shell(place: Home, model: Model) -> None:
    async with server(place, model) as live:
        session = await live.session()
        await live.begin(session, "TOOL echo begun; sleep 300 & sleep 300")
        await live.approve(session)
        await live.until(lambda: any(u.output_delta for u in live.of_type(ToolUpdate, session)))
    # server() waits until nothing of this home is left.


async def test_a_fresh_home_asks_for_edits_commands_and_fetches(place: Home, model: Model) -> None:
    async with server(place, model) as live:
        fetch = 'CALL webfetch {"url": "http://127.0.0.1:9/", "format": "text"}'
        for prompt, action in (
            ("WRITE a.txt x", "edit"),
            ("TOOL echo x", "bash"),
            (fetch, "webfetch"),
        ):
            session = await live.session()
            await live.begin(session, prompt)
            assert (await live.asked(session)).action == action
            await live.cancel(session)
            await live.ended(session)
        assert not (place.workspace / "a.txt").exists()


async def test_the_plan_mode_stays_without_edits(place: Home, model: Model) -> None:
    async with server(place, model) as live:
        session = await live.session(mode="plan")
        run = await live.ask(session, "WRITE a.txt x")
        assert run.of(ToolUpdate)[-1].status is ToolStatus.FAILED
        assert not (place.workspace / "a.txt").exists()
        assert live.of_type(PermissionRequest) == []


@pytest.mark.proves("S9")
@pytest.mark.parametrize("trust", [True, False])
async def test_a_workspace_that_allows_itself_commands_is_told_and_stopped_when_not_trusted(
    place: Home, model: Model, trust: bool
) -> None:
    loose = {"agent": {"build": {"permission": {"bash": "allow"}}}}
    (place.workspace / "opencode.json").write_text(json.dumps(loose))
    async with server(place, model, trust=trust) as live:
        session = await live.session()
        await live.until(
            lambda: [e for e in live.of_type(Error, session) if e.code == "WORKSPACE_SETTINGS"]
        )
        await live.begin(session, "TOOL echo x")
        if not trust:
            await live.approve(session)
        run = await live.ended(session)
        assert run.complete.outcome is Outcome.COMPLETED
        assert bool(run.of(PermissionRequest)) is not trust


@pytest.mark.proves("S3", "M1")
async def test_cuts_of_the_event_stream_change_nothing_of_a_run(place: Home, model: Model) -> None:
    async with server(place, model, pace=QUICK) as live:
        expected = essence(await whole_run(live))
        assert str(expected[0]).endswith("".join(ODD))
        for cut_after in (1, 3, 5, 8, 12, 17):
            (place.workspace / "n.txt").unlink(missing_ok=True)
            session = await live.session()
            before = len(live.events)
            await live.begin(session, SCRIPT)
            async with anyio.create_task_group() as group:
                group.start_soon(live.approve, session, 1)
                group.start_soon(live.approve, session, 2)
                await live.until(
                    lambda start=before, n=cut_after, own=session: (
                        len(live.events) >= start + n or live.completes(own)
                    )
                )
                live.connection._host.streams.readers[0].cut()  # pyright: ignore[reportPrivateUsage]  # the break itself
            run = await live.ended(session)
            assert essence(run)[:1] + essence(run)[2:] == expected[:1] + expected[2:]


async def test_twenty_sessions_over_four_directories_share_one_server(
    place: Home, model: Model
) -> None:
    folders = [place.root / f"w{n}" for n in range(4)]
    for folder in folders:
        await anyio.to_thread.run_sync(opencode.make_repository, folder)
    async with server(place, model) as live:
        for folder in folders:
            await live.session(workspace=str(folder))
        process = psutil.Process(live.connection.info.pid)
        before = process.memory_info().rss
        sessions = [await live.session(workspace=str(folders[n % 4])) for n in range(20)]
        grown = process.memory_info().rss - before
        for n, session in enumerate(sessions):
            await live.begin(session, f"SAYTEXT mine{n}")
        for n, session in enumerate(sessions):
            run = await live.ended(session)
            assert run.complete.outcome is Outcome.COMPLETED
            assert run.text == f"mine{n}"
        assert grown / 20 <= 5_000_000


async def test_prompts_into_a_busy_session_all_end_and_each_once(place: Home, model: Model) -> None:
    async with server(place, model) as live:
        session = await live.session()
        await live.begin(session, "SLOW 10 50")
        await live.begin(session, "SAYTEXT second")
        await live.until(lambda: len(live.completes(session)) == 2)
        assert {c.outcome for c in live.completes(session)} == {Outcome.COMPLETED}


async def test_words_added_to_a_running_turn_reach_the_model(place: Home, model: Model) -> None:
    async with server(place, model) as live:
        session = await live.session()
        await live.begin(session, "TOOL echo one || SAYTEXT two")
        await live.asked(session)
        assert await live.connection.steer(session, text("SAYTEXT steered")) is True
        await live.approve(session)
        run = await live.ended(session)
        assert "steered" in run.text
        assert len(live.completes(session)) == 1


async def test_a_revert_takes_files_back_and_an_unrevert_brings_them_again(
    place: Home, model: Model
) -> None:
    async with server(place, model) as live:
        session = await live.session()
        await live.begin(session, "WRITE new.txt hello")
        await live.approve(session)
        await live.ended(session)
        await live.until(lambda: live.of_type(FileChange, session))
        newest = await live.connection.messages(session, limit=1)
        assert newest.before, "there is an older page"
        older = await live.connection.messages(session, before=newest.before)
        first: Any = older.payloads[0]
        await live.connection.revert(session, first.message_id)
        assert not (place.workspace / "new.txt").exists()
        await live.connection.unrevert(session)
        assert (place.workspace / "new.txt").exists()


async def test_mcp_servers_of_a_session_serve_it(place: Home, model: Model) -> None:
    local = McpServer("local", command=sys.executable, args=(str(MCP_SERVER),))
    async with server(place, model) as live:
        session = await live.session(mcp_servers=(local,))
        states = await live.connection.mcp_status(session)
        assert [(s.name, s.state.value) for s in states] == [("local", "connected")]
        told = await live.until(lambda: [o for o in live.of_type(SessionOptions) if o.mcp_servers])
        assert told
        run = await live.ask(session, "MCP shout hello")
        assert [c.kind for c in run.of(ToolCall)] == [ToolKind.MCP]
        assert "HELLO" in run.text


@pytest.mark.proves("S4")
async def test_bad_input_is_refused_before_the_server_takes_it(place: Home, model: Model) -> None:
    async with server(place, model) as live:
        with pytest.raises(Invalid, match="is no directory"):
            await live.session(workspace=str(place.root / "missing"))
        with pytest.raises(Invalid, match='no model "fake/none"'):
            await live.session(model="fake/none")
        with pytest.raises(Invalid, match='no mode "none"'):
            await live.session(mode="none")
        with pytest.raises(NotFound):
            await live.connection.resume_session(NativeSessionId("ses_unknown"), live.spec())


async def test_a_server_reached_by_its_url_with_a_password_does_the_same(
    place: Home, model: Model
) -> None:
    async with somebodys(place, model, "open sesame") as url:
        how: dict[str, Any] = {"argv": (), "workspace": str(place.workspace), "url": url}
        with pytest.raises(Refused) as caught:
            async with running(**how, auth={"password": "wrong"}):
                pytest.fail("it must not be let in")
        assert caught.value.reason == "AUTH_REQUIRED"
        names = [
            "text_is_equal_byte_for_byte",
            "an_approved_command_runs_and_shows_its_output",
            "a_question_is_answered_and_the_turn_goes_on",
            "a_cancel_with_a_request_open_answers_it_too",
            "a_fork_knows_the_past_and_tells_none_of_it",
        ]
        checks = {name: check for group in GROUPS.values() for name, check in group.items()}
        async with running(**how, auth={"password": "open sesame"}) as live:
            for name in names:
                await checks[name](live)
            assert live.connection.info.pid is None
