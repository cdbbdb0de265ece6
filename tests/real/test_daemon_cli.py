"""The command line with the real Gemini CLI: what is printed, who approves, how it exits."""

import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import Process

from tests.real.harness import (
    START_TIMEOUT_S,
    TURN_TIMEOUT_S,
    Home,
    Model,
    age_gemini_sessions,
    processes_of,
    wait_until_gone,
)
from tests.real.served import Cli, Done, Served, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

TOUCH = "TOOL touch made.txt; echo from-the-command || SAYTEXT went on"


@asynccontextmanager
async def in_background(cli: Cli, *arguments: str) -> AsyncGenerator[Process]:
    """A command that waits for somebody else."""
    async with await anyio.open_process(
        cli.argv(*arguments), env=cli.env, cwd=cli.home.workspace, stdin=subprocess.DEVNULL
    ) as process:
        yield process


async def end_of(process: Process) -> Done:
    """All that it printed, once it has ended."""
    texts = {"out": b"", "err": b""}

    async def read(name: str) -> None:
        stream = process.stdout if name == "out" else process.stderr
        assert stream is not None
        async for part in stream:
            texts[name] += part

    with anyio.fail_after(START_TIMEOUT_S + TURN_TIMEOUT_S):
        async with anyio.create_task_group() as group:
            group.start_soon(read, "out")
            group.start_soon(read, "err")
        code = await process.wait()
    return Done(code, texts["out"].decode(), texts["err"].decode())


async def test_run_starts_a_daemon_prints_the_text_alone_and_leaves_no_agent(
    cli: Cli, home: Home, gemini_model: Model
) -> None:
    done = await cli("run", "gemini", "SAY 3")
    assert (done.code, done.out) == (0, gemini_model.sent_text() + "\n"), done.err
    assert done.err == ""
    daemons = [each for each in processes_of(home) if "serve" in each.cmdline()]
    assert len(daemons) == len(processes_of(home)) == 1
    assert (await cli("status")).code == 0
    assert (await cli("down")).code == 0
    await wait_until_gone(home)


async def test_run_json_is_every_event_of_the_run(
    cli: Cli, daemon: Served, gemini_model: Model
) -> None:
    done = await cli("run", "gemini", "THINK 1", "--json")
    rows = done.rows()
    assert (done.code, done.err) == (0, "")
    text = "".join(row["data"]["text"] for row in rows if row["type"] == "message_chunk")
    assert text == gemini_model.sent_text()
    (run,) = {row["run_id"] for row in rows if "run_id" in row}
    told = [row for row in rows if row.get("run_id") == run]
    assert told == list(daemon.turn(run).rows)
    assert rows[-1]["data"]["status"] == "closed"
    assert daemon.agent_processes() == []


@pytest.mark.parametrize(
    ("answer", "made", "decision"),
    [(("approve",), True, "approved"), (("deny", "--reason", "no"), False, "denied")],
)
async def test_a_second_terminal_answers_what_a_run_asks(
    cli: Cli, daemon: Served, answer: tuple[str, ...], made: bool, decision: str
) -> None:
    async with in_background(cli, "run", "gemini", TOUCH) as running:
        (asked,) = await daemon.until(lambda: daemon.of("permission_request"))
        listed = await cli("approvals", "--json")
        approval = asked["data"]["approval_id"]
        assert approval in listed.out and "touch made.txt" in listed.out
        verb, *options = answer
        answered = await cli(verb, approval[-6:], *options)
        assert answered.code == 0, answered.err
        done = await end_of(running)
    assert done.code == 0
    assert done.out.endswith("went on\n")
    assert f"agentctl approve {approval[-4:]}" in done.err or "agentctl approve" in done.err
    assert (daemon.home.workspace / "made.txt").exists() is made
    assert daemon.of("permission_resolved", decision=decision)
    assert (await cli(verb, approval)).code != 0


