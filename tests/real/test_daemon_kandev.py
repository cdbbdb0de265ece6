"""The eight checks of an agent's integration, once each, with the packaged entry and the real CLI."""

import pytest

from tests.real.harness import Home, Model, age_gemini_sessions
from tests.real.served import ONCE, Cli, Served, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

TOUCH = "TOOL touch made.txt; echo from-the-command"


@pytest.mark.proves("KG1")
async def test_it_appears_as_installed_once_its_credentials_exist(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model, without=["GEMINI_API_KEY"]) as served:
        settings = home.home / ".gemini" / "settings.json"
        settings.unlink()
        before = (await served.client.registry.discover(["gemini"])).agents[0]
        assert before.installed and not before.authenticated
        (home.home / ".gemini" / "oauth_creds.json").write_text('{"access_token": "not-real"}')
        (found,) = (await served.client.registry.discover(["gemini"])).agents
        assert found.installed and found.authenticated
        assert found.version == "0.61.0"
        rows = (await Cli.of(home, gemini_model)("registry", "discover", "--json")).rows()
        assert any(row["entry_id"] == "gemini" and row["installed"] for row in rows)


@pytest.mark.proves("KG2")
async def test_initialize_works(daemon: Served) -> None:
    session = await daemon.session()
    agent = await daemon.client.agents.get(session.agent_id)
    assert (agent.entry_id, agent.version) == ("gemini", "0.61.0")
    assert daemon.of("agent_status", state="ready")[0]["data"]["version"] == "0.61.0"


@pytest.mark.proves("KG3")
async def test_a_prompt_streams(daemon: Served, gemini_model: Model) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, "SLOW 6 100")
    await daemon.said(run, "slow0")
    assert gemini_model.turns()[0]["outcome"] == "open"
    turn = await daemon.ended(run)
    assert len(turn.of("message_chunk")) == 6
    assert turn.text == gemini_model.sent_text()


@pytest.mark.proves("KG4")
async def test_tool_calls_work(daemon: Served) -> None:
    (daemon.home.workspace / "seen.txt").write_text("what the file says")
    session = await daemon.session()
    turn = await daemon.ask(session, f"READ {daemon.home.workspace}/seen.txt")
    assert (turn.tool()["kind"], turn.tool()["status"]) == ("read", "completed")
    assert "what the file says" in turn.text


@pytest.mark.proves("KG5")
async def test_permission_is_asked_without_yolo(daemon: Served) -> None:
    session = await daemon.session()
    assert "--yolo" not in daemon.agent_argv()
    run = await daemon.begin(session, TOUCH)
    request = await daemon.asked(run)
    await daemon.client.approvals.respond(request["approval_id"], option_id=ONCE)
    assert (await daemon.ended(run)).outcome == "completed"
    assert (daemon.home.workspace / "made.txt").exists()


@pytest.mark.proves("KG6")
async def test_yolo_comes_through_the_entry(daemon: Served) -> None:
    session = await daemon.session(policy="allow")
    assert "--yolo" in daemon.agent_argv()
    turn = await daemon.ask(session, TOUCH)
    assert turn.outcome == "completed"
    assert turn.of("permission_request") == []
    assert (daemon.home.workspace / "made.txt").exists()


@pytest.mark.proves("KG7")
async def test_resume_works_over_acp(home: Home, gemini_model: Model) -> None:
    # Without its `min_resume_age_s` it need not wait: the session's file is made older instead.
    async with serving(home, gemini_model, protocol_config={}) as served:
        session = await served.session()
        await served.ask(session, "SAYTEXT one")
        await served.client.sessions.close(session.session_id)
        age_gemini_sessions(home)
        resumed = await served.client.sessions.resume(session.session_id, wait_ready=True)
        assert resumed.native_session_id == session.native_session_id
        assert (await served.ask(session, "HISTORY")).text == "HISTORY 2"


@pytest.mark.proves("KG8")
async def test_the_model_reaches_argv_and_the_provider(daemon: Served, gemini_model: Model) -> None:
    session = await daemon.session(model="gemini-2.5-pro")
    argv = daemon.agent_argv()
    assert argv[argv.index("--model") + 1] == "gemini-2.5-pro"
    await daemon.ask(session, "SAY 1")
    assert gemini_model.turns()[0]["model"] == "gemini-2.5-pro"
    assert (await daemon.client.sessions.get(session.session_id)).model == "gemini-2.5-pro"
