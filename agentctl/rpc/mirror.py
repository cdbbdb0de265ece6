"""Owns the way between the slots dataclasses of the core and the messages of the same names.

A dataclass field goes into the message field of its name: a StrEnum by its word, a dataclass as a
message, `list | None` as a wrapper message with `items`. Plans are made once per class. It refuses to
know any class by name; `convert` and `records` do.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from agentctl.core.errors import Invalid
from agentctl.rpc.enums import numbers, words

T = TypeVar("T")
Writer = Callable[[Any], Any]

_INT32 = {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_ENUM}
_INTS = {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64}


def message_class(descriptor: Descriptor) -> type[Message]:
    return message_factory.GetMessageClass(descriptor)


def nested(field: FieldDescriptor) -> Descriptor:
    """The message of a message field."""
    inner = field.message_type
    if inner is None:
        raise TypeError(f"{field.name} holds no message")
    return inner


def is_wrapper(descriptor: Descriptor) -> bool:
    """Whether a message stands for a list that may be cleared."""
    if len(descriptor.fields) != 1 or descriptor.fields[0].name != "items":
        return False
    inner = descriptor.fields[0].message_type
    return inner is None or not inner.GetOptions().map_entry


def fill(descriptor: Descriptor, value: Any, *, mend: bool = False) -> Any:
    """Makes the message of a dataclass value.

    With `mend` what does not fit is made to: lone surrogates are replaced, numbers out of range
    are cut to it.
    """
    plan = _plan(descriptor, cast(type[Any], type(value)), mend)
    told: dict[str, Any] = {}
    for name, write in plan:
        item = getattr(value, name)
        if item is not None:
            told[name] = item if write is None else write(item)
    return message_class(descriptor)(**told)


@cache
def _plan(
    descriptor: Descriptor, kind: type[Any], mend: bool
) -> tuple[tuple[str, Writer | None], ...]:
    fields: Mapping[str, FieldDescriptor] = descriptor.fields_by_name
    missing = [each.name for each in dataclasses.fields(kind) if each.name not in fields]
    if missing:
        raise TypeError(f"{descriptor.name} has no field {', '.join(missing)} of {kind.__name__}")
    return tuple((each.name, _writer(fields[each.name], mend)) for each in dataclasses.fields(kind))


def _writer(field: FieldDescriptor, mend: bool) -> Writer | None:
    inner = field.message_type
    if inner is not None and not field.is_repeated and is_wrapper(inner):
        return _wrapper_writer(inner, mend)
    one = _one_writer(field, mend)
    if one is None or not field.is_repeated:
        return one
    return lambda items: [one(item) for item in items]


def _wrapper_writer(wrapper: Descriptor, mend: bool) -> Writer:
    make: Callable[..., Message] = message_class(wrapper)
    write = _writer(wrapper.fields[0], mend)
    return lambda items: make(items=items if write is None else write(items))


def _one_writer(field: FieldDescriptor, mend: bool) -> Writer | None:
    inner = field.message_type
    if inner is not None:
        return lambda value: fill(inner, value, mend=mend)
    if field.enum_type is not None:
        known = numbers(field.enum_type)
        return lambda value: known[value]
    return (lambda value: mended(field, value)) if mend else None


def mended(field: FieldDescriptor, value: Any) -> Any:
    """Makes a scalar fit its field."""
    if field.type == FieldDescriptor.TYPE_STRING:
        return str(value).encode("utf-8", "replace").decode("utf-8")
    if field.type in _INTS:
        top = 2**31 - 1 if field.type in _INT32 else 2**63 - 1
        return max(-top - 1, min(top, int(value)))
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return float(value)
    return value


def read(kind: type[T], message: Message) -> T:
    """Makes the dataclass of a message; the other way of `fill`.

    Raises:
        Invalid: an enum field that must be told is not, or holds an unknown number.
    """
    told: dict[str, Any] = {}
    fields: Mapping[str, Any] = message.DESCRIPTOR.fields_by_name
    for name, hint, required in _hints(kind):
        field = fields[name]
        if field.has_presence and not message.HasField(name):
            continue
        value = _read_field(field, hint, getattr(message, name))
        if value is None and field.enum_type is not None:
            if required:
                raise Invalid(f"{name} must be one of {', '.join(numbers(field.enum_type))}.")
            continue
        told[name] = value
    return kind(**told)


@cache
def _hints(kind: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (
            each.name,
            _without_none(hints[each.name]),
            each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING,
        )
        for each in dataclasses.fields(kind)
    )


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(part for part in get_args(hint) if part is not type(None))
    return hint


def _read_field(field: FieldDescriptor, hint: Any, value: Any) -> Any:
    if get_origin(hint) is list:
        inner = get_args(hint)[0]
        items = value if field.is_repeated else value.items
        element = field if field.is_repeated else nested(field).fields[0]
        return [_read_one(element, inner, item) for item in items]
    return _read_one(field, hint, value)


def _read_one(field: FieldDescriptor, hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return read(hint, value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        found = words(field.enum_type).get(value) if field.enum_type else None
        return None if found is None else hint(found)
    return value
