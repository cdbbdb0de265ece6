"""Owns writing to the terminal: colour or none, width, JSON lines, tables, numbers for people.

It refuses to know a message of the API. Text of an agent goes through `clean` before a terminal.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from agentctl.cli.state import STATE

if TYPE_CHECKING:
    from google.protobuf.message import Message

MAX_WIDTH = 100
NONE = "\u2013"
"""Stands in a table for what was not told."""

MINUS = "\u2212"
_CODES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Out:
    """One stream with its colours."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.is_terminal = stream.isatty()
        self.color = STATE.color == "always" or (
            STATE.color == "auto"
            and self.is_terminal
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )

    def text(self, text: str, style: str = "") -> str:
        """The text in a style ("bold red"), or as it is without colours."""
        if not self.color or not style or not text:
            return text
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"

    def write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()

    def line(self, text: str = "") -> None:
        self.write(text + "\n")


@cache
def out() -> Out:
    return Out(sys.stdout)


@cache
def err() -> Out:
    return Out(sys.stderr)


def width(stream: TextIO) -> int:
    """Columns to use: those of the terminal, at most 100; 100 where there is no terminal."""
    if not stream.isatty():
        return MAX_WIDTH
    return min(shutil.get_terminal_size((80, 24)).columns, MAX_WIDTH)


def clean(text: str) -> str:
    """Takes out control characters, with which an agent's text could steer the terminal."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n"))


def plain(text: str) -> str:
    """One line of it, without control characters."""
    return " ".join(clean(text).split())


def cells(text: str) -> int:
    """Columns that a text takes, without its colour codes."""
    bare = _ANSI.sub("", text)
    if bare.isascii():
        return len(bare)
    from rich.cells import cell_len

    return cell_len(bare)


def clip(text: str, room: int) -> str:
    """Cuts a plain text to so many columns, with an ellipsis."""
    if cells(text) <= room:
        return text
    while text and cells(text) > room - 1:
        text = text[: len(text) - max(1, (cells(text) - room) // 2)]
    return text.rstrip() + "…" if room > 0 else ""


def spread(left: str, right: str, room: int) -> str:
    """Both texts on one line, the right one at the right edge."""
    return left + " " * max(room - cells(left) - cells(right), 1) + right if right else left


def as_json(value: Any) -> str:
    import orjson

    text = orjson.dumps(value).decode()
    # Readers that split at every line end of Unicode must still find one object a line.
    return text if text.isascii() else text.translate(_LINE_ENDS)


def print_json(value: Any) -> None:
    """One JSON object on its line."""
    out().line(as_json(value))


def print_message(message: "Message") -> None:
    """A message of the API as JSON, in snake_case."""
    from agentctl.rpc.jsonview import to_dict

    print_json(to_dict(message))


def columns(
    rows: Sequence[Sequence[str]],
    head: Sequence[str] = (),
    *,
    right: str = "",
    room: int | None = None,
) -> list[str]:
    """Aligned columns as lines; the last one is cut where `room` columns end.

    Args:
        rows: cells, which may hold colour codes except in the last column.
        head: names of the columns.
        right: the names of those that are aligned to the right.
        room: None cuts nothing.
    """
    screen = out()
    shown = ([[screen.text(name, "dim") for name in head]] if head else []) + [
        list(row) for row in rows
    ]
    if not shown:
        return []
    widths = [max(cells(row[at]) for row in shown) for at in range(len(shown[0]))]
    told: list[str] = []
    for row in shown:
        line = ""
        for at, cell in enumerate(row):
            space = " " * (widths[at] - cells(cell))
            to_right = bool(head) and head[at] in right.split()
            if at == len(row) - 1 and not to_right:
                whole = room is None or "\x1b" in cell
                line += cell if whole or room is None else clip(cell, room - cells(line))
                break
            line += (space + cell if to_right else cell + space) + "  "
        told.append(line.rstrip())
    return told


def table(
    rows: Sequence[Sequence[str]],
    head: Sequence[str] = (),
    *,
    right: str = "",
    whole: bool = False,
) -> None:
    """Prints `columns`; a terminal cuts the last one at its edge, unless `whole`: what to type."""
    screen = out()
    cut = screen.is_terminal and not whole
    for line in columns(rows, head, right=right, room=width(screen.stream) if cut else None):
        screen.line(line)


def duration(ms: float) -> str:
    """12 ms, 1.9 s, 14 s, 3 m 20 s, 2 h 5 m."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} m"


def age(ms: float) -> str:
    """How long ago, in one unit: 5s, 14m, 2h, 3d."""
    seconds = max(int(time.time() - ms / 1000), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def size(count: float) -> str:
    """Bytes for people: 412 MB."""
    for limit, unit in ((1e3, "B"), (1e6, "kB"), (1e9, "MB")):
        if count < limit:
            return f"{count * 1000 / limit:.0f} {unit}"
    return f"{count / 1e9:.1f} GB"


def tokens(count: int) -> str:
    """Tokens for people: 870, 12.4 k."""
    return str(count) if count < 1000 else f"{count / 1000:.1f} k"


def home(path: str) -> str:
    """A path with ~ for the home directory."""
    own = os.path.expanduser("~")  # noqa: PTH111  the text is wanted, not a path
    return "~" + path[len(own) :] if path == own or path.startswith(own + "/") else path
