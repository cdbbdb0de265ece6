"""Sessions over a live ACP agent: what is asked for is passed on, what fails stays failed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.adapter import Feature, NativeSession
from agentctl.core.errors import (
    AgentFailed,
    Invalid,
    NotFound,
    Refused,
    TimedOut,
    Unsupported,
)
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import McpServer, PromptSpec
from agentctl_adapters.acp import connection as connection_module
from agentctl_adapters.acp import loading
from agentctl_adapters.acp.requests import resume_wait_s
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

STDIO = McpServer("files", command="/bin/files", args=("--root", "/"), env={"KEY": "v"})
HTTP = McpServer("web", "http", url="http://127.0.0.1:1/mcp", headers={"X-A": "b"})
SSE = McpServer("old", "sse", url="http://127.0.0.1:1/sse")
OLD = NativeSessionId("old-session")
GEMINI_MODELS = {
    "sessionId": "s",
    "models": {"currentModelId": "auto", "availableModels": [{"modelId": "auto", "name": "Auto"}]},
    "modes": {
        "currentModeId": "default",
        "availableModes": [{"id": "default", "name": "D"}, {"id": "yolo", "name": "Y"}],
    },
}


async def test_mcp_servers_are_passed_in_the_shape_of_their_transport(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        await connection.new_session(spec(tmp_path, mcp_servers=(STDIO, HTTP, SSE)))
        await connection.new_session(spec(tmp_path))
    first, second = seen.sent("session/new")
    assert first["mcpServers"] == [
        {
            "name": "files",
            "command": "/bin/files",
            "args": ["--root", "/"],
            "env": [{"name": "KEY", "value": "v"}],
        },
        {
            "type": "http",
            "name": "web",
            "url": "http://127.0.0.1:1/mcp",
            "headers": [{"name": "X-A", "value": "b"}],
        },
        {"type": "sse", "name": "old", "url": "http://127.0.0.1:1/sse", "headers": []},
    ]
    assert second == {"cwd": str(tmp_path), "mcpServers": []}


async def test_an_mcp_transport_that_the_agent_does_not_take_is_refused_by_its_name(
    tmp_path: Path,
) -> None:
    async with running(**puppet()) as (connection, seen):
        with pytest.raises(Unsupported, match="leave web out"):
            await connection.new_session(spec(tmp_path, mcp_servers=(STDIO, HTTP)))
        with pytest.raises(Unsupported, match="no additional directories"):
            await connection.new_session(spec(tmp_path, additional_directories=("/tmp",)))
        assert seen.sent("session/new") == []


async def test_a_missing_login_names_the_ways_to_log_in(tmp_path: Path) -> None:
    how: dict[str, Any] = {"required_env": ("FAKE_API_KEY",)}
    async with running(fake("session-new-needs-auth"), **how) as (connection, seen):
        with pytest.raises(Refused) as failure:
            await connection.new_session(spec(tmp_path))
        assert failure.value.reason == "AUTH_REQUIRED"
        assert "agentctl auth fake login" in failure.value.message
        assert "set FAKE_API_KEY" in failure.value.message
        assert seen.sent("authenticate") == []
        with pytest.raises(Invalid, match="it has: login"):
            await connection.authenticate("other")
        await connection.authenticate("login")
        assert await connection.new_session(spec(tmp_path))
    assert seen.sent("authenticate") == [{"methodId": "login"}]


async def test_a_login_in_a_terminal_is_named_and_never_sent(tmp_path: Path) -> None:
    methods = [{"id": "cli", "name": "CLI", "type": "terminal", "args": ["login"]}]
    errors = {"session/new": {"code": -32000, "message": "no"}}
    how = puppet({"authMethods": methods}, errors=errors)
    async with running(**how) as (connection, seen):
        with pytest.raises(Refused, match="login` in a terminal"):
            await connection.new_session(spec(tmp_path))
        with pytest.raises(Unsupported, match="in a terminal"):
            await connection.authenticate("cli")
        assert seen.sent("authenticate") == []


@pytest.mark.proves("S5")
async def test_model_mode_options_and_mcp_servers_are_set_again_on_resume(tmp_path: Path) -> None:
    asked = spec(
        tmp_path, model="demo-smart", mode="auto", options={"effort": "high"}, mcp_servers=(HTTP,)
    )
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(asked)
        assert await one_turn(connection, seen, session, text("modelname")) == "demo-smart"
        assert await one_turn(connection, seen, session, text("mode")) == "auto"
    plain = spec(tmp_path, mcp_servers=(HTTP,), model="demo-fast", mode="plan")
    async with running(**demo(tmp_path)) as (connection, seen):
        assert await connection.resume_session(session, plain) == session
        assert await one_turn(connection, seen, session, text("modelname")) == "demo-fast"
        assert await one_turn(connection, seen, session, text("mode")) == "plan"
        assert "5" in await one_turn(connection, seen, session, text("history"))
    assert seen.sent("session/resume")[0]["mcpServers"][0]["name"] == "web"
    assert seen.sent("session/load") == []


async def test_what_is_in_force_already_is_not_sent(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path, model="demo-fast", mode="ask"))
        await connection.set_model(session, "demo-smart")
        await connection.set_model(session, "demo-smart")
        await connection.set_option(session, "effort", "low")
        await connection.set_option(session, "effort", "low")
    assert seen.sent("session/set_mode") == []
    assert [p["value"] for p in seen.sent("session/set_config_option")] == ["demo-smart", "low"]


async def test_an_unknown_model_or_mode_or_option_is_refused_naming_what_there_is(
    tmp_path: Path,
) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        with pytest.raises(Invalid) as failure:
            await connection.new_session(spec(tmp_path, model="demo-smrt"))
        assert failure.value.reason == "INVALID_MODEL"
        assert "it has demo-smart, demo-fast" in failure.value.message
        session = await connection.new_session(spec(tmp_path))
        with pytest.raises(Invalid, match="no mode 'fast'; it has") as failure:
            await connection.set_mode(session, "fast")
        assert failure.value.reason == "INVALID_PARAMETERS"
        with pytest.raises(Invalid, match="no option 'colour'; it has"):
            await connection.set_option(session, "colour", "red")
        with pytest.raises(Invalid, match="value of the option effort"):
            await connection.set_option(session, "effort", "huge")
        assert seen.sent("session/set_config_option") == []


async def test_a_model_beyond_the_old_list_is_tried_and_the_agents_word_counts(
    tmp_path: Path,
) -> None:
    async with running(**puppet(results={"session/new": GEMINI_MODELS})) as (connection, seen):
        session = await connection.new_session(spec(tmp_path, model="gemini-2.5-flash"))
        await connection.set_mode(session, "yolo")
        with pytest.raises(Invalid, match=r"it has (default, yolo|yolo, default)"):
            await connection.set_mode(session, "plan")
    assert seen.sent("session/set_model") == [{"sessionId": "s", "modelId": "gemini-2.5-flash"}]
    assert seen.sent("session/set_mode") == [{"sessionId": "s", "modeId": "yolo"}]
    error = {"session/set_model": {"code": -32602, "message": "Unknown model"}}
    how = puppet(results={"session/new": GEMINI_MODELS}, errors=error)
    async with running(**how) as (connection, _):
        with pytest.raises(Invalid, match="Unknown model; it has auto") as failure:
            await connection.new_session(spec(tmp_path, model="x"))
        assert failure.value.reason == "INVALID_MODEL"


async def test_a_model_in_argv_is_enough_where_the_agent_knows_no_models(tmp_path: Path) -> None:
    error = {"session/set_model": {"code": -32601, "message": "Method not found"}}
    async with running(**puppet(errors=error), model_flag="--model {model}") as (connection, _):
        assert await connection.new_session(spec(tmp_path, model="any"))
    async with running(**puppet(errors=error)) as (connection, _):
        with pytest.raises(Unsupported, match="session/set_model"):
            await connection.new_session(spec(tmp_path, model="any"))


async def test_a_boolean_option_is_sent_as_a_boolean(tmp_path: Path) -> None:
    option = {"id": "web", "name": "Web", "type": "boolean", "currentValue": False}
    new = {"sessionId": "s", "configOptions": [option]}
    async with running(**puppet(results={"session/new": new})) as (connection, seen):
        session = await connection.new_session(spec(tmp_path, options={"web": "true"}))
        with pytest.raises(Invalid, match="true or false"):
            await connection.set_option(session, "web", "maybe")
    assert seen.sent("session/set_config_option") == [
        {"sessionId": "s", "configId": "web", "value": True, "type": "boolean"}
    ]


async def test_model_mode_and_effort_of_a_prompt_are_set_before_it(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        prompt = replace(text("modelname"), model="demo-smart", mode="auto", effort="high")
        assert await one_turn(connection, seen, session, prompt) == "demo-smart"
    assert [p["value"] for p in seen.sent("session/set_config_option")] == ["demo-smart", "high"]


@pytest.mark.proves("S4")
async def test_a_failed_load_is_an_error_and_never_a_new_session(tmp_path: Path) -> None:
    how: dict[str, Any] = {"loadSession": True}
    error = {
        "session/load": {
            "code": -32603,
            "message": "Internal error",
            "data": {"details": "No previous sessions found."},
        }
    }
    async with running(**puppet({"agentCapabilities": how}, errors=error)) as (connection, seen):
        with pytest.raises(AgentFailed, match="No previous sessions found"):
            await connection.resume_session(OLD, spec(tmp_path))
        assert seen.sent("session/new") == []
    async with running(**demo(tmp_path)) as (connection, seen):
        with pytest.raises(NotFound, match="Session not found"):
            await connection.resume_session(OLD, spec(tmp_path))
        assert seen.sent("session/new") == []


@pytest.mark.proves("S4")
async def test_another_session_than_the_asked_one_is_an_error(tmp_path: Path) -> None:
    how = puppet(
        {"agentCapabilities": {"loadSession": True}},
        results={"session/load": {"sessionId": "fresh"}},
    )
    async with running(**how) as (connection, _):
        with pytest.raises(AgentFailed, match=r"another session \(fresh\)"):
            await connection.resume_session(OLD, spec(tmp_path))


async def test_a_method_that_the_agent_only_claimed_is_asked_for_once(tmp_path: Path) -> None:
    async with running(fake("resume-unsupported")) as (connection, seen):
        assert Feature.RESUME in connection.info.features
        for _ in range(2):
            with pytest.raises(Unsupported):
                await connection.resume_session(OLD, spec(tmp_path))
        assert len(seen.sent("session/resume")) == 1
        assert Feature.RESUME not in connection.info.features


async def test_load_is_used_where_resume_was_only_claimed(tmp_path: Path) -> None:
    can: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    error = {"session/resume": {"code": -32601, "message": "Method not found"}}
    async with running(**puppet({"agentCapabilities": can}, errors=error)) as (connection, seen):
        assert await connection.resume_session(OLD, spec(tmp_path)) == OLD
        assert await connection.resume_session(OLD, spec(tmp_path)) == OLD
    assert len(seen.sent("session/resume")) == 1
    assert len(seen.sent("session/load")) == 2


@pytest.mark.parametrize("entry", [{"can_recover": False}, {"resume_via_acp": False}, {}])
async def test_an_agent_that_cannot_resume_says_so(tmp_path: Path, entry: dict[str, Any]) -> None:
    can = {"loadSession": bool(entry)}
    async with running(**puppet({"agentCapabilities": can}), **entry) as (connection, seen):
        with pytest.raises(Unsupported, match="cannot resume"):
            await connection.resume_session(OLD, spec(tmp_path))
        assert Feature.RESUME not in connection.info.features
        assert seen.sent("session/load") == []


def test_the_wait_before_a_load_lasts_until_the_minute_is_over() -> None:
    minute = 29_400_000 * 60_000
    assert resume_wait_s(minute + 59_000, minute + 1_000, 1) == 1.0
    assert resume_wait_s(minute + 60_500, minute + 59_900, 1) == pytest.approx(0.4)
    assert resume_wait_s(minute + 90_000, minute + 1_000, 1) == 0.0


async def test_a_load_waits_where_the_agent_would_destroy_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute = 29_400_000 * 60_000
    monkeypatch.setattr(loading, "now_ms", lambda: minute + 59_900)
    how = puppet({"agentCapabilities": {"loadSession": True}})
    made = spec(tmp_path, native_created_at=minute + 100)
    async with running(**how, config={"min_resume_age_s": 0}) as (connection, seen):
        begun = anyio.current_time()
        await connection.resume_session(OLD, made)
        assert anyio.current_time() - begun >= 0.1
        assert "cannot load a session within the minute" in seen.progress[0]


async def test_sessions_are_listed_page_by_page(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        made = {await connection.new_session(spec(tmp_path)) for _ in range(60)}
        rows = await connection.list_sessions(str(tmp_path))
        assert {row.native_session_id for row in rows} == made
        assert all(row.cwd == str(tmp_path) and (row.updated_at or 0) > 1e12 for row in rows)
        assert await connection.list_sessions("/nowhere") == []
    assert "cursor" in seen.sent("session/list")[1]


async def test_rows_of_a_list_are_read_tolerantly(tmp_path: Path) -> None:
    rows = [{"sessionId": "a", "updatedAt": "yesterday"}, {"cwd": "/"}, 7]
    how = puppet(
        {"agentCapabilities": {"sessionCapabilities": {"list": {}}}},
        results={"session/list": {"sessions": rows, "nextCursor": "same"}},
    )
    async with running(**how) as (connection, _):
        found = await connection.list_sessions(None)
        assert found == [NativeSession(NativeSessionId("a"))] * 2


async def test_a_session_is_forked_closed_and_deleted(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await one_turn(connection, seen, session, text("say one"))
        fork = await connection.fork_session(session, spec(tmp_path))
        assert fork != session
        await connection.close_session(session)
        with pytest.raises(NotFound):
            await connection.close_session(session)
        await connection.delete_session(session)
        assert {row.native_session_id for row in await connection.list_sessions(None)} == {fork}


async def test_what_an_agent_does_not_offer_is_not_sent(tmp_path: Path) -> None:
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        for refused in (
            connection.fork_session(session, spec(tmp_path)),
            connection.list_sessions(None),
            connection.delete_session(session),
            connection.close_session(session),
            connection.prompt(session, PromptSpec(review=True)),
        ):
            with pytest.raises(Unsupported):
                await refused
        sent = {f.msg["method"] for f in seen.frames if f.dir == "to_agent"}
        assert sent == {"initialize", "session/new"}


async def test_a_call_without_an_answer_ends_in_a_time_out_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "SESSION_TIMEOUT_S", 0.2)
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, steps(["hold"]))
        await seen.until(seen.said)
        with pytest.raises(TimedOut, match=r"did not answer session/new within 0.2 s"):
            await connection.new_session(spec(tmp_path))


async def test_a_session_that_the_agent_refuses_is_refused_in_its_words(tmp_path: Path) -> None:
    async with running(**demo(tmp_path)) as (connection, _):
        with pytest.raises(Invalid, match="cwd must be an absolute path"):
            await connection.new_session(spec("relative"))


async def test_a_new_session_without_an_id_is_the_agents_failure(tmp_path: Path) -> None:
    async with running(**puppet(results={"session/new": {}})) as (connection, _):
        with pytest.raises(AgentFailed, match="without a session id"):
            await connection.new_session(spec(tmp_path))


async def test_updates_before_the_session_is_known_are_kept(tmp_path: Path) -> None:
    async with running(fake("updates-before-session-new-result")) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        assert await one_turn(connection, seen, session, text("hi"))
