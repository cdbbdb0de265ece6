"""The real Gemini CLI behind the ACP adapter: what the recordings say, once more and live."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from agentctl.core.adapter import Feature, PermissionAnswer
from agentctl.core.errors import AgentFailed, Invalid, Refused
from agentctl.core.words import Decision
from agentctl_adapters.acp.connection import AcpConnection
from tests.adapters.acp.adapter_harness import Seen, one_turn, running, spec, text
from tests.real.harness import Home, Model, age_gemini_sessions, agent_env, wait_until_gone

pytestmark = [pytest.mark.anyio, pytest.mark.real]

ONCE = PermissionAnswer(Decision.APPROVED, "proceed_once")
FILES = {"client_capabilities": {"fs": {"readTextFile": True, "writeTextFile": True}}}


@asynccontextmanager
async def gemini(
    command: list[str], home: Home, model: Model, env: Mapping[str, str] | None = None, **how: Any
) -> AsyncGenerator[tuple[AcpConnection, Seen]]:
    whole = {**agent_env(home, model.url), **(env or {})}
    async with running(command, env=whole, **how) as (connection, seen):
        yield connection, seen
    await wait_until_gone(home)


async def test_gemini_shakes_hands_and_answers(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    async with gemini(gemini_command, home, gemini_model) as (connection, seen):
        assert connection.info.name == "Gemini CLI"
        assert {Feature.RESUME, Feature.IMAGE, Feature.MCP_HTTP} <= connection.info.features
        assert Feature.CLOSE not in connection.info.features
        session = await connection.new_session(spec(home.workspace, model="gemini-2.5-flash"))
        await one_turn(connection, seen, session, text("SAY 3"))
        assert seen.said() == gemini_model.sent_text()
        assert seen.sent("session/set_model") == []


async def test_gemini_asks_and_is_cancelled_while_it_asks(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    async with gemini(gemini_command, home, gemini_model) as (connection, seen):
        session = await connection.new_session(spec(home.workspace))
        await connection.prompt(session, text("TOOL touch made.txt; echo done"))
        await seen.until(seen.asked)
        await connection.answer_permission(seen.asked()[0], ONCE)
        await seen.until(seen.ends)
        assert (home.workspace / "made.txt").exists()
        await connection.prompt(session, text("TOOL touch never.txt; echo done"))
        await seen.until(lambda: len(seen.asked()) == 2)
        await connection.cancel(session)
        await seen.until(lambda: len(seen.ends()) == 2)
        assert seen.ends()[1]["result"]["stopReason"] == "cancelled"
        assert not (home.workspace / "never.txt").exists()
        await one_turn(connection, seen, session, text("SAY 2"))
    assert seen.answers()[1]["result"] == {"outcome": {"outcome": "cancelled"}}


async def test_gemini_makes_a_new_file_through_us(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    path = home.workspace / "new.txt"
    async with gemini(gemini_command, home, gemini_model, config=FILES) as (connection, seen):
        session = await connection.new_session(spec(home.workspace))
        await connection.prompt(session, text(f"WRITE {path} hello"))
        await seen.until(lambda: seen.asked() or seen.ends())
        await connection.answer_permission(seen.asked()[0], ONCE)
        await seen.until(seen.ends)
    assert "hello" in path.read_text()
    assert seen.received("fs/write_text_file")


async def test_gemini_takes_modes_and_models(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    async with gemini(gemini_command, home, gemini_model) as (connection, seen):
        session = await connection.new_session(spec(home.workspace, mode="yolo"))
        with pytest.raises(Invalid, match="no mode 'fast'"):
            await connection.set_mode(session, "fast")
        await connection.set_model(session, "gemini-2.5-pro")
        await connection.prompt(session, text("TOOL touch made.txt; echo done"))
        await seen.until(seen.ends)
        assert seen.asked() == []
        assert gemini_model.log()[0]["model"] == "gemini-2.5-pro"


@pytest.mark.proves("S4")
async def test_gemini_resumes_a_session_and_refuses_one_that_is_not_there(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    async with gemini(gemini_command, home, gemini_model) as (connection, seen):
        session = await connection.new_session(spec(home.workspace))
        await one_turn(connection, seen, session, text("SAY 2"))
    age_gemini_sessions(home)
    async with gemini(gemini_command, home, gemini_model) as (connection, seen):
        assert await connection.resume_session(session, spec(home.workspace)) == session
        await one_turn(connection, seen, session, text("SAY 2"))
        with pytest.raises(AgentFailed):
            await connection.resume_session(
                type(session)("00000000-0000-4000-8000-000000000000"), spec(home.workspace)
            )


async def test_gemini_without_a_key_says_how_to_log_in(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    empty = {"GEMINI_API_KEY": ""}
    how: dict[str, Any] = {"env_passthrough": ("GEMINI_API_KEY",)}
    async with gemini(gemini_command, home, gemini_model, empty, **how) as (connection, _):
        with pytest.raises(Refused) as failure:
            await connection.new_session(spec(home.workspace))
    assert failure.value.reason == "AUTH_REQUIRED"
    assert "agentctl auth fake oauth-personal" in failure.value.message
    assert "set GEMINI_API_KEY" in failure.value.message


@pytest.mark.proves("P1", "P2")
async def test_nothing_of_gemini_is_left_though_a_command_runs_and_a_turn_hangs(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    env = {"GEMINI_CLI_NO_RELAUNCH": "false"}
    async with gemini(gemini_command, home, gemini_model, env) as (connection, _):
        session = await connection.new_session(spec(home.workspace, mode="yolo"))
        await connection.prompt(session, text("TOOL touch begun.txt; sleep 300"))
        with anyio.fail_after(20):
            while not (home.workspace / "begun.txt").exists():  # noqa: ASYNC110 - a foreign file
                await anyio.sleep(0.05)
