"""Owns the encoding of an event: once, at append, to the bytes that every subscriber is sent.

A frame is one `events` field of an EventBatch: 0x0A, the length, the AgentEvent, whose first bytes
are 0x08 and its type. It refuses to know where frames are kept.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_args

from google.protobuf.message import Message as ProtoMessage

from agentctl import v1
from agentctl.core import events as core
from agentctl.core.events import Event
from agentctl.core.words import EventType
from agentctl.rpc.chunks import ChunkFrames, varint
from agentctl.rpc.enums import numbers
from agentctl.rpc.mirror import fill, mended, nested, read

VERSION = 1

_EVENT = v1.AgentEvent.DESCRIPTOR
_RAW_FIELD = _EVENT.fields_by_name["raw"].number
_NUMBERS = {kind: index for index, kind in enumerate(EventType, start=1)}
_ROLE = numbers(v1.Role.DESCRIPTOR)
_TOOL_STATUS = numbers(v1.ToolStatus.DESCRIPTOR)

PAYLOADS: dict[EventType, type[Any]] = {each.TYPE: each for each in get_args(core.Payload)}
"""The payload class of each type."""


def encode_event(event: Event, journal_id: str) -> bytes:
    """Encodes one event that has its seq.

    Never fails over what an agent said: a lone surrogate or a number out of range is mended.
    """
    return to_message(event, journal_id).SerializeToString()


def encode_frame(event: Event, journal_id: str) -> bytes:
    """Encodes one event as a field of an EventBatch."""
    data = encode_event(event, journal_id)
    return b"\n" + varint(len(data)) + data


class FrameEncoder:
    """`encode_frame` for one journal, whose id is known only once it is open. One thread's."""

    def __init__(self, journal_id: str = "") -> None:
        self.journal_id = journal_id

    @property
    def journal_id(self) -> str:
        return self._journal_id

    @journal_id.setter
    def journal_id(self, journal_id: str) -> None:
        self._journal_id = journal_id
        self._chunks = ChunkFrames(journal_id) if journal_id else None

    def __call__(self, event: Event) -> bytes:
        if self._chunks is not None and type(event.payload) is core.MessageChunk:
            try:
                frame = self._chunks.frame(event)
            except UnicodeEncodeError:
                frame = None
            if frame is not None:
                return frame
        return encode_frame(event, self._journal_id)


def to_message(event: Event, journal_id: str) -> v1.AgentEvent:
    """The AgentEvent of an event; without a journal it has no cursor."""
    try:
        return _build(event, journal_id)
    except (ValueError, TypeError, OverflowError):
        return _build_mended(event, journal_id)


def from_message(message: v1.AgentEvent) -> Event:
    """The event of an AgentEvent; the other way of `to_message`."""
    name = message.WhichOneof("payload")
    if name is None:
        raise ValueError(f"an event of type {message.type} holds no payload")
    return Event(
        payload=read(PAYLOADS[EventType(name)], getattr(message, name)),
        ts=message.ts,
        seq=message.seq,
        **{
            each: getattr(message, each)
            for each in (*_IDS, "raw")
            if message.HasField(each)  # pyright: ignore[reportArgumentType]  the names are literals
        },
    )


def decode_block(data: bytes) -> list[Event]:
    """The events of frames that stand behind each other, as the journal stores them."""
    return [from_message(each) for each in v1.EventBatch.FromString(data).events]


_IDS = (
    "agent_id",
    "session_id",
    "session_key",
    "run_id",
    "after_run_id",
    "task_id",
    "parent_tool_call_id",
)


