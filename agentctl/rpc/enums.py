"""Owns the way between the words of JSON and Python and the numbers of protobuf enums.

A constant is its enum's name in capitals, an underscore and the word in capitals: TOOL_STATUS_RUNNING
is "running". It refuses to know which enums there are.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from google.protobuf.descriptor import EnumDescriptor

from agentctl.core.errors import Invalid


class Enum(Protocol):
    """A generated enum, as `v1.ToolStatus`."""

    DESCRIPTOR: EnumDescriptor


def prefix(name: str) -> str:
    """The prefix of the constants of an enum: ToolStatus -> TOOL_STATUS_."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper() + "_"


@cache
def words(enum: EnumDescriptor) -> Mapping[int, str]:
    """Number to word; without the zero value, which is no word."""
    start = len(prefix(enum.name))
    return {value.number: value.name[start:].lower() for value in enum.values if value.number}


@cache
def numbers(enum: EnumDescriptor) -> Mapping[str, int]:
    """Word to number; without the zero value."""
    return {word: number for number, word in words(enum).items()}


def number(enum: Enum, word: str, *, field: str) -> Any:
    """Returns the number of a word, 0 for "".

    Raises:
        Invalid: the enum has no such word; says which it has.
    """
    if not word:
        return 0
    known = numbers(enum.DESCRIPTOR)
    found = known.get(word)
    if found is None:
        raise Invalid(
            f"{field} cannot be {word[:60]!r}: use one of {', '.join(known)}.",
            metadata={"field": field},
        )
    return found


def word(enum: Enum, value: int, *, field: str) -> str:
    """Returns the word of a number, "" for 0.

    Raises:
        Invalid: the number is none of the enum.
    """
    if not value:
        return ""
    known = words(enum.DESCRIPTOR)
    if value not in known:
        raise Invalid(
            f"{field} holds the unknown number {value}: use one of {', '.join(known.values())}.",
            metadata={"field": field},
        )
    return known[value]
