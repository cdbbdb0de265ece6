"""The real Claude Code behind its adapter: tools, approvals, questions, plans, background work."""

import json
import sys
from pathlib import Path

import pytest

from agentctl.core.adapter import PermissionAnswer, QuestionAnswer
from agentctl.core.errors import Invalid
from agentctl.core.events import (
    FileChange,
    Plan,
    SessionOptions,
    Task,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import Answer
from agentctl.core.spec import McpServer
from agentctl.core.words import (
    Decision,
    PermissionKind,
    QuestionOutcome,
    ToolStatus,
)
from tests.adapters.claude.claude_harness import (
    good,
    request_of,
)
from tests.real.claude import NO, ONCE, begun, exists
from tests.real.harness import (
    Home,
    Model,
    processes_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.real]

MCP_SERVER = Path(__file__).parents[1] / "fakes/mcp_server.py"
BACKGROUND = 'CALL Bash {"command": "touch began; sleep 300", "run_in_background": true}'
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


@pytest.mark.proves("A1", "A6")
async def test_a_tool_is_allowed_and_another_is_denied_with_the_reason(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.begin("TOOL echo hello > made; cat made; exit 3 || TOOL touch never")
        asked = await it.answer(ONCE)
        assert asked.details.command == "echo hello > made; cat made; exit 3"
        refused = await it.answer(NO, 2)
        assert good(await it.seen.ended())
    first, second = asked.tool_call_id, refused.tool_call_id
    assert (it.status(first), it.status(second)) == (ToolStatus.FAILED, ToolStatus.CANCELLED)
    updates = [u for u in it.seen.of(ToolUpdate) if u.tool_call_id == first]
    assert [u.exit_code for u in updates if u.exit_code is not None] == [3]
    assert "hello" in "".join(u.output_replace or u.output_delta or "" for u in updates)
    assert it.seen.text.endswith("DONE: Not in this house.")
    assert (claude_home.workspace / "made").exists()
    assert not (claude_home.workspace / "never").exists()


@pytest.mark.proves("A4")
async def test_allow_always_lets_the_same_command_pass_and_nothing_else(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.begin("TOOL touch a || TOOL touch a || WRITE c.txt hi")
        await it.answer(PermissionAnswer(Decision.APPROVED, "allow_always"))
        written = await it.answer(ONCE, 2)
        assert written.tool_name == "Write"
        assert good(await it.seen.ended())
        with pytest.raises(Invalid) as refused:
            await it.begin("TOOL rm a")
            await it.answer(PermissionAnswer(Decision.APPROVED, "everything"), 3)
        assert refused.value.reason == "OPTION_NOT_OFFERED"
        await it.answer(NO, 3)
        assert good(await it.seen.ended(2))
    assert not list(claude_home.workspace.glob(".claude/*"))


@pytest.mark.proves("M11")
async def test_edits_tell_their_changes_with_the_diff(
    claude_home: Home, claude_model: Model
) -> None:
    (claude_home.workspace / "old.txt").write_text("one\ntwo\n")
    async with begun(claude_home, claude_model, mode="acceptEdits") as it:
        await it.say("READ old.txt || EDIT old.txt two three || WRITE new.txt fresh")
    edited, created = it.seen.of(FileChange)
    assert edited.path == str(claude_home.workspace / "old.txt")
    assert "-two\n+three\n" in edited.diff and (edited.additions, edited.deletions) == (1, 1)
    assert created.change == "create" and "+fresh" in created.diff
    assert it.seen.of(SessionOptions)[0].mode == "acceptEdits"


@pytest.mark.proves("A8")
async def test_a_question_is_answered_in_its_own_words(
    claude_home: Home, claude_model: Model
) -> None:
    ask = "CALL AskUserQuestion " + json.dumps({"questions": [QUESTION]})
    async with begun(claude_home, claude_model) as it:
        await it.begin(ask)
        asked = await it.seen.questioned()
        assert [choice.id for choice in asked.questions[0].options] == ["Red", "Blue"]
        given = QuestionAnswer(QuestionOutcome.ANSWERED, (Answer(["Blue"]),))
        await it.connection.answer_question(request_of(asked), given)
        assert good(await it.seen.ended())
    assert "Blue" in it.seen.text


async def test_a_plan_is_shown_and_leaving_plan_mode_is_asked(
    claude_home: Home, claude_model: Model
) -> None:
    write = json.dumps({"file_path": "{planfile}", "content": "# Look, then leap"})
    async with begun(claude_home, claude_model, mode="plan") as it:
        await it.begin(f"CALL Write {write} || CALL ExitPlanMode || WRITE leap.txt now")
        asked = await it.answer(ONCE)
        assert asked.kind is PermissionKind.PLAN and asked.document == "# Look, then leap"
        assert (await it.answer(ONCE, 2)).tool_name == "Write"
        assert good(await it.seen.ended())
    assert it.seen.of(Plan)[0].document == "# Look, then leap"
    assert [o.mode for o in it.seen.of(SessionOptions) if o.mode] == ["plan", "default"]


async def test_todos_are_a_plan(claude_home: Home, claude_model: Model) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.say('TODO || CALL TaskUpdate {"taskId": "1", "status": "in_progress"}')
    told = [[(e.content, e.status) for e in plan.entries] for plan in it.seen.of(Plan)]
    assert told == [[("first step", "pending")], [("first step", "in_progress")]]


@pytest.mark.proves("M7", "T3")
async def test_a_background_subagent_outlives_its_turn_and_begins_one_of_the_agents_own(
    claude_home: Home, claude_model: Model
) -> None:
    how = {
        "description": "helper",
        "prompt": "TOOL sleep 1; touch by-helper",
        "subagent_type": "general-purpose",
        "run_in_background": True,
    }
    async with begun(claude_home, claude_model) as it:
        await it.begin(f"CALL Agent {json.dumps(how)} || SLOW 8 250")
        first = request_of(await it.seen.asked())
        await it.seen.ended()
        # The run is over and its approval with it; the helper waits on under a new one.
        gone = PermissionAnswer(Decision.CANCELLED)
        await it.connection.answer_permission(first, gone)
        asked = await it.answer(ONCE, 2)
        assert request_of(asked) == first
        await it.seen.ended(2)
    agent = next(t for t in it.seen.of(ToolCall) if t.name == "Agent")
    inner = next(e for e in it.seen.events if e.parent_tool_call_id and e.type == "tool_call")
    assert inner.parent_tool_call_id == agent.tool_call_id
    assert isinstance(inner.payload, ToolCall)
    assert asked.tool_call_id == inner.payload.tool_call_id
    assert it.status(agent.tool_call_id) is ToolStatus.COMPLETED
    assert [t.status for t in it.seen.of(Task)] == ["running", "completed"]
    assert (claude_home.workspace / "by-helper").exists()


@pytest.mark.proves("P1", "P2", "P3")
async def test_nothing_is_left_of_a_background_shell(
    claude_home: Home, claude_model: Model
) -> None:
    async with begun(claude_home, claude_model) as it:
        await it.begin(BACKGROUND)
        await it.answer(ONCE)
        assert good(await it.seen.ended())
        await exists(claude_home.workspace / "began")
    assert processes_of(claude_home) == []
    assert not [p for p in claude_home.tmp.iterdir() if p.name.startswith("agentctl-")]


async def test_a_tool_of_an_mcp_server_is_called(claude_home: Home, claude_model: Model) -> None:
    server = McpServer("local", command=sys.executable, args=(str(MCP_SERVER),))
    async with begun(claude_home, claude_model, mcp_servers=(server,)) as it:
        await it.begin('CALL mcp__local__shout {"text": "hello"}')
        asked = await it.answer(ONCE)
        assert asked.kind is PermissionKind.MCP
        assert good(await it.seen.ended())
    assert "HELLO" in it.seen.text
    servers = [o.mcp_servers for o in it.seen.of(SessionOptions) if o.mcp_servers]
    assert servers[-1][0].name == "local" and servers[-1][0].state == "connected"
