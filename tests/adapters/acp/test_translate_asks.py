"""Permissions and elicitations of ACP: asked once, answered once, never read as more than was said."""

import json
from typing import Any

import pytest

from agentctl.core.events import (
    Complete,
    Event,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.words import (
    DecidedBy,
    Decision,
    OptionKind,
    PermissionKind,
    QuestionOutcome,
    ToolKind,
    ToolStatus,
)
from tests.replaying import Acp, one, payloads

CALL = {"toolCallId": "c", "title": "touch x", "kind": "execute", "status": "pending"}


def prompted(agent: str = "some-agent") -> tuple[Acp, int]:
    acp = Acp(agent)
    acp.session()
    return acp, acp.prompt()


@pytest.mark.proves("A3")
def test_a_request_without_a_call_before_it_makes_the_card_that_later_words_complete() -> None:
    acp, _ = prompted("gemini-cli")
    card, request = acp.permission(0, CALL)
    assert isinstance(card.payload, ToolCall)
    assert card.payload.status is ToolStatus.AWAITING_APPROVAL
    assert one([request], PermissionRequest).details.command == "touch x"
    acp.update("tool_call", toolCallId="c", title="Touch", status="in_progress")
    acp.update("tool_call_update", toolCallId="c", status="completed")
    assert len(payloads(acp.events, ToolCall)) == 1


@pytest.mark.proves("A3")
def test_a_request_does_not_rename_a_card_that_is_there() -> None:
    acp, _ = prompted()
    acp.update("tool_call", toolCallId="c", title="Creating x", kind="edit", status="pending")
    events = acp.permission(0, {**CALL, "title": "Create file", "kind": "edit"})
    assert one(events, ToolUpdate) == ToolUpdate("c", ToolStatus.AWAITING_APPROVAL)
    assert one(events, PermissionRequest).title == "Create file"


@pytest.mark.proves("A4")
@pytest.mark.parametrize(
    ("option", "decision"),
    [
        ("once", Decision.APPROVED),
        ("always", Decision.APPROVED),
        ("no", Decision.DENIED),
        ("never", Decision.DENIED),
        ("strange", Decision.DENIED),
        ("not offered", Decision.DENIED),
    ],
)
def test_only_an_offered_allow_option_is_an_approval(option: str, decision: Decision) -> None:
    acp, _ = prompted()
    acp.permission(
        0,
        CALL,
        once="allow_once",
        always="allow_always",
        no="reject_once",
        never="reject_always",
        strange="enable_for_ever",
    )
    request = one(acp.events, PermissionRequest)
    assert [option.kind for option in request.options][-1] is OptionKind.OTHER
    resolved = one(acp.choose(0, option), PermissionResolved)
    assert (resolved.decision, resolved.option_id) == (decision, option)


@pytest.mark.parametrize(
    "answer",
    [{"result": {"outcome": {"outcome": "cancelled"}}}, {"error": {"code": 1, "message": "broke"}}],
)
def test_an_answer_that_chooses_nothing_cancels(answer: dict[str, Any]) -> None:
    acp, _ = prompted()
    acp.permission(0, CALL)
    assert one(acp.send(id=0, **answer), PermissionResolved).decision is Decision.CANCELLED


@pytest.mark.proves("A1")
@pytest.mark.parametrize("own", [0, "0", "x", None, 10**20])
def test_any_request_id_is_matched_with_its_own_answer(own: Any) -> None:
    acp, _ = prompted()
    acp.permission(own, CALL)
    acp.permission(1, {**CALL, "toolCallId": "d"})
    acp.choose("other", "no")
    assert one(acp.choose(own, "yes"), PermissionResolved).approval_id == "apr_1"
    assert acp.choose(own, "yes") == []


def test_ids_of_the_two_directions_collide_without_harm() -> None:
    acp, run = prompted()
    acp.permission(run, CALL)
    acp.choose(run, "yes")
    assert one(acp.events, PermissionResolved).decision is Decision.APPROVED
    assert one(acp.end(run), Complete).outcome == "completed"


@pytest.mark.proves("A2")
def test_a_request_right_after_the_sessions_start_has_no_run_and_no_tool() -> None:
    acp = Acp("auggie")
    acp.session()
    index = {"toolCallId": "workspace-indexing-permission", "title": "Index?"}
    (event,) = acp.permission(0, index, always="allow_always", never="reject_always")
    assert (event.run_id, event.after_run_id) == (None, None)
    request = one([event], PermissionRequest)
    assert (request.kind, request.tool_call_id) == (PermissionKind.OTHER, None)
    acp.prompt()
    assert one(acp.choose(0, "never"), PermissionResolved).decision is Decision.DENIED


@pytest.mark.proves("A5")
def test_a_request_that_nobody_answered_ends_with_the_recording() -> None:
    acp = Acp()
    acp.session()
    acp.permission(0, CALL)
    assert one(acp.finish(), PermissionResolved).decision is Decision.CANCELLED


def test_the_agent_may_take_its_request_back() -> None:
    acp, _ = prompted()
    acp.permission("p", CALL)
    events = acp.hear(method="$/cancel_request", params={"requestId": "p"})
    resolved = one(events, PermissionResolved)
    assert (resolved.decision, resolved.by) == (Decision.CANCELLED, DecidedBy.AGENT)
    assert acp.choose("p", "yes") == []


def test_leaving_plan_mode_is_asked_as_a_plan_with_its_document() -> None:
    acp, _ = prompted()
    call = {**CALL, "kind": "switch_mode", "rawInput": {"plan": "# Plan"}}
    request = one(acp.permission(0, call), PermissionRequest)
    assert (request.kind, request.document) == (PermissionKind.PLAN, "# Plan")


@pytest.mark.parametrize(
    ("tool", "kind"),
    [("exit_plan_mode", PermissionKind.PLAN), ("enter_plan_mode", PermissionKind.MODE)],
)
def test_geminis_own_tools_around_planning_are_asked_as_what_they_are(
    tool: str, kind: PermissionKind
) -> None:
    acp, _ = prompted("gemini-cli")
    call = {"toolCallId": f"{tool}__{tool}_17_0", "title": "plan.md", "kind": "other"}
    assert one(acp.permission(0, call), PermissionRequest).kind is kind


def test_an_edit_is_asked_with_its_file_and_diff() -> None:
    acp, _ = prompted()
    change = {"type": "diff", "path": "/code/a", "oldText": "x\n", "newText": "y\n"}
    call = {**CALL, "kind": "edit", "content": [change], "rawInput": {"description": "why"}}
    request = one(acp.permission(0, call), PermissionRequest)
    assert (request.details.file, request.details.reason) == ("/code/a", "why")
    assert request.details.diff.endswith("-x\n+y\n")
    assert request.reusable


def test_what_a_request_leaves_out_its_tool_has_told() -> None:
    acp, _ = prompted()
    told = {"command": "rm x", "cwd": "/code"}
    acp.update("tool_call", toolCallId="c", title="Remove", kind="execute", rawInput=told)
    request = one(acp.permission(0, {"toolCallId": "c"}), PermissionRequest)
    assert (request.title, request.tool_kind) == ("Remove", ToolKind.EXECUTE)
    assert (request.details.command, request.reusable) == ("rm x", True)
    assert json.loads(request.input_json) == told


def test_a_tool_of_an_mcp_server_is_asked_as_such() -> None:
    acp, _ = prompted()
    call = {**CALL, "kind": "other", "_meta": {"toolName": "mcp__docs__find"}}
    request = one(acp.permission(0, call), PermissionRequest)
    assert (request.kind, request.tool_kind) == (PermissionKind.MCP, ToolKind.MCP)


FORM = {
    "type": "object",
    "properties": {
        "colour": {
            "type": "string",
            "title": "Colour",
            "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}],
        },
        "sizes": {"type": "array", "items": {"enum": ["S", "M"]}, "description": "Which sizes?"},
        "gift": {"type": "boolean"},
        "note": {"type": "string"},
        "count": {"type": "integer", "enum": [1, 2], "enumNames": ["one", "two"]},
    },
}


def elicit(acp: Acp, **params: Any) -> list[Event]:
    params = {"sessionId": "s", "message": "Please", **params}
    return acp.hear(id=0, method="elicitation/create", params=params)


@pytest.mark.proves("A8")
def test_a_flat_form_is_told_as_questions_and_keeps_its_schema() -> None:
    acp, _ = prompted()
    request = one(elicit(acp, mode="form", toolCallId="c", requestedSchema=FORM), QuestionRequest)
    assert json.loads(request.schema_json) == FORM
    assert [[choice.id for choice in q.options] for q in request.questions] == [
        ["r", "b"],
        ["S", "M"],
        ["true", "false"],
        [],
        ["1", "2"],
    ]
    assert [(q.multiple, q.custom) for q in request.questions[1:4]] == [
        (True, None),
        (None, None),
        (None, True),
    ]
    assert request.questions[1].question == "Which sizes?"
    assert request.questions[4].options[0].name == "one"
    assert (request.message, request.tool_call_id) == ("Please", "c")


@pytest.mark.proves("A8")
def test_a_form_with_one_choice_asks_what_the_message_asks() -> None:
    acp, _ = prompted()
    colour = FORM["properties"]["colour"]  # type: ignore[index]
    schema = {"type": "object", "properties": {"q": colour}}
    request = one(elicit(acp, message="Which colour?", requestedSchema=schema), QuestionRequest)
    assert [q.question for q in request.questions] == ["Which colour?"]


def test_a_form_that_is_not_flat_is_told_by_its_schema_alone() -> None:
    acp, _ = prompted()
    schema = {"type": "object", "properties": {"a": {"type": "object"}}}
    request = one(elicit(acp, requestedSchema=schema), QuestionRequest)
    assert request.questions == []
    assert request.schema_json is not None


@pytest.mark.proves("A8")
def test_accepted_content_is_the_answer_to_each_question_in_order() -> None:
    acp, _ = prompted()
    elicit(acp, requestedSchema=FORM)
    content = {"gift": True, "colour": "b", "sizes": ["S", "M"]}
    resolved = one(
        acp.send(id=0, result={"action": "accept", "content": content}), QuestionResolved
    )
    assert resolved.outcome is QuestionOutcome.ANSWERED
    assert [answer.values for answer in resolved.answers] == [["b"], ["S", "M"], ["true"], [], []]
    assert json.loads(resolved.content_json) == content


@pytest.mark.parametrize(
    ("action", "outcome"),
    [("decline", QuestionOutcome.REJECTED), ("cancel", QuestionOutcome.CANCELLED)],
)
def test_a_question_may_be_declined_or_cancelled(action: str, outcome: QuestionOutcome) -> None:
    acp, _ = prompted()
    elicit(acp)
    assert one(acp.send(id=0, result={"action": action}), QuestionResolved).outcome is outcome


def test_a_page_that_was_visited_answers_its_question() -> None:
    acp, _ = prompted()
    events = elicit(acp, mode="url", elicitationId="e1", url="https://example.com/login")
    assert one(events, QuestionRequest).url == "https://example.com/login"
    done = acp.hear(method="elicitation/complete", params={"elicitationId": "e1"})
    assert one(done, QuestionResolved).outcome is QuestionOutcome.ANSWERED
    assert acp.send(id=0, result={"action": "accept"}) == []


def test_a_question_about_a_request_of_ours_belongs_to_its_session() -> None:
    acp, _ = prompted()
    acp.session("t")
    run = acp.prompt(session="t")
    params = {"message": "who?", "requestId": run}
    (event,) = acp.hear(id=0, method="elicitation/create", params=params)
    assert event.session_id == "ses_2"
    assert event.run_id == "run_2"


def test_a_question_before_any_session_is_the_processs_and_is_answered_all_the_same() -> None:
    acp = Acp()
    (event,) = acp.hear(id=0, method="elicitation/create", params={"message": "who?"})
    assert event.session_id is None
    acp.session()
    assert one(acp.send(id=0, result={"action": "decline"}), QuestionResolved)
