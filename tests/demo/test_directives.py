"""Each directive of the script, seen from the other end of the pipes."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.demo.driver import Driver, Json, alive, gone


def output_of(update: Json) -> str:
    return update["content"][0]["content"]["text"]


def test_a_script_is_performed_in_order(demo: Driver) -> None:
    response = demo.turn("say one || think two || say three || plan || usage || title A name")
    assert response["result"]["stopReason"] == "end_turn"
    kinds = [u["sessionUpdate"] for u in demo.updates()]
    assert kinds[1:] == [
        "agent_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "plan",
        "usage_update",
        "session_info_update",
    ]
    ids = [u["messageId"] for u in demo.updates("agent_message_chunk")]
    assert len(set(ids)) == 2


def test_words_and_chunks_come_in_the_asked_number_and_size(demo: Driver) -> None:
    demo.turn("words 5")
    assert len(demo.text().split()) == 5
    demo.turn("chunks 5000 60")
    texts = [u["content"]["text"] for u in demo.updates("agent_message_chunk")]
    assert texts[5:] == ["c" * 60] * 5000
    demo.turn("big 1000000")
    assert len(demo.text()) - len("".join(texts)) == 1_000_000


def test_a_slow_text_stops_at_cancel(demo: Driver) -> None:
    turn = demo.prompt("slow 1000 20")
    demo.until("agent_message_chunk")
    demo.cancel()
    assert demo.response(turn)["result"]["stopReason"] == "cancelled"
    assert len(demo.updates("agent_message_chunk")) < 1000


def test_read_shows_a_file_of_the_workspace_and_no_other(demo: Driver, workspace: Path) -> None:
    (workspace / "a.txt").write_text("inside", encoding="utf-8")
    (workspace / "link").symlink_to("/etc/hostname")
    demo.turn("read a.txt || read ../home || read link || read none")
    results = demo.updates("tool_call_update")
    assert [u["status"] for u in results] == ["completed", "failed", "failed", "failed"]
    assert output_of(results[0]) == "inside"


def test_run_asks_streams_the_whole_output_so_far_and_tells_the_exit_code(demo: Driver) -> None:
    turn = demo.prompt("run echo one; read x < /dev/null; echo two >&2; exit 3")
    request = demo.asked()
    assert request["params"]["toolCall"]["rawInput"]["command"].startswith("echo one")
    assert len({o["kind"] for o in request["params"]["options"]}) == 4
    demo.choose(request, "allow_once")
    demo.response(turn)
    *grown, last = [u for u in demo.updates("tool_call_update") if u.get("content")]
    assert all(output_of(last).startswith(output_of(u)) for u in grown)
    assert output_of(last) == "one\ntwo\n"
    assert (last["status"], last["rawOutput"]["exitCode"]) == ("failed", 3)


def test_a_rejected_command_does_not_run(demo: Driver, workspace: Path) -> None:
    turn = demo.prompt("run touch ran.txt")
    demo.choose(demo.asked(), "reject_once")
    demo.response(turn)
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("answer", [{"outcome": {"outcome": "cancelled"}}, {}, {"outcome": 7}])
def test_no_answer_is_read_as_allow(demo: Driver, workspace: Path, answer: Json) -> None:
    turn = demo.prompt("run touch ran.txt")
    demo.answer(demo.asked(), answer)
    assert demo.response(turn)["result"]["stopReason"] == "end_turn"
    assert list(workspace.iterdir()) == []


def test_always_holds_for_the_kind_in_this_session(demo: Driver) -> None:
    turn = demo.prompt("run true")
    demo.choose(demo.asked(), "allow_always")
    demo.response(turn)
    assert demo.turn("run echo again")["result"]["stopReason"] == "end_turn"
    turn = demo.prompt("write a.txt text")
    demo.choose(demo.asked(), "reject_always")
    demo.response(turn)
    assert demo.turn("write b.txt text")["result"]["stopReason"] == "end_turn"


def test_cancel_kills_a_command_with_its_group(demo: Driver) -> None:
    turn = demo.prompt("run! trap '' TERM; sleep 300 & echo $!; wait")
    update = demo.until("tool_call_update")
    demo.cancel()
    assert demo.response(turn)["result"]["stopReason"] == "cancelled"
    assert demo.updates("tool_call_update")[-1]["status"] == "failed"
    assert gone(int(output_of(update)))


def test_cancel_during_a_permission_ends_the_turn(demo: Driver) -> None:
    turn = demo.prompt("run true")
    demo.asked()
    demo.cancel()
    assert demo.response(turn)["result"]["stopReason"] == "cancelled"
    assert demo.turn("say next")["result"]["stopReason"] == "end_turn"


def test_a_cancel_right_behind_its_answer_lets_nothing_more_be_said(demo: Driver) -> None:
    turn = demo.prompt("run true || say too late")
    demo.answer(demo.asked(), {"outcome": {"outcome": "cancelled"}})
    demo.cancel()
    assert demo.response(turn)["result"]["stopReason"] == "cancelled"
    assert demo.text() == ""


def test_the_agents_end_ends_its_commands(start: Callable[..., Driver], workspace: Path) -> None:
    for by_signal in (False, True):
        demo = start()
        demo.open(workspace)
        demo.prompt("background sleep 300 || run! echo $$; exec sleep 300")
        pid = int(output_of(demo.until("tool_call_update")))
        if by_signal:
            demo.signal(signal.SIGTERM)
        else:
            demo.close_stdin()
        assert demo.exit_code() == 0
        assert gone(pid)


def test_write_asks_first_with_the_diff_and_no_tool_call_before(
    demo: Driver, workspace: Path
) -> None:
    turn = demo.prompt("write sub/new.txt some text")
    call = demo.asked()
    (diff,) = call["params"]["toolCall"]["content"]
    path = str(workspace / "sub" / "new.txt")
    assert diff == {"type": "diff", "path": path, "oldText": None, "newText": "some text"}
    assert demo.updates("tool_call") == []
    demo.choose(call, "allow_once")
    demo.response(turn)
    assert demo.updates("tool_call_update")[-1]["status"] == "completed"
    assert Path(path).read_text(encoding="utf-8") == "some text"
    demo.turn("write ../out.txt text")
    assert demo.updates("tool_call_update")[-1]["status"] == "failed"


def test_ask_uses_a_form_where_the_client_has_one(
    start: Callable[..., Driver], workspace: Path
) -> None:
    demo = start(elicitation={"form": {}})
    demo.open(workspace)
    turn = demo.prompt("ask Which one?")
    request = demo.asked("elicitation/create")
    assert request["params"]["message"] == "Which one?"
    demo.answer(request, {"action": "accept", "content": {"answer": "the left"}})
    demo.response(turn)
    assert demo.text() == "You answered: the left"
    turn = demo.prompt("ask Sure?")
    demo.answer(demo.asked("elicitation/create"), {"action": "decline"})
    demo.response(turn)
    assert demo.text().endswith("No answer: decline")


def test_ask_is_plain_text_elsewhere(demo: Driver) -> None:
    demo.turn("ask Which one?")
    assert demo.text() == "Which one?"


def test_errors_end_the_turn_with_the_asked_code(demo: Driver) -> None:
    assert demo.turn("model-error 429 slow down")["error"] == {
        "code": 429,
        "message": "slow down",
    }
    assert demo.turn("auth-error")["error"]["code"] == -32000
    assert demo.turn("say alive")["result"]["stopReason"] == "end_turn"


def test_crash_exits_with_the_code(demo: Driver) -> None:
    demo.prompt("say last words || crash 7")
    assert demo.until("agent_message_chunk")["content"]["text"] == "last words"
    assert demo.exit_code() == 7


def test_hang_ends_at_cancel_and_hang_hard_does_not(demo: Driver, workspace: Path) -> None:
    turn = demo.prompt("say x || hang")
    demo.until("agent_message_chunk")
    demo.cancel()
    assert demo.response(turn)["result"]["stopReason"] == "cancelled"
    stuck = demo.prompt("say x || hang-hard")
    demo.until("agent_message_chunk")
    demo.cancel()
    demo.open(workspace)
    assert demo.turn("say other session")["result"]["stopReason"] == "end_turn"
    assert not any(m.get("id") == stuck and "method" not in m for m in demo.seen)


def test_exit_on_cancel_leaves_without_an_answer(demo: Driver) -> None:
    demo.prompt("say x || exit-on-cancel")
    demo.until("agent_message_chunk")
    demo.cancel()
    assert demo.next() is None
    assert demo.exit_code() == 0


def test_stderr_and_noise_go_where_they_say(demo: Driver) -> None:
    demo.turn("stderr to stderr || noise to stdout || say end")
    assert demo.noise == [b"to stdout\n"]
    demo.close_stdin()
    demo.exit_code()
    assert demo.next() is None
    assert b"to stderr\n" in demo.stderr


def test_late_text_and_an_outside_request_come_after_the_answer(demo: Driver) -> None:
    turn = demo.prompt("say now || late afterwards || outside")
    demo.response(turn)
    assert demo.text() == "now"
    assert demo.until("agent_message_chunk")["content"]["text"] == "afterwards"
    request = demo.asked()
    assert request["params"]["toolCall"]["kind"] == "other"
    demo.choose(request, "reject_once")


def test_an_escaped_process_survives_the_agent(demo: Driver) -> None:
    demo.turn("spawn-escape")
    pid = int(demo.text().split()[-1])
    try:
        demo.close_stdin()
        demo.exit_code()
        assert alive(pid)
        assert os.getpgid(pid) != os.getpgid(0)
        os.kill(pid, signal.SIGTERM)
        assert alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert gone(pid)


def test_a_background_command_ends_after_its_turn(demo: Driver, workspace: Path) -> None:
    go = workspace / "go"
    demo.turn("background until test -e go; do sleep 0.02; done; echo made")
    assert demo.updates("tool_call")[0]["rawInput"]["run_in_background"] is True
    go.touch()
    update = demo.until("tool_call_update", status="completed")
    assert (output_of(update), update["rawOutput"]["exitCode"]) == ("made\n", 0)


def test_it_tells_about_itself(start: Callable[..., Driver], workspace: Path) -> None:
    demo = start("--model", "my-model")
    headers = [{"name": "Authorization", "value": "secret"}]
    servers = [
        {"name": "one", "command": "/bin/one", "args": ["-x"], "env": []},
        {"name": "two", "type": "http", "url": "http://localhost/m", "headers": headers},
    ]
    demo.open(workspace, mcpServers=servers)
    demo.turn("modelname || mode || history || env NO_SUCH_NAME || env DEMO_AGENT_HOME")
    told = demo.text()
    assert told.startswith("my-modelaskThis session has seen 1 user turns.NO_SUCH_NAME is not set")
    demo.turn("mcp")
    assert "one (stdio): /bin/one -x" in demo.text()
    assert "two (http): http://localhost/m [Authorization]" in demo.text()
    assert "secret" not in demo.text()
    demo.turn("cwd || argv")
    assert f"session: {workspace}" in demo.text()
    assert json.dumps(["--model", "my-model"])[1:-1] in demo.text()
