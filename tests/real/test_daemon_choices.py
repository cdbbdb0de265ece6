"""Modes and models of the real Gemini CLI: chosen for a session, for a prompt, and in mid-session."""

import json

import pytest

from tests.real.harness import Home, Model
from tests.real.served import Served, reason_of, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

TOUCH = "TOOL touch made.txt; echo done"


async def test_a_session_tells_what_can_be_chosen(daemon: Served) -> None:
    await daemon.session()
    options = {k: v for row in daemon.of("session_options") for k, v in row["data"].items()}
    assert [mode["id"] for mode in options["modes"]] == ["default", "autoEdit", "yolo", "plan"]
    assert options["mode"] == "default"
    assert options["model"] == "gemini-2.5-flash"
    assert options["prompt_capabilities"]["image"]
    await daemon.until(lambda: any("commands" in r["data"] for r in daemon.of("session_options")))


async def test_a_mode_is_switched_in_a_session_without_a_word_in_its_text(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session(mode="yolo")
    assert (await daemon.ask(session, TOUCH)).of("permission_request") == []
    await daemon.client.sessions.update(session.session_id, mode="default")
    run = await daemon.begin(session, TOUCH)
    await daemon.client.approvals.respond((await daemon.asked(run))["approval_id"], "deny")
    await daemon.ended(run)
    assert (await daemon.client.sessions.get(session.session_id)).mode == "default"

    turn = await daemon.ask(session, TOUCH, mode="yolo")
    assert turn.of("permission_request") == []
    text = "".join(row["data"]["text"] for row in daemon.of("message_chunk"))
    assert text == gemini_model.sent_text()
    assert await reason_of(daemon.client.sessions.update(session.session_id, mode="fast")) in (
        "INVALID_PARAMETERS"
    )


async def test_the_agent_switches_to_planning_and_asks_with_its_plan(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, 'CALL enter_plan_mode {"reason":"think"} || SAYTEXT planning')
    await daemon.client.approvals.respond((await daemon.asked(run))["approval_id"], "approve")
    await daemon.ended(run)
    assert (await daemon.client.sessions.get(session.session_id)).mode == "plan"

    (plans,) = (daemon.home.home / ".gemini").rglob(f"{session.native_session_id}/plans")
    (plans / "plan.md").write_text("# The plan\n\n1. Do it.\n")
    run = await daemon.begin(session, 'CALL exit_plan_mode {"plan_filename":"plan.md"}')
    request = await daemon.asked(run)
    assert request["kind"] == "plan"
    await daemon.client.approvals.respond(request["approval_id"], "approve")
    await daemon.ended(run)
    text = "".join(row["data"]["text"] for row in daemon.of("message_chunk"))
    assert text == gemini_model.sent_text()


async def test_a_model_is_switched_in_a_session_and_for_a_prompt(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    await daemon.ask(session, "SAYTEXT one")
    await daemon.client.sessions.update(session.session_id, model="gemini-2.5-pro")
    await daemon.ask(session, "SAYTEXT two")
    await daemon.ask(session, "SAYTEXT three", model="gemini-2.5-flash-lite")
    assert [turn["model"] for turn in gemini_model.turns()] == [
        "gemini-2.5-flash",
        "gemini-2.5-pro",
        "gemini-2.5-flash-lite",
    ]
    assert (await daemon.client.sessions.get(session.session_id)).model == "gemini-2.5-flash-lite"


async def test_an_overlay_home_brings_our_settings_and_leaves_the_users_alone(
    home: Home, gemini_model: Model
) -> None:
    path = home.home / ".gemini" / "settings.json"
    settings = json.loads(path.read_text())
    # Without this setting Gemini shows no output of its commands.
    del settings["tools"], settings["general"]
    path.write_text(json.dumps(settings))
    async with serving(home, gemini_model, home="overlay") as served:
        session = await served.session(policy="allow")
        turn = await served.ask(session, TOUCH)
        assert "done" in turn.tool()["output_delta"]
    assert json.loads(path.read_text()) == settings
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.proves("P1")
async def test_the_relauncher_leaves_nothing_though_a_command_runs(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model, env={}) as served:
        session = await served.session(mode="yolo")
        assert len([p for p in served.agent_processes() if "node" in p.name()]) == 2
        run = await served.begin(session, "TOOL touch begun.txt; sleep 300 & sleep 301")
        await served.until(lambda: served.turn(run).of("tool_call"))
        await served.client.sessions.close(session.session_id)
        assert served.agent_processes() == []
        assert served.turn(run).outcome == "cancelled"
