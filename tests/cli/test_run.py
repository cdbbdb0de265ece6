"""`agentctl run` and `prompt` where nobody watches: what goes to a pipe, and the exit codes."""

import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from agentctl.cli.runview import Texts
from agentctl.core.errors import Invalid, NotFound
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import APPROVAL, RUN, SESSION, FakeDaemon, tool_call, tool_end


@pytest.mark.proves("C2")
def test_piped_output_is_the_answer_alone(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.emit("reasoning", v1.Reasoning(message_id="t1", text="hm"))
        fake.say("All ")
        fake.say("good.")
        fake.emit("tool_call", tool_call("c1", "read", paths=["/srv/api/a.py"]))
        fake.emit("tool_update", tool_end("c1"))
        fake.say("Bye.", "m2")
        fake.end()

    daemon.play(script)
    done = with_daemon("run", "demo", "hello")
    assert (done.code, done.out, done.err) == (0, "All good.\nBye.\n", "")


@pytest.mark.proves("C2")
def test_white_space_and_strange_characters_pass_unchanged_through_a_pipe(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    pieces = ["\n\n", "  x", "\t", "\x1b[31mred", "é\u2028\U0001f600\n"]

    def script(fake: FakeDaemon) -> None:
        fake.begin()
        for piece in pieces:
            fake.say(piece)
        fake.end()

    daemon.play(script)
    assert with_daemon("run", "demo", "hello").out == "".join(pieces)


def test_a_whole_message_does_not_repeat_its_chunks(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("half")
        text = v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text="half and half")
        whole = v1.Message(message_id="m1", role=v1.Role.ROLE_ASSISTANT, content=[text])
        fake.emit("message", whole)
        fake.end()

    daemon.play(script)
    assert with_daemon("run", "demo", "hello").out == "half and half\n"


def test_a_long_answer_in_many_pieces_takes_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        texts = Texts()
        began = time.perf_counter()
        for _ in range(count):
            texts.new("message_chunk", {"message_id": "m", "text": "x" * 60})
        return time.perf_counter() - began

    # Eight times as many pieces take eight times as long; copying what was said takes 64 times.
    assert seconds(80_000) < 30 * max(seconds(10_000), 0.01)


def test_a_subagent_does_not_speak_in_the_answer(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("mine")
        chunk = v1.MessageChunk(message_id="s1", role=v1.Role.ROLE_ASSISTANT, text="not mine")
        fake.emit("message_chunk", chunk, parent_tool_call_id="c1")
        fake.end()

    daemon.play(script)
    assert with_daemon("run", "demo", "hello").out == "mine\n"


def test_json_is_the_event_stream_one_object_a_line(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("hi")
        fake.end()

    daemon.play(script)
    rows = [json.loads(line) for line in with_daemon("run", "demo", "x", "--json").out.splitlines()]
    assert [row["type"] for row in rows] == [
        "run_status",
        "message_chunk",
        "complete",
        "session_status",
    ]
    chunk: dict[str, Any] = rows[1]
    assert chunk["data"] == {"message_id": "m1", "role": "assistant", "text": "hi"}
    assert chunk["run_id"] == RUN and chunk["seq"] == 2 and chunk["cursor"] == "j:2"


@pytest.mark.proves("C1")
@pytest.mark.parametrize(
    ("outcome", "code"), [("completed", 0), ("failed", 1), ("timed_out", 124), ("cancelled", 130)]
)
def test_the_exit_code_says_how_the_run_ended(
    with_daemon: Cli, daemon: FakeDaemon, outcome: str, code: int
) -> None:
    daemon.play(lambda fake: fake.end(outcome))
    assert with_daemon("run", "demo", "x").code == code


@pytest.mark.proves("C1")
def test_a_run_that_ends_on_a_denial_exits_with_3(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.ask(title="rm -rf build")
        fake.resolve("denied", "policy")
        fake.end("cancelled")

    daemon.play(script)
    assert with_daemon("run", "demo", "x").code == 3


def test_a_run_that_completes_after_a_denial_exits_with_0(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.ask(title="rm -rf build")
        fake.resolve("denied", "policy")
        fake.end()

    daemon.play(script)
    assert with_daemon("run", "demo", "x").code == 0


def test_without_a_terminal_a_request_says_which_command_answers_it(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.ask(title="rm -rf build", details=v1.PermissionDetails(command="rm -rf build"))
        fake.wait_until_sent()
        fake.resolve("approved")
        fake.end()

    daemon.play(script)
    done = with_daemon("run", "demo", "x")
    assert done.out == ""
    assert f"agentctl approve {APPROVAL}" in done.err
    assert f"agentctl deny {APPROVAL}" in done.err
    assert "rm -rf build" in done.err


def test_a_request_that_the_policy_answers_asks_nobody(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        with fake.together():
            fake.ask(title="rm -rf build")
            fake.resolve("denied", "policy")
        fake.end()

    daemon.play(script)
    assert with_daemon("run", "demo", "x").err == ""


def test_on_ask_deny_refuses_each_request(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.ask(title="x")
        fake.wait_for("Approvals/Respond")
        fake.resolve("denied")
        fake.end("failed")

    daemon.play(script)
    assert with_daemon("run", "demo", "x", "--on-ask", "deny").code == 3
    assert daemon.called("Approvals/Respond")[0].decision == v1.Verdict.VERDICT_DENY
    assert daemon.called("Runs/Cancel") == []


def test_on_ask_fail_refuses_and_ends_the_run(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.ask(title="x")
        fake.wait_for("Approvals/Respond")
        fake.resolve("denied")
        assert fake.wait_for("Runs/Cancel").run_id == RUN
        fake.end("cancelled")

    daemon.play(script)
    assert with_daemon("run", "demo", "x", "--on-ask", "fail").code == 3


def test_run_asks_the_daemon_to_close_the_session_whoever_dies(
    with_daemon: Cli, daemon: FakeDaemon, quiet_home: Path
) -> None:
    daemon.play(lambda fake: fake.end())
    words = ("--model", "m1", "--mode", "plan", "--approve", "deny", "--timeout", "2.5")
    assert with_daemon("run", "demo", "x", "--workspace", str(quiet_home), *words).code == 0
    created = daemon.called("Sessions/Create")[0]
    assert created.close_when_done and created.workspace == str(quiet_home)
    assert (created.model, created.mode) == ("m1", "plan")
    assert created.policy == v1.Policy.POLICY_DENY
    assert daemon.called("Runs/Create")[0].timeout_ms == 2500


def test_keys_that_the_entry_names_reach_the_agent_over_the_socket(
    with_daemon: Cli, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_KEY", "secret")
    monkeypatch.setenv("DEMO_HOME", "/there")
    monkeypatch.setenv("OTHER_KEY", "stays here")
    entry = b'{"id":"demo","required_env":["DEMO_KEY"],"env_passthrough":["DEMO_HOME","UNSET_X"]}'
    daemon.answers["Registry/Get"] = lambda request: v1.Entry(entry_id="demo", entry_json=entry)
    daemon.play(lambda fake: fake.end())
    assert with_daemon("run", "demo", "x").code == 0
    created = daemon.called("Sessions/Create")[0]
    assert dict(created.env) == {"DEMO_KEY": "secret", "DEMO_HOME": "/there"}


def test_a_prompt_that_is_refused_leaves_no_session(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def refuse(request: Any) -> Any:
        raise Invalid('there is no model "m9".', reason="INVALID_MODEL")

    daemon.answers["Runs/Create"] = refuse
    done = with_daemon("run", "demo", "x")
    assert done.code == 1 and "INVALID_MODEL" in done.err
    assert daemon.called("Sessions/Close")[0].session_id == SESSION


def test_a_failed_start_ends_the_run_with_its_reason(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        failed = v1.SessionStatus(
            status=v1.SessionChange.SESSION_CHANGE_FAILED, reason="demo exited with code 3"
        )
        fake.emit("session_status", failed, run=False)

    daemon.play(script)
    done = with_daemon("run", "demo", "x")
    assert done.code == 1
    assert "demo exited with code 3" in done.err


def test_a_long_start_says_why_on_stderr(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        status = v1.AgentStatus(
            state=v1.AgentState.AGENT_STATE_STARTING, entry_id="demo", detail="downloading it"
        )
        fake.emit("agent_status", status, run=False)
        fake.begin()
        fake.end()

    daemon.play(script)
    done = with_daemon("run", "demo", "x")
    assert done.err.count("demo: downloading it") == 1


@pytest.mark.proves("T6")
def test_ctrl_c_cancels_and_waits_for_the_end(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.wait_for("Events/Subscribe")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert fake.wait_for("Runs/Cancel").run_id == RUN
        fake.end("cancelled")

    daemon.play(script)
    assert with_daemon("run", "demo", "x").code == 130


def test_a_second_ctrl_c_leaves_the_run_to_the_daemon(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.wait_for("Events/Subscribe")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        fake.wait_for("Runs/Cancel")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    daemon.play(script)
    done = with_daemon("run", "demo", "x")
    assert done.code == 130
    assert f"agentctl events --run {RUN}" in done.err


def test_prompt_shows_only_its_own_run(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        chunk = v1.MessageChunk(message_id="o1", role=v1.Role.ROLE_ASSISTANT, text="other")
        fake.emit("message_chunk", chunk, run=False, run_id="run_other")
        fake.say("mine")
        complete = v1.Complete(outcome=v1.Outcome.OUTCOME_COMPLETED)
        fake.emit("complete", complete, run=False, run_id="run_other")
        fake.emit("complete", complete)

    daemon.play(script)
    done = with_daemon("prompt", SESSION[-6:], "x")
    assert (done.code, done.out) == (0, "mine\n")
    assert daemon.called("Runs/Create")[0].session_id == SESSION


def test_prompt_no_wait_prints_the_run_and_leaves(with_daemon: Cli, daemon: FakeDaemon) -> None:
    daemon.play(lambda fake: None)
    done = with_daemon("prompt", SESSION, "x", "--no-wait", "--if-busy", "interrupt")
    assert done.out == f"{RUN}\n"
    assert daemon.called("Runs/Create")[0].if_busy == v1.IfBusy.IF_BUSY_INTERRUPT


def test_an_unknown_agent_is_named_with_the_nearest_one(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    def unknown(request: Any) -> Any:
        message = 'there is no agent "demmo". Did you mean "demo"? (agentctl registry ls)'
        raise NotFound(message, reason="AGENT_NOT_FOUND")

    daemon.answers["Registry/Get"] = unknown
    done = with_daemon("run", "demmo", "x")
    assert done.code == 1
    assert done.err.startswith('error: there is no agent "demmo". Did you mean "demo"?')
    assert done.err.rstrip().endswith("AGENT_NOT_FOUND")
    assert daemon.called("Sessions/Create") == []