async def test_always_at_the_second_terminal_answers_the_same_command_again(
    cli: Cli, daemon: Served
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, TOUCH)
    request = await daemon.asked(run)
    assert (await cli("approve", request["approval_id"], "--always")).code == 0
    await daemon.ended(run)
    done = await cli("prompt", session.session_id, TOUCH)
    assert done.code == 0
    assert daemon.of("permission_resolved", by="rule")
    assert "touch made.txt" in (await cli("rules", session.session_id)).out


async def test_run_denies_by_itself_when_it_is_told_to(cli: Cli, daemon: Served) -> None:
    done = await cli("run", "gemini", TOUCH, "--on-ask", "deny")
    assert (done.code, done.out) == (0, "I will run it. \nwent on\n")
    failed = await cli("run", "gemini", TOUCH, "--on-ask", "fail")
    assert failed.code == 3
    assert not (daemon.home.workspace / "made.txt").exists()


async def test_how_a_run_ended_is_its_exit_code(cli: Cli, daemon: Served) -> None:
    failed = await cli("run", "gemini", "FAIL 401")
    assert failed.code == 1 and "AUTH_REQUIRED" in failed.err, failed
    late = await cli("run", "gemini", "HANG", "--timeout", "1")
    assert late.code == 124
    assert (await cli("run", "gemini", "")).code == 2
    unknown = await cli("run", "gemin", "SAY 1")
    assert unknown.code != 0 and "gemini" in unknown.err


async def test_ctrl_c_cancels_the_run(cli: Cli, daemon: Served) -> None:
    async with in_background(cli, "run", "gemini", "SLOW 100 50") as running:
        await daemon.until(lambda: len(daemon.of("message_chunk")) > 2)
        running.send_signal(signal.SIGINT)
        done = await end_of(running)
    assert done.code == 130
    assert [row["data"]["outcome"] for row in daemon.of("complete")] == ["cancelled"]
    assert daemon.agent_processes() == []


async def test_start_prompt_cancel_and_stop(cli: Cli, daemon: Served, gemini_model: Model) -> None:
    (started,) = (await cli("start", "gemini", "--json", "--name", "mine")).rows()
    session = started["session_id"]
    assert started["agent_id"].startswith("agt_") and started["native_session_id"]

    done = await cli("prompt", session[-6:], "SAYTEXT first")
    assert (done.code, done.out) == (0, "first\n")
    (made,) = (await cli("prompt", session, "HANG", "--no-wait", "--json")).rows()
    run = made["run"]["run_id"]
    await gemini_model.wait_for(lambda turns: len(turns) == 2)
    assert started["agent_id"] in (await cli("ps")).out
    assert session[-4:] in (await cli("session", "ls")).out
    assert (await cli("cancel", run)).code == 0
    assert (await daemon.ended(run)).outcome == "cancelled"
    events = (await cli("events", "--run", run, "--json")).rows()
    assert events == list(daemon.turn(run).rows)
    assert (await cli("prompt", session, "HISTORY")).out.startswith("HISTORY ")

    assert (await cli("stop", session)).code == 0
    assert daemon.agent_processes() == []
    refused = await cli("prompt", session, "SAY 1")
    assert refused.code != 0 and "agentctl session resume" in refused.err


async def test_a_stopped_session_is_resumed_by_hand(home: Home, gemini_model: Model) -> None:
    async with serving(home, gemini_model, protocol_config={}) as served:
        cli = Cli.of(home, gemini_model)
        (started,) = (await cli("start", "gemini", "--json")).rows()
        session = started["session_id"]
        await cli("prompt", session, "SAYTEXT one")
        assert (await cli("stop", started["agent_id"])).code == 0
        assert served.agent_processes() == []
        age_gemini_sessions(home)
        resumed = await cli("session", "resume", session)
        assert resumed.code == 0, resumed.err
        done = await cli("prompt", session, "HISTORY")
        assert (done.code, done.out) == (0, "HISTORY 2\n")
        refused = await cli("session", "fork", session)
        assert refused.code != 0 and "cannot fork" in refused.err
