"""Strict JSON that remembers where each value stands, so that a mistake can be shown by its line.

Owns the text of a JSON file: parsing with positions. It knows no schema, no registry and no file.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

import orjson

Path = tuple[str | int, ...]

# Deeper nesting is a mistake, and Python's own stack ends soon after.
MAX_DEPTH = 100
# int() refuses more than 4300 digits; no number of a registry needs this many.
MAX_DIGITS = 300

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<real>\.[0-9]+)?(?P<exp>[eE][-+]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"[^\s,:{}\[\]\"]+")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]+")
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}


class JsonSyntaxError(ValueError):
    """The text is not strict JSON. Attributes: message, offset (characters), path."""

    def __init__(self, message: str, offset: int, path: Path) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.path = path


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value stands: `start` and `end` of it, `head` of its key (or of itself)."""

    head: int
    start: int
    end: int


@dataclass(frozen=True)
class Document:
    """A parsed text: its value, and the span of every value in it by path."""

    text: str
    value: Any
    spans: Mapping[Path, Span]

    @cached_property
    def _lines(self) -> list[int]:
        return line_starts(self.text)

    def position(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of the value at path, or of the nearest one around it."""
        while path not in self.spans:
            path = path[:-1]
        return locate(self._lines, self.spans[path].start)


def line_starts(text: str) -> list[int]:
    """Offsets at which the lines of text begin."""
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))][:-1]


def locate(lines: list[int], offset: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset."""
    line = bisect_right(lines, offset)
    return line, offset - lines[line - 1] + 1


def show_path(path: Path) -> str:
    """`("agents", 1, "cmd", 0)` as `agents[1].cmd[0]`."""
    shown = ""
    for step in path:
        if isinstance(step, int):
            shown += f"[{step}]"
        elif not _PLAIN_KEY.fullmatch(step):
            shown += f"[{orjson.dumps(step).decode()}]"
        else:
            shown += f".{step}" if shown else step
    return shown


def parse(text: str) -> Document:
    """Parse strict JSON: no comments, no trailing commas, no double keys, no NaN.

    Raises:
        JsonSyntaxError: with the place, what was expected and what was found.
    """
    return _Parser(text).document()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.spans: dict[Path, Span] = {}

    def document(self) -> Document:
        self.space()
        if self.at == len(self.text):
            raise JsonSyntaxError("expected an object, found an empty file", 0, ())
        value = self.value((), self.at)
        self.space()
        if self.at < len(self.text):
            raise self.unexpected("the end of the file", ())
        return Document(self.text, value, self.spans)

    def space(self) -> None:
        self.at = cast(re.Match[str], _SPACE.match(self.text, self.at)).end()

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def value(self, path: Path, head: int) -> Any:
        if len(path) > MAX_DEPTH:
            raise JsonSyntaxError(f"expected at most {MAX_DEPTH} levels, found more", self.at, path)
        start = self.at
        match self.peek():
            case "{":
                found: Any = self.object(path)
            case "[":
                found = self.array(path)
            case '"':
                found = self.string(path)
            case _:
                found = self.scalar(path)
        self.spans[path] = Span(head, start, self.at)
        return found

    def object(self, path: Path) -> dict[str, Any]:
        opened = self.at
        items: dict[str, Any] = {}
        self.at += 1
        self.space()
        while self.peek() != "}":
            head = self.at
            if self.peek() != '"':
                raise self.unexpected("a key in double quotes", path, opened)
            key = self.string(path)
            if key in items:
                line, _ = locate(line_starts(self.text), self.spans[(*path, key)].head)
                raise JsonSyntaxError(
                    f"expected each key once, found {orjson.dumps(key).decode()} again"
                    f" (first on line {line})",
                    head,
                    (*path, key),
                )
            self.space()
            if self.peek() != ":":
                raise self.unexpected("a colon after the key", (*path, key))
            self.at += 1
            self.space()
            items[key] = self.value((*path, key), head)
            self.separator("}", path, opened)
        self.at += 1
        return items

    def array(self, path: Path) -> list[Any]:
        opened = self.at
        items: list[Any] = []
        self.at += 1
        self.space()
        while self.peek() != "]":
            if not self.peek():
                raise self.unexpected("]", path, opened)
            items.append(self.value((*path, len(items)), self.at))
            self.separator("]", path, opened)
        self.at += 1
        return items

    def separator(self, close: str, path: Path, opened: int) -> None:
        self.space()
        if self.peek() == close:
            return
        if self.peek() != ",":
            raise self.unexpected(f"a comma or {close}", path, opened)
        comma = self.at
        self.at += 1
        self.space()
        if self.peek() == close:
            message = f"expected nothing more or another item, found a comma before {close}"
            raise JsonSyntaxError(message, comma, path)

    def string(self, path: Path) -> str:
        token = _STRING.match(self.text, self.at)
        if token is None:
            end = re.compile(r"[\x00-\x1f]|\Z").search(self.text, self.at)
            offset = self.at if end is None or end.group() in ("", "\n", "\r") else end.start()
            raise JsonSyntaxError('expected " at the end of the text, found none', offset, path)
        try:
            decoded: str = orjson.loads(token.group())
        except orjson.JSONDecodeError:
            message = f"expected valid \\ escapes, found {_short(token.group())}"
            raise JsonSyntaxError(message, self.at, path) from None
        self.at = token.end()
        return decoded

    def scalar(self, path: Path) -> Any:
        if number := _NUMBER.match(self.text, self.at):
            token = number.group()
            real = number["real"] or number["exp"]
            if len(token) > MAX_DIGITS or (real and math.isinf(float(token))):
                raise JsonSyntaxError("expected a number in range, found more", self.at, path)
            self.at = number.end()
            return float(token) if real else int(token)
        word = _WORD.match(self.text, self.at)
        if word is None or word.group() not in _CONSTANTS:
            raise self.unexpected("a value", path)
        self.at = word.end()
        return _CONSTANTS[word.group()]

    def unexpected(self, expected: str, path: Path, opened: int | None = None) -> JsonSyntaxError:
        word = _WORD.match(self.text, self.at)
        found = _short(word.group()) if word else self.peek()
        hint = ""
        if not found:
            found = "the end of the file"
            if opened is not None:
                line, _ = locate(line_starts(self.text), opened)
                hint = f" ({self.text[opened]} on line {line} is not closed)"
        elif found.startswith(("//", "/*", "#")):
            found, hint = "a comment", " (JSON has none)"
        elif found.startswith("'"):
            hint = " (JSON text stands in double quotes)"
        elif found == '"':
            found = "text"
        return JsonSyntaxError(f"expected {expected}, found {found}{hint}", self.at, path)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
