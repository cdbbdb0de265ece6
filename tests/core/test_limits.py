"""No event is larger than 256 KiB; text is cut between code points and nothing of it is lost."""

import pytest

from agentctl.core.events import (
    Event,
    FileChange,
    Message,
    MessageChunk,
    PermissionRequest,
    Plan,
    Reasoning,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.limits import EVENT_BYTES, bound, head, pieces, size_of, tail, weight
from agentctl.core.parts import ContentBlock, Location, PlanEntry
from agentctl.core.words import ContentType, ToolStatus
from tests.replaying import payloads

BIG = EVENT_BYTES * 2


@pytest.mark.parametrize("letter", ["x", "é", "漢", "🎈"])
def test_long_text_travels_as_several_chunks_that_lose_nothing(letter: str) -> None:
    text = letter * (BIG // size_of(letter))
    events = bound(Event(MessageChunk("m1", text=text), "run_1", raw=b"{}"))
    assert len(events) > 1
    assert "".join(chunk.text for chunk in payloads(events, MessageChunk)) == text
    assert all(weight(event.payload) < EVENT_BYTES for event in events)
    assert {event.run_id for event in events} == {"run_1"}
    assert [event.raw for event in events[:2]] == [b"{}", None]


def test_only_the_first_piece_of_whole_reasoning_replaces() -> None:
    events = bound(Event(Reasoning("m1", "x" * BIG, whole=True)))
    assert [r.whole for r in payloads(events, Reasoning)] == [True] + [None] * (len(events) - 1)


def test_a_long_delta_goes_before_the_status_that_came_with_it() -> None:
    events = bound(Event(ToolUpdate("c", ToolStatus.COMPLETED, output_delta="x" * BIG)))
    updates = payloads(events, ToolUpdate)
    assert "".join(update.output_delta or "" for update in updates) == "x" * BIG
    assert [update.status for update in updates[:-1]] == [None] * (len(updates) - 1)
    assert updates[-1].status is ToolStatus.COMPLETED


def test_small_events_pass_as_they_are() -> None:
    event = Event(MessageChunk("m1", text="x"))
    assert bound(event) == [event]
    assert bound(event)[0] is event


def test_other_fields_are_cut_and_say_so() -> None:
    (diff,) = bound(Event(FileChange("a", diff="+x\n" * BIG)))
    assert isinstance(diff.payload, FileChange)
    assert diff.payload.truncated
    assert weight(diff.payload) <= EVENT_BYTES
    (request,) = bound(Event(PermissionRequest("apr_1", input_json=b'"' + b"x" * BIG + b'"')))
    assert isinstance(request.payload, PermissionRequest)
    assert (request.payload.input_json, request.payload.truncated) == (None, True)


def test_a_cut_block_tells_its_full_size() -> None:
    block = ContentBlock(ContentType.IMAGE, data=b"x" * BIG)
    (event,) = bound(Event(Message("m1", content=[block])))
    assert weight(event.payload) <= EVENT_BYTES
    assert (block.data, block.size, block.truncated) == (None, BIG, True)


@pytest.mark.proves("E5")
def test_a_replaced_output_keeps_its_end() -> None:
    (event,) = bound(Event(ToolUpdate("c", output_replace="a" * BIG + "end")))
    assert isinstance(event.payload, ToolUpdate)
    assert event.payload.output_replace is not None
    assert event.payload.output_replace.endswith("end")
    assert (event.payload.truncated, event.payload.output_size) == (True, BIG + 3)


def test_lists_without_end_are_shortened() -> None:
    many = [Location("/a/rather/long/path/of/a/file.py", 1)] * 10_000
    (event,) = bound(Event(ToolCall("c", locations=many)))
    assert isinstance(event.payload, ToolCall)
    assert event.payload.truncated
    assert weight(event.payload) <= EVENT_BYTES
    (plan,) = bound(Event(Plan([PlanEntry("step " * 2000) for _ in range(200)])))
    assert weight(plan.payload) <= EVENT_BYTES


def test_raw_that_is_too_large_is_left_out() -> None:
    (event,) = bound(Event(MessageChunk("m1", text="x"), raw=b"x" * BIG))
    assert event.raw is None


def test_heads_and_tails_never_split_a_code_point() -> None:
    assert (head("añb", 2), tail("añb", 2)) == ("a", "b")
    assert (head("🎈🎈", 7), tail("🎈🎈", 7)) == ("🎈", "🎈")
    assert (head("abc", 99), tail("abc", 0)) == ("abc", "")
    assert list(pieces("añb", 3)) == ["añ", "b"]
