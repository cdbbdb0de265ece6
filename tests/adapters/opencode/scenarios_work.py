"""What a user sees of a turn on an OpenCode server: text, permissions, tools (see scenarios.py)."""

import json
from pathlib import Path

from agentctl.core.events import (
    ContextWindow,
    FileChange,
    Message,
    PermissionRequest,
    PermissionResolved,
    Plan,
    QuestionResolved,
    RunStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.words import (
    Decision,
    Outcome,
    Role,
    ToolKind,
    ToolStatus,
)
from tests.adapters.opencode.live import Live
from tests.adapters.opencode.scenario_groups import ODD, QUESTION, scenario, subagent

# Text


@scenario("text")
async def text_is_equal_byte_for_byte(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, f"SAYTEXT {json.dumps(ODD, ensure_ascii=False)}")

    assert run.text == "".join(ODD)
    assert run.complete.outcome is Outcome.COMPLETED
    starts = [e for e in live.of_type(RunStatus, session) if e.status.value == "started"]
    assert len(starts) == 1


@scenario("text")
async def two_prompts_make_two_runs_with_their_own_text(live: Live) -> None:
    session = await live.session()
    first = await live.ask(session, "SAYTEXT one")
    second = await live.ask(session, "SAYTEXT two")

    assert (first.text, second.text) == ("one", "two")
    assert len(live.completes(session)) == 2


@scenario("text")
async def reasoning_comes_apart_from_the_text(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "THINK 3")

    assert run.thoughts.count("I am thinking about part") == 3
    assert run.text == "After thinking: answer."


@scenario("text")
async def the_users_words_never_come_back(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "SAYTEXT answer")

    assert "SAYTEXT" not in run.text
    assert not [m for m in run.of(Message) if m.role is Role.USER]


@scenario("text")
async def tokens_cost_and_the_context_window_are_told(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "SAY 3")

    window = run.of(ContextWindow)[-1]
    assert window.size == 100_000
    assert window.used == 103
    usage = run.complete.usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cache_read) == (80, 3, 20)
    assert run.complete.cost_usd


# Permissions


@scenario("permissions")
async def an_approved_command_runs_and_shows_its_output(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo marker; exit 3")
    request = await live.approve(session)
    run = await live.ended(session)

    assert request.tool_name == "bash"
    assert request.details and request.details.command == "echo marker; exit 3"
    assert [o.option_id for o in request.options] == ["once", "always", "reject"]
    end = run.of(ToolUpdate)[-1]
    output = "".join(u.output_delta or u.output_replace or "" for u in run.of(ToolUpdate))
    assert "marker" in output
    assert end.exit_code == 3 or any(u.exit_code == 3 for u in run.of(ToolUpdate))
    (card,) = run.of(ToolCall)
    assert card.kind is ToolKind.EXECUTE
    assert run.complete.outcome is Outcome.COMPLETED


@scenario("permissions")
async def a_denial_reaches_the_model_with_its_reason_and_the_turn_goes_on(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo no")
    await live.answer(await live.asked(session), Decision.DENIED, "reject", "use another way")
    run = await live.ended(session)

    assert "use another way" in run.text
    assert run.complete.outcome is Outcome.COMPLETED
    assert [r.decision for r in run.of(PermissionResolved)] == [Decision.DENIED]
    assert run.of(ToolUpdate)[-1].status is ToolStatus.FAILED


@scenario("permissions")
async def a_denial_without_a_reason_says_who_denied(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo no")
    await live.answer(await live.asked(session), Decision.DENIED)
    run = await live.ended(session)

    assert "User denied this tool use request" in run.text


@scenario("permissions")
async def always_covers_the_same_command_from_then_on(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo one")
    await live.answer(await live.asked(session), Decision.APPROVED, "always")
    await live.ended(session)
    await live.begin(session, "TOOL echo one")
    run = await live.ended(session, 2)

    assert len(live.of_type(PermissionRequest, session)) == 1
    assert run.complete.outcome is Outcome.COMPLETED


@scenario("permissions")
async def several_requests_are_open_at_once_and_answered_in_any_order(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOLS echo first ;; echo second")
    second = await live.asked(session, 2)
    first = await live.asked(session, 1)
    await live.answer(second, Decision.APPROVED, "once")
    await live.answer(first, Decision.APPROVED, "once")
    run = await live.ended(session)

    assert len(run.of(PermissionResolved)) == 2
    assert {r.decision for r in run.of(PermissionResolved)} == {Decision.APPROVED}


# Tools


@scenario("tools")
async def a_written_file_is_one_change_with_its_diff(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "WRITE new.txt hello")
    await live.approve(session)
    run = await live.ended(session)
    changes = await live.until(lambda: live.runs(session)[0].of(FileChange))

    assert (Path(live.workspace) / "new.txt").read_text() == "hello\n"
    assert [Path(c.path).name for c in changes] == ["new.txt"]
    assert changes[0].diff and "+hello" in changes[0].diff
    assert run.complete.outcome is Outcome.COMPLETED


@scenario("tools")
async def an_edit_is_one_change_with_its_diff(live: Live) -> None:
    (Path(live.workspace) / "a.txt").write_text("old words\n")
    session = await live.session()
    await live.begin(session, "READ a.txt || EDIT a.txt old new")
    await live.approve(session)
    run = await live.ended(session)

    (change,) = await live.until(lambda: live.runs(session)[0].of(FileChange))
    assert change.diff and "-old words" in change.diff and "+new words" in change.diff
    assert run.complete.outcome is Outcome.COMPLETED


@scenario("tools")
async def the_todo_list_is_a_plan(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "TODO")

    plan = run.of(Plan)[-1]
    assert [e.status.value for e in plan.entries] == ["completed", "in_progress", "pending"]
    assert len(run.of(Plan)) == 1


@scenario("tools")
async def a_question_is_answered_and_the_turn_goes_on(live: Live) -> None:
    session = await live.session()
    await live.begin(session, f"CALL question {json.dumps(QUESTION)}")
    question = await live.questioned(session)
    await live.reply(question, ["Blue"])
    run = await live.ended(session)

    assert question.questions[0].question == "Which colour?"
    assert [c.id for c in question.questions[0].options] == ["Red", "Blue"]
    assert [a.values for a in run.of(QuestionResolved)[0].answers or []] == [["Blue"]]
    assert "Blue" in run.text


@scenario("tools")
async def a_rejected_question_ends_the_turn(live: Live) -> None:
    session = await live.session()
    await live.begin(session, f"CALL question {json.dumps(QUESTION)}")
    await live.reply(await live.questioned(session))
    run = await live.ended(session)

    assert [q.outcome.value for q in run.of(QuestionResolved)] == ["rejected"]
    again = await live.ask(session, "SAYTEXT still here")
    assert again.text == "still here"


@scenario("tools")
async def a_subagent_speaks_under_its_call_and_its_requests_stand_on_the_parent(live: Live) -> None:
    session = await live.session()
    await live.begin(session, subagent("TOOL echo child"))
    await live.approve(session)
    run = await live.ended(session)

    card = run.of(ToolCall)[0]
    assert card.kind is ToolKind.SUBAGENT
    inner = [e for e in run.events if e.parent_tool_call_id == card.tool_call_id]
    assert any(isinstance(e.payload, ToolCall) for e in inner)
    assert any(isinstance(e.payload, PermissionRequest) for e in inner)
    assert len(run.of(RunStatus)) <= 2
    assert run.complete.outcome is Outcome.COMPLETED
