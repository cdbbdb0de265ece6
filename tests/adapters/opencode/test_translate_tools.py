"""Tools of OpenCode as events: output, exit codes, changes, plans, subagents."""

import pytest

from agentctl.core.events import Complete, ContextWindow, FileChange, Plan, ToolCall, ToolUpdate
from agentctl.core.words import ChangeKind, Outcome, PlanStatus, Priority, ToolKind, ToolStatus
from tests.adapters.opencode.scripted import S, Scripted, shown
from tests.replaying import Line, one, payloads

PATCH = "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-old\n+new\n"
CHILD = "ses_c"


def updates(server: Scripted) -> list[ToolUpdate]:
    return payloads(server.events, ToolUpdate)


@pytest.mark.proves("M8")
def test_cumulative_output_becomes_deltas_and_the_exit_code_decides() -> None:
    server = Scripted()
    server.begin()
    server.tool("c1", "pending", input={}, raw="")
    command = {"command": "make"}
    for output in ("", "a\n", "a\nb\n"):
        server.tool("c1", "running", input=command, metadata={"output": output})
    end = {"output": "a\nb\n", "exit": 2, "truncated": False}
    server.tool("c1", "completed", input=command, output="a\nb\n", title="make", metadata=end)
    assert [u.output_delta for u in updates(server) if u.output_delta] == ["a\n", "b\n"]
    last = updates(server)[-1]
    assert (last.status, last.exit_code) == (ToolStatus.FAILED, 2)
    card = one(server.events, ToolCall)
    assert (card.name, card.kind) == ("bash", ToolKind.EXECUTE)


@pytest.mark.proves("M8")
def test_an_exit_code_that_is_not_told_is_unknown() -> None:
    server = Scripted()
    server.begin()
    output = "x\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>"
    server.tool("c1", "running", input={"command": "x"}, metadata={"output": "x\n"})
    metadata = {"output": "x\n", "exit": None}
    server.tool("c1", "completed", input={"command": "x"}, output=output, metadata=metadata)
    last = updates(server)[-1]
    assert (last.status, last.exit_code) == (ToolStatus.CANCELLED, None)


def test_a_call_that_the_server_refused_keeps_its_name_and_failed() -> None:
    server = Scripted()
    server.begin()
    server.tool("c1", "pending", "no_such_tool", input={})
    why = {"tool": "no_such_tool", "error": "unavailable"}
    server.tool("c1", "completed", "invalid", input=why, output="invalid", title="Invalid Tool")
    last = updates(server)[-1]
    assert (last.status, last.error, last.title) == (ToolStatus.FAILED, "unavailable", None)
    assert one(server.events, ToolCall).name == "no_such_tool"


@pytest.mark.proves("M11")
def test_an_edit_is_a_file_change_with_its_diff_after_its_tool_is_done() -> None:
    server = Scripted()
    server.begin()
    source = {"filePath": "/code/a", "oldString": "old", "newString": "new"}
    diff = {"file": "/code/a", "patch": PATCH, "additions": 1, "deletions": 1}
    server.tool("c1", "running", "edit", input=source, metadata={"filediff": diff})
    assert payloads(server.events, FileChange) == []
    server.tool("c1", "completed", "edit", input=source, output="ok", metadata={"filediff": diff})
    change = one(server.events, FileChange)
    assert (change.path, change.diff, change.additions) == ("/code/a", PATCH, 1)
    server.user(summary={"diffs": [{"file": "a", "patch": PATCH, "additions": 1, "deletions": 1}]})
    assert len(payloads(server.events, FileChange)) == 1


@pytest.mark.proves("M11")
def test_a_write_tells_the_diff_of_its_permission_request() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_s", "step-start", snapshot="abc")
    source = {"filePath": "/code/a", "content": "new"}
    server.tool("c1", "running", "write", input=source)
    tool = {"messageID": "msg_a", "callID": "c1"}
    ask = {"permission": "edit", "patterns": ["a"], "metadata": {"diff": PATCH}, "tool": tool}
    server.say("permission.asked", id="per_1", sessionID=S, **ask)
    server.say("permission.replied", sessionID=S, requestID="per_1", reply="once")
    server.tool("c1", "completed", "write", input=source, metadata={"exists": True})
    change = one(server.events, FileChange)
    assert (change.diff, change.change) == (PATCH, ChangeKind.MODIFY)


