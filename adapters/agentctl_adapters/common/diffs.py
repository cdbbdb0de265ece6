"""Owns unified diffs of two texts. Pure; knows no file and no agent."""

from collections.abc import Iterator
from difflib import SequenceMatcher

from agentctl.core.words import ChangeKind

CONTEXT_LINES = 3
# Comparing is quadratic at worst: larger changed regions are shown as replaced.
COMPARED_LINES = 4000


def unified(
    path: str, old: str, new: str, change: ChangeKind = ChangeKind.MODIFY
) -> tuple[str, int, int]:
    """A unified diff, and how many lines it adds and removes."""
    a, b = _lines(old), _lines(new)
    before = "/dev/null" if change is ChangeKind.CREATE else path
    after = "/dev/null" if change is ChangeKind.DELETE else path
    out = [f"--- {before}", f"+++ {after}"]
    added = removed = 0
    for group in _hunks(a, b):
        first, last = group[0], group[-1]
        out.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [f" {line}" for line in a[i1:i2]]
                continue
            out += [f"-{line}" for line in a[i1:i2]]
            out += [f"+{line}" for line in b[j1:j2]]
            removed += i2 - i1
            added += j2 - j1
    return ("\n".join(out) + "\n" if added or removed else ""), added, removed


def _lines(text: str) -> list[str]:
    """Lines without their ends; the last says when it has none. Only \\n ends a line."""
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += "\n\\ No newline at end of file"
    else:
        lines.pop()
    return lines


_Op = tuple[str, int, int, int, int]


def _hunks(a: list[str], b: list[str]) -> Iterator[list[_Op]]:
    start, least = 0, min(len(a), len(b))
    while start < least and a[start] == b[start]:
        start += 1
    end = 0
    while end < least - start and a[-1 - end] == b[-1 - end]:
        end += 1
    lead, trail = min(start, CONTEXT_LINES), min(end, CONTEXT_LINES)
    a_mid = a[start - lead : len(a) - end + trail]
    b_mid = b[start - lead : len(b) - end + trail]
    at = start - lead
    if len(a_mid) + len(b_mid) <= COMPARED_LINES:
        matcher = SequenceMatcher(None, a_mid, b_mid, autojunk=False)
        groups: Iterator[list[_Op]] = iter(
            [[(*op,) for op in group] for group in matcher.get_grouped_opcodes(CONTEXT_LINES)]
        )
    else:
        n, m = len(a_mid) - trail, len(b_mid) - trail
        whole: list[_Op] = [
            ("equal", 0, lead, 0, lead),
            ("replace", lead, n, lead, m),
            ("equal", n, n + trail, m, m + trail),
        ]
        groups = iter([whole] if n > lead or m > lead else [])
    for group in groups:
        yield [(tag, i1 + at, i2 + at, j1 + at, j2 + at) for tag, i1, i2, j1, j2 in group]


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start},{length}"
