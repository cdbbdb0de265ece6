"""A conversation at the terminal: requests and questions in it, prompts typed while the agent works."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from tests.cli.fake_daemon import APPROVAL, LIMIT_S, SESSION, FakeDaemon, option
from tests.cli.terminal import Terminal
from tests.cli.test_first_session import Installed

pytestmark = pytest.mark.proves("C7")


@pytest.fixture(scope="module")
def program() -> Iterator[Installed]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        installed = Installed(Path(folder))
        installed("up")
        try:
            yield installed
        finally:
            installed("down")


def test_what_is_typed_while_the_agent_works_is_its_next_prompt(program: Installed) -> None:
    with program.terminal("chat", "demo") as terminal:
        terminal.expect("> ")
        terminal.send("slow 12 100 || say first\r")
        terminal.expect("quick")
        terminal.send("say second\r")
        terminal.expect("queued: say second")
        terminal.expect("completed")
        terminal.expect("second")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("/exit\r")
        assert terminal.end() == 0
    prompts = [json.loads(line) for line in program("runs", "ls", "--json").stdout.splitlines()]
    assert [each["prompt"][0]["text"] for each in prompts[:2]] == [
        "say second",
        "slow 12 100 || say first",
    ]


def test_ctrl_c_cancels_what_runs_and_the_talk_goes_on(program: Installed) -> None:
    with program.terminal("chat", "demo") as terminal:
        terminal.expect("> ")
        terminal.send("slow 500 20\r")
        terminal.expect("quick")
        terminal.interrupt()
        terminal.expect("cancelled")
        terminal.expect("> ")
        terminal.send("say still here\r")
        terminal.expect("still here")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("/exit\r")
        assert terminal.end() == 0


def test_a_half_typed_prompt_is_there_again_when_the_run_has_ended(program: Installed) -> None:
    with program.terminal("chat", "demo") as terminal:
        terminal.expect("> ")
        terminal.send("slow 10 100\r")
        terminal.expect("quick")
        terminal.send("say typed")
        terminal.expect("say typed")
        terminal.expect("completed")
        terminal.expect("> say typed")
        terminal.send(" before\r")
        terminal.expect("typed before")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("/exit\r")
        assert terminal.end() == 0


def test_always_holds_for_the_rest_of_the_talk(program: Installed) -> None:
    with program.terminal("chat", "demo") as terminal:
        terminal.expect("> ")
        terminal.send("run echo one\r")
        terminal.expect("[a]lways this command")
        terminal.send("a")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("run echo one\r")
        terminal.expect("approved by rule")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("/exit\r")
        assert terminal.end() == 0


def test_who_comes_to_a_session_at_work_answers_what_it_waits_for(program: Installed) -> None:
    started = json.loads(program("start", "demo", "--json").stdout)
    session = started["session_id"]
    program("prompt", session, "write late.txt hello", "--no-wait")
    with program.terminal("chat", session) as terminal:
        terminal.expect("[y]es")
        terminal.send("y")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("/exit\r")
        assert terminal.end() == 0
    assert (program.workspace / "late.txt").read_text().strip() == "hello"
    program("stop", session)


Open = Callable[..., Terminal]


@pytest.fixture
def at_terminal(quiet_home: Path, daemon: FakeDaemon) -> Open:
    daemon.answers |= {
        "Runs/List": lambda request: v1.ListRunsResponse(),
        "Sessions/Get": daemon.answers["Sessions/Get"],
    }

    def start(*words: str) -> Terminal:
        command = [sys.executable, "-m", "agentctl", "--address", daemon.address]
        return Terminal([*command, *words], dict(os.environ), cwd=str(quiet_home))

    return start


def test_no_card_comes_under_the_fingers_of_one_who_types(
    at_terminal: Open, daemon: FakeDaemon
) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        fake.say("working\n")
        fake.sign.wait(LIMIT_S)
        fake.ask(title="Remove it", tool_kind=v1.ToolKind.TOOL_KIND_EXECUTE)
        fake.say("asked\n", "m2")
        fake.wait_for("Approvals/Respond")
        fake.resolve("denied")
        fake.end()

    daemon.play(script)
    with at_terminal("chat", SESSION) as terminal:
        terminal.expect("> ")
        terminal.send("go\r")
        terminal.expect("working")
        terminal.send("tr")
        terminal.expect("> tr")
        daemon.sign.set()
        terminal.expect("asked")
        terminal.send("y")
        terminal.expect("> try")
        assert daemon.called("Approvals/Respond") == []
        terminal.send("\x1b")
        terminal.expect("[y]es")
        terminal.send("n")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("\x04")
        assert terminal.end() == 0
    assert [each.decision for each in daemon.called("Approvals/Respond")] == [
        v1.Verdict.VERDICT_DENY
    ]


def test_a_plan_is_read_before_it_is_decided(at_terminal: Open, daemon: FakeDaemon) -> None:
    def script(fake: FakeDaemon) -> None:
        fake.begin()
        request = v1.PermissionRequest(
            approval_id=APPROVAL,
            kind=v1.PermissionKind.PERMISSION_KIND_PLAN,
            title="Carry out the plan",
            document="# The plan\n" + "\n".join(f"{n}. step" for n in range(30)),
            options=[
                option("once", "Yes", "allow_once"),
                option("edits", "Yes, and accept edits", "allow_always"),
                option("no", "Keep planning", "reject_once"),
            ],
        )
        fake.emit("permission_request", request)
        fake.wait_for("Approvals/Respond")
        fake.resolve("approved")
        fake.end()

    daemon.play(script)
    with at_terminal("chat", SESSION) as terminal:
        terminal.expect("> ")
        terminal.send("plan it\r")
        terminal.expect("# The plan")
        terminal.expect("18. step")
        terminal.expect("11 more lines (d to see them)")
        terminal.expect("[1] Yes, and accept edits")
        terminal.expect("[d]iff")
        terminal.send("d")
        terminal.expect("29. step")
        terminal.send("1")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("\x04")
        assert terminal.end() == 0
    assert daemon.called("Approvals/Respond")[0].option_id == "edits"


def test_each_question_shows_its_options_and_takes_several_or_free_text(
    at_terminal: Open, daemon: FakeDaemon
) -> None:
    def choice(identifier: str) -> v1.Choice:
        return v1.Choice(id=identifier, name=identifier.upper())

    def script(fake: FakeDaemon) -> None:
        fake.begin()
        questions = [
            v1.Question(question="Which one?", options=[choice("a"), choice("b")]),
            v1.Question(
                question="Which ones?",
                options=[choice("c"), choice("d"), choice("e")],
                multiple=True,
            ),
            v1.Question(question="Why?", custom=True),
        ]
        request = v1.QuestionRequest(question_id="qst_1", questions=questions)
        fake.emit("question_request", request)
        fake.wait_for("Questions/Answer")
        fake.end()

    def answered(_: Any) -> v1.QuestionRecord:
        return v1.QuestionRecord(question_id="qst_1")

    daemon.answers["Questions/Answer"] = answered
    daemon.play(script)
    with at_terminal("chat", SESSION) as terminal:
        terminal.expect("> ")
        terminal.send("ask me\r")
        terminal.expect("[2] B")
        terminal.expect("answer: ")
        terminal.send("b\r")
        terminal.expect("Which ones?")
        terminal.expect("[3] E")
        terminal.expect("several may be named")
        terminal.send("1, E\r")
        terminal.expect("Why?")
        terminal.send("because\r")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.send("\x04")
        assert terminal.end() == 0
    (sent,) = daemon.called("Questions/Answer")
    assert [list(each.values) for each in sent.answers] == [["b"], ["c", "e"], ["because"]]
