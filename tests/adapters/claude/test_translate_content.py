"""Text, tools, approvals and background work of Claude Code as events."""

import json
from typing import Any

import pytest

from agentctl.core.events import (
    FileChange,
    Log,
    Message,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    Plan,
    QuestionResolved,
    Reasoning,
    Task,
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
from tests.adapters.claude.talk import Line, Talk, shown
from tests.replaying import one, payloads

RULE = {"toolName": "Bash", "ruleContent": "ls *"}
SUGGESTIONS = [
    {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    {"type": "addDirectories", "directories": ["/"], "destination": "session"},
    {"type": "addRules", "rules": [RULE], "behavior": "allow", "destination": "localSettings"},
]


def statuses(talk: Talk, tool: str = "t1") -> list[ToolStatus]:
    told = [e.payload for e in talk.events if isinstance(e.payload, ToolCall | ToolUpdate)]
    return [p.status for p in told if p.tool_call_id == tool and p.status is not None]


@pytest.mark.proves("M1")
def test_a_whole_frame_adds_only_what_its_deltas_did_not_bring() -> None:
    talk = Talk()
    talk.begin()
    talk.delta("ab")
    talk.text("abcd")
    talk.text("abcd", uuid="frame-of-before")
    talk.text("alone", "other", uuid="x")
    talk.text("alone", "other", uuid="x")
    assert [c.text for c in payloads(talk.events, MessageChunk)][:2] == ["ab", "cd"]
    assert shown(talk.events) == "abcdabcdalone"


def test_words_that_differ_from_their_deltas_replace_them() -> None:
    talk = Talk()
    talk.begin()
    talk.delta("wrong")
    talk.text("right")
    assert one(talk.events, Message).message_id == "msg"
    assert shown(talk.events) == "right"


def test_blocks_of_one_answer_are_numbered() -> None:
    talk = Talk()
    talk.begin()
    talk.delta("a")
    talk.text("a")
    talk.tool("t1", command="ls")
    talk.delta("b", index=2)
    talk.text("b")
    assert [c.message_id for c in payloads(talk.events, MessageChunk)] == ["msg", "msg/2"]


@pytest.mark.proves("M3")
def test_an_abandoned_attempt_never_was() -> None:
    talk = Talk()
    talk.begin()
    thought = {"type": "thinking_delta", "thinking": "hm"}
    talk.event("content_block_delta", index=0, delta=thought)
    talk.delta("half", index=1)
    abandoned = {"api_message_id": "msg", "from_block_index": 0}
    event = {"type": "message_stop"}
    talk.hear("stream_event", event=event, api_message_id="msg", abandoned_blocks=abandoned)
    talk.text("whole", "second")
    assert payloads(talk.events, Reasoning)[-1].retracted
    assert one(talk.events, Message).retracted
    assert shown(talk.events) == "whole"


@pytest.mark.proves("M4")
def test_words_to_the_model_are_not_the_models() -> None:
    talk = Talk()
    talk.begin("my words")
    message = {"role": "user", "content": [{"type": "text", "text": "my words"}]}
    for how in ({"isReplay": True}, {"isSynthetic": True}, {"parent_tool_use_id": "t"}, {}):
        talk.hear("user", message=message, **how)
    assert payloads(talk.events, MessageChunk) == []


def test_output_of_a_local_command_is_text() -> None:
    talk = Talk()
    uuid = talk.begin("/usage")
    talk.text("4 tokens", local_command_source="x")
    talk.end(uuid, terminal_reason=None)
    assert shown(talk.events) == "4 tokens"


def test_unknown_frames_are_counted_and_end_nothing() -> None:
    talk = Talk()
    uuid = talk.begin()
    before = len(payloads(talk.events, Log))
    talk.hear("brand_new")
    talk.system("brand_new_too")
    talk.hear("keep_alive")
    talk.system("thinking_tokens")
    assert len(payloads(talk.events, Log)) == before + 2
    talk.end(uuid)
    assert len(talk.ends) == 1


@pytest.mark.proves("M8")
@pytest.mark.parametrize(
    ("told", "status", "code", "output"),
    [
        (
            {"content": "o", "told": {"stdout": "out", "stderr": "err"}},
            ToolStatus.COMPLETED,
            None,
            "out\nerr",
        ),
        (
            {"content": "Exit code 2\nbad", "is_error": True, "told": "Error: Exit code 2\nbad"},
            ToolStatus.FAILED,
            2,
            "bad",
        ),
        ({"content": "(Bash completed with no output)"}, ToolStatus.COMPLETED, None, None),
        (
            {"content": "no", "is_error": True, "meta": {"non_execution_kind": "user-rejected"}},
            ToolStatus.CANCELLED,
            None,
            None,
        ),
        (
            {"content": "x", "told": {"stdout": "", "interrupted": True}},
            ToolStatus.CANCELLED,
            None,
            None,
        ),
    ],
)
def test_a_command_ends_with_its_output(
    told: dict[str, Any], status: ToolStatus, code: int | None, output: str | None
) -> None:
    talk = Talk()
    talk.begin()
    talk.tool(command="make", description="Build it")
    card = one(talk.events, ToolCall)
    assert (card.kind, card.title, card.command) == (ToolKind.EXECUTE, "Build it", "make")
    talk.result(**told)
    update = payloads(talk.events, ToolUpdate)[-1]
    assert (update.status, update.exit_code, update.output_delta) == (status, code, output)


@pytest.mark.proves("M11")
def test_an_edit_tells_its_change_with_the_agents_own_diff() -> None:
    talk = Talk()
    talk.begin()
    talk.tool(name="Edit", file_path="a.py", old_string="x", new_string="y")
    hunk = {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": ["-x", "+y", " z"]}
    talk.result(told={"filePath": "a.py", "structuredPatch": [hunk], "originalFile": "x\nz\n"})
    change = one(talk.events, FileChange)
    assert change.path == "/code/a.py" and (change.additions, change.deletions) == (1, 1)
    assert change.diff == "--- /code/a.py\n+++ /code/a.py\n@@ -1,2 +1,2 @@\n-x\n+y\n z\n"
    talk.tool("t2", "Write", file_path="/code/b.py", content="new\n")
    made = {"type": "create", "filePath": "/code/b.py", "content": "new\n", "originalFile": None}
    talk.result("t2", told={**made, "structuredPatch": []})
    assert payloads(talk.events, FileChange)[-1].diff.startswith("--- /dev/null")


def test_the_todo_tools_of_both_kinds_are_a_plan() -> None:
    talk = Talk()
    talk.begin()
    talk.tool("a", "TaskCreate", subject="One")
    talk.result("a", told={"task": {"id": "1", "subject": "One"}})
    talk.tool("b", "TaskUpdate", taskId="1", status="completed")
    talk.result("b", told={"success": True, "taskId": "1", "statusChange": {"to": "completed"}})
    talk.tool("c", "TaskList")
    talk.result("c", told={"tasks": [{"id": "1", "subject": "One", "status": "completed"}]})
    talk.tool("d", "TaskUpdate", taskId="1", status="deleted")
    talk.result("d", told={"success": True, "taskId": "1", "statusChange": {"to": "deleted"}})
    talk.tool("e", "TodoWrite", todos=[{"content": "Two", "status": "in_progress"}])
    talk.result("e")
    told = [[(e.content, e.status) for e in plan.entries] for plan in payloads(talk.events, Plan)]
    assert told == [
        [("One", "pending")],
        [("One", "completed")],
        [],
        [("Two", "in_progress")],
    ]


@pytest.mark.proves("A4")
def test_of_all_suggestions_only_the_rule_is_offered() -> None:
    talk = Talk()
    talk.begin()
    talk.tool(command="ls")
    talk.leave("t1", permission_suggestions=SUGGESTIONS)
    asked = one(talk.events, PermissionRequest)
    assert [(o.option_id, o.kind) for o in asked.options] == [
        ("allow", OptionKind.ALLOW_ONCE),
        ("allow_always", OptionKind.ALLOW_ALWAYS),
        ("reject", OptionKind.REJECT_ONCE),
    ]
    assert asked.patterns == ["Bash(ls *)"] and asked.details.command == "ls"
    talk.answer(behavior="allow", updatedPermissions=[{}])
    assert one(talk.events, PermissionResolved).option_id == "allow_always"
    assert statuses(talk) == [
        ToolStatus.RUNNING,
        ToolStatus.AWAITING_APPROVAL,
        ToolStatus.RUNNING,
    ]


@pytest.mark.proves("A3")
def test_a_request_that_overtakes_its_tool_makes_no_second_card() -> None:
    talk = Talk()
    talk.begin()
    talk.leave("t1")
    talk.tool(command="ls")
    talk.answer(behavior="deny", message="no")
    assert len(payloads(talk.events, ToolCall)) == 1
    resolved = one(talk.events, PermissionResolved)
    assert (resolved.decision, resolved.reason) == (Decision.DENIED, "no")


def test_an_error_or_nonsense_as_an_answer_is_a_denial() -> None:
    talk = Talk()
    talk.begin()
    for own in ("a", "b"):
        talk.tool(own, command="ls")
        talk.leave(own, request=own)
    error = {"subtype": "error", "request_id": "a", "error": "exploded"}
    talk.send(type="control_response", response=error)
    talk.answer("b", nonsense=1)
    told = [(r.decision, r.reason) for r in payloads(talk.events, PermissionResolved)]
    assert told == [(Decision.DENIED, "exploded"), (Decision.DENIED, None)]


@pytest.mark.proves("A5")
def test_a_request_whose_tool_ended_or_that_was_taken_back_is_resolved_by_the_agent() -> None:
    talk = Talk()
    talk.begin()
    talk.tool("a", command="ls")
    talk.leave("a", request="a")
    talk.result("a", "stream closed", is_error=True)
    talk.tool("b", command="ls")
    talk.leave("b", request="b")
    talk.hear("control_cancel_request", request_id="b")
    talk.leave("c", "AskUserQuestion", "c", input={"questions": [{"question": "?"}]})
    talk.hear("control_cancel_request", request_id="c")
    resolved = payloads(talk.events, PermissionResolved)
    assert [(r.decision, r.by) for r in resolved] == [(Decision.CANCELLED, DecidedBy.AGENT)] * 2
    assert one(talk.events, QuestionResolved).outcome is QuestionOutcome.CANCELLED


@pytest.mark.proves("A8")
@pytest.mark.parametrize(
    ("response", "outcome", "values"),
    [
        ({"updatedInput": {"answers": {"?": "A, B"}}}, QuestionOutcome.ANSWERED, ["A", "B"]),
        ({"updatedInput": {"answers": {"?": "A, C"}}}, QuestionOutcome.ANSWERED, ["A, C"]),
        ({"updatedInput": {}}, QuestionOutcome.REJECTED, None),
    ],
)
def test_answers_to_a_question_are_told(
    response: Any, outcome: QuestionOutcome, values: list[str] | None
) -> None:
    talk = Talk()
    talk.begin()
    question = {"question": "?", "multiSelect": True, "options": [{"label": "A"}, {"label": "B"}]}
    talk.leave("t1", "AskUserQuestion", input={"questions": [question]})
    talk.answer(behavior="allow", **response)
    resolved = one(talk.events, QuestionResolved)
    assert resolved.outcome is outcome
    assert (resolved.answers[0].values if resolved.answers else None) == values


def test_leaving_plan_mode_is_an_approval_with_the_document() -> None:
    talk = Talk()
    talk.begin()
    talk.tool(name="ExitPlanMode", plan="# P")
    talk.leave("t1", "ExitPlanMode", input={"plan": "# P"})
    asked = one(talk.events, PermissionRequest)
    assert (asked.kind, asked.document) == (PermissionKind.PLAN, "# P")
    assert one(talk.events, Plan).document == "# P"
    talk.answer(behavior="allow", updatedPermissions=[{"type": "setMode"}])
    assert one(talk.events, PermissionResolved).option_id == "accept_edits"


def test_a_tool_of_a_server_keeps_the_servers_words() -> None:
    talk = Talk()
    talk.begin()
    block: Line = {"type": "tool_use", "id": "t1", "name": "mcp__a__b", "input": {}}
    talk.block(block, tool_use_meta=[{"id": "t1", "display_name": "Bee"}])
    card = one(talk.events, ToolCall)
    assert (card.kind, card.title) == (ToolKind.MCP, "Bee")
    talk.leave("t1", "mcp__a__b", input={}, display_name="Bee")
    assert one(talk.events, PermissionRequest).kind is PermissionKind.MCP


@pytest.mark.proves("M7")
def test_a_subagents_words_and_tools_carry_its_call_and_its_result_is_the_clean_summary() -> None:
    talk = Talk()
    talk.begin()
    talk.tool("agent", "Agent", description="look", prompt="p")
    how = {"task_id": "k", "tool_use_id": "agent", "task_type": "local_agent"}
    talk.system("task_started", **how, description="look", is_backgrounded=False)
    talk.text("inner", "sub", parent_tool_use_id="agent")
    talk.tool("inner", command="ls", parent="agent")
    talk.leave("inner")
    talk.answer(behavior="allow")
    talk.result("inner", "x", parent="agent")
    talk.system("task_notification", **how, status="completed", summary="clean")
    talk.result("agent", [{"type": "text", "text": "wrapped clean"}], told={"status": "completed"})
    parents = {
        type(e.payload).__name__: e.parent_tool_call_id
        for e in talk.events
        if e.parent_tool_call_id
    }
    assert set(parents) >= {"MessageChunk", "ToolCall", "PermissionRequest", "PermissionResolved"}
    assert shown(talk.events) == ""
    contents = [u.content for u in payloads(talk.events, ToolUpdate) if u.content]
    assert [block.text for block in contents[-1]] == ["clean"]
    assert [t.status for t in payloads(talk.events, Task)] == ["running", "completed"]


@pytest.mark.proves("M9", "T2")
def test_work_in_the_background_outlives_its_run_and_gets_its_own_end() -> None:
    talk = Talk()
    uuid = talk.begin()
    talk.tool("shell", command="sleep 9", run_in_background=True)
    talk.result("shell", "running", told={"backgroundTaskId": "k"})
    how = {"task_id": "k", "tool_use_id": "shell", "task_type": "local_bash"}
    talk.system("task_started", **how, is_backgrounded=True)
    talk.tool("agent", "Agent", prompt="p")
    talk.result("agent", "launched", told={"status": "async_launched"})
    talk.tool("inner", command="ls", parent="agent")
    talk.end(uuid)
    assert ToolStatus.CANCELLED not in statuses(talk, "inner")
    late = talk.system("task_notification", **how, status="failed", summary="exit code 3")
    (ended,) = payloads(late, ToolUpdate)
    assert (ended.status, ended.exit_code) == (ToolStatus.FAILED, 3)
    assert {event.after_run_id for event in late} == {"run_1"}
    inner = talk.result("inner", "x", parent="agent")
    assert inner[-1].after_run_id == "run_1" and statuses(talk, "inner")[-1] == "completed"


def test_a_slow_command_in_the_foreground_is_no_task() -> None:
    talk = Talk()
    talk.begin()
    talk.tool(command="make")
    how = {"task_id": "k", "tool_use_id": "t1", "task_type": "local_bash"}
    talk.system("task_started", **how, is_backgrounded=False)
    assert payloads(talk.events, Task) == []
    talk.system("task_updated", task_id="k", patch={"is_backgrounded": True})
    talk.system("task_updated", task_id="k", patch={"status": "killed"})
    assert [t.status for t in payloads(talk.events, Task)] == ["running", "cancelled"]


def test_an_image_in_a_result_is_content() -> None:
    talk = Talk()
    talk.begin()
    talk.tool(name="Read", file_path="/a.png")
    source = {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    talk.result(content=[{"type": "image", "source": source}])
    content = payloads(talk.events, ToolUpdate)[-1].content
    assert content[0].data == b"png" and json.loads(one(talk.events, ToolCall).input_json)
