"""Owns the published shapes of answers and the check that a value has one; asks nobody."""

import re
from datetime import datetime
from typing import Any, cast

Json = dict[str, Any]

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def shaped(value: Any, shape: Any, optional: tuple[str, ...] = ()) -> None:
    """The value has these fields, the optional ones maybe, and no other, each of its type."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), value
        fields = cast(Json, value)
        known = cast(Json, shape)
        assert fields.keys() - set(optional) == known.keys() - set(optional), fields
        for name in fields:
            shaped(fields[name], known[name])
    elif shape == "iso":
        assert ISO.fullmatch(value) and datetime.fromisoformat(value), value
    elif shape == "number":
        assert isinstance(value, int | float) and not isinstance(value, bool), value
    elif isinstance(shape, tuple):
        assert value in shape, value
    else:
        assert type(value) is shape, (value, shape)


STATUS = ("active", "paused", "completed", "failed")
ROW: Json = {
    "session_id": str,
    "instance": str,
    "project": str,
    "name": str,
    "status": STATUS,
    "model": str,
    "created": "iso",
    "last_active": "iso",
    "message_count": int,
    "files_changed": int,
    "tokens_used": int,
}
PROGRESS: Json = {
    "current_task": str,
    "files_open": int,
    "files_changed": int,
    "files_created": int,
    "commands_run": int,
    "last_command": str,
    "tests_passed": int,
    "tests_failed": int,
}
TOKENS: Json = {"input": int, "output": int, "total": int, "cost_usd": "number"}
