"""Changes a JSON text in place: what a person wrote and did not mean to change stays as it was.

Pure: text and a wanted value in, text out. It knows no schema and no file.
"""

import json
import re
from functools import reduce
from operator import getitem
from typing import Any, cast

from agentctl_registry.jsontext import Document, Path, parse

# Each step mends one difference; more than this many means that rewriting is simpler.
MAX_STEPS = 1000


def dump(value: Any, indent: str = "  ") -> str:
    """The value as JSON text for people, without a final line end."""
    return json.dumps(value, indent=indent, ensure_ascii=False)


def rewrite(text: str, wanted: Any) -> str:
    """Return text changed as little as can be so that it parses to `wanted`.

    Keys that stay keep their order and lay-out; new keys come last. Text that cannot be changed
    step by step is written anew in its own indentation.
    """
    document = parse(text)
    indent = _indent_of(text)
    for _ in range(MAX_STEPS):
        step = _difference(document.value, wanted, ())
        if step is None:
            return document.text
        document = parse(_apply(document, *step, indent))
    return dump(wanted, indent) + "\n"


class _Gone:
    """Stands for a value that must be taken out."""


GONE = _Gone()


Step = tuple[Path, Any]


def _difference(old: Any, new: Any, path: Path) -> Step | None:
    """The first place where old differs from new, and what must stand there."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _object_difference(cast(dict[str, Any], old), cast(dict[str, Any], new), path)
    if isinstance(old, list) and isinstance(new, list):
        return _list_difference(cast(list[Any], old), cast(list[Any], new), path)
    # True == 1 and 1 == 1.0 in Python, but not in the text of a file.
    same = cast(object, old) == new and cast(object, old).__class__ is new.__class__
    return None if same else (path, new)


def _object_difference(
    old: dict[str, Any], new: dict[str, Any], path: Path
) -> tuple[Path, Any] | None:
    for key, value in old.items():
        if key not in new:
            return (*path, key), GONE
        if step := _difference(value, new[key], (*path, key)):
            return step
    for key, value in new.items():
        if key not in old:
            return (*path, key), value
    return None


def _list_difference(old: list[Any], new: list[Any], path: Path) -> tuple[Path, Any] | None:
    for index, item in enumerate(old):
        if index >= len(new):
            return (*path, index), GONE
        step = _difference(item, new[index], (*path, index))
        if step is None:
            continue
        rest = old[index + 1 : index + 1 + len(new) - index]
        if len(new) < len(old) and rest == new[index : index + len(rest)]:
            return (*path, index), GONE
        return step
    if len(new) > len(old):
        return (*path, len(old)), new[len(old)]
    return None


def _apply(document: Document, path: Path, value: Any, indent: str) -> str:
    text, spans = document.text, document.spans
    if value is GONE:
        return _remove(document, path)
    if path in spans:
        span = spans[path]
        shown = _nested(value, _line_indent(text, span.head), indent)
        return text[: span.start] + shown + text[span.end :]
    return _insert(document, path, value, indent)


def _siblings(document: Document, parent: Path) -> list[Path]:
    inside: Any = reduce(getitem, parent, document.value)
    if isinstance(inside, dict):
        return [(*parent, key) for key in cast(dict[str, Any], inside)]
    return [(*parent, index) for index in range(len(cast(list[Any], inside)))]


def _remove(document: Document, path: Path) -> str:
    text, spans = document.text, document.spans
    siblings = _siblings(document, path[:-1])
    index = siblings.index(path)
    if len(siblings) == 1:
        around = spans[path[:-1]]
        return text[: around.start + 1] + text[around.end - 1 :]
    if index + 1 < len(siblings):
        return text[: spans[path].head] + text[spans[siblings[index + 1]].head :]
    return text[: spans[siblings[index - 1]].end] + text[spans[path].end :]


def _insert(document: Document, path: Path, value: Any, indent: str) -> str:
    text, spans = document.text, document.spans
    parent = spans[path[:-1]]
    siblings = _siblings(document, path[:-1])
    key = "" if isinstance(path[-1], int) else json.dumps(path[-1], ensure_ascii=False) + ": "
    if siblings:
        last = spans[siblings[-1]]
        one_line = len(path) > 1 and "\n" not in text[parent.start : last.head]
        if one_line:
            return (
                text[: last.end]
                + f", {key}{json.dumps(value, ensure_ascii=False)}"
                + text[last.end :]
            )
        margin = _line_indent(text, last.head)
        return (
            text[: last.end]
            + f",\n{margin}{key}{_nested(value, margin, indent)}"
            + text[last.end :]
        )
    outer = _line_indent(text, parent.head)
    margin = outer + indent
    inner = f"\n{margin}{key}{_nested(value, margin, indent)}\n{outer}"
    return text[: parent.start + 1] + inner + text[parent.end - 1 :]


def _nested(value: Any, margin: str, indent: str) -> str:
    return dump(value, indent).replace("\n", "\n" + margin)


def _line_indent(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return cast(re.Match[str], re.match(r"[ \t]*", line)).group()


def _indent_of(text: str) -> str:
    first = re.search(r"\n([ \t]+)\S", text)
    return first.group(1) if first else "  "
