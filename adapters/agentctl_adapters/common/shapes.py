"""Owns how foreign JSON is read without raising: the value when it has the shape, else nothing."""

import base64
import binascii
import json
from typing import Any, cast

from agentctl.core.ids import NativeRequestId

Json = dict[str, Any]


def as_object(value: object) -> Json:
    """The value when it is a JSON object, else an empty one."""
    return cast(Json, value) if isinstance(value, dict) else {}


def as_objects(value: object) -> list[Json]:
    """The objects of a JSON list; anything else in it is left out."""
    if not isinstance(value, list):
        return []
    items = cast("list[object]", value)
    return [cast(Json, item) for item in items if isinstance(item, dict)]


def decoded(data: object) -> bytes | None:
    """The bytes of base64 text; None when it is none."""
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return None


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_words(value: object) -> list[str]:
    """The strings of a JSON list; anything else in it is left out."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]


def number(value: object) -> int | None:
    """A whole number, never a truth value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def amount(value: object) -> float | None:
    """Any number as a float, never a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def request_key(request_id: object) -> NativeRequestId:
    """One string per JSON-RPC id: 0 and "0" are different requests."""
    return NativeRequestId(json.dumps(request_id, separators=(",", ":"), ensure_ascii=False))
