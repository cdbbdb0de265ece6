"""Starting and ending a server of our own: what a user sees when it works, and when it does not."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from agentctl.core.adapter import PermissionAnswer
from agentctl.core.errors import AgentFailed, Invalid, NotFound, Refused
from agentctl.core.events import Error
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import McpServer, PromptSpec
from agentctl.core.words import ContentType, Decision, Outcome
from tests.adapters.opencode.live import PATIENCE_S, command, fake, running, text

pytestmark = pytest.mark.anyio


def of_cookie(cookie: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AGENTCTL_COOKIE") == cookie:
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.proves("KO1", "S7")
async def test_the_printed_url_is_found_behind_other_lines(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake("noise")) as live:
        session = await live.session()
        assert (await live.ask(session, "SAYTEXT hi")).text == "hi"
        assert live.connection.info.version == "1.18.33"
        assert any("something else" in line for line in live.logs())


@pytest.mark.proves("P6")
async def test_a_server_that_never_says_where_it_listens_is_given_up(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"protocol_config": {"handshake_timeout_ms": 700}}
    with pytest.raises(AgentFailed, match=r"did not say where it listens within 0\.7 s"):
        async with running(workspace=str(tmp_path), **fake("silent"), **quick):
            pytest.fail("it must not start")


@pytest.mark.proves("P6")
async def test_a_server_that_exits_at_once_fails_the_start_with_its_last_words(
    tmp_path: Path,
) -> None:
    with pytest.raises(AgentFailed, match="exited with code 1") as caught:
        async with running(workspace=str(tmp_path), **fake("exits")):
            pytest.fail("it must not start")
    assert "ServeError" in caught.value.message
    assert caught.value.metadata["exit_code"] == "1"


async def test_a_program_that_is_not_there_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        async with running(["/nonexistent/opencode", "serve"], str(tmp_path), install="npm i"):
            pytest.fail("it must not start")
    assert caught.value.reason == "AGENT_NOT_INSTALLED"


async def test_what_answers_with_web_pages_is_no_opencode_server(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="is not an OpenCode server"):
        async with running(workspace=str(tmp_path), **fake("html")):
            pytest.fail("it must not start")


@pytest.mark.proves("P5")
async def test_a_start_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    with anyio.move_on_after(0.5) as scope:
        async with running(workspace=str(tmp_path), check=False, **fake("silent")):
            pytest.fail("it must not start")
    assert scope.cancelled_caught
    mine = psutil.Process().children(recursive=True)
    assert [p for p in mine if "tests.fakes.opencode.server" in " ".join(p.cmdline())] == []


@pytest.mark.proves("S7")
async def test_each_server_has_a_password_of_its_own(tmp_path: Path) -> None:
    passwords: set[str] = set()
    for _ in range(2):
        async with running(workspace=str(tmp_path), **fake()) as live:
            process = psutil.Process(live.connection.info.pid)
            passwords.add(process.environ()["OPENCODE_SERVER_PASSWORD"])
            told = [str(frame.msg) + str(frame.raw) for frame in live.frames]
            assert not [line for line in told if passwords & {line}]
    assert len(passwords) == 2


@pytest.mark.proves("P1", "P2")
async def test_stopping_the_server_leaves_no_shell_of_its_tools(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        session = await live.session()
        await live.begin(session, "TOOL touch begun; sleep 60")
        await live.approve(session)
        with anyio.fail_after(PATIENCE_S):
            while not (tmp_path / "begun").exists():  # noqa: ASYNC110  # no event for files
                await anyio.sleep(0.02)
        cookie = psutil.Process(live.connection.info.pid).environ()["AGENTCTL_COOKIE"]
        assert any("sleep" in " ".join(p.cmdline()) for p in of_cookie(cookie))
    assert of_cookie(cookie) == []
    assert "/global/dispose" in [f.msg["path"] for f in live.frames if f.dir == "http_request"]


@pytest.mark.proves("T5", "P1")
async def test_a_killed_server_fails_its_runs_with_the_signal_and_leaves_no_shell(
    tmp_path: Path,
) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        busy, quiet = await live.session(), await live.session()
        await live.begin(busy, "TOOL echo begun; sleep 60")
        await live.approve(busy)
        await live.begin(quiet, "HANG")
        await live.until(lambda: len(live.requests("prompt_async")) == 2)
        pid = live.connection.info.pid
        assert pid is not None
        cookie = psutil.Process(pid).environ()["AGENTCTL_COOKIE"]
        with anyio.fail_after(5):
            os.kill(pid, signal.SIGKILL)
            ends = [(await live.ended(session)).complete for session in (busy, quiet)]
        assert {end.outcome for end in ends} == {Outcome.FAILED}
        assert {end.error.code if end.error else "" for end in ends} == {"AGENT_EXITED"}
        assert live.gone[-1].signal == signal.SIGKILL
        with pytest.raises(AgentFailed):
            await live.session()
    assert of_cookie(cookie) == []


# Bad input


async def test_a_workspace_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        with pytest.raises(Invalid, match="is no directory"):
            await live.session(workspace=str(tmp_path / "missing"))


@pytest.mark.proves("S4")
async def test_an_unknown_session_is_not_resumed_as_a_new_one(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        with pytest.raises(NotFound, match="has no session ses_unknown any more"):
            await live.connection.resume_session(NativeSessionId("ses_unknown"), live.spec())


async def test_a_session_of_another_directory_is_not_resumed_here(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with running(workspace=str(tmp_path / "a"), **fake()) as live:
        session = await live.session()
        with pytest.raises(Invalid, match="belongs to"):
            there = live.spec(workspace=str(tmp_path / "b"))
            await live.connection.resume_session(session, there)


async def test_an_unknown_model_mode_or_command_is_refused_before_it_is_sent(
    tmp_path: Path,
) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        session = await live.session()
        with pytest.raises(Invalid, match="fake/fast") as caught:
            await live.begin(session, text("x", model="fake/none"))
        assert caught.value.reason == "INVALID_MODEL"
        with pytest.raises(Invalid, match="names no provider"):
            await live.connection.set_model(session, "fast")
        with pytest.raises(Invalid, match='no mode "none"'):
            await live.connection.set_mode(session, "none")
        with pytest.raises(Invalid, match='no command "/none"'):
            await live.begin(session, command("none"))
        with pytest.raises(Invalid, match="no option"):
            await live.connection.set_option(session, "colour", "red")
        with pytest.raises(Invalid, match="names no provider"):
            await live.session(model="fast")
        with pytest.raises(Invalid, match="the prompt is empty"):
            await live.begin(session, PromptSpec())
        lost = ContentBlock(ContentType.FILE, path="relative.txt")
        with pytest.raises(Invalid, match="absolute path"):
            await live.begin(session, PromptSpec(blocks=(lost,)))
        assert live.requests("prompt_async") == []


async def test_a_default_model_that_is_not_offered_is_told_and_left_out(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), default_model="other/one", **fake()) as live:
        await live.session()
        await live.until(lambda: [e for e in live.errors() if e.code == "INVALID_MODEL"])
        assert live.requests("/session")[-1]["body"] == {}


async def test_answers_to_requests_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        with pytest.raises(NotFound) as caught:
            await live.connection.answer_permission(
                NativeRequestId("per_none"), PermissionAnswer(Decision.APPROVED, "once")
            )
        assert caught.value.reason == "APPROVAL_NOT_FOUND"


async def test_two_mcp_servers_of_one_name_and_directory_cannot_be(tmp_path: Path) -> None:
    secret = {"TOKEN": "hush-hush-hush"}
    async with running(workspace=str(tmp_path), **fake()) as live:
        await live.session(mcp_servers=(McpServer("one", command="a", env=secret),))
        await live.session(mcp_servers=(McpServer("one", command="a", env=secret),))
        assert len(live.requests("/mcp")) > 1
        with pytest.raises(Refused, match='MCP server named "one"'):
            await live.session(mcp_servers=(McpServer("one", command="b"),))
        session = await live.session()
        assert [s.name for s in await live.connection.mcp_status(session)] == ["one"]
    assert "hush-hush" not in str([frame.msg for frame in live.frames])
    assert "a-secret-key" not in str([frame.msg for frame in live.frames])


# Trust


@pytest.mark.proves("S9")
async def test_settings_and_code_that_a_workspace_brings_are_told(tmp_path: Path) -> None:
    (tmp_path / "opencode.json").write_text("{}")
    (tmp_path / ".opencode/plugin").mkdir(parents=True)
    (tmp_path / ".opencode/plugin/x.ts").write_text("")
    async with running(workspace=str(tmp_path), trust=False, **fake()) as live:
        session = await live.session()
        told = await live.until(lambda: {e.code: e.message for e in live.of_type(Error, session)})
        assert "opencode.json" in told["WORKSPACE_SETTINGS"]
        assert "are off" in told["WORKSPACE_SETTINGS"]
        assert "plugin" in told["WORKSPACE_CODE"]
        env = psutil.Process(live.connection.info.pid).environ()
        assert env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
        assert env["OPENCODE_PURE"] == "1"
