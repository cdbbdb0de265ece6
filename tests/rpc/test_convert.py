"""What an event becomes on the wire, and that nothing of it is lost there."""

import dataclasses
from typing import Any

import pytest

from agentctl import v1
from agentctl.core import parts
from agentctl.core.events import Event, Log, MessageChunk, Reasoning, ToolUpdate
from agentctl.core.parts import ContentBlock, Usage
from agentctl.core.words import ContentType, EventType, LogStream, Role, ToolStatus
from agentctl.rpc.convert import (
    FrameEncoder,
    encode_event,
    encode_frame,
    encode_tail,
    from_message,
    read_varint,
    strip_raw,
    to_message,
    varint,
)
from agentctl.rpc.mirror import nested
from tests.rpc.samples import PAYLOADS, emptied, full, minimal

JOURNAL = "abc123"


def full_but_empty(kind: type[Any]) -> Any:
    return emptied(full(kind))


def enveloped(payload: Any, raw: bytes | None = b'{"agent":"said"}') -> Event:
    return Event(
        payload=payload,
        run_id="run_1",
        after_run_id="run_0",
        parent_tool_call_id="t0",
        task_id="k1",
        agent_id="agt_1",
        session_id="ses_1",
        session_key="mine",
        ts=1764500000000,
        seq=2**53 + 1,
        raw=raw,
    )


@pytest.mark.parametrize("kind", PAYLOADS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("make", [full, minimal, full_but_empty])
def test_no_field_of_any_event_is_lost_on_the_wire(kind: type[Any], make: Any) -> None:
    event = enveloped(make(kind))
    message = v1.AgentEvent.FromString(encode_event(event, JOURNAL))
    assert from_message(message) == event
    assert message.cursor == f"{JOURNAL}:{2**53 + 1}"
    assert message.version == 1


@pytest.mark.parametrize("kind", PAYLOADS, ids=lambda kind: kind.__name__)
def test_an_event_that_tells_little_has_nothing_else_on_the_wire(kind: type[Any]) -> None:
    event = Event(payload=minimal(kind), seq=1)
    assert from_message(v1.AgentEvent.FromString(encode_event(event, JOURNAL))) == event


@pytest.mark.parametrize("kind", PAYLOADS, ids=lambda kind: kind.__name__)
def test_the_type_stands_first_so_that_a_reader_can_skip_an_event(kind: type[Any]) -> None:
    frame = encode_frame(enveloped(full(kind)), JOURNAL)
    size, start = read_varint(frame, 1)
    number = list(EventType).index(kind.TYPE) + 1
    assert frame[0] == 0x0A
    assert len(frame) == start + size
    assert frame[start : start + 2] == bytes((0x08, number))


@pytest.mark.parametrize("kind", PAYLOADS, ids=lambda kind: kind.__name__)
def test_fields_of_the_wire_and_of_the_core_have_the_same_names(kind: type[Any]) -> None:
    field = v1.AgentEvent.DESCRIPTOR.fields_by_name[kind.TYPE]
    message = nested(field)
    assert message.name == kind.__name__
    assert field.number == 20 + v1.EventType.Value(f"EVENT_TYPE_{kind.TYPE.upper()}")
    assert [each.name for each in message.fields] == [
        each.name for each in dataclasses.fields(kind)
    ]


@pytest.mark.parametrize(
    "kind",
    [each for each in vars(parts).values() if dataclasses.is_dataclass(each)],
    ids=lambda kind: kind.__name__,
)
def test_parts_have_the_same_names_on_the_wire_and_in_the_core(kind: type[Any]) -> None:
    message: Any = getattr(v1, kind.__name__)
    assert [each.name for each in message.DESCRIPTOR.fields] == [
        each.name for each in dataclasses.fields(kind)
    ]


def test_frames_of_several_events_and_a_tail_are_one_batch() -> None:
    encode = FrameEncoder(JOURNAL)
    events = [
        Event(payload=MessageChunk(message_id="m1", text=text), seq=seq)
        for seq, text in enumerate(("a", " ", "b"), start=1)
    ]
    gap = v1.Gap(requested="old:1", first_available="abc123:1", reason="foreign")
    data = b"".join(map(encode, events)) + encode_tail("abc123:9", True, gap)
    batch = v1.EventBatch.FromString(data)
    assert [event.message_chunk.text for event in batch.events] == ["a", " ", "b"]
    assert (batch.cursor, batch.caught_up, batch.gap) == ("abc123:9", True, gap)


@pytest.mark.parametrize("kind", PAYLOADS, ids=lambda kind: kind.__name__)
def test_the_agents_own_message_can_be_taken_out_of_a_frame(kind: type[Any]) -> None:
    payload = full(kind)
    assert strip_raw(encode_frame(enveloped(payload), JOURNAL)) == encode_frame(
        enveloped(payload, raw=None), JOURNAL
    )


def test_a_frame_without_the_agents_message_stays_the_same_object() -> None:
    frame = encode_frame(enveloped(Log(stream=LogStream.STDERR, text="x" * 300), raw=None), JOURNAL)
    assert strip_raw(frame) is frame


@pytest.mark.parametrize(
    "payload",
    [
        MessageChunk(message_id="m1", text="\ud800 half"),
        Reasoning(message_id="m1", text="\udfff"),
        ToolUpdate(tool_call_id="\ud800", status=ToolStatus.RUNNING, output_delta="x"),
        MessageChunk(
            message_id="m1", content=ContentBlock(type=ContentType.TEXT, text="\ud800", size=2**70)
        ),
    ],
)
def test_half_a_character_from_an_agent_does_not_break_its_event(payload: Any) -> None:
    event = enveloped(payload)
    message = v1.AgentEvent.FromString(encode_event(event, JOURNAL))
    assert message.run_id == "run_1"
    assert "?" in str(message)


def test_a_number_out_of_range_is_cut_to_the_range() -> None:
    from agentctl.core.events import ContextWindow

    payload = ContextWindow(used=2**80, usage=Usage(input=-(2**80)), cost_usd=1)
    message = to_message(Event(payload=payload, seq=1), JOURNAL)
    assert message.context_window.used == 2**63 - 1
    assert message.context_window.usage.input == -(2**63)
    assert message.context_window.cost_usd == 1.0


@pytest.mark.parametrize(
    "payload",
    [
        MessageChunk(message_id="m1", role=Role.USER, text=""),
        MessageChunk(message_id="m1", content=ContentBlock(type=ContentType.IMAGE, data=b"\0")),
        Reasoning(message_id="m1", text="t", whole=True),
        Reasoning(message_id="m1", retracted=True),
        ToolUpdate(tool_call_id="t1", output_delta=""),
        ToolUpdate(tool_call_id="t1", status=ToolStatus.FAILED, error="no"),
        ToolUpdate(tool_call_id="t1"),
    ],
)
def test_the_frequent_events_lose_nothing_on_their_short_way(payload: Any) -> None:
    event = Event(payload=payload, seq=3)
    assert from_message(v1.AgentEvent.FromString(encode_event(event, JOURNAL))) == event


def test_an_event_of_a_newer_daemon_is_refused_when_it_holds_nothing_known() -> None:
    with pytest.raises(ValueError, match="holds no payload"):
        from_message(v1.AgentEvent(seq=1))


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**21, 2**35 + 5])
def test_a_varint_reads_as_it_was_written(number: int) -> None:
    data = varint(number)
    assert read_varint(b"?" + data, 1) == (number, 1 + len(data))
