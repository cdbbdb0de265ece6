"""Sessions as an ACP client has them: made, loaded, resumed, forked, listed, closed, deleted, changed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.demo.driver import Json
from tests.gateway.acp.client import Client
from tests.gateway.acp.conftest import House

Connect = Callable[..., Client]


def option(result: Json, own: str) -> Json:
    return next(each for each in result["configOptions"] if each["id"] == own)


@pytest.mark.proves("GA7")
def test_an_introduction_tells_what_the_agent_and_the_daemon_can(connect: Connect) -> None:
    client = connect("--agent", "demo")
    told = client.seen[-1]["result"]
    assert told["protocolVersion"] == 1
    assert told["agentInfo"]["name"] == "agentctl"
    assert "Demo" in told["agentInfo"]["title"]
    can = told["agentCapabilities"]
    assert can["loadSession"] is True
    assert can["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}
    assert set(can["sessionCapabilities"]) == {"list", "resume", "fork", "close", "delete"}
    assert [each["id"] for each in told["authMethods"]] == ["demo-login"]
    assert client.result("authenticate", methodId="demo-login") == {}
    assert client.call("authenticate", methodId="other")["error"]["code"] == -32602


@pytest.mark.proves("GA7")
def test_a_sessions_id_is_the_daemons(demo: Client, house: House, workspace: Path) -> None:
    shown = json.loads(house.agentctl("session", "show", demo.session_id, "--json"))
    assert shown["session_id"] == demo.session_id
    assert (shown["workspace"], shown["entry_id"]) == (str(workspace), "demo")


@pytest.mark.proves("GA7")
def test_mcp_servers_and_directories_reach_the_agent(
    connect: Connect, workspace: Path, tmp_path: Path, house: House
) -> None:
    client = connect("--agent", "demo")
    servers: list[Json] = [
        {"name": "one", "command": "/bin/one", "args": ["x"], "env": [{"name": "A", "value": "b"}]},
        {"type": "http", "name": "two", "url": "http://127.0.0.1:1/mcp", "headers": []},
    ]
    client.open(workspace, mcpServers=servers)
    client.turn("mcp || cwd")
    assert "one" in client.text() and "http://127.0.0.1:1/mcp" in client.text()
    # The demo agent takes no further directories: the refusal is the agent's own.
    params: Json = {
        "cwd": str(workspace),
        "mcpServers": [],
        "additionalDirectories": [str(tmp_path)],
    }
    error = client.call("session/new", **params)["error"]
    assert error["data"]["reason"] == "UNSUPPORTED"


@pytest.mark.proves("GA7")
def test_a_loaded_session_tells_its_history_before_the_answer_and_goes_on(
    demo: Client, connect: Connect, workspace: Path
) -> None:
    demo.turn("say one || think why")
    demo.turn("run! echo hi")
    other = connect("--agent", "demo")
    loaded = other.load(demo.session_id, workspace)
    assert loaded["_meta"]["agentctl"] == {"agent": "demo", "workspace": str(workspace)}
    assert other.seen[-1]["result"] == loaded
    assert [u["content"]["text"] for u in other.updates("user_message_chunk")] == [
        "say one || think why",
        "run! echo hi",
    ]
    assert other.text() == "one"
    assert [u["content"]["text"] for u in other.updates("agent_thought_chunk")] == ["why"]
    (card,) = other.updates("tool_call")
    assert card["title"] == "echo hi"
    assert other.updates("tool_call_update")[-1]["content"][0]["content"]["text"] == "hi\n"
    other.turn("history")
    assert other.text() == "oneThis session has seen 3 user turns."


@pytest.mark.proves("GA7")
def test_a_resumed_session_tells_no_history(
    demo: Client, connect: Connect, workspace: Path
) -> None:
    demo.turn("say one")
    other = connect("--agent", "demo")
    other.result("session/resume", sessionId=demo.session_id, cwd=str(workspace))
    other.session_id = demo.session_id
    other.turn("history")
    assert other.text() == "This session has seen 2 user turns."
    assert not other.updates("user_message_chunk")


@pytest.mark.proves("GA7")
def test_a_session_that_is_loaded_in_mid_turn_misses_nothing(
    demo: Client, connect: Connect, workspace: Path
) -> None:
    request = demo.prompt("say one || run echo two || say three")
    asked = demo.asked()
    other = connect("--agent", "demo")
    other.load(demo.session_id, workspace)
    demo.choose(asked, "allow_once")
    demo.response(request)
    # The turn is another client's: its end is no answer of ours.
    other.until("agent_message_chunk", content={"type": "text", "text": "three"})
    assert other.text() == "onethree"
    assert len(other.updates("tool_call")) == 1
    assert [u["content"]["text"] for u in other.updates("user_message_chunk")] == [
        "say one || run echo two || say three"
    ]


@pytest.mark.proves("GA7")
def test_a_request_that_was_open_before_is_asked_of_who_loads_the_session(
    demo: Client, connect: Connect, workspace: Path
) -> None:
    request = demo.prompt("run echo hi || say done")
    first = demo.asked()
    other = connect("--agent", "demo")
    other.load(demo.session_id, workspace)
    other.choose(other.asked(), "allow_once")
    assert demo.asked("$/cancel_request")["params"] == {"requestId": first["id"]}
    assert demo.response(request)["result"]["stopReason"] == "end_turn"


@pytest.mark.proves("GA7")
def test_a_closed_session_can_be_loaded_again(demo: Client, workspace: Path) -> None:
    demo.turn("say one")
    assert demo.result("session/close", sessionId=demo.session_id) == {}
    assert demo.turn("say two")["error"]["code"] == -32002
    demo.load(demo.session_id, workspace)
    demo.turn("history")
    assert demo.text().endswith("This session has seen 2 user turns.")


@pytest.mark.proves("GA7")
def test_closing_a_session_ends_its_turn(demo: Client) -> None:
    request = demo.prompt("say one || hang")
    demo.until("agent_message_chunk")
    closing = demo.request("session/close", {"sessionId": demo.session_id})
    end, closed = demo.responses(request, closing)
    assert end["result"]["stopReason"] == "cancelled"
    assert closed["result"] == {}


@pytest.mark.proves("GA7")
def test_a_fork_has_the_history_and_goes_its_own_way(demo: Client, workspace: Path) -> None:
    demo.turn("say one")
    forked = demo.result("session/fork", sessionId=demo.session_id, cwd=str(workspace))
    assert option(forked, "effort")["currentValue"] == "medium"
    origin, demo.session_id = demo.session_id, forked["sessionId"]
    assert demo.session_id != origin
    demo.turn("history")
    demo.session_id = origin
    demo.turn("history")
    assert demo.text() == "one" + "This session has seen 2 user turns." * 2


@pytest.mark.proves("GA7")
def test_sessions_are_listed_by_directory_until_they_are_deleted(
    demo: Client, workspace: Path
) -> None:
    demo.turn("title My work")
    other = workspace / "other"
    other.mkdir()
    listed = demo.result("session/list", cwd=str(workspace))["sessions"]
    assert [(each["sessionId"], each["title"]) for each in listed] == [(demo.session_id, "My work")]
    assert demo.result("session/list", cwd=str(other))["sessions"] == []
    assert demo.session_id in {s["sessionId"] for s in demo.result("session/list")["sessions"]}
    demo.result("session/delete", sessionId=demo.session_id)
    assert demo.result("session/list", cwd=str(workspace))["sessions"] == []
    assert demo.turn("say gone")["error"]["code"] == -32002


@pytest.mark.proves("GA8")
def test_modes_are_offered_set_and_told(demo: Client, workspace: Path) -> None:
    offered = demo.open(workspace)
    assert offered["modes"]["currentModeId"] == "ask"
    assert {m["id"] for m in offered["modes"]["availableModes"]} == {"ask", "auto", "plan"}
    demo.result("session/set_mode", sessionId=demo.session_id, modeId="plan")
    demo.turn("mode")
    assert demo.text() == "plan"
    demo.turn("mode auto")
    assert demo.updates("current_mode_update")[-1]["currentModeId"] == "auto"
    options = demo.updates("config_option_update")[-1]
    assert option(options, "mode")["currentValue"] == "auto"


@pytest.mark.proves("GA8")
def test_config_options_are_set_and_answered_whole(demo: Client) -> None:
    params: Json = {"sessionId": demo.session_id, "configId": "effort", "value": "high"}
    answer = demo.result("session/set_config_option", **params)
    assert option(answer, "effort")["currentValue"] == "high"
    assert {"mode", "model", "effort"} <= {each["id"] for each in answer["configOptions"]}
    params = {"sessionId": demo.session_id, "configId": "model", "value": "demo-smart"}
    answer = demo.result("session/set_config_option", **params)
    assert option(answer, "model")["currentValue"] == "demo-smart"
    params = {"sessionId": demo.session_id, "configId": "mode", "value": "plan"}
    answer = demo.result("session/set_config_option", **params)
    assert option(answer, "mode")["currentValue"] == "plan"
    demo.turn("modelname || mode")
    assert demo.text() == "demo-smartplan"


@pytest.mark.proves("GA8")
def test_the_older_call_for_a_model_still_works(demo: Client, workspace: Path) -> None:
    models = demo.open(workspace)["models"]
    assert models["currentModelId"] == "demo-fast"
    params: Json = {"sessionId": demo.session_id, "modelId": "demo-smart"}
    assert demo.result("session/set_model", **params) == {}
    demo.turn("modelname")
    assert demo.text() == "demo-smart"


@pytest.mark.proves("GA8")
def test_without_an_agent_the_client_chooses_one_before_its_first_prompt(
    connect: Connect, workspace: Path, house: House
) -> None:
    extra = {
        "id": "loud",
        "name": "Loud demo",
        "protocol": "acp",
        "cmd": ["agentctl-demo", "--model", "loud"],
    }
    file = house.home / "loud.json"
    file.write_text(json.dumps(extra))
    house.agentctl("registry", "add", str(file))
    client = connect()
    offered = client.open(workspace)
    assert option(offered, "agent")["currentValue"] == "demo"
    assert {"demo", "loud"} <= {each["value"] for each in option(offered, "agent")["options"]}
    params: Json = {"sessionId": client.session_id, "configId": "agent", "value": "loud"}
    answer = client.result("session/set_config_option", **params)
    assert option(answer, "agent")["currentValue"] == "loud"
    assert option(answer, "model")["currentValue"] == "loud"
    client.turn("modelname")
    assert client.text() == "loud"
    # From here on it has the agent that it has.
    assert client.call("session/set_config_option", **params)["error"]["code"] == -32602
    other = connect()
    listed = other.result("session/list", cwd=str(workspace))["sessions"]
    assert [each["sessionId"] for each in listed] == [client.session_id]
    other.load(client.session_id, workspace)
    other.turn("history")
    assert other.text() == "loudThis session has seen 2 user turns."


@pytest.mark.proves("GA8")
def test_a_client_may_name_the_agent_as_it_makes_the_session(
    connect: Connect, workspace: Path
) -> None:
    client = connect()
    error = client.call(
        "session/new",
        cwd=str(workspace),
        mcpServers=[],
        _meta={"agentctl": {"agent": "no-such-agent"}},
    )["error"]
    assert (error["code"], error["data"]["reason"]) == (-32002, "AGENT_NOT_FOUND")
    made = client.open(workspace, _meta={"agentctl": {"agent": "demo"}})
    assert made["_meta"]["agentctl"]["agent"] == "demo"


def test_an_agent_that_is_not_there_is_named_at_the_introduction(house: House) -> None:
    with Client("--agent", "no-such-agent", **house.env) as client:
        error = client.call("initialize", protocolVersion=1)["error"]
    assert error["data"]["reason"] == "AGENT_NOT_FOUND"
    assert "no-such-agent" in error["message"]
