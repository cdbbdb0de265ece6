"""Tool calls of ACP: kinds and names, exit codes wherever they hide, output, file changes."""

from typing import Any

import pytest

from agentctl.core.events import Event, FileChange, Plan, ToolCall, ToolUpdate
from agentctl.core.words import ChangeKind, ContentType, ToolKind, ToolStatus
from agentctl_adapters.common.diffs import COMPARED_LINES, unified
from tests.replaying import Acp, one, payloads


def prompted(agent: str = "some-agent") -> Acp:
    acp = Acp(agent)
    acp.session()
    acp.prompt()
    return acp


def call(acp: Acp, **fields: Any) -> list[Event]:
    return acp.update("tool_call", toolCallId="c", **fields)


def update(acp: Acp, **fields: Any) -> list[Event]:
    return acp.update("tool_call_update", toolCallId="c", **fields)


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": words}}]


def diff(old: str | None, new: str, path: str = "/code/a", **meta: str) -> dict[str, Any]:
    item: dict[str, Any] = {"type": "diff", "path": path, "oldText": old, "newText": new}
    return {**item, "_meta": meta} if meta else item


def test_a_call_tells_its_command_input_and_places() -> None:
    acp = prompted()
    told = {"command": "ls", "cwd": "/code"}
    card = one(
        call(acp, kind="execute", title="List", status="in_progress", rawInput=told), ToolCall
    )
    assert (card.kind, card.status, card.command) == (ToolKind.EXECUTE, ToolStatus.RUNNING, "ls")
    assert card.input_json == b'{"command":"ls","cwd":"/code"}'
    places = [{"path": "/code/a.py", "line": 3}]
    card = one(acp.update("tool_call", toolCallId="d", kind="read", locations=places), ToolCall)
    assert [(p.path, p.line) for p in card.locations] == [("/code/a.py", 3)]
    assert card.paths == ["/code/a.py"]


@pytest.mark.parametrize(
    ("agent", "fields", "name", "kind"),
    [
        ("x", {"kind": "execute", "name": "exec_command"}, "exec_command", ToolKind.EXECUTE),
        ("x", {"kind": "other", "_meta": {"toolName": "mcp__a__b"}}, "mcp__a__b", ToolKind.MCP),
        (
            "x",
            {"kind": "think", "_meta": {"claudeCode": {"toolName": "Agent"}}},
            "Agent",
            ToolKind.SUBAGENT,
        ),
        ("x", {"kind": "other", "name": "todo_write"}, "todo_write", ToolKind.TODO),
        ("x", {"kind": "switch_mode"}, None, ToolKind.OTHER),
        ("x", {"kind": "dance"}, None, ToolKind.OTHER),
        ("OpenCode", {"kind": "edit", "title": "write"}, "write", ToolKind.EDIT),
    ],
)
def test_names_and_kinds_are_found_where_agents_put_them(
    agent: str, fields: dict[str, Any], name: str | None, kind: ToolKind
) -> None:
    card = one(call(prompted(agent), **fields), ToolCall)
    assert (card.name, card.kind) == (name, kind)


def test_geminis_call_ids_begin_with_the_tools_name() -> None:
    acp = prompted("gemini-cli")
    own = "run_shell_command__run_shell_command_1796033860134_0"
    card = one(acp.update("tool_call", toolCallId=own, kind="execute", title="ls"), ToolCall)
    assert (card.name, card.command) == ("run_shell_command", "ls")


EXITS: list[tuple[str, dict[str, Any], int]] = [
    ("x", {"rawOutput": {"exit": 3}}, 3),
    ("x", {"rawOutput": {"exit_code": 3}}, 3),
    ("x", {"rawOutput": {"exitCode": 0}}, 0),
    ("OpenCode", {"rawOutput": {"output": "", "metadata": {"exit": 2}}}, 2),
    ("Copilot", {"rawOutput": {"contents": [{"type": "shell_exit", "exitCode": 1}]}}, 1),
    ("x", {"_meta": {"terminal_exit": {"exit_code": 4, "signal": None}}}, 4),
    ("qwen-code", {"content": text("Output: e\nExit Code: 5\nSignal: 0"), "rawOutput": "e"}, 5),
]


