"""The real `opencode acp` behind the ACP adapter: text, permission, cancel, and a session loaded again."""

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentctl.core.adapter import PermissionAnswer
from agentctl.core.words import Decision
from agentctl_adapters.acp.connection import AcpConnection
from tests.adapters.acp.adapter_harness import Seen, one_turn, running, spec, text
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.openai import OpenAiEndpoint
from tests.real import opencode
from tests.real.harness import Home, Model, make_home, wait_until_gone

pytestmark = [pytest.mark.anyio, pytest.mark.real]


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
async def acp(place: Home, model: Model) -> AsyncGenerator[tuple[AcpConnection, Seen]]:
    env = opencode.environment(place, model.url)
    config = json.loads(env["OPENCODE_CONFIG_CONTENT"])
    env["OPENCODE_CONFIG_CONTENT"] = json.dumps({**config, "permission": {"bash": "ask"}})
    async with running([str(opencode.binary()), "acp"], env=env) as (connection, seen):
        yield connection, seen
    await wait_until_gone(place)


async def test_opencode_over_acp_answers_and_asks_and_is_cancelled(
    place: Home, model: Model
) -> None:
    async with acp(place, model) as (connection, seen):
        session = await connection.new_session(spec(place.workspace))
        assert await one_turn(connection, seen, session, text("SAY 3")) == "word1 word2 word3 "
        await connection.prompt(session, text("TOOL touch made.txt"))
        await seen.until(seen.asked)
        once = PermissionAnswer(Decision.APPROVED, "once")
        await connection.answer_permission(seen.asked()[0], once)
        await seen.until(lambda: len(seen.ends()) == 2)
        assert (place.workspace / "made.txt").exists()
        await connection.prompt(session, text("SLOW 200 50"))
        await seen.until(lambda: "slow1" in seen.said())
        await connection.cancel(session)
        await seen.until(lambda: len(seen.ends()) == 3)
        assert seen.ends()[2]["result"]["stopReason"] == "cancelled"


@pytest.mark.proves("S4", "M5")
async def test_opencode_over_acp_loads_a_session_again(place: Home, model: Model) -> None:
    async with acp(place, model) as (connection, seen):
        session = await connection.new_session(spec(place.workspace))
        await one_turn(connection, seen, session, text("SAYTEXT before"))
    async with acp(place, model) as (connection, seen):
        assert await connection.resume_session(session, spec(place.workspace)) == session
        said = await one_turn(connection, seen, session, text("HISTORY"))
        assert said.endswith("HISTORY 2")
