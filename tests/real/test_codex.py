"""The real Codex behind its own adapter: what the recordings say, once more and live."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from agentctl.core.adapter import QuestionAnswer
from agentctl.core.errors import NotFound
from agentctl.core.events import (
    ContextWindow,
    FileChange,
    Plan,
    RateLimit,
    Reasoning,
    SessionOptions,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import Answer
from agentctl.core.spec import McpServer, PromptSpec
from agentctl.core.words import (
    ChangeKind,
    Outcome,
    PermissionKind,
    PlanStatus,
    QuestionOutcome,
    SessionChange,
    ToolStatus,
)
from tests.adapters.codex.harness import key, one_turn, spec, text
from tests.real.codex import DIRECT, NO, ONCE, SCRIPTED, codex, running_in, until
from tests.real.harness import Home, Model

pytestmark = [pytest.mark.anyio, pytest.mark.real]

MCP_SERVER = Path(__file__).parents[1] / "fakes/mcp_server.py"
ODD = json.dumps(["snow\u2603 ", "  \n", "\ttab \u2028 sep ", "\U0001f600", "end"])


@pytest.mark.proves("M1", "M6")
async def test_text_arrives_byte_for_byte_with_its_usage(
    codex_home: Home, responses: Model
) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        end = await one_turn(real.codex, real.seen, session, f"SAYTEXT {ODD}")
        assert real.seen.said() == responses.sent_text() == "".join(json.loads(ODD))
        assert end.usage is not None
        assert (end.usage.input, end.usage.cache_read, end.usage.total) == (80, 20, 105)
        await one_turn(real.codex, real.seen, session, "BIG 300000")
        assert real.seen.said() == responses.sent_text()
        assert real.seen.of(ContextWindow)[-1].size == 258400
        assert real.codex.info.version == "0.169.0"


@pytest.mark.parametrize("model", [DIRECT, SCRIPTED])
async def test_commands_run_only_with_leave(codex_home: Home, responses: Model, model: str) -> None:
    made = codex_home.workspace / "made.txt"
    async with codex(codex_home, responses) as real:
        asked = spec(codex_home.workspace, mode="untrusted", model=model)
        session = await real.codex.new_session(asked)
        for answer, outcome in ((NO, ToolStatus.CANCELLED), (ONCE, ToolStatus.COMPLETED)):
            before = len(real.seen.asked())
            await real.codex.prompt(session, text("TOOL touch made.txt; echo done"))
            await real.seen.until(lambda n=before: len(real.seen.asked()) > n)
            ask = real.seen.asked()[-1]
            assert ask.details is not None
            assert ask.details.command == "touch made.txt; echo done"
            assert not made.exists()
            await real.codex.answer_permission(key(ask), answer)
            await real.seen.until(lambda n=before: len(real.seen.ends()) > n)
            assert real.seen.tool_ends()[-1].status is outcome
        assert made.exists()
        done = real.seen.tool_ends()[-1]
        assert (done.exit_code, real.seen.output(done.tool_call_id)) == (0, "done\n")
        assert real.seen.outcomes() == [Outcome.COMPLETED] * 2


async def test_a_patch_is_shown_with_its_diff_before_and_after(
    codex_home: Home, responses: Model
) -> None:
    file = codex_home.workspace / "new.txt"
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace, mode="read-only"))
        for answer, exists in ((NO, False), (ONCE, True)):
            before = len(real.seen.asked())
            await real.codex.prompt(session, text("WRITE new.txt hello"))
            await real.seen.until(lambda n=before: len(real.seen.asked()) > n)
            ask = real.seen.asked()[-1]
            assert ask.details is not None
            assert ask.details.file == str(file)
            assert "+hello" in (ask.details.diff or "")
            await real.codex.answer_permission(key(ask), answer)
            await real.seen.until(lambda n=before: len(real.seen.ends()) > n)
            assert file.exists() is exists
        (change,) = real.seen.of(FileChange)
        assert (change.path, change.change, change.additions) == (str(file), ChangeKind.CREATE, 1)
        await real.codex.set_mode(session, "auto")
        await one_turn(real.codex, real.seen, session, "EDIT new.txt hello bye")
        assert file.read_text() == "bye\n"
        assert real.seen.of(FileChange)[-1].deletions == 1


@pytest.mark.proves("T6", "P1")
async def test_a_cancel_ends_the_command_and_the_next_prompt_works(
    codex_home: Home, responses: Model
) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await real.codex.prompt(session, text("TOOL sleep 61 & echo started; sleep 62"))
        await until(lambda: running_in(codex_home, "sleep"))
        await real.codex.cancel(session)
        await real.seen.until(real.seen.ends)
        assert real.seen.outcomes() == [Outcome.CANCELLED]
        await until(lambda: not running_in(codex_home, "sleep"))
        end = await one_turn(real.codex, real.seen, session, "TOOL echo after")
        assert end.outcome is Outcome.COMPLETED
        assert real.seen.tool_ends()[-1].exit_code == 0


@pytest.mark.proves("T6", "A5")
@pytest.mark.parametrize("script", ["HANG", "HANGMID", "SLOW 50 100", "FAIL 500"])
async def test_a_cancel_works_whatever_the_model_does(
    codex_home: Home, responses: Model, script: str
) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await real.codex.prompt(session, text(script))
        await responses.wait_for(lambda log: bool(log))
        await real.codex.cancel(session)
        await real.seen.until(real.seen.ends)
        assert real.seen.outcomes() == [Outcome.CANCELLED]
        assert (await one_turn(real.codex, real.seen, session, "SAY 1")).outcome == "completed"


@pytest.mark.proves("T6", "A5")
async def test_a_cancel_while_it_asks_answers_the_request(
    codex_home: Home, responses: Model
) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace, mode="untrusted"))
        await real.codex.prompt(session, text("TOOL touch never.txt"))
        await real.seen.until(real.seen.asked)
        await real.codex.cancel(session)
        await real.seen.until(real.seen.ends)
        assert real.seen.outcomes() == [Outcome.CANCELLED]
        assert (await one_turn(real.codex, real.seen, session, "SAY 1")).outcome == "completed"
        assert not (codex_home.workspace / "never.txt").exists()


@pytest.mark.proves("A8")
async def test_a_question_is_asked_and_answered(codex_home: Home, responses: Model) -> None:
    question = {"id": "color", "header": "Color", "question": "Which color?"}
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    call = json.dumps({"questions": [{**question, "options": options}]})
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await real.codex.prompt(session, text(f"CALL request_user_input {call}"))
        await real.seen.until(real.seen.questions)
        asked = real.seen.questions()[0]
        assert asked.questions[0].question == "Which color?"
        told = QuestionAnswer(QuestionOutcome.ANSWERED, (Answer(["Blue"]),))
        await real.codex.answer_question(key(asked), told)
        await real.seen.until(real.seen.ends)
        assert "Blue" in real.seen.said()


async def test_steering_reaches_the_running_turn(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await real.codex.prompt(session, text("SLOW 60 100"))
        await real.seen.until(real.seen.said)
        assert await real.codex.steer(session, text("SAYTEXT steered")) is True
        await real.seen.until(real.seen.ends)
        assert real.seen.said().endswith("steered")
        assert len(real.seen.ends()) == 1
        assert await real.codex.steer(session, text("SAY 1")) is False


@pytest.mark.proves("T8")
async def test_two_threads_of_one_process_work_at_once(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        first = await real.codex.new_session(spec(codex_home.workspace))
        second = await real.codex.new_session(spec(codex_home.workspace))
        await real.codex.prompt(first, text("SLOW 8 50"))
        await real.codex.prompt(second, text("SAYTEXT other"))
        await real.seen.until(lambda: len(real.seen.ends()) == 2)
        assert real.seen.said(first) == "".join(f"slow{n} " for n in range(8))
        assert real.seen.said(second) == "other"


@pytest.mark.proves("S4", "M5", "S5")
async def test_a_conversation_is_resumed_in_a_fresh_and_in_a_live_process(
    codex_home: Home, responses: Model
) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await one_turn(real.codex, real.seen, session, "SAY 1")
    async with codex(codex_home, responses) as real:
        assert await real.codex.resume_session(session, spec(codex_home.workspace)) == session
        assert real.seen.said() == ""
        end = await one_turn(real.codex, real.seen, session, "HISTORY")
        assert real.seen.said() == "HISTORY 2"
        assert end.usage is not None
        assert end.usage.total == 101
        fork = await real.codex.fork_session(session, spec(codex_home.workspace))
        await one_turn(real.codex, real.seen, fork, "HISTORY")
        assert real.seen.said(fork) == "HISTORY 3"
        rows = await real.codex.list_sessions(str(codex_home.workspace))
        assert {row.native_session_id for row in rows} == {session, fork}
        await real.codex.close_session(fork)
        unknown = type(session)("01a22bf4-0000-7000-8000-000000000000")
        with pytest.raises(NotFound):
            await real.codex.resume_session(unknown, spec(codex_home.workspace))


@pytest.mark.proves("T5")
async def test_a_kill_in_mid_turn_fails_the_run_and_the_conversation_lives_on(
    codex_home: Home, responses: Model
) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await one_turn(real.codex, real.seen, session, "SAY 1")
        await real.codex.prompt(session, text("HANGMID"))
        await real.seen.until(lambda: "partial" in real.seen.said())
        assert real.codex.info.pid is not None
        os.kill(real.codex.info.pid, signal.SIGKILL)
        await real.seen.until(lambda: len(real.seen.ends()) == 2)
        error = real.seen.ends()[1].error
        assert error is not None
        assert (error.code, error.signal) == ("AGENT_EXITED", 9)
    async with codex(codex_home, responses) as real:
        await real.codex.resume_session(session, spec(codex_home.workspace))
        assert (await one_turn(real.codex, real.seen, session, "SAY 1")).outcome == "completed"


@pytest.mark.proves("T9")
async def test_errors_of_the_model_say_what_to_do(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        for script, code in (
            ("FAIL 401", "AUTH_REQUIRED"),
            ("FAIL 429", "RATE_LIMITED"),
            ("FAIL 500", "MODEL_ERROR"),
            ("FAIL 404", "INVALID_MODEL"),
        ):
            end = await one_turn(real.codex, real.seen, session, script)
            assert end.error is not None
            assert (end.outcome, end.error.code) == (Outcome.FAILED, code)
        end = await one_turn(real.codex, real.seen, session, "FAIL 500 2")
        assert end.outcome is Outcome.COMPLETED
        assert real.seen.said().endswith("recovered")
        assert real.seen.of(RateLimit)


@pytest.mark.proves("M3")
async def test_a_stream_that_breaks_is_retracted(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        end = await one_turn(real.codex, real.seen, session, "FAILMID")
        assert end.outcome is Outcome.FAILED
        retracted = [e.payload for e in real.seen.events[session] if "retracted=True" in str(e)]
        assert retracted


async def test_thoughts_and_plans_are_shown(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await one_turn(real.codex, real.seen, session, "THINK 2")
        assert len({each.message_id for each in real.seen.of(Reasoning)}) == 2
        await one_turn(real.codex, real.seen, session, "TODO")
        told = real.seen.of(Plan)[-1]
        assert told.entries[1].status is PlanStatus.IN_PROGRESS


async def test_modes_models_and_effort_are_in_force_when_they_are_set(
    codex_home: Home, responses: Model
) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace, mode="auto"))
        assert real.seen.errors() == []
        for mode in ("untrusted", "plan", "read-only", "auto"):
            await real.codex.set_mode(session, mode)
            await real.seen.until(lambda m=mode: _last_mode(real.seen.of(SessionOptions)) == m)
        await real.codex.set_model(session, SCRIPTED)
        await real.codex.set_option(session, "reasoning_effort", "high")
        await one_turn(real.codex, real.seen, session, "SAY 1")
        assert responses.turns()[-1]["model"] == SCRIPTED


async def test_reviews_and_compactions_are_runs(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await one_turn(real.codex, real.seen, session, "SAY 1")
        end = await one_turn(real.codex, real.seen, session, PromptSpec(compact=True))
        assert end.outcome is Outcome.COMPLETED
        assert SessionChange.COMPACTED in [s.status for s in real.seen.of(SessionStatus)]
        review = PromptSpec(text("SAYTEXT looks good").blocks, review=True)
        end = await one_turn(real.codex, real.seen, session, review)
        assert end.outcome is Outcome.COMPLETED
        assert real.seen.said().endswith("looks good")


async def test_a_cancelled_review_is_a_cancelled_run(codex_home: Home, responses: Model) -> None:
    async with codex(codex_home, responses) as real:
        session = await real.codex.new_session(spec(codex_home.workspace))
        await real.codex.prompt(session, PromptSpec(text("HANG").blocks, review=True))
        await responses.wait_for(lambda log: bool(log))
        await real.codex.cancel(session)
        await real.seen.until(real.seen.ends)
        assert real.seen.outcomes() == [Outcome.CANCELLED]
        assert (await one_turn(real.codex, real.seen, session, "SAY 1")).outcome == "completed"


async def test_mcp_servers_of_a_session_are_served_and_asked_for(
    codex_home: Home, responses: Model
) -> None:
    async with codex(codex_home, responses) as real:
        server = McpServer("house", command=sys.executable, args=(str(MCP_SERVER),))
        session = await real.codex.new_session(spec(codex_home.workspace, mcp_servers=(server,)))
        await real.codex.prompt(session, text("MCP house/shout hello"))
        await real.seen.until(lambda: real.seen.asked() or real.seen.ends())
        for ask in real.seen.asked():
            assert ask.kind is PermissionKind.MCP
            await real.codex.answer_permission(key(ask), ONCE)
        await real.seen.until(real.seen.ends)
        card = real.seen.of(ToolCall)[-1]
        assert card.name == "mcp__house__shout"
        assert "HELLO" in real.seen.said()


@pytest.mark.proves("M7")
async def test_a_subagent_speaks_under_its_call(codex_home: Home, responses: Model) -> None:
    call = json.dumps({"task_name": "child", "message": "SAYTEXT from the child"})
    async with codex(codex_home, responses) as real:
        asked = spec(codex_home.workspace, model=SCRIPTED)
        session = await real.codex.new_session(asked)
        end = await one_turn(real.codex, real.seen, session, f"CALL spawn_agent {call}")
        assert end.outcome is Outcome.COMPLETED
        children = lambda: [
            e for e in real.seen.events[session] if e.parent_tool_call_id is not None
        ]
        await real.seen.until(children)
        assert list(real.seen.events) == [session]
        started = [u for u in real.seen.of(ToolUpdate) if u.background]
        assert len(started) <= 1


def _last_mode(options: list[SessionOptions]) -> str | None:
    return options[-1].mode if options else None
