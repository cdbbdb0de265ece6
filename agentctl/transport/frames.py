"""Bytes to lines, sans-IO: splits on \\n only, in linear time, and survives lines that are too long.

Knows no encoding and no message; U+2028 and its like are not line ends here.
"""

from dataclasses import dataclass

# Agents send whole files in one line (64 MB lines occur); more than this is a runaway.
MAX_LINE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Oversized:
    """A line that was skipped to its end because it was longer than the limit; size in bytes."""

    size: int


class LineFramer:
    """Feeds on chunks, gives whole lines without their end (`\\n` or `\\r\\n`)."""

    __slots__ = ("_held", "_held_bytes", "_max_line", "_skipped_bytes")

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._skipped_bytes = 0

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the lines that data completes, in order."""
        if b"\n" not in data:
            self._hold(data)
            return []
        first, *others = data.split(b"\n")
        rest = others.pop()
        self._hold(first)
        lines = [self._take()]
        if b"\r" in data:
            others = [other[:-1] if other.endswith(b"\r") else other for other in others]
        if len(data) > self._max_line:
            lines += [
                each if len(each) <= self._max_line else Oversized(len(each)) for each in others
            ]
        else:
            lines += others
        self._hold(rest)
        return lines

    def flush(self) -> bytes | Oversized | None:
        """Return what came after the last line end, None when nothing did."""
        return self._take() if self._held_bytes or self._skipped_bytes else None

    def _hold(self, piece: bytes) -> None:
        if self._skipped_bytes:
            self._skipped_bytes += len(piece)
        elif self._held_bytes + len(piece) > self._max_line + 1:  # one more: it may be a \r
            self._skipped_bytes = self._held_bytes + len(piece)
            self._held.clear()
            self._held_bytes = 0
        elif piece:
            self._held.append(piece)
            self._held_bytes += len(piece)

    def _take(self) -> bytes | Oversized:
        if self._skipped_bytes:
            size, self._skipped_bytes = self._skipped_bytes, 0
            return Oversized(size)
        line = b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        if line.endswith(b"\r"):
            line = line[:-1]
        return line if len(line) <= self._max_line else Oversized(len(line))
