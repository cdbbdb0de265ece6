"""What a user of the Codex adapter sees of approvals and questions: every request gets one answer."""

import json

import pytest

from agentctl.core.adapter import PermissionAnswer, QuestionAnswer
from agentctl.core.errors import Invalid
from agentctl.core.events import FileChange, PermissionResolved, QuestionResolved
from agentctl.core.parts import Answer
from agentctl.core.words import (
    ChangeKind,
    DecidedBy,
    Decision,
    OptionKind,
    Outcome,
    PermissionKind,
    QuestionOutcome,
    ToolKind,
    ToolStatus,
)
from tests.adapters.codex.harness import Seen, fake, key, one_turn, running, spec, text

pytestmark = pytest.mark.anyio
YES = PermissionAnswer(Decision.APPROVED, "accept")
NO = PermissionAnswer(Decision.DENIED, "decline")


@pytest.mark.proves("A1")
@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [
        (YES, ToolStatus.COMPLETED, Outcome.COMPLETED),
        (PermissionAnswer(Decision.APPROVED, "acceptForSession"), "completed", Outcome.COMPLETED),
        (NO, ToolStatus.CANCELLED, Outcome.COMPLETED),
        (PermissionAnswer(Decision.DENIED), ToolStatus.CANCELLED, Outcome.COMPLETED),
        (PermissionAnswer(Decision.EXPIRED), ToolStatus.CANCELLED, Outcome.COMPLETED),
        (PermissionAnswer(Decision.CANCELLED), ToolStatus.CANCELLED, Outcome.CANCELLED),
    ],
)
async def test_a_command_runs_only_when_it_is_allowed(
    answer: PermissionAnswer, status: ToolStatus, outcome: Outcome
) -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("RUN make test"))
        await seen.until(seen.asked)
        ask = seen.asked()[0]
        assert ask.details is not None
        assert (ask.details.command, ask.tool_kind) == ("make test", ToolKind.EXECUTE)
        assert [o.option_id for o in ask.options if o.kind is OptionKind.REJECT_ONCE] == ["decline"]
        await codex.answer_permission(key(ask), answer)
        await seen.until(seen.ends)
        assert (seen.tool_ends()[-1].status, seen.outcomes()) == (status, [outcome])


@pytest.mark.proves("A4")
async def test_an_option_that_was_not_offered_is_refused_and_the_request_stays_open() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("RUN ls"))
        await seen.until(seen.asked)
        request = key(seen.asked()[0])
        with pytest.raises(Invalid) as refused:
            await codex.answer_permission(request, PermissionAnswer(Decision.APPROVED, "allow"))
        assert refused.value.reason == "OPTION_NOT_OFFERED"
        await codex.answer_permission(request, YES)
        await codex.answer_permission(request, NO)
        await seen.until(seen.ends)
        assert [answer["result"] for answer in seen.answers()] == [{"decision": "accept"}]


async def test_a_patch_is_shown_with_its_diff_and_told_once_it_is_applied() -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("PATCH a.txt"))
        await seen.until(seen.asked)
        ask = seen.asked()[0]
        assert ask.details is not None
        assert ask.details.file == "/code/a.txt"
        assert "+hello" in (ask.details.diff or "")
        assert seen.of(FileChange) == []
        await codex.answer_permission(key(ask), YES)
        await seen.until(seen.ends)
        change = seen.of(FileChange)[0]
        assert (change.change, change.additions) == (ChangeKind.CREATE, 1)
        await codex.prompt(session, text("PATCH b.txt"))
        await seen.until(lambda: len(seen.asked()) == 2)
        await codex.answer_permission(key(seen.asked()[1]), NO)
        await seen.until(lambda: len(seen.ends()) == 2)
        assert len(seen.of(FileChange)) == 1


@pytest.mark.proves("A8")
@pytest.mark.parametrize(
    ("answer", "got", "outcome"),
    [
        (
            QuestionAnswer(QuestionOutcome.ANSWERED, (Answer(["Blue", "a note"]),)),
            {"answers": {"color": {"answers": ["Blue", "a note"]}}},
            QuestionOutcome.ANSWERED,
        ),
        (
            QuestionAnswer(QuestionOutcome.ANSWERED, content_json=b'{"color":"Red"}'),
            {"answers": {"color": {"answers": ["Red"]}}},
            QuestionOutcome.ANSWERED,
        ),
        (
            QuestionAnswer(QuestionOutcome.REJECTED),
            {"answers": {}},
            QuestionOutcome.REJECTED,
        ),
    ],
)
async def test_a_question_is_answered_by_its_name(
    answer: QuestionAnswer, got: object, outcome: QuestionOutcome
) -> None:
    async with running(fake()) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("ASK"))
        await seen.until(seen.questions)
        asked = seen.questions()[0]
        assert asked.questions[0].custom is True
        assert [choice.id for choice in asked.questions[0].options] == ["Red", "Blue"]
        too_many = QuestionAnswer(QuestionOutcome.ANSWERED, (Answer(["x"]), Answer(["y"])))
        with pytest.raises(Invalid):
            await codex.answer_question(key(asked), too_many)
        await codex.answer_question(key(asked), answer)
        await codex.answer_question(key(asked), answer)
        await seen.until(seen.ends)
        assert json.loads(seen.said()) == got
        assert [each.outcome for each in seen.of(QuestionResolved)] == [outcome]


