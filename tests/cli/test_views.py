"""The two other views of the stream: each type of ours, row by row."""

from typing import Any

import pytest

from agentctl.client.views import APP_SDK, ToolView, app_sdk
from agentctl.core.words import EventType

Json = dict[str, Any]


def event(kind: str, data: Json, **ids: Any) -> Json:
    base = {"version": 1, "cursor": "j:7", "seq": 7, "ts": 1_764_500_000_123, "type": kind}
    return base | {"session_id": "ses_1", "run_id": "run_1"} | ids | {"data": data}


def families(kind: str, data: Json) -> list[str]:
    return [row["type"] for row in app_sdk(event(kind, data))]


SDK_ROWS: list[tuple[str, Json, list[str]]] = [
    ("agent_status", {"state": "ready"}, []),
    ("session_status", {"status": "starting"}, ["session.updated"]),
    ("session_status", {"status": "created"}, ["session.created"]),
    ("session_status", {"status": "resumed"}, ["session.updated"]),
    ("session_status", {"status": "forked"}, ["session.created"]),
    ("session_status", {"status": "compacted"}, ["session.compacted"]),
    ("session_status", {"status": "closed"}, ["session.updated"]),
    ("session_options", {"modes": []}, ["session.updated"]),
    ("run_status", {"status": "created"}, ["run.created"]),
    ("run_status", {"status": "queued"}, ["run.queued"]),
    ("run_status", {"status": "started"}, ["run.started"]),
    ("message_chunk", {"message_id": "m", "role": "assistant", "text": "x"}, ["assistant.delta"]),
    ("message_chunk", {"message_id": "m", "role": "user", "text": "x"}, []),
    ("message", {"message_id": "m", "role": "assistant", "content": []}, ["assistant.message"]),
    ("message", {"message_id": "m", "role": "user", "content": []}, []),
    ("reasoning", {"message_id": "m", "text": "x"}, ["thinking.delta"]),
    ("tool_call", {"tool_call_id": "c", "status": "pending"}, ["tool.call.started"]),
    (
        "tool_call",
        {"tool_call_id": "c", "status": "failed"},
        ["tool.call.started", "tool.call.failed"],
    ),
    ("tool_update", {"tool_call_id": "c", "output_delta": "x"}, ["tool.call.delta"]),
    ("tool_update", {"tool_call_id": "c", "status": "running"}, ["tool.call.delta"]),
    ("tool_update", {"tool_call_id": "c", "status": "completed"}, ["tool.call.completed"]),
    ("tool_update", {"tool_call_id": "c", "status": "failed"}, ["tool.call.failed"]),
    ("tool_update", {"tool_call_id": "c", "status": "cancelled"}, ["tool.call.failed"]),
    ("file_change", {"path": "a", "change": "modify"}, ["git.diff"]),
    ("plan", {"entries": []}, ["thinking.delta"]),
    ("task", {"task_id": "t"}, ["task.updated"]),
    ("permission_request", {"approval_id": "apr_1"}, ["approval.requested"]),
    ("permission_resolved", {"approval_id": "apr_1"}, ["approval.resolved"]),
    ("question_request", {"question_id": "qst_1"}, ["question.requested"]),
    ("question_resolved", {"question_id": "qst_1"}, ["question.answered"]),
    ("context_window", {"used": 1}, []),
    ("artifact", {"artifact_id": "a", "action": "created"}, ["artifact.created"]),
    ("artifact", {"artifact_id": "a", "action": "updated"}, ["artifact.updated"]),
    ("git", {"branch": "main"}, ["git.branch"]),
    ("git", {"pull_request_url": "u"}, ["git.pr"]),
    ("git", {"branch": "main", "pull_request_url": "u"}, ["git.branch", "git.pr"]),
    ("rate_limit", {"message": "x"}, []),
    ("error", {"code": "X", "message": "x", "recoverable": True}, []),
    ("log", {"stream": "stderr", "text": "x"}, []),
    ("complete", {"outcome": "completed"}, ["run.completed"]),
    ("complete", {"outcome": "failed"}, ["run.failed"]),
    ("complete", {"outcome": "cancelled"}, ["run.cancelled"]),
    ("complete", {"outcome": "timed_out"}, ["run.timed_out"]),
]


