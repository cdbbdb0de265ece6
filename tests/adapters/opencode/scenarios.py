"""What a user sees of an OpenCode server: sentences that hold on the real one and on the fake alike.

Each takes a live connection whose model is scripted by the prompt (tests/fakes/models/script.py). Owns
no server; whoever imports it brings one.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from agentctl.core.adapter import HistoryConnection
from agentctl.core.events import (
    ContextWindow,
    FileChange,
    Message,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    Plan,
    QuestionResolved,
    RateLimit,
    RunStatus,
    SessionOptions,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import PromptSpec
from agentctl.core.words import (
    ContentType,
    Decision,
    Outcome,
    Role,
    SessionChange,
    ToolKind,
    ToolStatus,
)
from tests.adapters.opencode.live import Live, command, text

Scenario = Callable[[Live], Awaitable[None]]
GROUPS: dict[str, dict[str, Scenario]] = {}


def scenario(group: str) -> Callable[[Scenario], Scenario]:
    def keep(check: Scenario) -> Scenario:
        GROUPS.setdefault(group, {})[check.__name__] = check
        return check

    return keep


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ODD = ["a\u2028b", " ", "\n", "é漢字🎉", "  two  ", "\ttab", "end "]
QUESTION = {
    "questions": [
        {
            "question": "Which colour?",
            "header": "Colour",
            "options": [
                {"label": "Red", "description": "warm"},
                {"label": "Blue", "description": "cold"},
            ],
        }
    ]
}


def subagent(prompt: str) -> str:
    task = {"description": "child job", "prompt": prompt, "subagent_type": "general"}
    return f"CALL task {json.dumps(task)}"


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


# Errors


@scenario("errors")
async def a_model_error_fails_the_run_once(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FAIL 400")

    assert run.complete.outcome is Outcome.FAILED
    assert run.complete.error and run.complete.error.code == "MODEL_ERROR"
    assert (await live.ask(session, "SAYTEXT fine")).text == "fine"


@scenario("errors")
async def a_wrong_key_fails_at_once_and_asks_for_a_login(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FAIL 401")

    assert run.complete.error and run.complete.error.code == "AUTH_REQUIRED"


@scenario("errors")
async def a_retry_is_told_and_the_answer_still_comes(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FAIL 500 1")

    (told,) = run.of(RateLimit)
    assert told.attempt == 1
    assert told.next_try_at
    assert run.text == "recovered"


@scenario("errors")
async def an_answer_that_is_too_long_completes_with_its_reason(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "FINISH MAX_TOKENS")

    assert run.complete.outcome is Outcome.COMPLETED
    assert run.complete.stop_reason == "length"
    assert run.text == "cut short"


@scenario("errors")
async def an_empty_answer_completes_without_text(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, "EMPTY")

    assert run.complete.outcome is Outcome.COMPLETED
    assert run.text == ""


# Abort


async def _cancelled(live: Live, session: str, nth: int = 1) -> None:
    run = await live.ended(session, nth)  # pyright: ignore[reportArgumentType]  # a native id
    assert run.complete.outcome is Outcome.CANCELLED
    again = await live.ask(session, "SAYTEXT next")  # pyright: ignore[reportArgumentType]  # same
    assert again.text == "next"
    assert again.complete.outcome is Outcome.COMPLETED


@scenario("abort")
async def a_cancel_while_text_streams_gives_one_cancelled_end(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "SLOW 200 50")
    await live.until(lambda: "slow1" in "".join(live_text(live, session)))
    await live.cancel(session)

    await _cancelled(live, session)


@scenario("abort")
async def a_cancel_while_the_model_says_nothing_gives_one_cancelled_end(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "HANG")
    await live.until(lambda: live.connection._host.translator.book.view(session).busy)  # pyright: ignore[reportPrivateUsage]  # no event tells that the server has begun
    await live.cancel(session)

    await _cancelled(live, session)


@scenario("abort")
async def a_cancel_right_behind_the_prompt_gives_one_cancelled_end(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "SLOW 200 50")
    await live.cancel(session)

    await _cancelled(live, session)


@scenario("abort")
async def a_cancel_with_a_request_open_answers_it_too(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo never")
    await live.asked(session)
    await live.cancel(session)

    await _cancelled(live, session)
    assert len(live.of_type(PermissionResolved, session)) == 1
    left = await live.connection._host.api.call(
        "GET", "/permission", directory=live.workspace, quiet=True
    )  # pyright: ignore[reportPrivateUsage]  # what the server still lists
    assert left.body == []


@scenario("abort")
async def a_cancel_while_a_command_runs_ends_the_command(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo begun; sleep 30")
    await live.approve(session)
    await live.until(lambda: any(u.output_delta for u in live.of_type(ToolUpdate, session)))
    await live.cancel(session)

    await _cancelled(live, session)
    assert live.runs(session)[0].of(ToolUpdate)[-1].status is ToolStatus.CANCELLED


@scenario("abort")
async def a_cancel_when_idle_changes_nothing(live: Live) -> None:
    session = await live.session()
    await live.connection.cancel(session)

    assert (await live.ask(session, "SAYTEXT fine")).complete.outcome is Outcome.COMPLETED


# Sessions


@scenario("sessions")
async def a_fork_knows_the_past_and_tells_none_of_it(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT one")
    fork = await live.connection.fork_session(session, live.spec())
    run = await live.ask(fork, "HISTORY")

    assert fork != session
    assert run.text == "HISTORY 2", run
    assert len(live.completes(fork)) == 1


@scenario("sessions")
async def a_resumed_session_goes_on_and_tells_none_of_its_past(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT one")
    await live.connection.close_session(session)
    before = len(live.events)
    await live.connection.resume_session(session, live.spec())
    assert not [e for e in live.events[before:] if isinstance(e.payload, Message)]
    await live.begin(session, "HISTORY")
    run = await live.ended(session, 2)

    assert run.text == "HISTORY 2", run


@scenario("sessions")
async def sessions_side_by_side_keep_their_own_text(live: Live) -> None:
    sessions = [await live.session() for _ in range(4)]
    for number, session in enumerate(sessions):
        await live.begin(
            session, f"SLOW 3 10 || SAYTEXT t{number}" if number % 2 else f"SAYTEXT t{number}"
        )
    for number, session in enumerate(sessions):
        run = await live.ended(session)
        assert run.complete.outcome is Outcome.COMPLETED
        if number % 2 == 0:
            assert run.text == f"t{number}"


@scenario("sessions")
async def the_offers_of_the_server_are_told(live: Live) -> None:
    session = await live.session()
    told = await live.until(lambda: live.of_type(SessionOptions, session))

    models = [m.id for o in told for m in o.models or []]
    assert "fake/fast" in models
    modes = [m.id for o in told for m in o.modes or []]
    assert {"build", "plan"} <= set(modes)
    assert any(o.commands for o in told)


@scenario("sessions")
async def model_and_mode_of_a_prompt_are_in_force_and_told(live: Live) -> None:
    session = await live.session()
    await live.ask(session, text("SAYTEXT x", model="fake/slow", mode="plan"))

    told = live.of_type(SessionOptions, session)
    assert [o.model for o in told if o.model][-1] == "fake/slow"
    assert [o.mode for o in told if o.mode][-1] == "plan"


@scenario("sessions")
async def a_shortened_conversation_is_a_run(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT one")
    run = await live.ask(session, PromptSpec(compact=True))

    assert run.complete.outcome is Outcome.COMPLETED
    await live.until(
        lambda: SessionChange.COMPACTED in [s.status for s in live.of_type(SessionStatus, session)]
    )


@scenario("sessions")
async def a_slash_command_is_a_run(live: Live) -> None:
    session = await live.session()
    run = await live.ask(session, command("init", "SAYTEXT commanded"))

    assert run.complete.outcome is Outcome.COMPLETED
    assert run.text


@scenario("sessions")
async def an_image_reaches_the_model(live: Live) -> None:
    session = await live.session()
    data = base64.b64decode(PIXEL)
    image = ContentBlock(ContentType.IMAGE, data=data, mime_type="image/png", name="p.png")
    blocks = (ContentBlock(ContentType.TEXT, text="PARTS"), image)
    run = await live.ask(session, PromptSpec(blocks=blocks))

    assert "image" in run.text


@scenario("sessions")
async def the_messages_of_the_session_can_be_read_back(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT answer")
    assert isinstance(live.connection, HistoryConnection)
    page = await live.connection.messages(session)

    said = [
        (m.role, "".join(b.text or "" for b in m.content))
        for m in page.payloads
        if isinstance(m, Message)
    ]
    assert said == [(Role.USER, "SAYTEXT answer"), (Role.ASSISTANT, "answer")]


@scenario("sessions")
async def sessions_of_the_agent_are_listed(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT x")

    rows = await live.connection.list_sessions(live.workspace)
    assert session in [row.native_session_id for row in rows]
    assert session in [row.native_session_id for row in await live.connection.list_sessions(None)]
    await live.connection.delete_session(session)
    rows = await live.connection.list_sessions(live.workspace)
    assert session not in [row.native_session_id for row in rows]


def live_text(live: Live, session: str) -> list[str]:
    return [c.text or "" for c in live.of_type(MessageChunk, session)]