@pytest.mark.proves("A5")
async def test_what_an_mcp_server_asks_is_leave_or_a_form_and_never_a_face() -> None:
    async with running(fake("elicits")) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("GO"))
        await seen.until(seen.asked)
        ask = seen.asked()[0]
        assert (ask.kind, ask.tool_name) == (PermissionKind.MCP, "mcp__s__write")
        lasting = {o.option_id for o in ask.options if o.kind is OptionKind.ALLOW_ALWAYS}
        assert lasting == {"acceptForSession", "always"}
        option = PermissionAnswer(Decision.APPROVED, "acceptForSession")
        await codex.answer_permission(key(ask), option)
        await seen.until(seen.questions)
        form = seen.questions()[0]
        assert form.schema_json is not None
        named = QuestionAnswer(QuestionOutcome.ANSWERED, (Answer(["Ada"]),))
        await codex.answer_question(key(form), named)
        await seen.until(seen.ends)
        leave, name, face = json.loads(seen.said())
        assert leave == {"action": "accept", "content": {}, "_meta": {"persist": "session"}}
        assert name == {"action": "accept", "content": {"name": "Ada"}}
        assert face["action"] == "cancel"
        assert seen.open_requests() == set()


async def test_more_rights_are_granted_as_they_were_asked_for() -> None:
    async with running(fake("wants-rights")) as (codex, seen):
        session = await codex.new_session(spec())
        for option, wanted in (("turn", {"network": {"enabled": True}}), ("decline", {})):
            before = len(seen.said())
            await codex.prompt(session, text("GO"))
            await seen.until(lambda: len(seen.asked()) > len(seen.ends()))
            ask = seen.asked()[-1]
            assert (ask.kind, ask.title) == (PermissionKind.ENVIRONMENT, "to reach the registry")
            decision = Decision.APPROVED if wanted else Decision.DENIED
            await codex.answer_permission(key(ask), PermissionAnswer(decision, option))
            await seen.until(lambda: len(seen.ends()) == len(seen.asked()))
            granted = json.loads(seen.said()[before:])
            assert granted == {"permissions": wanted, "scope": "turn"}
        resolved = [each.decision for each in seen.of(PermissionResolved)]
        assert resolved == [Decision.APPROVED, Decision.DENIED]


@pytest.mark.proves("A5")
async def test_requests_that_nobody_can_answer_are_answered_all_the_same() -> None:
    async with running(fake("strange-requests")) as (codex, seen):
        session = await codex.new_session(spec())
        end = await one_turn(codex, seen, session, "GO")
        assert end.outcome is Outcome.COMPLETED
        got = json.loads(seen.said())
        assert got == {
            "item/tool/call": True,
            "currentTime/read": True,
            "attestation/generate": False,
            "no/such/request": False,
        }


@pytest.mark.proves("A5")
async def test_what_is_asked_after_the_interrupt_is_answered_as_cancelled() -> None:
    async with running(fake("asks-after-interrupt")) as (codex, seen):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("GO"))
        await codex.cancel(session)
        await seen.until(seen.ends)
        assert seen.outcomes() == [Outcome.CANCELLED]
        assert seen.open_requests() == set()


async def test_a_request_that_is_taken_back_is_resolved_elsewhere() -> None:
    async with running(fake("takes-back")) as (codex, seen):
        session = await codex.new_session(spec())
        await one_turn(codex, seen, session, "RUN ls")
        assert [each.by for each in seen.of(PermissionResolved)] == [DecidedBy.ELSEWHERE]
        await codex.answer_permission(key(seen.asked()[0]), YES)
        assert seen.answers() == []


@pytest.mark.proves("A5")
async def test_closing_a_session_answers_what_it_asked_and_leaves_the_others() -> None:
    async with running(fake()) as (codex, seen):
        first, second = await codex.new_session(spec()), await codex.new_session(spec())
        for session in (first, second):
            await codex.prompt(session, text("RUN ls"))
        await seen.until(lambda: len(seen.asked()) == 2)
        await codex.close_session(first)
        assert seen.outcomes(first) == [Outcome.CANCELLED]
        assert len(seen.open_requests()) == 1
        await codex.answer_permission(key(seen.asked(second)[0]), YES)
        await seen.until(lambda: seen.ends(second))
        assert seen.outcomes(second) == [Outcome.COMPLETED]


@pytest.mark.proves("A5")
async def test_leaving_answers_what_is_open() -> None:
    seen = Seen()
    async with running(fake(), seen) as (codex, _):
        session = await codex.new_session(spec())
        await codex.prompt(session, text("RUN ls"))
        await seen.until(seen.asked)
    assert seen.open_requests() == set()
    assert len(seen.ends()) == 1
