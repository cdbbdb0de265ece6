"""Owns taking secrets out of a JSON value, wherever a text stands in it. Pure; which ones is not known here."""

from collections.abc import Callable
from typing import Any, cast


def cleaned(value: Any, redact: Callable[[str], str]) -> Any:
    """The same value with each of its texts, keys too, passed through `redact`."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        named = cast("dict[Any, Any]", value)
        return {cleaned(key, redact): cleaned(each, redact) for key, each in named.items()}
    if isinstance(value, list):
        return [cleaned(each, redact) for each in cast("list[Any]", value)]
    return value