@pytest.mark.proves("M8")
@pytest.mark.parametrize(("agent", "fields", "code"), EXITS)
def test_the_exit_code_is_found_and_decides(agent: str, fields: dict[str, Any], code: int) -> None:
    acp = prompted(agent)
    call(acp, kind="execute", status="in_progress")
    told = one(update(acp, status="completed", **fields), ToolUpdate)
    assert told.exit_code == code
    assert told.status is (ToolStatus.FAILED if code else ToolStatus.COMPLETED)


@pytest.mark.proves("M8")
@pytest.mark.parametrize(
    "fields", [{}, {"rawOutput": {"exit": None}}, {"rawOutput": {"exit": True}}]
)
def test_an_exit_code_that_nobody_told_is_unknown(fields: dict[str, Any]) -> None:
    acp = prompted()
    call(acp, kind="execute")
    assert one(update(acp, status="completed", **fields), ToolUpdate).exit_code is None


@pytest.mark.parametrize(
    "words", ["Command cancelled by user.", "(no output)\nUser aborted the command\n"]
)
def test_a_command_that_a_cancel_killed_did_not_complete(words: str) -> None:
    acp = prompted()
    call(acp, kind="execute")
    told = one(update(acp, status="completed", content=text(words)), ToolUpdate)
    assert told.status is ToolStatus.CANCELLED


@pytest.mark.proves("M8")
def test_a_commands_output_is_text_told_whole_or_in_terminal_deltas() -> None:
    acp = prompted()
    call(acp, kind="execute", content=text("what it will do"))
    update(acp, status="in_progress", content=text("a\n"))
    update(acp, status="in_progress", content=text("a\nb\n"))
    update(acp, _meta={"terminal_output_delta": {"data": "c\n"}})
    deltas = [u.output_delta for u in payloads(acp.events, ToolUpdate) if u.output_delta]
    assert deltas == ["a\n", "b\n", "c\n"]


def test_qwens_report_about_a_command_is_not_its_output() -> None:
    acp = prompted("qwen-code")
    call(acp, kind="execute")
    report = text("Command: x\nOutput: out\nExit Code: 0")
    told = one(update(acp, status="completed", content=report, rawOutput="out"), ToolUpdate)
    assert (told.output_delta, told.exit_code) == ("out", 0)


def test_why_a_tool_failed_is_its_error() -> None:
    acp = prompted()
    call(acp, kind="execute")
    told = one(update(acp, status="failed", rawOutput={"message": "rejected"}), ToolUpdate)
    assert (told.status, told.error, told.output_delta) == (ToolStatus.FAILED, "rejected", None)
    acp = prompted()
    call(acp, kind="edit")
    told = one(update(acp, status="failed", content=text("no such file")), ToolUpdate)
    assert told.error == "no such file"


def test_what_other_tools_give_back_is_content() -> None:
    acp = prompted()
    call(acp, kind="read", title="Read")
    told = one(update(acp, status="completed", content=text("alpha")), ToolUpdate)
    assert [block.text for block in told.content] == ["alpha"]


@pytest.mark.proves("M11")
def test_a_file_change_is_told_once_after_its_tool_is_done() -> None:
    acp = prompted()
    call(acp, kind="edit", content=[diff("a\nb\n", "a\nc\nd\n")])
    assert payloads(acp.events, FileChange) == []
    events = update(acp, status="completed", content=[diff("a\nb\n", "a\nc\nd\n")])
    events += update(acp, status="completed", content=[diff("a\nb\n", "a\nc\nd\n")])
    change = one(events, FileChange)
    assert (change.path, change.change, change.tool_call_id) == ("/code/a", ChangeKind.MODIFY, "c")
    assert (change.additions, change.deletions) == (2, 1)
    assert change.diff == "--- /code/a\n+++ /code/a\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n"
    assert isinstance(events[0].payload, ToolUpdate)


