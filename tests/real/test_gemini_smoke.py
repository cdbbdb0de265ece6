"""The real Gemini CLI against its scripted model, without any of the project's own code."""

import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.real import netns
from tests.real.harness import (
    FAKE_KEY,
    Home,
    Model,
    age_gemini_sessions,
    agent_env,
    wait_until_gone,
)
from tests.real.rawacp import Message, RawAcp, raw_acp

pytestmark = [pytest.mark.anyio, pytest.mark.real]

REPOSITORY = Path(__file__).parents[2]
ODD_TEXT = "tab\t, a line end\n, U+2028 \u2028, U+0085 \u0085, äöü, 🙂 and a last blank "


@pytest.fixture
async def agent(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> AsyncGenerator[RawAcp]:
    env = agent_env(home, gemini_model.url)
    async with raw_acp(gemini_command, env, home.workspace, home.tmp / "stderr") as agent:
        yield agent


def is_permission(message: Message) -> bool:
    return message.get("method") == "session/request_permission"


def chosen(option: str) -> Message:
    return {"outcome": {"outcome": "selected", "optionId": option}}


async def ask(agent: RawAcp, session: str, text: str) -> Message:
    return await agent.answer_to(await agent.begin_prompt(session, text))


async def test_every_character_of_the_model_reaches_the_client(
    agent: RawAcp, home: Home, gemini_model: Model
) -> None:
    session = await agent.open_session(home.workspace)
    chunks = [ODD_TEXT, "   ", "\n", "end"]
    answer = await ask(agent, session, f"SAYTEXT {json.dumps(chunks)}")

    assert answer["result"]["stopReason"] == "end_turn"
    assert agent.text() == "".join(chunks) == gemini_model.sent_text()
    assert [chunk["content"]["text"] for chunk in agent.updates("agent_message_chunk")] == chunks


async def test_the_model_is_asked_with_the_fake_key_and_for_nothing_else(
    agent: RawAcp, home: Home, gemini_model: Model
) -> None:
    session = await agent.open_session(home.workspace)
    await ask(agent, session, "SAY 3")

    (exchange,) = gemini_model.log()
    assert exchange["api_key_header"] == FAKE_KEY
    assert exchange["model"] == "gemini-2.5-flash"
    assert exchange["outcome"] == "completed"
    assert "run_shell_command" in exchange["tools"]


async def test_an_approved_command_runs_and_its_output_reaches_client_and_model(
    agent: RawAcp, home: Home, gemini_model: Model
) -> None:
    session = await agent.open_session(home.workspace)
    prompt = await agent.begin_prompt(session, "TOOL touch made.txt; echo from-the-command")
    request = await agent.wait(is_permission)
    await agent.respond(request, chosen("proceed_once"))
    answer = await agent.answer_to(prompt)

    assert answer["result"]["stopReason"] == "end_turn"
    assert (home.workspace / "made.txt").exists()
    (update,) = agent.updates("tool_call_update")
    assert update["status"] == "completed"
    assert "from-the-command" in update["content"][0]["content"]["text"]
    assert [turn["rounds"] for turn in gemini_model.turns()] == [0, 1]
    assert agent.text() == gemini_model.sent_text()
    assert "from-the-command" in agent.text()


async def test_a_rejected_command_does_not_run_and_the_turn_goes_on(
    agent: RawAcp, home: Home, gemini_model: Model
) -> None:
    session = await agent.open_session(home.workspace)
    prompt = await agent.begin_prompt(session, "TOOL touch made.txt || SAYTEXT went on")
    await agent.respond(await agent.wait(is_permission), chosen("cancel"))
    answer = await agent.answer_to(prompt)

    assert answer["result"]["stopReason"] == "end_turn"
    assert not (home.workspace / "made.txt").exists()
    assert agent.text().endswith("went on")
    assert len(gemini_model.turns()) == 2


@pytest.mark.parametrize("silence", ["HANG", "HANGMID"])
async def test_a_cancel_ends_a_turn_whose_model_is_silent(
    agent: RawAcp, home: Home, gemini_model: Model, silence: str
) -> None:
    session = await agent.open_session(home.workspace)
    prompt = await agent.begin_prompt(session, silence)
    await gemini_model.wait_for(lambda turns: len(turns) == 1)
    await agent.notify("session/cancel", {"sessionId": session})

    assert (await agent.answer_to(prompt))["result"]["stopReason"] == "cancelled"
    await gemini_model.wait_for(lambda turns: turns[0]["outcome"] == "client_gone")
    assert (await ask(agent, session, "SAYTEXT next"))["result"]["stopReason"] == "end_turn"


async def test_a_cancel_ends_a_turn_that_waits_for_an_approval(agent: RawAcp, home: Home) -> None:
    session = await agent.open_session(home.workspace)
    prompt = await agent.begin_prompt(session, "TOOL touch made.txt")
    request = await agent.wait(is_permission)
    await agent.notify("session/cancel", {"sessionId": session})
    await agent.respond(request, {"outcome": {"outcome": "cancelled"}})

    assert (await agent.answer_to(prompt))["result"]["stopReason"] == "cancelled"
    assert not (home.workspace / "made.txt").exists()


async def test_a_refused_key_is_an_error_of_the_prompt(agent: RawAcp, home: Home) -> None:
    session = await agent.open_session(home.workspace)
    answer = await ask(agent, session, "FAIL 401")

    assert answer["error"]["code"] == 401
    assert "scripted failure 401" in answer["error"]["message"]


async def test_the_model_sees_the_earlier_turns_of_the_session(agent: RawAcp, home: Home) -> None:
    session = await agent.open_session(home.workspace)
    await ask(agent, session, "SAYTEXT one ")
    await ask(agent, session, "HISTORY")

    assert agent.text() == "one HISTORY 2"


async def test_a_tool_of_an_mcp_server_answers_with_its_own_environment(
    agent: RawAcp, home: Home, gemini_model: Model
) -> None:
    server: Message = {
        "name": "local",
        "command": sys.executable,
        "args": ["-m", "tests.fakes.mcp_server"],
        "env": [
            {"name": "PYTHONPATH", "value": str(REPOSITORY)},
            {"name": "SHOUTER", "value": "variable arrived"},
        ],
    }
    session = await agent.open_session(home.workspace, [server])
    prompt = await agent.begin_prompt(session, "MCP shout loud || MCP environment SHOUTER")
    first = await agent.wait(is_permission)
    await agent.respond(first, chosen("proceed_once"))
    second = await agent.wait(lambda message: is_permission(message) and message is not first)
    await agent.respond(second, chosen("proceed_once"))
    await agent.answer_to(prompt)

    assert [turn["called"] for turn in gemini_model.turns()] == [
        ["mcp_local_shout"],
        ["mcp_local_environment"],
        [],
    ]
    assert "variable arrived" in agent.text()


async def test_leaving_the_client_in_mid_turn_leaves_no_process(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    env = agent_env(home, gemini_model.url)
    async with raw_acp(gemini_command, env, home.workspace, home.tmp / "stderr") as agent:
        session = await agent.open_session(home.workspace)
        await agent.begin_prompt(session, "HANGMID")
        await agent.wait(lambda message: "partial" in agent.text())

    await wait_until_gone(home)


async def test_nothing_but_loopback_can_be_reached(gemini_model: Model) -> None:
    assert netns.ways_out() == []
    assert gemini_model.log() == []


async def test_a_session_of_an_earlier_minute_is_loaded_with_its_history(
    gemini_command: list[str], home: Home, gemini_model: Model
) -> None:
    env = agent_env(home, gemini_model.url)
    async with raw_acp(gemini_command, env, home.workspace, home.tmp / "stderr") as first:
        session = await first.open_session(home.workspace)
        await ask(first, session, "SAYTEXT one")
    age_gemini_sessions(home)

    async with raw_acp(gemini_command, env, home.workspace, home.tmp / "stderr") as second:
        await second.initialize()
        loaded = await second.call(
            "session/load", {"sessionId": session, "cwd": str(home.workspace), "mcpServers": []}
        )
        await ask(second, session, "HISTORY")

    assert "error" not in loaded
    assert second.text() == "oneHISTORY 2"
