"""Makes a value of any core dataclass with every field told, or with as few as it allows."""

import dataclasses
import types
from enum import StrEnum
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from agentctl.core.events import Payload

PAYLOADS: tuple[type[Any], ...] = get_args(Payload)


def full(kind: type[Any], salt: int = 1) -> Any:
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: value_of(hints[field.name], field.name, salt + index)
            for index, field in enumerate(dataclasses.fields(kind))
        }
    )


def minimal(kind: type[Any]) -> Any:
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: value_of(hints[field.name], field.name, 0)
            for field in dataclasses.fields(kind)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
    )


def value_of(hint: Any, name: str, salt: int) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is list:
        return [value_of(get_args(hint)[0], name, salt + each) for each in range(2)]
    if dataclasses.is_dataclass(hint):
        return full(cast(type[Any], hint), salt + 1)
    if issubclass(hint, StrEnum):
        words = list(hint)
        return words[salt % len(words)]
    return {
        str: f"{name}-{salt} é",
        int: salt + 7,
        float: salt + 0.5,
        bool: bool(salt % 2),
        bytes: b'{"n":%d}' % salt,
    }[hint]


def emptied(value: Any) -> Any:
    """The same value with each list that may be cleared cleared."""
    hints = get_type_hints(cast(type[Any], type(value)))
    changes: dict[str, list[Any]] = {
        field.name: []
        for field in dataclasses.fields(value)
        if get_origin(hints[field.name]) in (Union, types.UnionType)
        and any(get_origin(part) is list for part in get_args(hints[field.name]))
    }
    return dataclasses.replace(value, **changes)
