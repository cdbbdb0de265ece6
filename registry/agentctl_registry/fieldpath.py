"""Names one field inside an entry (`env.NAME`, `cmd[1]`) and sets it in a copy. Pure."""

import copy
import re
from collections.abc import Mapping
from typing import Any, cast

import orjson

from agentctl.core.errors import Invalid
from agentctl_registry.jsontext import Path, show_path

_STEP = re.compile(r'(?:^|\.)([^.\[\]"]+)|\[(\d{1,6})\]|\[("(?:[^"\\]|\\.)*")\]')


def parse_field(field: str) -> tuple[str, *Path]:
    """`env.NAME`, `cmd[1]` or `env["A.B"]` as steps; the first is a field of the entry.

    Raises:
        Invalid: INVALID_PARAMETERS.
    """
    steps: list[str | int] = []
    at = 0
    while step := _STEP.match(field, at):
        name, index, quoted = step.groups()
        steps.append(name or (int(index) if index else orjson.loads(quoted)))
        at = step.end()
    first = steps[0] if steps else None
    if not isinstance(first, str) or at != len(field):
        raise Invalid(
            f'"{field}" names no field; write it like model_flag, env.NAME or cmd[1]',
            metadata={"field": field},
        )
    if first == "id":
        raise Invalid(
            "an entry's id cannot be changed; add a new entry instead", metadata={"field": "id"}
        )
    return first, *steps[1:]


def with_field(raw: Mapping[str, Any], path: tuple[str, *Path], value: Any) -> Any:
    """The top-level field path[0] of raw, copied, with value at path inside it.

    Raises:
        Invalid: a step on the way is no object or list, or lies past a list's end.
    """
    holder = {key: copy.deepcopy(raw[key]) for key in path[:1] if key in raw}
    inside: Any = holder
    for depth, step in enumerate(path):
        missing = _is_missing(inside, step, path, depth)
        new: Any
        if depth + 1 == len(path):
            new = value
        elif missing:
            new = list[Any]() if isinstance(path[depth + 1], int) else dict[str, Any]()
        else:
            inside = inside[step]
            continue
        if missing and isinstance(inside, list):
            cast(list[Any], inside).append(new)
        else:
            inside[step] = new
        inside = new
    return holder[path[0]]


def _is_missing(inside: Any, step: str | int, path: Path, depth: int) -> bool:
    where = show_path(path[:depth])
    if isinstance(inside, dict) and isinstance(step, str):
        return step not in inside
    if isinstance(inside, list) and isinstance(step, int):
        size = len(cast(list[Any], inside))
        if step <= size:
            return step == size
        message = f"{where} has {size} items; the next one is [{size}]"
    else:
        kind = "an object" if isinstance(step, str) else "a list"
        message = f"{where} is not {kind}, so it has no {show_path((step,))}"
    raise Invalid(message, metadata={"field": show_path(path)})
