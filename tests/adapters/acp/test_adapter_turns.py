"""Turns over a live ACP agent: order, permissions, questions, cancel, and a death in the middle."""

import json
import time
from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Draft, PermissionAnswer
from agentctl.core.errors import AgentctlError, AgentFailed, Invalid, Unsupported
from agentctl.core.events import Error, Log
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import Command, PromptSpec
from agentctl.core.words import Decision
from agentctl_adapters.acp import connection as connection_module
from agentctl_adapters.common.link import LOG_BURST_LINES
from tests.adapters.acp.adapter_harness import (
    demo,
    fake,
    one_turn,
    puppet,
    running,
    spec,
    steps,
    text,
)

pytestmark = pytest.mark.anyio

YES = PermissionAnswer(Decision.APPROVED, "once")
CANCELLED = PermissionAnswer(Decision.CANCELLED)


@pytest.mark.proves("M6")
async def test_everything_reaches_the_sink_in_the_order_in_which_it_passed(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await one_turn(connection, seen, session, text("words 200"))
    told = [
        d.payload.text for d in seen.drafts if isinstance(d, Draft) and isinstance(d.payload, Log)
    ]
    passed = [
        f"{f.dir}: {f.raw if f.raw is not None else json.dumps(f.msg)}"
        for f in seen.frames
        if f.dir not in ("stdout_end", "exit")
    ]
    assert told == passed
    kinds = [line.split(":")[0] for line in told]
    assert kinds[:3] == ["spawn", "to_agent", "from_agent"]


async def test_a_permission_goes_to_the_client_and_its_answer_to_the_agent(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("run echo permitted"))
        await seen.until(seen.asked)
        await connection.answer_permission(seen.asked()[0], YES)
        await seen.until(seen.ends)
        assert seen.ends()[0]["result"]["stopReason"] == "end_turn"
    assert seen.asked() == ["0"]
    assert [a["result"]["outcome"] for a in seen.answers()] == [
        {"outcome": "selected", "optionId": "once"}
    ]
    assert any("permitted" in str(update) for update in seen.updates())


@pytest.mark.proves("A4")
async def test_an_option_that_was_not_offered_is_refused_and_the_request_stays_open(
    tmp_path: Path,
) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("run true"))
        await seen.until(seen.asked)
        key = seen.asked()[0]
        with pytest.raises(Invalid) as failure:
            await connection.answer_permission(key, PermissionAnswer(Decision.APPROVED, "allow"))
        assert failure.value.reason == "OPTION_NOT_OFFERED"
        assert seen.answers() == []
        await connection.answer_permission(key, YES)
        await connection.answer_permission(key, CANCELLED)
        await seen.until(seen.ends)
    assert len(seen.answers()) == 1


async def test_two_permissions_at_once_are_answered_in_any_order(tmp_path: Path) -> None:
    async with running(fake("permission-twice")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("go"))
        await seen.until(lambda: len(seen.asked()) == 2)
        first, second = seen.asked()
        await connection.answer_permission(second, PermissionAnswer(Decision.DENIED, "cancel"))
        await connection.answer_permission(
            first, PermissionAnswer(Decision.APPROVED, "proceed_once")
        )
        await seen.until(seen.ends)
        assert "proceed_once" in seen.said()
        assert "cancel" in seen.said()


@pytest.mark.proves("A5", "T6")
async def test_a_cancel_answers_open_permissions_and_tells_the_agent(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("run sleep 100"))
        await seen.until(seen.asked)
        await connection.cancel(session)
        await connection.cancel(session)
        await connection.answer_permission(seen.asked()[0], YES)
        await seen.until(seen.ends)
        assert seen.ends()[0]["result"]["stopReason"] == "cancelled"
        assert await one_turn(connection, seen, session, text("say still here")) == "still here"
    assert [a["result"] for a in seen.answers()] == [{"outcome": {"outcome": "cancelled"}}]
    assert len(seen.sent("session/cancel")) == 2


