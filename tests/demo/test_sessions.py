"""Sessions of the demo agent: several at once, resumed after a crash, and refused politely."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.demo.driver import DEMO, Driver, Json


def test_it_introduces_itself(start: Callable[..., Driver], workspace: Path) -> None:
    demo = start()
    hello = demo.initialize()
    assert hello["protocolVersion"] == 1
    assert hello["agentInfo"]["name"] == "demo"
    made = demo.open(workspace)
    assert made["modes"]["currentModeId"] == "ask"
    assert [m["modelId"] for m in made["models"]["availableModels"]] == ["demo-fast", "demo-smart"]
    assert {o["id"] for o in made["configOptions"]} == {"model", "effort"}
    assert demo.until("available_commands_update")["availableCommands"][0]["name"] == "help"
    demo.turn("/help")
    assert "spawn-escape" in demo.text()


def test_a_session_survives_a_crash_and_load_replays_before_the_result(
    start: Callable[..., Driver], workspace: Path
) -> None:
    first = start()
    first.open(workspace)
    first.turn("words 3")
    first.prompt("say unfinished || crash")
    first.exit_code()
    second = start()
    session: Json = {"sessionId": first.session_id, "cwd": str(workspace), "mcpServers": []}
    loaded = second.request("session/load", session)
    second.response(loaded)
    user = [u["content"]["text"] for u in second.updates("user_message_chunk")]
    assert user == ["words 3", "say unfinished || crash"]
    assert second.text() == "the quick brown"
    second.session_id = first.session_id
    second.turn("history")
    assert second.text().endswith("This session has seen 3 user turns.")


def test_resume_replays_nothing_and_fork_goes_its_own_way(
    start: Callable[..., Driver], workspace: Path
) -> None:
    first = start()
    first.open(workspace)
    first.turn("say hi")
    second = start()
    where: Json = {"cwd": str(workspace), "mcpServers": []}
    second.result("session/resume", sessionId=first.session_id, **where)
    assert second.updates() == []
    forked = second.result("session/fork", sessionId=first.session_id, **where)
    assert forked["sessionId"] != first.session_id
    second.session_id = forked["sessionId"]
    second.turn("history")
    second.session_id = first.session_id
    second.turn("say x")
    second.turn("history")
    assert second.text() == (
        "This session has seen 2 user turns.xThis session has seen 3 user turns."
    )


def test_list_close_and_delete(demo: Driver, workspace: Path, tmp_path: Path) -> None:
    demo.turn("say hi || title My title")
    other = tmp_path / "other"
    other.mkdir()
    one = demo.session_id
    demo.open(other)
    listed = demo.result("session/list", cwd=str(workspace))["sessions"]
    assert [(s["sessionId"], s["title"]) for s in listed] == [(one, "My title")]
    assert len(demo.result("session/list")["sessions"]) == 2
    turn = demo.prompt("hang")
    demo.result("session/close", sessionId=demo.session_id)
    answers = [m for m in demo.seen if m.get("id") == turn and "result" in m]
    assert answers[0]["result"]["stopReason"] == "cancelled"
    assert demo.call("session/prompt", sessionId=demo.session_id, prompt=[])["error"]
    demo.result("session/delete", sessionId=demo.session_id)
    demo.result("session/delete", sessionId="never-was")
    assert [s["sessionId"] for s in demo.result("session/list")["sessions"]] == [one]


def test_sessions_of_one_process_run_side_by_side(demo: Driver, workspace: Path) -> None:
    hanging, first = demo.prompt("hang"), demo.session_id
    demo.open(workspace)
    assert demo.turn("say second")["result"]["stopReason"] == "end_turn"
    demo.session_id = first
    demo.cancel()
    assert demo.response(hanging)["result"]["stopReason"] == "cancelled"


def test_a_second_prompt_of_a_busy_session_is_refused_and_the_first_goes_on(demo: Driver) -> None:
    first = demo.prompt("hang")
    assert demo.turn("say hi")["error"]["code"] == -32600
    demo.send({"method": "$/cancel_request", "params": {"requestId": first}})
    assert demo.response(first)["result"]["stopReason"] == "cancelled"


def test_mode_model_and_effort_are_switched_and_checked(demo: Driver) -> None:
    session = {"sessionId": demo.session_id}
    demo.result("session/set_mode", **session, modeId="auto")
    assert demo.updates("current_mode_update")[-1]["currentModeId"] == "auto"
    demo.result("session/set_model", **session, modelId="demo-smart")
    assert (
        demo.updates("config_option_update")[-1]["configOptions"][0]["currentValue"] == "demo-smart"
    )
    changed = demo.result("session/set_config_option", **session, configId="effort", value="low")
    assert changed["configOptions"][1]["currentValue"] == "low"
    demo.turn("run echo unasked || mode plan || modelname")
    assert demo.updates("current_mode_update")[-1]["currentModeId"] == "plan"
    assert demo.text() == "demo-smart"
    demo.turn("run echo refused by mode")
    assert demo.updates("tool_call_update")[-1]["status"] == "failed"
    for method, params in {
        "session/set_model": {"modelId": "no-such"},
        "session/set_mode": {"modeId": "no-such"},
        "session/set_config_option": {"configId": "model", "value": "no-such"},
    }.items():
        assert demo.call(method, **session, **params)["error"]["code"] == -32602


def test_bad_input_gets_its_code_and_hurts_nothing(demo: Driver, workspace: Path) -> None:
    where: Json = {"cwd": str(workspace), "mcpServers": []}
    codes = [
        demo.call("session/new", cwd="relative", mcpServers=[])["error"]["code"],
        demo.call("session/new", cwd=str(workspace))["error"]["code"],
        demo.call("session/load", sessionId="demo-none", **where)["error"]["code"],
        demo.call("session/load", sessionId="../../etc/passwd", **where)["error"]["code"],
        demo.call("session/prompt", sessionId=demo.session_id, prompt=[3])["error"]["code"],
        demo.call("session/list", cursor="x")["error"]["code"],
        demo.call("authenticate", methodId="no-such")["error"]["code"],
        demo.call("_x/y")["error"]["code"],
    ]
    assert codes == [-32602, -32602, -32002, -32002, -32602, -32602, -32602, -32601]
    assert demo.result("authenticate", methodId="demo-login") == {}
    demo.raw(b'nonsense\n[]\nnull\n\n{"jsonrpc":"2.0","method":"_note"}\r\n')
    assert demo.turn("say alive")["result"]["stopReason"] == "end_turn"


def test_a_prompt_before_initialize_is_refused(tmp_path: Path) -> None:
    with Driver(DEMO, DEMO_AGENT_HOME=str(tmp_path)) as demo:
        assert demo.call("session/list")["error"]["code"] == -32600


def test_a_home_that_cannot_be_written_costs_only_the_history(workspace: Path) -> None:
    with Driver(DEMO, DEMO_AGENT_HOME="/dev/null/x") as demo:
        demo.initialize()
        demo.open(workspace)
        assert demo.turn("say hi")["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize(("flag", "code"), [("--version", 0), ("--help", 0), ("--nonsense", 2)])
def test_flags_answer_at_once(flag: str, code: int) -> None:
    done = subprocess.run([*DEMO, flag], capture_output=True, timeout=15, check=False)
    assert done.returncode == code
    assert b"agentctl-demo" in done.stdout + done.stderr


def test_it_loads_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import agentctl_adapters.demo.agent;"
        "names = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(*(names - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=15, check=True)
    assert done.stdout.split() == [b"agentctl_adapters"]
