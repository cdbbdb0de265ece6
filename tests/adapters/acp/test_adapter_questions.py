"""Questions of an ACP agent: forms, pages, and every way to answer or leave them."""

import json
from pathlib import Path

import pytest

from agentctl.core.adapter import QuestionAnswer
from agentctl.core.errors import Invalid
from agentctl.core.parts import Answer
from agentctl.core.words import QuestionOutcome
from tests.adapters.acp.adapter_harness import one_turn, puppet, running, spec, steps

pytestmark = pytest.mark.anyio


async def test_a_question_is_answered_in_the_types_of_its_form(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "sure": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }
    ask = [
        "request",
        "elicitation/create",
        {"mode": "form", "message": "?", "requestedSchema": schema},
    ]
    given = (Answer(["Ann"]), Answer(["3"]), Answer(["yes"]), Answer(["a", "b"]))
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, steps(ask))
        await seen.until(seen.asked)
        key = seen.asked()[0]
        with pytest.raises(Invalid, match="count"):
            wrong = (Answer(["Ann"]), Answer(["many"]))
            await connection.answer_question(key, QuestionAnswer(QuestionOutcome.ANSWERED, wrong))
        await connection.answer_question(key, QuestionAnswer(QuestionOutcome.ANSWERED, given))
        await seen.until(seen.ends)
        assert key == '"p1"'
        assert json.loads(seen.said()) == {
            "action": "accept",
            "content": {"name": "Ann", "count": 3, "sure": True, "tags": ["a", "b"]},
        }


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (QuestionAnswer(QuestionOutcome.REJECTED), {"action": "decline"}),
        (QuestionAnswer(QuestionOutcome.EXPIRED), {"action": "cancel"}),
        (QuestionAnswer(QuestionOutcome.ANSWERED), {"action": "accept"}),
        (
            QuestionAnswer(QuestionOutcome.ANSWERED, content_json=b'{"x":1}'),
            {"action": "accept", "content": {"x": 1}},
        ),
    ],
)
async def test_a_question_may_be_rejected_left_or_answered_as_a_whole(
    tmp_path: Path, answer: QuestionAnswer, action: object
) -> None:
    ask = [
        "request",
        "elicitation/create",
        {"mode": "url", "message": "?", "url": "http://x/", "elicitationId": "e"},
    ]
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, steps(ask))
        await seen.until(seen.asked)
        await connection.answer_question(seen.asked()[0], answer)
        await seen.until(seen.ends)
        assert json.loads(seen.said()) == action


async def test_a_page_that_was_filled_in_elsewhere_answers_its_question(tmp_path: Path) -> None:
    ask = {"mode": "url", "message": "?", "url": "http://x/", "elicitationId": "e1"}
    request = {"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": ask}
    done = ["notify", "elicitation/complete", {"elicitationId": "e1"}]
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await one_turn(connection, seen, session, steps(["raw", json.dumps(request)], done))
        await seen.until(seen.answers)
        late = QuestionAnswer(QuestionOutcome.CANCELLED)
        await connection.answer_question(seen.asked()[0], late)
    assert [a["result"] for a in seen.answers()] == [{"action": "accept"}]