@pytest.mark.proves("M11", "T2")
def test_a_write_without_a_diff_waits_for_the_summary_even_past_the_idle() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_s", "step-start", snapshot="abc")
    source = {"filePath": "/code/a", "content": "new\n"}
    server.tool("c1", "completed", "write", input=source, metadata={"exists": True})
    assert payloads(server.events, FileChange) == []
    server.done()
    server.idle()
    told = {"file": "a", "patch": PATCH, "additions": 1, "deletions": 1, "status": "modified"}
    (event,) = server.user(summary={"diffs": [told]})
    assert event.after_run_id == "run_1"
    change = one(server.events, FileChange)
    assert (change.tool_call_id, change.diff) == ("c1", PATCH)
    server.fire("diffs")
    assert len(payloads(server.events, FileChange)) == 1


def test_a_change_whose_diff_never_comes_is_told_without_one() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_s", "step-start", snapshot="abc")
    source = {"filePath": "/code/a", "content": "new\n"}
    server.tool("c1", "completed", "write", input=source, metadata={"exists": True})
    server.done()
    server.idle()
    server.fire("diffs")
    assert one(server.events, FileChange).diff is None


def test_a_new_file_is_its_own_diff_and_needs_no_work_tree() -> None:
    server = Scripted()
    server.begin()
    source = {"filePath": "/code/a", "content": "one\ntwo"}
    server.tool("c1", "completed", "write", input=source, metadata={"exists": False})
    change = one(server.events, FileChange)
    assert (change.change, change.additions) == (ChangeKind.CREATE, 2)
    assert "+two\n\\ No newline at end of file" in change.diff


def test_what_a_shell_command_changed_is_told_by_the_summary_once() -> None:
    server = Scripted()
    server.begin()
    told = {"file": "made", "patch": "+x", "additions": 1, "deletions": 0, "status": "added"}
    server.user(summary={"diffs": [told]})
    server.user(summary={"diffs": [told]})
    change = one(server.events, FileChange)
    assert (change.path, change.change) == ("/code/made", ChangeKind.CREATE)


def test_a_patch_over_several_files_is_one_change_each() -> None:
    server = Scripted()
    server.begin()
    files = [
        {"filePath": "/code/a", "type": "update", "patch": PATCH},
        {"filePath": "/code/b", "type": "delete"},
        {"filePath": "/code/c", "type": "move", "movePath": "/code/d"},
    ]
    server.tool("c1", "completed", "apply_patch", input={}, metadata={"files": files})
    told = payloads(server.events, FileChange)
    kinds = [ChangeKind.MODIFY, ChangeKind.DELETE, ChangeKind.RENAME]
    assert [c.change for c in told] == kinds
    assert (told[2].old_path, told[2].path) == ("/code/c", "/code/d")


def test_todos_are_a_plan_told_once_per_change() -> None:
    server = Scripted()
    server.begin()
    todos = [{"content": "look", "status": "in_progress", "priority": "high"}]
    server.say("todo.updated", sessionID=S, todos=todos)
    server.tool("c1", "completed", "todowrite", input={"todos": todos}, metadata={"todos": todos})
    (entry,) = one(server.events, Plan).entries
    assert entry.content == "look"
    assert (entry.status, entry.priority) == (PlanStatus.IN_PROGRESS, Priority.HIGH)
    assert server.say("todo.updated", sessionID="ses_1", todos=[])[0].payload == Plan([])


def test_tools_of_an_mcp_server_are_known_by_its_name() -> None:
    server = Scripted()
    server.get("/mcp", {"ec": {"status": "connected"}})
    server.begin()
    server.tool("c1", "running", "ec_say", input={"text": "x"})
    assert one(server.events, ToolCall).kind is ToolKind.MCP


