"""Each fake agent starts and does its fault, seen over raw lines."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.demo.driver import Driver, Json, alive, gone

PROGRAM = Path(__file__).parents[1] / "fakes" / "agents" / "faulty.py"

Start = Callable[..., Driver]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(*arguments: str) -> Driver:
            command = [sys.executable, str(PROGRAM), *arguments]
            return stack.enter_context(Driver(command, check=False))

        yield begin


@pytest.fixture
def ready(start: Start, tmp_path: Path) -> Start:
    """Starts a fake and opens a session in it."""

    def begin(*arguments: str) -> Driver:
        fake = start(*arguments)
        fake.initialize(elicitation={"form": {}, "url": {}})
        fake.open(tmp_path)
        return fake

    return begin


def outcome(kind: str) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": kind}}


# Faults that show in one undisturbed turn: the text that must be left when all else is passed by.
WHOLE_TURNS = {
    "plain": "hello, turn 1",
    "garbage-stdout": "before\u2028between\u0085after",
    "tool-never-ends": "done",
    "late-updates": "in time",
    "id-null-error": "before after",
    "text-error-end-turn": "Error: 400 scripted failure",
    "codex-soft-error": "Working on it. The model is busy, try again later.\n\n",
    "mode-update-text": "[MODE_UPDATE] yoloreal text",
    "usage-empty-chunk": "real text",
    "same-prompt-echo": "the answer",
    "stderr-flood": "end",
    "stdout-noise-wrapper": "hello, turn 1",
    "updates-before-session-new-result": "hello, turn 1",
    "cumulative-output": "",
    "tool-update-first": "",
    "slow-start": "hello, turn 1",
    "permission-outside-turn": "indexing: unanswered",
}


@pytest.mark.parametrize(("fault", "text"), WHOLE_TURNS.items())
def test_a_whole_turn_ends_with_end_turn(ready: Start, fault: str, text: str) -> None:
    fake = ready(fault)
    assert fake.turn("go")["result"]["stopReason"] == "end_turn"
    assert fake.text() == text


def test_garbage_and_noise_are_really_there(ready: Start) -> None:
    garbage = ready("garbage-stdout")
    garbage.turn("go")
    assert {b"not json\n", b"null\n", b"42\n", b"[]\n"} <= set(garbage.noise)
    assert any(b"npm" in line for line in ready("stdout-noise-wrapper").noise)
    flood = ready("stderr-flood")
    flood.turn("go")
    flood.close_stdin()
    flood.exit_code()
    assert flood.next() is None
    assert len(flood.stderr) > 7_000_000


def test_shapes_of_single_updates(ready: Start) -> None:
    first = ready("tool-update-first")
    first.turn("go")
    assert not first.updates("tool_call")
    late = ready("late-updates")
    late.turn("go")
    assert late.until("usage_update")["used"] == 500
    soft = ready("codex-soft-error")
    assert soft.turn("go")["result"]["usage"] is None
    assert ["messageId" in u for u in soft.updates("agent_message_chunk")] == [True, False]
    grows = ready("cumulative-output")
    grows.turn("go")
    last = grows.updates("tool_call_update")[-1]
    assert last["rawOutput"]["contents"][0]["exitCode"] == 4
    usage = ready("usage-empty-chunk")
    assert "usage" not in usage.turn("go")["result"]
    assert usage.updates()[-1]["_meta"]["usage"]["totalTokens"] == 110
    early = ready("updates-before-session-new-result")
    kinds = [m.get("method") for m in early.seen if m.get("id") is None]
    assert kinds == ["_auth/status_update", "session/update"]
    echo = ready("same-prompt-echo")
    echo.turn("my words")
    assert echo.updates("user_message_chunk")[0]["content"]["text"] == "my words"


def test_unknown_updates_end_well(ready: Start) -> None:
    fake = ready("unknown-updates")
    assert fake.response(fake.prompt("go"))["result"]["stopReason"] == "end_turn"
    assert any(m.get("method") == "future/thing" for m in fake.seen)


@pytest.mark.parametrize(
    ("fault", "size"), [("huge-line", 5_000_000), ("oversized-line", 70_000_000)]
)
def test_long_lines_have_their_size(ready: Start, fault: str, size: int) -> None:
    fake = ready(fault)
    fake.turn("go")
    assert [len(u["content"]["text"]) for u in fake.updates()] == [size, 3]


def test_never_answers_initialize_hears_and_says_nothing(start: Start) -> None:
    fake = start("never-answers-initialize")
    fake.request("initialize", {"protocolVersion": 1})
    fake.close_stdin()
    assert fake.next() is None
    assert fake.stderr == b"still loading\n"


def test_dies_at_start_with_three(start: Start) -> None:
    fake = start("dies-at-start")
    assert fake.exit_code() == 3
    assert fake.next() is None


@pytest.mark.parametrize("fault", ["dies-mid-turn", "dies-in-permission"])
def test_deaths_in_a_turn(ready: Start, fault: str) -> None:
    fake = ready(fault)
    fake.prompt("go")
    while fake.next() is not None:
        pass
    assert fake.exit_code() == 9
    assert fake.seen[-1]["method"].startswith("session/")


def test_version_2_says_so(start: Start) -> None:
    assert start("version-2").initialize()["protocolVersion"] == 2


def test_auth_is_needed_once(start: Start, tmp_path: Path) -> None:
    fake = start("session-new-needs-auth")
    fake.initialize()
    refused = fake.call("session/new", cwd=str(tmp_path), mcpServers=[])
    assert refused["error"]["code"] == -32000
    fake.result("authenticate", methodId="login")
    fake.open(tmp_path)
    assert fake.turn("go")["result"]["stopReason"] == "end_turn"


def test_load_and_resume_faults(start: Start, tmp_path: Path) -> None:
    params: Json = {"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []}
    late = start("load-replays-after-result")
    late.initialize()
    late.result("session/load", **params)
    assert len(late.updates()) == 1
    assert late.until("tool_call")["status"] == "completed"
    fails = start("load-fails")
    fails.initialize()
    assert fails.call("session/load", **params)["error"]["code"] == -32603
    fails.session_id = "old"
    assert fails.turn("go")["error"]["code"] == -32602
    claims = start("resume-unsupported")
    offered = claims.initialize()["agentCapabilities"]["sessionCapabilities"]
    assert "resume" in offered
    assert claims.call("session/resume", **params)["error"]["code"] == -32601


def test_permission_faults(ready: Start) -> None:
    outside = ready("permission-outside-turn")
    outside.answer(outside.asked(), outcome("never"))
    outside.turn("go")
    assert outside.text() == "indexing: never"
    twice = ready("permission-twice")
    turn = twice.prompt("go")
    first, second = twice.asked(), twice.asked()
    twice.answer(second, outcome("cancel"))
    twice.answer(first, outcome("proceed_once"))
    twice.response(turn)
    assert twice.text() == "answers: proceed_once cancel"
    only = ready("permission-no-reject-option")
    turn = only.prompt("go")
    request = only.asked()
    assert {o["kind"] for o in request["params"]["options"]} == {"allow_once", "allow_always"}
    only.answer(request, {"outcome": {"outcome": "cancelled"}})
    only.response(turn)
    assert only.text() == "answer: cancelled"


def test_questions_and_extensions_say_the_answer(ready: Start) -> None:
    for argument in ("form", "url"):
        fake = ready("elicitation", argument)
        turn = fake.prompt("go")
        request = fake.asked("elicitation/create")
        assert request["params"]["mode"] == argument
        fake.answer(request, {"action": "accept", "content": {"name": "sqlite"}})
        fake.response(turn)
        assert fake.text() == "action: accept sqlite"
    fake = ready("extension-request")
    turn = fake.prompt("go")
    request = fake.asked("_x/y")
    fake.send({"id": request["id"], "error": {"code": -32601, "message": "no"}})
    fake.response(turn)
    assert fake.text() == "code: -32601"


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ("error-after-cancel", -32603),
        ("qwen-hang-cancel-error", -32603),
        ("end-turn-after-cancel", "end_turn"),
    ],
)
def test_odd_ends_after_cancel(ready: Start, fault: str, end: object) -> None:
    fake = ready(fault)
    turn = fake.prompt("go")
    if fault != "qwen-hang-cancel-error":
        fake.until("agent_message_chunk")
    fake.cancel()
    response = fake.response(turn)
    assert end in (
        response.get("error", {}).get("code"),
        response.get("result", {}).get("stopReason"),
    )


def test_ignores_cancel_streams_on(ready: Start) -> None:
    fake = ready("ignores-cancel")
    fake.prompt("go")
    fake.until("agent_message_chunk")
    fake.cancel()
    for _ in range(10):
        fake.until("agent_message_chunk")
    assert not any("result" in m and "stopReason" in m["result"] for m in fake.seen)


def test_a_second_prompt_cancels_the_first(ready: Start) -> None:
    fake = ready("busy-cancels-first")
    first = fake.prompt("one")
    fake.until("agent_message_chunk")
    second = fake.prompt("two")
    assert fake.response(first)["result"]["stopReason"] == "cancelled"
    assert fake.response(second)["result"]["stopReason"] == "end_turn"


def test_ignores_eof_and_term_needs_kill(ready: Start) -> None:
    fake = ready("ignores-eof-and-term")
    fake.turn("go")
    fake.close_stdin()
    fake.signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        fake.exit_code(0.3)
    fake.signal(signal.SIGKILL)
    assert fake.exit_code() == -signal.SIGKILL


def test_the_worker_outlives_its_wrapper(ready: Start) -> None:
    fake = ready("wrapper")
    fake.prompt("go")
    worker = int(fake.until("agent_message_chunk")["content"]["text"].split()[-1])
    try:
        assert fake.exit_code() == -signal.SIGKILL
        fake.until("agent_message_chunk")
        assert alive(worker)
    finally:
        os.kill(worker, signal.SIGKILL)
    assert gone(worker)


def test_every_fault_is_checked_here() -> None:
    listed = subprocess.run(
        [sys.executable, str(PROGRAM)], capture_output=True, timeout=15, check=False
    )
    names = {line.split(b":")[0].decode() for line in listed.stderr.splitlines()[1:]}
    source = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in names if f'"{name}"' not in source} == set()
