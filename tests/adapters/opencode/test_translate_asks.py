"""Permissions and questions of OpenCode as events: asked once, answered once, and by whom."""

from typing import Any

import pytest

from agentctl.core.events import (
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import Answer
from agentctl.core.words import DecidedBy, Decision, OptionKind, QuestionOutcome, ToolStatus
from tests.adapters.opencode.scripted import S, Scripted
from tests.replaying import one, payloads

ASK: dict[str, Any] = {
    "permission": "bash",
    "patterns": ["rm *"],
    "metadata": {"command": "rm x"},
    "always": ["rm *"],
}
QUESTIONS = [
    {
        "question": "Which?",
        "header": "Colour",
        "options": [{"label": "Red", "description": "warm"}],
        "multiple": True,
        "custom": False,
    }
]


def asked(server: Scripted, own: str = "per_1", call: str = "c1") -> None:
    tool = {"messageID": "msg_a", "callID": call}
    server.say("permission.asked", id=own, sessionID=S, tool=tool, **ASK)


def reply(server: Scripted, own: str, status: int = 200, **body: str) -> None:
    server.answer(server.request("POST", f"/permission/{own}/reply", body), True, status=status)


@pytest.mark.proves("A1", "A4")
@pytest.mark.parametrize(
    ("word", "decision"),
    [("once", Decision.APPROVED), ("always", Decision.APPROVED), ("reject", Decision.DENIED)],
)
def test_each_answer_is_told_once_with_the_option_that_was_sent(
    word: str, decision: Decision
) -> None:
    server = Scripted()
    server.begin()
    asked(server)
    reply(server, "per_1", reply=word, message="because")
    server.say("permission.replied", sessionID=S, requestID="per_1", reply=word)
    resolved = one(server.events, PermissionResolved)
    assert (resolved.decision, resolved.option_id, resolved.by) == (
        decision,
        word,
        DecidedBy.CLIENT,
    )
    assert resolved.reason == "because"


def test_a_request_shows_what_it_is_about_and_what_may_be_answered() -> None:
    server = Scripted()
    server.begin()
    asked(server)
    ask = one(server.events, PermissionRequest)
    assert (ask.title, ask.details.command, ask.patterns) == ("bash: rm x", "rm x", ["rm *"])
    assert [(o.option_id, o.kind) for o in ask.options] == [
        ("once", OptionKind.ALLOW_ONCE),
        ("always", OptionKind.ALLOW_ALWAYS),
        ("reject", OptionKind.REJECT_ONCE),
    ]


@pytest.mark.proves("A3")
def test_a_request_before_its_tool_makes_the_one_card() -> None:
    server = Scripted()
    server.begin()
    asked(server)
    server.tool("c1", "running", input={"command": "rm x"})
    assert len(payloads(server.events, ToolCall)) == 1
    assert ToolStatus.RUNNING not in [u.status for u in payloads(server.events, ToolUpdate)]
    reply(server, "per_1", reply="once")
    assert payloads(server.events, ToolUpdate)[-1].status is ToolStatus.RUNNING


@pytest.mark.proves("A1")
def test_one_reject_rejects_what_else_waits_and_that_is_the_agents_doing() -> None:
    server = Scripted()
    server.begin()
    asked(server, "per_1", "c1")
    asked(server, "per_2", "c2")
    reply(server, "per_1", reply="reject")
    server.say("permission.replied", sessionID=S, requestID="per_1", reply="reject")
    server.say("permission.replied", sessionID=S, requestID="per_2", reply="reject")
    told = payloads(server.events, PermissionResolved)
    assert [r.by for r in told] == [DecidedBy.CLIENT, DecidedBy.AGENT]


def test_an_answer_of_another_client_came_from_elsewhere() -> None:
    server = Scripted()
    server.begin()
    asked(server)
    server.say("permission.replied", sessionID=S, requestID="per_1", reply="once")
    assert one(server.events, PermissionResolved).by is DecidedBy.ELSEWHERE


def test_an_answer_that_the_server_did_not_know_decides_nothing() -> None:
    server = Scripted()
    server.begin()
    asked(server)
    reply(server, "per_1", status=404, reply="once")
    assert payloads(server.events, PermissionResolved) == []
    reply(server, "per_1", reply="once")
    assert len(payloads(server.events, PermissionResolved)) == 1


@pytest.mark.proves("A5")
def test_what_an_abort_leaves_listed_is_cancelled_here_and_not_asked_again() -> None:
    server = Scripted()
    server.begin()
    asked(server)
    server.request("POST", f"/session/{S}/abort")
    server.done(error={"name": "MessageAbortedError", "data": {}})
    server.idle()
    assert one(server.events, PermissionResolved).decision is Decision.CANCELLED
    assert server.translator.asks.unanswered(S) == [("per_1", False)]
    listed = [{"id": "per_1", "sessionID": S, **ASK}]
    assert server.get("/permission", listed, resync=True) == []
    reply(server, "per_1", reply="reject")
    assert len(payloads(server.events, PermissionResolved)) == 1
    assert server.translator.asks.unanswered(S) == []


def test_the_older_request_and_answer_mean_the_same() -> None:
    server = Scripted()
    server.begin()
    old = {"type": "bash", "pattern": "rm *", "title": "Run rm", "metadata": {"command": "rm x"}}
    server.say("permission.updated", id="per_1", sessionID=S, callID="c1", **old)
    ask = one(server.events, PermissionRequest)
    assert (ask.title, ask.patterns, ask.tool_call_id) == ("Run rm", ["rm *"], "c1")
    path = f"/session/{S}/permissions/per_1"
    server.answer(server.request("POST", path, {"response": "reject"}), True)
    server.say("permission.replied", sessionID=S, permissionID="per_1", response="reject")
    assert one(server.events, PermissionResolved).decision is Decision.DENIED


@pytest.mark.proves("A8")
def test_a_question_is_asked_and_answered_with_choices_and_free_text() -> None:
    server = Scripted()
    server.begin()
    tool = {"messageID": "msg_a", "callID": "c1"}
    server.say("question.asked", id="que_1", sessionID=S, questions=QUESTIONS, tool=tool)
    (question,) = one(server.events, QuestionRequest).questions
    assert (question.header, question.multiple, question.custom) == ("Colour", True, False)
    assert [(c.id, c.description) for c in question.options] == [("Red", "warm")]
    request = server.request("POST", "/question/que_1/reply", {"answers": [["Red", "typed"]]})
    server.answer(request, True)
    server.say("question.replied", sessionID=S, requestID="que_1", answers=[["Red", "typed"]])
    told = one(server.events, QuestionResolved)
    assert (told.outcome, told.by) == (QuestionOutcome.ANSWERED, DecidedBy.CLIENT)
    assert told.answers == [Answer(["Red", "typed"])]


@pytest.mark.proves("A8")
def test_a_question_that_is_rejected_elsewhere_is_rejected() -> None:
    server = Scripted()
    server.begin()
    server.say("question.asked", id="que_1", sessionID=S, questions=QUESTIONS)
    server.say("question.rejected", sessionID=S, requestID="que_1")
    told = one(server.events, QuestionResolved)
    assert (told.outcome, told.by) == (QuestionOutcome.REJECTED, DecidedBy.ELSEWHERE)


def test_a_request_outside_any_run_belongs_to_none() -> None:
    server = Scripted()
    server.session()
    server.say("permission.asked", id="per_1", sessionID=S, **ASK)
    (event,) = server.events
    assert (event.type, event.run_id) == ("permission_request", None)
    server.finish()
    assert one(server.events, PermissionResolved).decision is Decision.CANCELLED
