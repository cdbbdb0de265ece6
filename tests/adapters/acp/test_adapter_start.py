"""Starting and ending an ACP agent: what a user is told when it goes wrong, and what is left."""

import stat
import sys
import time
from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Feature
from agentctl.core.errors import AgentFailed, Refused
from agentctl_adapters.acp.adapter import connect
from agentctl_adapters.common.launchers import LAUNCHERS_AT_ONCE, downloads
from tests.adapters.acp.adapter_harness import (
    FAULTY,
    Seen,
    Spy,
    alive,
    demo,
    fake,
    launch,
    one_turn,
    puppet,
    running,
    spec,
    text,
)

pytestmark = pytest.mark.anyio


async def test_the_handshake_tells_name_version_and_what_the_agent_can(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        info = connection.info
        assert (info.name, info.version) == ("Demo agent", "1.0.0")
        assert {Feature.RESUME, Feature.FORK, Feature.IMAGE, Feature.CLOSE} <= info.features
        assert Feature.AUDIO not in info.features
        assert Feature.STEER not in info.features
        assert [method.id for method in info.auth_methods] == ["demo-login"]
        assert info.pid
    offered = seen.sent("initialize")[0]
    assert offered["clientInfo"]["version"] == "1.2.3"
    assert offered["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert offered["clientCapabilities"]["terminal"] is False
    assert seen.sent("authenticate") == []


@pytest.mark.proves("P6")
async def test_an_agent_that_never_answers_is_killed_at_a_deadline_that_names_it() -> None:
    seen = Seen()
    start = launch(
        fake("never-answers-initialize"),
        seen=seen,
        config={"handshake_timeout_ms": 400},
        options={"version": "0.61.0"},
    )
    with anyio.fail_after(10), pytest.raises(AgentFailed) as failure:
        async with connect(start, Spy(), seen.sink, seen.progress.append):
            pytest.fail("it never answered")
    message = failure.value.message
    assert "fake (version 0.61.0)" in message
    assert "within 0.4 s" in message
    assert "faulty.py never-answers-initialize" in message
    assert alive(start.cookie) == []


@pytest.mark.proves("P6")
async def test_an_agent_that_dies_at_start_tells_its_exit_code_and_last_words_at_once() -> None:
    begun = time.monotonic()
    with pytest.raises(AgentFailed) as failure:
        async with running(fake("dies-at-start")):
            pytest.fail("it died")
    assert time.monotonic() - begun < 5
    assert "exited with code 3" in failure.value.message
    assert "fake agent: cannot start" in failure.value.message
    assert failure.value.metadata["exit_code"] == "3"
    assert "cannot find module" in failure.value.metadata["stderr"]


async def test_an_agent_of_another_protocol_version_is_refused_by_its_version() -> None:
    with pytest.raises(AgentFailed, match="speaks ACP version 2, agentctl speaks ACP version 1"):
        async with running(fake("version-2")):
            pytest.fail("it speaks version 2")


async def test_an_agent_that_refuses_the_handshake_is_quoted() -> None:
    answer = puppet(errors={"initialize": {"code": -32603, "message": "no licence"}})
    with pytest.raises(
        AgentFailed, match=r"refused initialize \(no licence\): check that .* starts"
    ):
        async with running(**answer):
            pytest.fail("it refused")


async def test_a_program_that_is_not_there_says_how_to_install_it() -> None:
    seen = Seen()
    start = launch(["no-such-agent", "--acp"], seen=seen, install="npm install -g it")
    with pytest.raises(Refused) as failure:
        async with connect(start, Spy(), seen.sink, seen.progress.append):
            pytest.fail("there is no such program")
    assert failure.value.reason == "AGENT_NOT_INSTALLED"
    assert "npm install -g it" in failure.value.message


@pytest.mark.proves("P9")
async def test_what_a_wrapper_prints_before_the_first_message_does_no_harm(tmp_path: Path) -> None:
    async with running(fake("stdout-noise-wrapper")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        assert await one_turn(connection, seen, session, text("hi")) == "hello, turn 1"
    assert any(f.raw and "Now using node" in f.raw for f in seen.frames)


@pytest.mark.proves("P3")
async def test_an_agent_that_ignores_eof_and_term_is_gone_when_the_context_is_left() -> None:
    seen = Seen()
    start = launch(fake("ignores-eof-and-term"), seen=seen)
    with anyio.fail_after(20):
        async with connect(start, Spy(), seen.sink, seen.progress.append) as connection:
            assert connection.info.pid in alive(start.cookie)
    assert alive(start.cookie) == []
    assert seen.gone()[-1].signal == 9
    assert seen.frames[-1].dir == "exit"


async def test_a_start_that_is_given_up_leaves_nothing_behind() -> None:
    seen = Seen()
    start = launch(fake("never-answers-initialize"), seen=seen)
    with anyio.fail_after(20):
        with anyio.move_on_after(0.5) as scope:
            async with connect(start, Spy(), seen.sink, seen.progress.append):
                pytest.fail("it never answered")
        assert scope.cancelled_caught
    assert alive(start.cookie) == []


async def test_leaving_with_an_error_ends_the_agent_and_passes_the_error_on() -> None:
    seen = Seen()
    start = launch(fake("plain"), seen=seen)
    with pytest.raises(KeyError, match="mine"):
        async with connect(start, Spy(), seen.sink, seen.progress.append):
            raise KeyError("mine")
    assert alive(start.cookie) == []
    assert len(seen.gone()) > 0


def _npx(folder: Path, *arguments: str) -> tuple[str, ...]:
    script = folder / "npx"
    script.write_text(f'#!/bin/sh\nshift; exec {sys.executable} {FAULTY} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return (str(script), "-y", *arguments)


@pytest.mark.proves("P10")
async def test_a_start_through_npx_says_that_it_may_download(tmp_path: Path) -> None:
    async with running(_npx(tmp_path, "plain")) as (_, seen):
        pass
    assert seen.progress == ["downloading plain (first start; later ones are quick)"]


@pytest.mark.proves("P10")
async def test_at_most_two_starts_through_npx_happen_at_once(tmp_path: Path) -> None:
    argv = _npx(tmp_path, "slow-start", "300")
    told: list[str] = []
    starting = most = 0

    async def start() -> None:
        nonlocal starting, most
        seen = Seen()

        def progress(words: str) -> None:
            nonlocal starting, most
            told.append(words)
            if words.startswith("downloading"):
                starting += 1
                most = max(most, starting)

        async with connect(launch(argv, seen=seen), Spy(), seen.sink, progress):
            starting -= 1

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(start)
    assert most == LAUNCHERS_AT_ONCE
    assert "waiting: 2 other agents are being downloaded" in told


def test_only_launchers_download() -> None:
    assert downloads(["npx", "-y", "@google/gemini-cli", "--acp"]) == "@google/gemini-cli"
    assert downloads(["/usr/bin/npx", "pkg"]) == "pkg"
    assert downloads(["gemini", "--acp"]) is None