def _build(event: Event, journal_id: str) -> v1.AgentEvent:
    kind = event.payload.TYPE
    message = v1.AgentEvent(
        type=_NUMBERS[kind],  # pyright: ignore[reportArgumentType]  a number of this very enum
        version=VERSION,
        seq=event.seq,
        ts=event.ts,
    )
    if journal_id:
        message.cursor = f"{journal_id}:{event.seq}"
    if event.session_id is not None:
        message.session_id = event.session_id
    if event.run_id is not None:
        message.run_id = event.run_id
    if event.agent_id is not None:
        message.agent_id = event.agent_id
    if event.session_key is not None:
        message.session_key = event.session_key
    if event.after_run_id is not None:
        message.after_run_id = event.after_run_id
    if event.task_id is not None:
        message.task_id = event.task_id
    if event.parent_tool_call_id is not None:
        message.parent_tool_call_id = event.parent_tool_call_id
    if event.raw is not None:
        message.raw = event.raw
    fast = _FAST.get(kind)
    if fast is None or not fast(event.payload, message):
        getattr(message, kind).CopyFrom(fill(nested(_EVENT.fields_by_name[kind]), event.payload))
    return message


def _chunk(payload: core.MessageChunk, message: v1.AgentEvent) -> bool:
    if payload.content is not None or payload.text is None:
        return False
    chunk = message.message_chunk
    chunk.message_id = payload.message_id
    chunk.role = _ROLE[payload.role]  # pyright: ignore[reportAttributeAccessIssue]  a number of it
    chunk.text = payload.text
    return True


def _reasoning(payload: core.Reasoning, message: v1.AgentEvent) -> bool:
    if payload.text is None or payload.whole is not None or payload.retracted is not None:
        return False
    reasoning = message.reasoning
    reasoning.message_id = payload.message_id
    reasoning.text = payload.text
    return True


_SELDOM = [
    each.name
    for each in dataclasses.fields(core.ToolUpdate)
    if each.name not in {"tool_call_id", "status", "output_delta"}
]
_seldom = attrgetter(*_SELDOM)
_NOTHING_SELDOM = (None,) * len(_SELDOM)


def _tool_update(payload: core.ToolUpdate, message: v1.AgentEvent) -> bool:
    if _seldom(payload) != _NOTHING_SELDOM:
        return False
    update = message.tool_update
    update.tool_call_id = payload.tool_call_id
    if payload.status is not None:
        update.status = _TOOL_STATUS[payload.status]  # pyright: ignore[reportAttributeAccessIssue]  a number of it
    if payload.output_delta is not None:
        update.output_delta = payload.output_delta
    return True


_FAST: dict[EventType, Callable[[Any, v1.AgentEvent], bool]] = {
    EventType.MESSAGE_CHUNK: _chunk,
    EventType.REASONING: _reasoning,
    EventType.TOOL_UPDATE: _tool_update,
}


def _build_mended(event: Event, journal_id: str) -> v1.AgentEvent:
    kind = event.payload.TYPE
    fields = _EVENT.fields_by_name
    told = {"seq": event.seq, "ts": event.ts, "raw": event.raw}
    told |= {name: getattr(event, name) for name in _IDS}
    payload: ProtoMessage = fill(nested(fields[kind]), event.payload, mend=True)
    message = v1.AgentEvent(
        type=_NUMBERS[kind],  # pyright: ignore[reportArgumentType]  a number of this very enum
        version=VERSION,
        cursor=f"{journal_id}:{event.seq}" if journal_id else "",
        **{name: mended(fields[name], value) for name, value in told.items() if value is not None},
    )
    getattr(message, kind).CopyFrom(payload)
    return message


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number and the place after it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def strip_raw(frame: bytes) -> bytes:
    """Returns a frame without the agent's own message; the same object when it holds none."""
    _, start = read_varint(frame, 1)
    at = start
    while at < len(frame):
        field = at
        tag, at = read_varint(frame, at)
        match tag & 7:
            case 0:
                _, at = read_varint(frame, at)
            case 1:
                at += 8
            case 2:
                size, at = read_varint(frame, at)
                at += size
            case _:
                at += 4
        if tag >> 3 == _RAW_FIELD:
            kept = frame[start:field] + frame[at:]
            return b"\n" + varint(len(kept)) + kept
    return frame


def encode_tail(cursor: str, caught_up: bool, gap: v1.Gap | None) -> bytes:
    """The fields of an EventBatch that follow its events."""
    return v1.EventBatch(cursor=cursor, caught_up=caught_up, gap=gap).SerializeToString()
