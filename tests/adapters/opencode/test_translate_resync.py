"""What is told after the event stream broke: the difference, once, and the same text in the end."""

from typing import Any

import pytest

from agentctl.core.events import (
    Complete,
    PermissionRequest,
    PermissionResolved,
    Plan,
    QuestionRequest,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.words import DecidedBy, Decision, Outcome, ToolStatus
from tests.adapters.opencode.scripted import S, Scripted, shown
from tests.replaying import one, payloads

USER = {"info": {"id": "msg_u", "sessionID": S, "role": "user", "time": {"created": 200}}}


def row(own: str = "msg_a", *parts: dict[str, Any], done: bool = False, **info: Any) -> Any:
    time = {"created": 201, **({"completed": 300} if done else {})}
    told = {"id": own, "sessionID": S, "role": "assistant", "parentID": "msg_u", "time": time}
    full = [{"sessionID": S, "messageID": own, **part} for part in parts]
    return {"info": {**told, **info}, "parts": full}


def fetched(server: Scripted, *rows: Any, busy: bool) -> None:
    server.get(f"/session/{S}/message", [USER, *rows], resync=True)
    server.get("/session/status", {S: {"type": "busy"}} if busy else {}, resync=True)


@pytest.mark.proves("S3")
def test_deltas_lost_in_a_break_come_back_with_the_full_part() -> None:
    server = Scripted()
    server.say("server.connected")
    server.begin()
    server.part("prt_1", "text", text="", time={"start": 1})
    server.delta("prt_1", "one ")
    server.say("server.connected")
    fetched(server, row("msg_a", {"id": "prt_1", "type": "text", "text": ""}), busy=True)
    server.delta("prt_1", "three ")
    assert shown(server.events) == "one "
    server.part("prt_1", "text", text="one two three ", time={"end": 2})
    server.done()
    server.idle()
    assert shown(server.events) == "one two three "
    assert len(server.completes()) == 1


@pytest.mark.proves("S3", "T1")
def test_a_turn_that_ended_in_the_break_is_told_whole_and_completes_once() -> None:
    server = Scripted()
    server.say("server.connected")
    server.begin()
    server.tool("c1", "running", input={"command": "x"}, metadata={"output": "a\n"})
    server.say("server.connected")
    state = {
        "status": "completed",
        "input": {"command": "x"},
        "output": "a\nb\n",
        "metadata": {"output": "a\nb\n", "exit": 0},
    }
    tool = {"id": "prt_c1", "type": "tool", "callID": "c1", "tool": "bash", "state": state}
    answer = {"id": "prt_2", "type": "text", "text": "done", "time": {"end": 2}}
    fetched(
        server,
        row("msg_a", tool, done=True, finish="tool-calls"),
        row("msg_b", answer, done=True, finish="stop"),
        busy=False,
    )
    assert shown(server.events) == "done"
    assert len(payloads(server.events, ToolCall)) == 1
    assert [u.output_delta for u in payloads(server.events, ToolUpdate) if u.output_delta] == [
        "a\n",
        "b\n",
    ]
    end = one(server.events, Complete)
    assert (end.outcome, end.stop_reason) == (Outcome.COMPLETED, "stop")
    assert server.events[-1].payload is end


def test_fetching_what_is_known_already_tells_nothing() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_1", "text", text="all", time={"end": 2})
    server.events.clear()
    fetched(
        server,
        row("msg_a", {"id": "prt_1", "type": "text", "text": "all", "time": {"end": 2}}),
        busy=True,
    )
    assert server.events == []


@pytest.mark.proves("M5")
def test_messages_from_before_the_first_prompt_stay_history() -> None:
    server = Scripted()
    server.begin()
    old = row("msg_0", {"id": "prt_0", "type": "text", "text": "old"}, done=True, parentID="msg_x")
    new = row("msg_a", {"id": "prt_1", "type": "text", "text": "new", "time": {"end": 1}})
    server.get(f"/session/{S}/message", [old, USER, new], resync=True)
    assert server.texts() == ["new"]


@pytest.mark.proves("S3", "T5")
def test_a_turn_that_the_server_forgot_is_failed_and_recoverable() -> None:
    server = Scripted()
    server.begin()
    fetched(server, row("msg_a"), busy=False)
    end = one(server.events, Complete)
    assert (end.outcome, end.error.code, end.error.recoverable) == (
        Outcome.FAILED,
        "AGENT_EXITED",
        True,
    )


@pytest.mark.proves("S3", "A2")
def test_requests_that_came_or_went_in_the_break_are_asked_or_resolved() -> None:
    server = Scripted()
    server.begin()
    tool = {"messageID": "msg_a", "callID": "c1"}
    ask: dict[str, Any] = {"sessionID": S, "permission": "bash", "patterns": ["x"], "metadata": {}}
    server.say("permission.asked", id="per_1", tool=tool, **ask)
    server.tool("c1", "completed", input={"command": "x"}, output="", metadata={"output": ""})
    question: dict[str, Any] = {"id": "que_1", "sessionID": S, "questions": []}
    server.get("/permission", [{"id": "per_2", **ask}], resync=True)
    server.get("/question", [question], resync=True)
    resolved = one(server.events, PermissionResolved)
    assert (resolved.decision, resolved.by) == (Decision.APPROVED, DecidedBy.ELSEWHERE)
    natives = [p.native_request_id for p in payloads(server.events, PermissionRequest)]
    assert natives == ["per_1", "per_2"]
    assert one(server.events, QuestionRequest).native_request_id == "que_1"


def test_todos_are_told_when_they_differ() -> None:
    server = Scripted()
    server.begin()
    todos = [{"content": "a", "status": "pending", "priority": "low"}]
    server.get(f"/session/{S}/todo", todos, resync=True)
    server.get(f"/session/{S}/todo", todos, resync=True)
    assert len(payloads(server.events, Plan)) == 1


def test_the_same_answers_without_the_mark_tell_nothing() -> None:
    server = Scripted()
    server.begin()
    server.events.clear()
    answer = {"id": "prt_9", "type": "text", "text": "x", "time": {"end": 1}}
    server.get(f"/session/{S}/message", [USER, row("msg_b", answer, done=True)])
    server.get("/session/status", {})
    server.get("/permission", [{"id": "per_9", "sessionID": S, "permission": "bash"}])
    assert server.events == []


@pytest.mark.proves("S3")
@pytest.mark.parametrize("cut", range(9))
def test_wherever_the_stream_breaks_text_and_tools_are_those_of_the_unbroken_run(cut: int) -> None:
    server = Scripted()
    server.say("server.connected")
    server.session()
    server.prompt()
    state: dict[str, Any] = {"status": "completed", "input": {"command": "x"}, "output": "o"}
    state |= {"metadata": {"output": "o", "exit": 0}}
    steps = [
        lambda: server.user(),
        lambda: server.open(),
        lambda: server.part("prt_1", "text", text="", time={"start": 1}),
        lambda: server.delta("prt_1", "one "),
        lambda: server.delta("prt_1", "two"),
        lambda: server.part("prt_1", "text", text="one two", time={"start": 1, "end": 2}),
        lambda: server.tool("c1", "running", input={"command": "x"}),
        lambda: server.tool("c1", **state),
        lambda: server.done(),
    ]
    for step in steps[:cut]:
        step()
    # Two events are lost, then the stream is back and everything is fetched again.
    done = cut + 2
    parts: list[dict[str, Any]] = []
    if done > 2:
        whole = {"text": "one two", "time": {"end": 2}} if done > 5 else {"text": ""}
        parts.append({"id": "prt_1", "type": "text", **whole})
    if done > 6:
        now = state if done > 7 else {"status": "running", "input": {"command": "x"}}
        tool = {"id": "prt_c1", "type": "tool", "callID": "c1", "tool": "bash", "state": now}
        parts.append(tool)
    rows = [row("msg_a", *parts, done=done > 8, finish="stop")] if done > 1 else []
    server.say("server.connected")
    fetched(server, *rows, busy=True)
    for step in steps[done:]:
        step()
    server.idle()
    assert shown(server.events) == "one two"
    assert len(payloads(server.events, ToolCall)) == 1
    assert payloads(server.events, ToolUpdate)[-1].status is ToolStatus.COMPLETED
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]
