"""What a person at a terminal sees and types: cards, keys, output that opens, Ctrl-C."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from agentctl.core.errors import Refused
from tests.cli.fake_daemon import APPROVAL, LIMIT_S, RUN, FakeDaemon, tool_call, tool_end
from tests.cli.terminal import Terminal

DIFF = (
    "--- a\n+++ b\n@@ -1 +1,2 @@\n-        self.hits[user] += 1\n+        if not ok:\n"
    + "".join(f"+            line {number}\n" for number in range(12))
)

Open = Callable[..., Terminal]


@pytest.fixture
def at_terminal(quiet_home: Path, daemon: FakeDaemon) -> Open:
    def start(*words: str, **options: Any) -> Terminal:
        command = [sys.executable, "-m", "agentctl", "--address", daemon.address]
        return Terminal([*command, *words], dict(os.environ), cwd=str(quiet_home), **options)

    return start


def edit(fake: FakeDaemon) -> None:
    fake.ask(
        title="Write limiter.py",
        tool_kind=v1.ToolKind.TOOL_KIND_EDIT,
        tool_call_id="c1",
        risk=v1.Risk.RISK_LOW,
        details=v1.PermissionDetails(file="/srv/api/src/limiter.py", diff=DIFF),
    )


def test_a_run_reads_like_a_story(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("I'll look first.")
        fake.emit("tool_call", tool_call("c0", "read", paths=["/srv/api/tests/test_login.py"]))
        fake.emit("tool_update", tool_end("c0"))
        fake.emit("tool_call", tool_call("c1", "execute", command="pytest -q"))
        output = "".join(f"row {number}\n" for number in range(20))
        fake.emit("tool_update", tool_end("c1", "failed", output_delta=output, exit_code=1))
        fake.say("It fails.", "m2")
        usage = v1.Usage(input=12_400, output=870)
        fake.end(usage=usage, cost_usd=0.0041, started_at=1_000, ended_at=15_000)

    daemon.play(script)
    with at_terminal("run", "demo", "fix it") as terminal:
        assert terminal.end() == 0
        lines = terminal.text.splitlines()
        widest = max(len(line) for line in lines)
    assert lines[0].startswith("demo 1.0 · demo-fast · /srv/api · ask")
    assert lines[0].endswith("ses_01m…31s8")
    assert lines[1] == "I'll look first."
    assert lines[2].startswith("● read    tests/test_login.py ")
    assert lines[3].startswith("● execute pytest -q") and "exit 1 ·  1.0 s" in lines[3]
    assert lines[4:11] == [f"  │ row {n}" for n in range(14, 20)] + [
        "  │ … 14 more lines (o to open)"
    ]
    assert lines[11:] == [
        "It fails.",
        "✓ completed in 14 s · 1 file read, 1 command · 12.4 k in, 870 out · $0.0041",
    ]
    assert widest <= 100


def test_output_that_was_cut_opens_with_a_key(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.emit("tool_call", tool_call("c1", "execute", command="pytest -q"))
        output = "".join(f"row {number}\n" for number in range(20))
        fake.emit("tool_update", tool_end("c1", output_delta=output, exit_code=0))
        fake.sign.wait(LIMIT_S)
        fake.end()

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("exit 0")
        assert "row" not in terminal.text
        terminal.send("o")
        terminal.expect("row 0")
        terminal.expect("row 19")
        daemon.sign.set()
        assert terminal.end() == 0


def test_a_long_start_says_what_it_waits_for(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        status = v1.AgentStatus(
            state=v1.AgentState.AGENT_STATE_STARTING, entry_id="demo", detail="downloading it"
        )
        fake.emit("agent_status", status, run=False)
        fake.sign.wait(LIMIT_S)
        fake.begin()
        fake.end()

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("demo: downloading it …")
        daemon.sign.set()
        assert terminal.end() == 0
    assert "downloading" not in terminal.text


def test_a_request_is_answered_with_one_key(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        edit(fake)
        fake.wait_for("Approvals/Respond")
        fake.resolve("approved")
        fake.end()

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("[d]iff")
        assert "? edit src/limiter.py" in terminal.text
        assert "+13 −1 · risk: low" in terminal.text  # noqa: RUF001  the sign that is shown
        assert "  │ -        self.hits[user] += 1" in terminal.text
        assert "… 6 more lines (d to see them)" in terminal.text
        terminal.send("d")
        terminal.expect("line 11")
        terminal.send("y")
        assert terminal.end() == 0
    answer = daemon.called("Approvals/Respond")[0]
    assert (answer.approval_id, answer.decision) == (APPROVAL, v1.Verdict.VERDICT_APPROVE)
    assert not answer.always


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("a", {"decision": 1, "always": True}),
        ("n", {"decision": 2}),
        ("1", {"option_id": "ever"}),
        ("ruse the mox\x7fck\r", {"decision": 2, "reason": "use the mock"}),
        ("r\x1by", {"decision": 1}),
        ("zq9y", {"decision": 1}),
    ],
)
def test_each_key_sends_what_it_says(
    at_terminal: Open, daemon: FakeDaemon, keys: str, expected: dict[str, Any]
) -> None:
    def script(fake: FakeDaemon) -> None:
        edit(fake)
        fake.wait_for("Approvals/Respond")
        fake.resolve("approved")
        fake.end()

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("[d]iff")
        for key in keys:
            terminal.send(key)
            if key == "\x1b":
                terminal.expect("[d]iff")
        assert terminal.end() == 0
    assert daemon.called("Approvals/Respond") == [
        v1.RespondRequest(approval_id=APPROVAL, **expected)
    ]


@pytest.mark.proves("A1")
def test_a_request_that_is_answered_elsewhere_goes_away(
    at_terminal: Open, daemon: FakeDaemon
) -> None:
    def script(fake: FakeDaemon) -> None:
        edit(fake)
        fake.sign.wait(LIMIT_S)
        fake.resolve("approved", "client")
        fake.end()

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("[d]iff")
        daemon.sign.set()
        terminal.expect("approved")
        assert terminal.end() == 0
    assert daemon.called("Approvals/Respond") == []


def test_an_answer_that_came_too_late_is_told_and_the_run_goes_on(
    at_terminal: Open, daemon: FakeDaemon
) -> None:
    def refuse(request: Any) -> Any:
        raise Refused("it was answered already: denied by a client.", reason="ALREADY_RESOLVED")

    def script(fake: FakeDaemon) -> None:
        edit(fake)
        fake.sign.wait(LIMIT_S)
        fake.resolve("denied")
        fake.end()

    daemon.answers["Approvals/Respond"] = refuse
    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("[d]iff")
        terminal.send("y")
        terminal.expect("answered already")
        daemon.sign.set()
        assert terminal.end() == 0


@pytest.mark.proves("A7")
def test_a_request_that_the_policy_answers_shows_no_card(
    at_terminal: Open, daemon: FakeDaemon
) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        with fake.together():
            edit(fake)
            fake.resolve("approved", "policy")
        fake.end()

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        assert terminal.end() == 0
        assert "[y]es" not in terminal.shown
        assert "approved by policy" in terminal.text


def test_a_question_is_answered_at_the_keyboard(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        question = v1.Question(
            question="Which port?", options=[v1.Choice(id="a", name="80"), v1.Choice(id="b")]
        )
        request = v1.QuestionRequest(question_id="qst_1", questions=[question, question])
        fake.emit("question_request", request)
        fake.wait_for("Questions/Answer")
        fake.end()

    daemon.answers["Questions/Answer"] = lambda request: v1.QuestionRecord(question_id="qst_1")
    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("answer: ")
        assert "? Which port?\n  [1] 80\n  [2] b" in terminal.text
        terminal.send("2\r")
        terminal.expect("Which port?")
        terminal.send("8080\r")
        assert terminal.end() == 0
    assert [list(each.values) for each in daemon.called("Questions/Answer")[0].answers] == [
        ["b"],
        ["8080"],
    ]


def test_escape_declines_a_question(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        request = v1.QuestionRequest(question_id="qst_1", message="Which port?")
        fake.emit("question_request", request)
        fake.wait_for("Questions/Reject")
        fake.end()

    daemon.answers["Questions/Reject"] = lambda request: v1.QuestionRecord(question_id="qst_1")
    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("answer: ")
        terminal.send("\x1b")
        assert terminal.end() == 0


def test_with_the_answer_in_a_file_the_keyboard_still_answers(
    at_terminal: Open, daemon: FakeDaemon, quiet_home: Path
) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("before ")
        edit(fake)
        fake.wait_for("Approvals/Respond")
        fake.resolve("approved")
        fake.say("after")
        fake.end()

    daemon.play(script)
    with (
        (quiet_home / "answer").open("w+b") as file,
        at_terminal("run", "demo", "x", stdout=file.fileno()) as terminal,
    ):
        terminal.expect("[d]iff")
        terminal.send("y")
        assert terminal.end() == 0
    assert (quiet_home / "answer").read_text() == "before after\n"


def test_text_of_an_agent_cannot_steer_the_terminal(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("\x1b]0;owned\x07\x1b[2Jhello\x9b31m")
        fake.emit("tool_call", tool_call("c", "execute", command="ls \x1b[8m; rm x"))
        fake.emit("tool_update", tool_end("c", "failed", output_delta="\x1b[2Jout"))
        fake.end()

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        assert terminal.end() == 0
    assert "\x1b[2J" not in terminal.shown and "\x1b]0" not in terminal.shown
    assert "\x1b[8m" not in terminal.shown and "\x9b" not in terminal.shown
    assert "rm x" in terminal.text


@pytest.mark.proves("T6")
def test_ctrl_c_at_the_keyboard_cancels(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("thinking")
        assert fake.wait_for("Runs/Cancel").run_id == RUN
        fake.end("cancelled")

    daemon.play(script)
    with at_terminal("run", "demo", "x") as terminal:
        terminal.expect("thinking")
        terminal.interrupt()
        terminal.expect("■")
        assert terminal.end() == 130


def test_no_colour_is_written_when_nobody_wants_it(
    at_terminal: Open, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("hello")
        fake.end()

    daemon.play(script)
    monkeypatch.setenv("NO_COLOR", "1")
    with at_terminal("run", "demo", "x") as terminal:
        assert terminal.end() == 0
    assert "\x1b[1m" not in terminal.shown and "✓ completed" in terminal.text


def test_a_failed_run_says_in_one_sentence_what_to_do(
    at_terminal: Open, daemon: FakeDaemon
) -> None:
    error = v1.RunError(
        code="AUTH_REQUIRED",
        message="demo is not logged in: run `demo login`.",
        stderr_tail=v1.StringList(items=["no credentials"]),
    )
    daemon.play(lambda fake: fake.end("failed", error=error))
    with at_terminal("run", "demo", "x") as terminal:
        assert terminal.end() == 1
    assert "  │ no credentials\n✗ demo is not logged in: run `demo login`.  AUTH_REQUIRED" in (
        terminal.text
    )
