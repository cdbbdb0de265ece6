"""Owns the one JSON form of every message, for the command line and gateways.

Numbers are numbers, enums their words, what is absent is left out, a list that may be cleared is an
array, `*_json` and `raw` are objects under the name without `_json`, other bytes are base64. Fields
that cannot be absent are always there. An AgentEvent has its payload under `data`.
"""

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from agentctl import v1
from agentctl.core.events import Event
from agentctl.rpc.convert import to_message
from agentctl.rpc.enums import words
from agentctl.rpc.mirror import is_wrapper

Json = dict[str, Any]
View = Callable[[Any], Any]

_ABSENT = object()


def to_dict(message: Message) -> Json:
    """Returns the JSON object of a message."""
    if isinstance(message, v1.AgentEvent):
        return _event(message)
    out: Json = {}
    for name, key, optional, view in _plan(message.DESCRIPTOR):
        if optional and not message.HasField(name):
            continue
        value = getattr(message, name)
        if view is not None:
            value = view(value)
            if value is _ABSENT:
                continue
        out[key] = value
    return out


def event_to_json(event: Event, journal_id: str = "") -> Json:
    """Returns the JSON object of an event as a subscriber would see it."""
    return _event(to_message(event, journal_id))


_IDS = (
    "agent_id",
    "session_id",
    "session_key",
    "run_id",
    "after_run_id",
    "task_id",
    "parent_tool_call_id",
)


_TYPES = words(v1.EventType.DESCRIPTOR)
_ROLES = words(v1.Role.DESCRIPTOR)


def _chunk(chunk: v1.MessageChunk) -> Json:
    """What a plan would make of a piece of text: most events of a session are one."""
    out: Json = {"message_id": chunk.message_id}
    if chunk.role:
        out["role"] = _ROLES.get(chunk.role) or f"unknown_{chunk.role}"
    if chunk.HasField("text"):
        out["text"] = chunk.text
    return out


def _event(message: v1.AgentEvent) -> Json:
    out: Json = {"version": message.version}
    if message.cursor:
        out["cursor"] = message.cursor
    out["seq"] = message.seq
    out["ts"] = message.ts
    out["type"] = _TYPES.get(message.type) or f"unknown_{message.type}"
    for name in _IDS:
        value = getattr(message, name)
        if value or message.HasField(name):  # pyright: ignore[reportArgumentType]  names of fields
            out[name] = value
    payload = message.WhichOneof("payload")
    if payload == "message_chunk" and not message.message_chunk.HasField("content"):
        out["data"] = _chunk(message.message_chunk)
    else:
        out["data"] = {} if payload is None else to_dict(getattr(message, payload))
    if message.HasField("raw"):
        out["raw"] = from_json(message.raw)
    return out


@cache
def _plan(descriptor: Descriptor) -> tuple[tuple[str, str, bool, View | None], ...]:
    return tuple(
        (
            field.name,
            field.name.removesuffix("_json") if _is_json(field) else field.name,
            field.has_presence,
            _view(field),
        )
        for field in descriptor.fields
    )


def _is_json(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_BYTES and (
        field.name.endswith("_json") or field.name == "raw"
    )


def _view(field: FieldDescriptor) -> View | None:
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        return dict
    if nested is not None and not field.is_repeated and is_wrapper(nested):
        inner: View = _view(nested.fields[0]) or _array
        return lambda value: inner(value.items)
    one = _one(field)
    if not field.is_repeated:
        return one
    return _array if one is None else (lambda values: [one(value) for value in values])


def _array(values: Any) -> list[Any]:
    return list(values)


def _one(field: FieldDescriptor) -> View | None:
    if field.message_type is not None:
        return to_dict
    if field.enum_type is not None:
        enum = field.enum_type
        return lambda number: _word(enum, number) if number else _ABSENT
    if _is_json(field):
        return from_json
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda data: b64encode(cast("bytes", data)).decode()
    return None


def _word(enum: EnumDescriptor, number: int) -> str:
    return words(enum).get(number) or f"unknown_{number}"


def from_json(data: bytes) -> Any:
    """The value of JSON bytes; the text itself when it is none; left out when it is empty."""
    if not data:
        return _ABSENT
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace")