@pytest.mark.proves("E6")
@pytest.mark.parametrize(("kind", "data", "expected"), SDK_ROWS)
def test_the_app_sdk_sees_each_type_under_its_dotted_name(
    kind: str, data: Json, expected: list[str]
) -> None:
    assert families(kind, data) == expected


def test_the_app_sdk_table_knows_every_type_and_makes_all_27_families() -> None:
    assert set(APP_SDK) == set(EventType)
    assert {kind for kind, _, _ in SDK_ROWS} == set(EventType)
    assert len({family for _, _, names in SDK_ROWS for family in names}) == 27


def test_an_app_sdk_event_has_exactly_the_published_fields() -> None:
    full = event(
        "tool_call",
        {"tool_call_id": "c", "status": "pending", "input": {"file_path": {"a_b": 1}}},
        agent_id="agt_1",
        session_key="mine",
        task_id="t1",
        after_run_id="run_0",
        parent_tool_call_id="c0",
        raw={"a_b": 1},
    )
    assert app_sdk(full) == [
        {
            "version": 1,
            "id": "j:7",
            "ts": 1_764_500_000_123,
            "type": "tool.call.started",
            "runId": "run_1",
            "sessionId": "ses_1",
            "sessionKey": "mine",
            "taskId": "t1",
            "agentId": "agt_1",
            "data": {
                "toolCallId": "c",
                "status": "pending",
                "input": {"file_path": {"a_b": 1}},
                "afterRunId": "run_0",
                "parentToolCallId": "c0",
            },
            "raw": {"a_b": 1},
        }
    ]


def test_what_was_not_told_is_absent_for_the_app_sdk() -> None:
    bare = event("run_status", {"status": "started"})
    del bare["run_id"]
    assert app_sdk(bare)[0].keys() == {"version", "id", "ts", "type", "sessionId", "data"}


def fed(*events: Json) -> list[Json]:
    view = ToolView()
    rows = [row for each in events for row in view.feed(each)]
    return [*rows, *view.flush()]


def bare(*events: Json) -> list[Json]:
    """Rows without what all of them have."""
    rows = fed(*events)
    for row in rows:
        assert row.pop("session_id") == "ses_1"
        assert row.pop("timestamp") == "2025-11-30T10:53:20.123Z"
    return rows


def chunk(text: str, message_id: str = "m", **ids: Any) -> Json:
    data = {"message_id": message_id, "role": "assistant", "text": text}
    return event("message_chunk", data, **ids)


def whole(text: str, message_id: str = "m") -> Json:
    content = [{"type": "text", "text": text}]
    return event("message", {"message_id": message_id, "role": "assistant", "content": content})


def complete(outcome: str) -> Json:
    return event("complete", {"outcome": outcome})


@pytest.mark.proves("E6")
def test_the_tool_hears_chunks_as_one_message_at_their_end() -> None:
    assert bare(chunk("a"), chunk("b"), chunk("c", "n"), complete("completed")) == [
        {"type": "agent.message", "content": "ab"},
        {"type": "agent.message", "content": "c"},
        {"type": "agent.complete", "summary": "c", "outcome": "success"},
    ]


def test_usage_between_two_chunks_does_not_split_the_message() -> None:
    rows = bare(chunk("a"), event("context_window", {"used": 1}), chunk("b"))
    assert rows == [{"type": "agent.message", "content": "ab"}]


def test_a_whole_message_comes_instead_of_its_chunks() -> None:
    assert bare(chunk("a"), whole("ab")) == [{"type": "agent.message", "content": "ab"}]


def test_a_whole_message_that_says_the_same_again_is_not_repeated() -> None:
    tool = event("tool_call", {"tool_call_id": "c", "kind": "think", "status": "running"})
    assert bare(chunk("ab"), tool, whole("ab")) == [{"type": "agent.message", "content": "ab"}]


def test_a_retracted_message_is_not_told() -> None:
    gone = event(
        "message", {"message_id": "m", "role": "assistant", "content": [], "retracted": True}
    )
    assert bare(chunk("a"), gone) == []


def test_the_user_and_subagents_do_not_speak_as_the_agent() -> None:
    user = event("message_chunk", {"message_id": "u", "role": "user", "text": "x"})
    assert bare(user, chunk("x", parent_tool_call_id="c")) == []