def subagent() -> Scripted:
    server = Scripted()
    server.begin()
    server.tool("task1", "pending", "task", input={})
    info = {
        "id": CHILD,
        "parentID": S,
        "title": "job (@general subagent)",
        "time": {"created": 150},
    }
    server.say("session.created", sessionID=CHILD, info=info)
    metadata = {"sessionId": CHILD, "parentSessionId": S}
    server.tool("task1", "running", "task", input={"prompt": "do"}, metadata=metadata)
    server.user("msg_cu", CHILD)
    server.part("prt_cu", "text", "msg_cu", session=CHILD, text="do")
    server.status("busy", CHILD)
    server.open("msg_ca", "msg_cu", CHILD)
    return server


@pytest.mark.proves("M7")
def test_a_subagents_text_and_tools_carry_its_call_and_its_idle_ends_nothing() -> None:
    server = subagent()
    server.part("prt_c1", "text", "msg_ca", session=CHILD, text="from below")
    server.tool("c9", "running", message="msg_ca", session=CHILD, input={"command": "ls"})
    marked = [e for e in server.events if e.parent_tool_call_id is not None]
    assert {(e.type.value, e.parent_tool_call_id, e.run_id) for e in marked} == {
        ("message_chunk", "task1", "run_1"),
        ("tool_call", "task1", "run_1"),
    }
    server.idle(CHILD)
    assert server.completes() == []
    assert server.translator.book.running() == [S]
    assert server.translator.book.family(CHILD) == [S, CHILD]
    server.part("prt_1", "text", text="from above")
    assert shown(server.events) == "from above"


@pytest.mark.proves("M7", "A7")
def test_a_subagents_permission_stands_on_the_parents_session() -> None:
    server = subagent()
    tool = {"messageID": "msg_ca", "callID": "c9"}
    ask = {"permission": "bash", "patterns": ["ls"], "metadata": {"command": "ls"}, "tool": tool}
    events = server.say("permission.asked", id="per_1", sessionID=CHILD, **ask)
    assert {e.session_id for e in events} == {server.events[0].session_id}
    assert {e.parent_tool_call_id for e in events} == {"task1"}


def test_a_child_whose_call_is_not_known_still_does_not_mix_with_its_parent() -> None:
    server = Scripted()
    server.begin()
    info = {"id": CHILD, "parentID": S, "time": {"created": 150}}
    server.say("session.updated", sessionID=CHILD, info=info)
    server.open("msg_ca", "", CHILD)
    server.part("prt_c", "text", "msg_ca", session=CHILD, text="below")
    assert [e.parent_tool_call_id for e in server.events if e.type == "message_chunk"] == [CHILD]


@pytest.mark.proves("M10")
def test_each_model_request_tells_the_context_and_the_run_sums_them_up() -> None:
    server = Scripted()
    models = {"fast": {"id": "fast", "limit": {"context": 1000}}}
    server.get("/config/providers", {"providers": [{"id": "fake", "models": models}]})
    server.begin()
    for own, total in (("msg_a", 10), ("msg_b", 20)):
        server.open(own, model="", modelID="fast", providerID="fake")
        tokens: Line = {
            "total": total,
            "input": total - 1,
            "output": 1,
            "reasoning": 0,
            "cache": {},
        }
        server.part(f"prt_{own}", "step-finish", own, tokens=tokens, cost=0.25)
        server.done(own, modelID="fast", providerID="fake", tokens=tokens, cost=0.25)
    server.idle()
    told = [(w.used, w.size, w.remaining) for w in payloads(server.events, ContextWindow)]
    assert told == [(10, 1000, 990), (20, 1000, 980)]
    end = one(server.events, Complete)
    assert (end.outcome, end.usage.total, end.cost_usd) == (Outcome.COMPLETED, 30, 0.5)


def test_tokens_that_are_all_zero_are_not_told_yet() -> None:
    server = Scripted()
    server.begin()
    zero = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    server.done(tokens=zero, cost=0)
    server.idle()
    assert payloads(server.events, ContextWindow) == []
    assert one(server.events, Complete).usage is None