@pytest.mark.parametrize(
    ("item", "change"),
    [
        (diff(None, "x"), ChangeKind.CREATE),
        (diff("", "x"), ChangeKind.CREATE),
        (diff("", "x", kind="modify"), ChangeKind.MODIFY),
        (diff("x", "", kind="delete"), ChangeKind.DELETE),
        (diff("x", "y", kind="add"), ChangeKind.CREATE),
    ],
)
def test_a_change_is_what_the_agent_says_else_what_it_looks_like(
    item: dict[str, Any], change: ChangeKind
) -> None:
    acp = prompted()
    call(acp, kind="edit", content=[item])
    assert one(update(acp, status="completed"), FileChange).change is change


def test_a_failed_or_denied_edit_changed_nothing() -> None:
    acp = prompted()
    call(acp, kind="edit", content=[diff("a", "b")])
    update(acp, status="failed")
    acp.permission(0, {"toolCallId": "d", "kind": "edit", "content": [diff("a", "b")]})
    acp.choose(0, "no")
    acp.finish()
    assert payloads(acp.events, FileChange) == []


def test_a_relative_path_is_of_the_sessions_directory() -> None:
    acp = prompted()
    call(acp, kind="edit", content=[diff("a", "b", "sub/x.txt")])
    assert one(update(acp, status="completed"), FileChange).path == "/code/sub/x.txt"


def test_the_agents_own_diff_counts_more_than_a_fragment() -> None:
    acp = prompted("OpenCode")
    call(acp, kind="edit", title="edit")
    real = {"file": "/code/a", "patch": "@@ -7 +7 @@\n-b\n+c\n", "additions": 1, "deletions": 1}
    raw = {"output": "ok", "metadata": {"filediff": real}}
    events = update(acp, status="completed", content=[diff("b", "c")], rawOutput=raw)
    assert one(events, FileChange).diff == real["patch"]


def test_a_todo_tool_with_a_list_is_a_plan_and_without_one_is_not() -> None:
    acp = prompted("OpenCode")
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]
    events = call(acp, title="todowrite", kind="other", rawInput={"todos": todos})
    assert [entry.content for entry in one(events, Plan).entries] == ["a", "b"]
    assert payloads(update(acp, rawInput={"todos": todos}), Plan) == []
    assert payloads(update(acp, rawInput={"todos": ["x"]}), Plan) == []


def test_a_terminal_of_ours_shows_what_it_prints_on_the_tool_that_names_it() -> None:
    acp = prompted()
    call(
        acp,
        kind="execute",
        status="in_progress",
        content=[{"type": "terminal", "terminalId": "t1"}],
    )
    card = payloads(acp.events, ToolUpdate)[-1]
    assert card.content[0].type is ContentType.TERMINAL
    for request, (method, result) in enumerate(
        [("output", {"output": "hi\n", "truncated": False}), ("wait_for_exit", {"exitCode": 2})]
    ):
        params = {"sessionId": "s", "terminalId": "t1"}
        acp.hear(id=request, method=f"terminal/{method}", params=params)
        acp.send(id=request, result=result)
    last = payloads(acp.events, ToolUpdate)[-2:]
    assert (last[0].output_delta, last[1].exit_code) == ("hi\n", 2)


def test_diffs_say_where_a_file_does_not_end_its_last_line() -> None:
    shown, added, removed = unified("/a", "x", "x\n")
    assert (added, removed) == (1, 1)
    assert shown.endswith("-x\n\\ No newline at end of file\n+x\n")


def test_a_huge_rewrite_is_shown_as_replaced_without_comparing() -> None:
    old = "".join(f"old {n}\n" for n in range(COMPARED_LINES))
    new = "".join(f"new {n}\n" for n in range(COMPARED_LINES))
    shown, added, removed = unified("/a", f"top\n{old}end\n", f"top\n{new}end\n")
    assert (added, removed) == (COMPARED_LINES, COMPARED_LINES)
    assert shown.startswith(
        f"--- /a\n+++ /a\n@@ -1,{COMPARED_LINES + 2} +1,{COMPARED_LINES + 2} @@\n top\n-old 0"
    )
    assert shown.endswith("\n end\n")


def test_equal_texts_make_no_diff() -> None:
    assert unified("/a", "x\n", "x\n") == ("", 0, 0)