def test_a_read_opens_each_path_once() -> None:
    assert bare(
        event(
            "tool_call",
            {"tool_call_id": "c", "kind": "read", "status": "running", "paths": ["/a", "/b"]},
        ),
        event("tool_update", {"tool_call_id": "c", "locations": [{"path": "/a"}, {"path": "/c"}]}),
    ) == [
        {"type": "agent.file_opened", "path": "/a"},
        {"type": "agent.file_opened", "path": "/b"},
        {"type": "agent.file_opened", "path": "/c"},
    ]


def test_a_file_change_counts_its_lines() -> None:
    told = {"path": "/a", "change": "modify", "additions": 3, "deletions": 0}
    shown = {"path": "/b", "change": "modify", "diff": "--- a\n+++ b\n@@\n-x\n+y\n+z\n"}
    assert bare(event("file_change", told), event("file_change", shown)) == [
        {"type": "agent.file_changed", "path": "/a", "additions": 3, "deletions": 0},
        {"type": "agent.file_changed", "path": "/b", "additions": 2, "deletions": 1},
    ]


def test_a_command_is_told_at_its_end_with_its_exit_code() -> None:
    call = {"tool_call_id": "c", "kind": "execute", "status": "running", "command": "pytest -q"}
    done = {"tool_call_id": "c", "status": "failed", "exit_code": 1}
    late = {"tool_call_id": "c", "status": "failed", "output_delta": "x"}
    assert bare(
        event("tool_call", call), event("tool_update", done), event("tool_update", late)
    ) == [{"type": "agent.command_run", "command": "pytest -q", "exit_code": 1}]


def test_a_command_without_an_exit_code_has_none() -> None:
    call = {"tool_call_id": "c", "kind": "execute", "status": "completed", "title": "ls"}
    assert bare(event("tool_call", call)) == [{"type": "agent.command_run", "command": "ls"}]


@pytest.mark.parametrize(
    ("request_data", "action"),
    [
        ({"kind": "tool", "tool_kind": "execute"}, "execute_command"),
        ({"kind": "tool", "tool_kind": "edit"}, "modify_file"),
        ({"kind": "environment", "action": "index the workspace"}, "index the workspace"),
        ({"kind": "mode"}, "mode"),
    ],
)
def test_a_permission_request_carries_our_id_and_an_action(request_data: Json, action: str) -> None:
    details = {"command": "rm x", "reason": "tidy", "diff": "+x"}
    data = request_data | {"approval_id": "apr_1", "details": details}
    assert bare(event("permission_request", data)) == [
        {
            "type": "agent.permission_request",
            "request_id": "apr_1",
            "action": action,
            "details": {"command": "rm x", "reason": "tidy"},
        }
    ]


def test_progress_names_the_step_at_work_and_the_share_that_is_done() -> None:
    entries = [
        {"content": "a", "status": "completed"},
        {"content": "b", "status": "in_progress"},
        {"content": "c", "status": "pending"},
    ]
    assert bare(event("plan", {"entries": entries})) == [
        {"type": "agent.progress", "task": "b", "percent": 33}
    ]
    assert bare(event("plan", {"entries": []})) == []
    assert bare(event("plan", {"entries": [], "document": "# Plan\nfirst"})) == [
        {"type": "agent.progress", "task": "Plan"}
    ]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("completed", "success"),
        ("cancelled", "cancelled"),
        ("failed", "failed"),
        ("timed_out", "failed"),
    ],
)
def test_the_end_of_a_run_has_three_words_for_the_tool(outcome: str, told: str) -> None:
    assert bare(complete(outcome)) == [{"type": "agent.complete", "summary": "", "outcome": told}]


def test_an_error_says_whether_it_can_be_recovered() -> None:
    assert bare(event("error", {"code": "X", "message": "slow", "recoverable": True})) == [
        {"type": "agent.error", "error": "slow", "recoverable": True}
    ]


def test_other_types_and_events_outside_any_session_are_not_for_the_tool() -> None:
    outside = event("error", {"code": "X", "message": "m", "recoverable": True})
    del outside["session_id"]
    others = [
        event(kind, {}) for kind in EventType if kind not in ToolView.TABLE and kind != "message"
    ]
    assert bare(outside, *others) == []


def test_sessions_do_not_mix_their_text() -> None:
    rows = fed(chunk("a"), chunk("x", session_id="ses_2"), chunk("b"), complete("completed"))
    assert [(row["session_id"], row.get("content")) for row in rows] == [
        ("ses_1", "ab"),
        ("ses_1", None),
        ("ses_2", "x"),
    ]
