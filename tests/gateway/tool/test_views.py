"""What the tool's view of our events adds for a client that has nothing else to go by."""

from typing import Any

import pytest

from agentctl.client.views import MAX_TEXT, ToolView

Json = dict[str, Any]


def event(kind: str, **data: Any) -> Json:
    ids = {"session_id": "s", "run_id": "r"}
    return {"seq": 1, "ts": 1_764_500_000_123, "type": kind, **ids, "data": data}


def fed(*events: Json) -> list[Json]:
    view = ToolView()
    return [row for each in events for row in view.feed(each)]


@pytest.mark.proves("E6")
@pytest.mark.parametrize(
    ("data", "content"),
    [
        ({"message": "Which?"}, "Which?"),
        (
            {
                "questions": [
                    {
                        "question": "Which colour?",
                        "options": [{"id": "b", "name": "blue"}, {"id": "red"}],
                    }
                ]
            },
            "Which colour?\n- blue\n- red",
        ),
        (
            {
                "message": "Two things.",
                "questions": [{"question": "a?"}, {"question": "b?"}],
                "url": "https://h/x",
            },
            "Two things.\na?\nb?\nhttps://h/x",
        ),
    ],
)
def test_a_question_is_a_message_that_can_be_answered(data: Json, content: str) -> None:
    (row,) = fed(event("question_request", question_id="qst_1", **data))
    assert (row["type"], row["content"]) == ("agent.message", content)


@pytest.mark.proves("E6")
def test_a_turn_that_failed_without_a_word_says_why() -> None:
    error = {"code": "MODEL_ERROR", "message": "the model is away"}
    (row,) = fed(event("complete", outcome="failed", error=error))
    assert (row["outcome"], row["summary"]) == ("failed", "the model is away")
    chunk = event("message_chunk", message_id="m", role="assistant", text="partly")
    *_, row = fed(chunk, event("complete", outcome="failed", error=error))
    assert row["summary"] == "partly"
    (row,) = fed(event("complete", outcome="cancelled", error=error))
    assert row["summary"] == ""


def test_whether_a_text_waits_for_its_end_is_known() -> None:
    view = ToolView()
    assert not view.speaking("s")
    view.feed(event("message_chunk", message_id="m", role="assistant", text="x"))
    assert view.speaking("s") and not view.speaking("other")
    view.feed(event("complete", outcome="completed"))
    assert not view.speaking("s")


def test_a_text_without_end_is_told_in_pieces_and_once() -> None:
    piece = "x" * (MAX_TEXT // 4)
    chunks = [event("message_chunk", message_id="m", role="assistant", text=piece)] * 9
    content = [{"type": "text", "text": piece * 9}]
    whole = event("message", message_id="m", role="assistant", content=content)
    rows = fed(*chunks, event("plan", entries=[]), whole, event("complete", outcome="completed"))
    assert [row["type"] for row in rows] == ["agent.message"] * 3 + ["agent.complete"]
    assert "".join(row["content"] for row in rows[:3]) == piece * 9
    assert [len(row["content"]) for row in rows[:3]] == [MAX_TEXT, MAX_TEXT, len(piece)]
    assert rows[-1]["summary"] == piece * 4
