"""What a user of the Codex adapter sees of turns: text, ends, cancels, steering, strange endings."""

import anyio
import pytest

from agentctl.core.adapter import PermissionAnswer
from agentctl.core.errors import Invalid, Refused, Unsupported
from agentctl.core.events import ContextWindow, Message, RateLimit, RunStatus, ToolUpdate
from agentctl.core.spec import Command, PromptSpec
from agentctl.core.words import Decision, Origin, Outcome, ToolStatus
from agentctl_adapters.codex import turns as turn_rules
from tests.adapters.codex.harness import fake, key, one_turn, running, spec, text

pytestmark = pytest.mark.anyio
YES = PermissionAnswer(Decision.APPROVED, "accept")


async def test_a_prompt_streams_its_text_and_its_usage() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        end = await one_turn(codex, seen, session, "SAY 3")
        assert seen.said() == "w0 w1 w2 "
        assert end.usage is not None
        assert (end.usage.input, end.usage.cache_read, end.usage.total) == (60, 40, 120)
        window = seen.of(ContextWindow)[-1]
        assert (window.used, window.size, window.remaining) == (120, 1000, 880)
        again = await one_turn(codex, seen, session, "SAY 1")
        assert again.usage is not None
        assert again.usage.total == 120


@pytest.mark.proves("T1")
async def test_a_start_that_is_told_before_the_answer_is_one_run() -> None:
    async with running(fake("starts-early")) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, "SAY 1")
        await one_turn(codex, seen, session, "SAY 1")
        assert seen.outcomes() == [Outcome.COMPLETED] * 2
        assert {each.origin for each in seen.of(RunStatus)} == {Origin.CLIENT}


@pytest.mark.proves("T1")
async def test_a_turn_that_is_never_told_to_be_over_ends_when_its_thread_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_rules, "IDLE_MS", 50)
    async with running(fake("never-completes")) as (codex, seen):
        session = await codex.new_session(spec())
        end = await one_turn(codex, seen, session, "SAY 1")
        assert (end.outcome, end.stop_reason) == (Outcome.COMPLETED, "idle")


@pytest.mark.proves("T4")
async def test_a_model_that_stays_silent_is_told_of_once_and_the_turn_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_rules, "QUIET_MS", 10)
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("HANG"))
        await seen.until(seen.errors)
        with anyio.move_on_after(0.2):
            await seen.until(seen.ends)
        assert [error.code for error in seen.errors()] == ["AGENT_SILENT"]
        assert seen.ends() == []
        await codex.cancel(session)
        await seen.until(seen.ends)
        assert seen.outcomes() == [Outcome.CANCELLED]


async def test_a_turn_that_waits_for_a_person_is_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turn_rules, "QUIET_MS", 10)
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("ASK"))
        await seen.until(seen.questions)
        with anyio.move_on_after(0.3):
            await seen.until(seen.ends)
        assert (seen.ends(), seen.errors()) == ([], [])
        await codex.cancel(session)
        await seen.until(seen.ends)
        assert seen.outcomes() == [Outcome.CANCELLED]


@pytest.mark.proves("T6")
async def test_a_cancel_ends_the_turn_and_the_command_that_it_left_running() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("SLEEP"))
        await seen.until(lambda: "call" in str(seen.drafts))
        await codex.cancel(session)
        await seen.until(seen.tool_ends)
        assert seen.outcomes() == [Outcome.CANCELLED]
        assert [u.status for u in seen.tool_ends()] == [ToolStatus.CANCELLED]
        assert (await one_turn(codex, seen, session, "SAY 1")).outcome is Outcome.COMPLETED
        methods = [f.msg.get("method") for f in seen.frames if f.dir == "to_agent" and f.msg]
        assert methods.index("thread/backgroundTerminals/clean") < len(methods) - 1


@pytest.mark.proves("T6")
async def test_a_cancel_right_behind_the_prompt_cancels_it() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("HANG"))
        await codex.cancel(session)
        await codex.cancel(session)
        await seen.until(seen.ends)
        assert seen.outcomes() == [Outcome.CANCELLED]
        await codex.cancel(session)
        assert (await one_turn(codex, seen, session, "SAY 1")).outcome is Outcome.COMPLETED


@pytest.mark.proves("T6", "A5")
async def test_a_cancel_answers_what_is_being_asked() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("RUN ls"))
        await seen.until(seen.asked)
        await codex.cancel(session)
        await seen.until(seen.ends)
        assert seen.outcomes() == [Outcome.CANCELLED]
        assert seen.open_requests() == set()
        # Somebody who answers now comes too late, and nothing happens.
        await codex.answer_permission(key(seen.asked()[0]), YES)
        assert (await one_turn(codex, seen, session, "SAY 1")).outcome is Outcome.COMPLETED


async def test_an_agent_that_is_deaf_to_the_interrupt_takes_no_second_prompt() -> None:
    async with running(fake("deaf-to-interrupt")) as (codex, seen):
        session = await codex.new_session(spec())
        other = await codex.new_session(spec())
        await codex.prompt(session, text("HANG"))
        await codex.cancel(session)
        # Other sessions of the process go on meanwhile.
        assert (await one_turn(codex, seen, other, "SAY 1")).outcome is Outcome.COMPLETED
        with pytest.raises(Refused, match="still works"):
            await codex.prompt(session, text("SAY 1"))