@pytest.mark.proves("A5")
async def test_leaving_answers_what_is_open_and_cancels_what_runs(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("run sleep 100"))
        await seen.until(seen.asked)
    assert [a["result"] for a in seen.answers()] == [{"outcome": {"outcome": "cancelled"}}]
    assert len(seen.sent("session/cancel")) == 1
    assert seen.ends()[0]["result"]["stopReason"] == "cancelled"
    assert seen.sent("session/close") == [{"sessionId": session}]


async def test_an_agent_that_reads_no_more_holds_up_no_cancel_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "WRITE_TIMEOUT_S", 0.2)
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"toolCall": {"toolCallId": "t"}, "options": options}
    ask = {"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, steps(["raw", json.dumps(ask)], ["deaf"]))
        await seen.until(seen.said)
        with anyio.move_on_after(0.2) as scope:
            await connection.prompt(session, text("x" * 1_000_000))
        assert scope.cancelled_caught
        with anyio.fail_after(5):
            await connection.answer_permission(
                seen.asked()[0], PermissionAnswer(Decision.APPROVED, "yes")
            )
            await connection.cancel(session)


@pytest.mark.proves("T5")
async def test_a_death_in_mid_turn_is_told_within_a_second_with_code_and_last_words(
    tmp_path: Path,
) -> None:
    async with running(fake("dies-mid-turn")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("go"))
        await seen.until(lambda: seen.said() == "half a sen")
        with anyio.fail_after(1):
            await seen.until(seen.gone)
        gone = seen.gone()[0]
        assert (gone.exit_code, gone.signal) == (9, None)
        assert gone.stderr_tail == ["fatal: out of memory"]
        with pytest.raises(AgentFailed, match="exited with code 9"):
            await connection.prompt(session, text("again"))
        with pytest.raises(AgentFailed, match="out of memory"):
            await connection.new_session(spec(tmp_path))
        await connection.goodbye()


@pytest.mark.proves("T5")
async def test_a_death_is_told_within_a_second_though_a_child_streams_on_over_its_pipe(
    tmp_path: Path,
) -> None:
    async with running(fake("wrapper")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("go"))
        await seen.until(lambda: "worker pid" in seen.said())
        begun = time.monotonic()
        await seen.until(seen.gone)
        assert time.monotonic() - begun < 1.5
        assert seen.gone()[0].signal == 9


async def test_a_death_fails_waiting_calls_at_once(tmp_path: Path) -> None:
    async with running(fake("dies-in-permission")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("go"))
        await seen.until(seen.gone)
        with pytest.raises(AgentFailed):
            await connection.answer_permission(
                seen.asked()[0], PermissionAnswer(Decision.APPROVED, "proceed_once")
            )


@pytest.mark.proves("P8")
async def test_a_line_of_five_megabytes_passes(tmp_path: Path) -> None:
    async with running(fake("huge-line")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        assert len(await one_turn(connection, seen, session, text("go"))) > 5_000_000


@pytest.mark.proves("P8")
async def test_a_line_beyond_every_limit_is_an_error_event_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    async with running(fake("oversized-line")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        assert (await one_turn(connection, seen, session, text("go"))).endswith("end")
    errors = [
        d.payload for d in seen.drafts if isinstance(d, Draft) and isinstance(d.payload, Error)
    ]
    assert [error.code for error in errors] == ["LINE_TOO_LONG"]


@pytest.mark.proves("P9")
async def test_garbage_among_the_messages_is_passed_on_as_text(tmp_path: Path) -> None:
    async with running(fake("garbage-stdout")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        assert "\u2028" in await one_turn(connection, seen, session, text("go"))
    assert [f for f in seen.frames if f.dir == "from_agent" and f.raw]


@pytest.mark.proves("P7")
async def test_a_flood_on_stderr_is_drained_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    async with running(fake("stderr-flood")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        assert "end" in await one_turn(connection, seen, session, text("go"))
    lines = sum(frame.dir == "stderr" for frame in seen.frames)
    logs = [d.payload for d in seen.drafts if isinstance(d, Draft) and isinstance(d.payload, Log)]
    told = sum(log.text.startswith("stderr: ") for log in logs)
    dropped = sum(log.dropped or 0 for log in logs)
    assert lines > LOG_BURST_LINES
    assert told + dropped == lines
    assert dropped > 0


async def test_two_sessions_of_one_process_run_at_the_same_time(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        one = await connection.new_session(spec(tmp_path))
        two = await connection.new_session(spec(tmp_path))
        await connection.prompt(one, text("run sleep 100"))
        await seen.until(seen.asked)
        await connection.prompt(two, text("say from two"))
        await seen.until(seen.ends)
        assert seen.said() == "from two"
        await connection.cancel(two)
        await connection.answer_permission(seen.asked()[0], CANCELLED)
        await seen.until(lambda: len(seen.ends()) == 2)
    assert one != two


@pytest.mark.parametrize("method", ["_vendor/anything", "fs/read_text_file", "terminal/create"])
async def test_a_request_that_is_not_offered_is_refused_at_once(
    tmp_path: Path, method: str
) -> None:
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        said = await one_turn(connection, seen, session, steps(["request", method, {"path": "/x"}]))
        assert json.loads(said)["code"] == -32601


async def test_a_permission_that_the_agent_takes_back_is_answered_as_cancelled(
    tmp_path: Path,
) -> None:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    ask = {"toolCall": {"toolCallId": "t"}, "options": options}
    raw = json.dumps(
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p1"}}
    )
    request = {"jsonrpc": "2.0", "id": "p1", "method": "session/request_permission", "params": ask}
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await one_turn(connection, seen, session, steps(["raw", json.dumps(request)], ["raw", raw]))
        await seen.until(seen.answers)
        await connection.answer_permission(
            seen.asked()[0], PermissionAnswer(Decision.APPROVED, "yes")
        )
    assert [a["error"]["code"] for a in seen.answers()] == [-32800]


async def test_a_slash_command_is_sent_as_its_text(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        prompt = PromptSpec(command=Command("history"))
        assert "has seen" in await one_turn(connection, seen, session, prompt)
        with pytest.raises(Unsupported, match="shortens its context"):
            await connection.prompt(session, PromptSpec(compact=True))
    assert seen.sent("session/prompt")[0]["prompt"] == [{"type": "text", "text": "/history"}]


async def test_compacting_uses_the_command_that_the_agent_has_for_it(tmp_path: Path) -> None:
    commands = [{"name": "compress", "description": "Shorten the context"}]
    update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    tell = ["notify", "session/update", {"sessionId": "puppet-1", "update": update}]
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await one_turn(connection, seen, session, steps(tell))
        await connection.prompt(session, PromptSpec(compact=True))
        await seen.until(lambda: len(seen.sent("session/prompt")) == 2)
    assert seen.sent("session/prompt")[1]["prompt"][0]["text"] == "/compress"


async def test_nothing_can_be_said_into_a_running_turn(tmp_path: Path) -> None:
    async with running(fake("plain")) as (connection, _):
        session = await connection.new_session(spec(tmp_path))
        with pytest.raises(Unsupported):
            await connection.steer(session, text("more"))


@pytest.mark.proves("P1")
async def test_a_hanging_turn_does_not_keep_the_agent_from_being_stopped(tmp_path: Path) -> None:
    async with running(fake("ignores-cancel")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, text("go"))
        await seen.until(lambda: "working" in seen.said())
    assert seen.gone()[-1].signal is not None or seen.gone()[-1].exit_code is not None


async def test_an_unknown_session_is_the_agents_to_refuse(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        await connection.prompt(NativeSessionId("nobody"), text("hi"))
        await seen.until(seen.ends)
        assert seen.ends()[0]["error"]["code"] == -32002
        with pytest.raises(AgentctlError):
            await connection.set_mode(NativeSessionId("nobody"), "auto")
