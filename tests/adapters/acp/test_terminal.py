"""Terminals that an agent runs through us: in the workspace, and gone with the agent."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.adapter import Launch
from agentctl.core.ids import NativeSessionId
from agentctl_adapters.acp import terminal as module
from agentctl_adapters.acp.connection import AcpConnection
from agentctl_adapters.acp.terminal import Terminals, TerminalUnknown
from agentctl_adapters.acp.workspace import FileRefused, Workspace
from agentctl_adapters.common.shapes import Json
from tests.adapters.acp.adapter_harness import (
    Seen,
    Spy,
    alive,
    connect,
    launch,
    one_turn,
    puppet,
    running,
    spec,
    steps,
)

pytestmark = pytest.mark.anyio

ON = {"client_capabilities": {"terminal": True}}


async def ask(
    connection: AcpConnection, seen: Seen, session: NativeSessionId, method: str, **params: Any
) -> Any:
    said = await one_turn(connection, seen, session, steps(["request", method, params]))
    return json.loads(said)


async def test_a_command_runs_in_the_workspace_and_shows_both_streams(tmp_path: Path) -> None:
    async with running(**puppet(), config=ON) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        made = await ask(
            connection,
            seen,
            session,
            "terminal/create",
            command="sh",
            args=["-c", 'pwd; echo "$MINE" >&2; exit 3'],
            env=[{"name": "MINE", "value": "yours"}],
        )
        ended = await ask(connection, seen, session, "terminal/wait_for_exit", **made)
        assert ended == {"exitCode": 3, "signal": None}
        output = await ask(connection, seen, session, "terminal/output", **made)
        assert output["output"] == f"{tmp_path}\nyours\n"
        assert output["exitStatus"] == ended
        assert await ask(connection, seen, session, "terminal/release", **made) == {}
        gone = await ask(connection, seen, session, "terminal/output", **made)
        assert gone["code"] == -32002


async def test_a_killed_command_keeps_its_output_and_a_whole_line_is_a_shell_line(
    tmp_path: Path,
) -> None:
    async with running(**puppet(), config=ON) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        made = await ask(
            connection, seen, session, "terminal/create", command="echo begun; sleep 100"
        )
        with anyio.fail_after(10):
            while not (await ask(connection, seen, session, "terminal/output", **made))["output"]:
                pass
        await ask(connection, seen, session, "terminal/kill", **made)
        ended = await ask(connection, seen, session, "terminal/wait_for_exit", **made)
        assert ended["signal"] == "SIGKILL"
        output = await ask(connection, seen, session, "terminal/output", **made)
        assert output == {"output": "begun\n", "truncated": False, "exitStatus": ended}


@pytest.mark.proves("P1")
async def test_leaving_the_agent_ends_its_commands(tmp_path: Path) -> None:
    seen = Seen()
    start: Launch = launch(**puppet(), config=ON, seen=seen)
    with anyio.fail_after(20):
        async with connect(start, Spy(), seen.sink, seen.progress.append) as connection:
            session = await connection.new_session(spec(tmp_path))
            line = "trap '' TERM HUP; sleep 100 & sleep 100"
            await ask(connection, seen, session, "terminal/create", command=line)
            assert alive(f"{start.cookie}.term_1")
    assert alive(f"{start.cookie}.term_1") == []


async def test_an_agent_is_told_what_is_wrong_with_its_terminal(tmp_path: Path) -> None:
    async with running(**puppet(), config=ON) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        for params, words in (
            ({"command": "ls", "cwd": "/"}, "outside the workspace"),
            ({"command": "ls", "cwd": f"{tmp_path}/none"}, "not a directory"),
            ({}, "needs a command"),
            ({"command": "ls", "sessionId": "other"}, "unknown session"),
        ):
            answer = await ask(connection, seen, session, "terminal/create", **params)
            assert words in answer["message"]


async def test_a_wait_that_the_agent_takes_back_is_answered_as_cancelled(tmp_path: Path) -> None:
    async with running(**puppet(), config=ON) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        made = await ask(connection, seen, session, "terminal/create", command="sleep 100")
        params = {"sessionId": session, **made}
        wait = {"jsonrpc": "2.0", "id": 77, "method": "terminal/wait_for_exit", "params": params}
        back = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 77}}
        await connection.prompt(session, steps(["raw", json.dumps(wait)]))
        await seen.until(lambda: len(seen.ends()) == 2)
        # The wait is served by a task of its own: the answer to a later request shows it runs.
        await ask(connection, seen, session, "terminal/output", **made)
        await connection.prompt(session, steps(["raw", json.dumps(back)]))
        await seen.until(lambda: [a for a in seen.answers() if a["id"] == 77])
        assert next(a for a in seen.answers() if a["id"] == 77)["error"]["code"] == -32800


@pytest.fixture
def room(tmp_path: Path) -> Workspace:
    return Workspace([str(tmp_path)])


async def _output_of(room: Workspace, **params: Any) -> Json:
    terminals, output = Terminals(launch(["agent"])), Json()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as terminals.group:
            made = await terminals.create({"sessionId": "s", **params}, room)
            where = {"sessionId": "s", **made}
            await terminals.wait_for_exit(where)
            output = await terminals.output(where)
            with pytest.raises(TerminalUnknown):
                await terminals.output({**made, "sessionId": "other"})
            terminals.release_session("s")
            with pytest.raises(TerminalUnknown):
                await terminals.output(where)
    return output


async def test_output_is_cut_from_the_beginning_at_a_whole_character(room: Workspace) -> None:
    output = await _output_of(room, command="printf '%s' aééé", outputByteLimit=5)
    assert output["output"] == "éé"
    assert output["truncated"] is True


async def test_output_without_a_limit_has_one_all_the_same(
    room: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEFAULT_OUTPUT_BYTES", 10)
    output = await _output_of(room, command="seq 1 1000")
    assert output["output"] == "\n999\n1000\n"


async def test_terminals_are_counted(room: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TERMINALS", 0)
    terminals = Terminals(launch(["agent"]))
    async with anyio.create_task_group() as terminals.group:
        with pytest.raises(FileRefused, match="release one first"):
            await terminals.create({"command": "ls"}, room)