@pytest.mark.proves("T8")
async def test_steering_goes_into_the_running_turn_and_not_into_one_that_is_over() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("HANG"))
        assert await codex.steer(session, text("more")) is True
        assert seen.sent("turn/steer")[0]["input"][0]["text"] == "more"
        with pytest.raises(Refused):
            await codex.prompt(session, text("SAY 1"))
        await codex.cancel(session)
        await seen.until(seen.ends)
        assert await codex.steer(session, text("late")) is False


@pytest.mark.proves("M2")
async def test_text_without_deltas_comes_whole() -> None:
    async with running(fake("no-deltas")) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, "SAY 3")
        assert seen.said() == "all at once"


@pytest.mark.proves("M3", "T9")
async def test_a_retry_retracts_what_was_said_and_is_told() -> None:
    async with running(fake("retries")) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, "SAY 1")
        assert seen.of(RateLimit)[0].attempt == 1
        assert [each.retracted for each in seen.of(Message)] == [True]
        assert seen.said() == "broken w0 "


@pytest.mark.proves("T9")
async def test_a_refused_key_fails_the_run_at_once_and_the_next_one_is_a_turn_of_its_own() -> None:
    async with running(fake("refused-key")) as (codex, seen):
        session = await codex.new_session(spec())
        end = await one_turn(codex, seen, session, "SAY 5")
        assert end.error is not None
        assert (end.error.code, end.error.recoverable) == ("AUTH_REQUIRED", False)
        assert "wrong key" in end.error.message
        assert (await one_turn(codex, seen, session, "SAY 1")).outcome is Outcome.COMPLETED


async def test_a_used_up_quota_is_a_limit() -> None:
    async with running(fake("fails")) as (codex, seen):
        session = await codex.new_session(spec())
        end = await one_turn(codex, seen, session, "SAY 1")
        assert end.error is not None
        assert (end.outcome, end.error.code) == (Outcome.FAILED, "RATE_LIMITED")


@pytest.mark.proves("T2")
async def test_what_a_command_says_after_its_turn_is_late() -> None:
    async with running(fake("late-words")) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, "SLEEP")
        await seen.until(seen.tool_ends)
        marked = [u for u in seen.of(ToolUpdate) if u.background]
        assert len(marked) == 1
        last = seen.events[session][-1]
        assert (last.run_id, last.after_run_id is not None) == (None, True)


@pytest.mark.proves("T3")
async def test_a_turn_that_the_agent_begins_itself_is_a_run_of_its_own() -> None:
    async with running(fake("own-turn")) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, "SAY 1")
        await seen.until(lambda: len(seen.ends()) == 2)
        origins = [each.origin for each in seen.of(RunStatus) if each.status == "started"]
        assert origins == [Origin.CLIENT, Origin.AGENT]


async def test_compactions_and_reviews_are_runs() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, PromptSpec(compact=True))
        await one_turn(codex, seen, session, PromptSpec(review=True))
        await one_turn(codex, seen, session, PromptSpec(command=Command("/review", "the tests")))
        assert seen.outcomes() == [Outcome.COMPLETED] * 3
        targets = [each["target"] for each in seen.sent("review/start")]
        assert targets[0] == {"type": "uncommittedChanges"}
        assert targets[1] == {"type": "custom", "instructions": "the tests"}
        with pytest.raises(Unsupported, match="compact, review"):
            await codex.prompt(session, PromptSpec(command=Command("dance")))
        with pytest.raises(Invalid, match="empty"):
            await codex.prompt(session, text(""))


@pytest.mark.proves("M7", "A7")
async def test_a_subagent_speaks_under_its_call_and_asks_in_the_session() -> None:
    async with running(fake("subagent")) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("GO"))
        await seen.until(seen.asked)
        await codex.answer_permission(key(seen.asked(session)[0]), YES)
        await seen.until(seen.ends)
        spoken = [e for e in seen.events[session] if "child speaks" in str(e.payload)]
        assert spoken[0].parent_tool_call_id is not None
        assert list(seen.events) == [session]
        assert seen.outcomes() == [Outcome.COMPLETED]


async def test_a_cancel_reaches_the_subagents() -> None:
    async with running(fake("subagent")) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("HANG"))
        await seen.until(lambda: "child speaks" in seen.said())
        await codex.cancel(session)
        await seen.until(seen.ends)
        assert len({each["threadId"] for each in seen.sent("turn/interrupt")}) == 2


@pytest.mark.proves("T8")
async def test_ten_sessions_work_at_once_in_one_process() -> None:
    async with running(fake()) as (codex, seen):
        sessions = [await codex.new_session(spec()) for _ in range(10)]
        for session in sessions:
            await codex.prompt(session, text("SAY 5"))
        await seen.until(lambda: len(seen.ends()) == 10)
        assert {seen.said(session) for session in sessions} == {"w0 w1 w2 w3 w4 "}
