"""Owns the patterns of rules: what a command or path with wildcards fits; pure.

A wildcard in a rule that allows never covers a shell operator, so that `npm test *` lets no
`npm test; rm -rf /` through. It refuses to know requests, sessions and the file system.
"""

import posixpath
import re
from functools import lru_cache

# More is no pattern that a person wrote; both are far above any in use.
LONGEST = 1000
DEEPEST = 64

_ANY = "."
_PLAIN = r"[^;&|<>()`$\n\r]"


class BadPattern(ValueError):
    """The pattern does not compile; the message says where."""


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """The regular expression of `[...]` that opens at `start`, and where it ends."""
    begin = start + 1
    negated = pattern[begin : begin + 1] in ("!", "^")
    begin += negated
    end = pattern.find("]", begin + 1)
    if end < 0:
        raise BadPattern(f"the [ at character {start + 1} has no ]")
    inner = pattern[begin:end]
    for low, high in re.findall(r"(.)-(.)", inner):
        if low > high:
            raise BadPattern(f"the range {low}-{high} is empty")
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner)
    return f"[{'^' if negated else ''}{escaped}]", end + 1


def _regex(pattern: str, one: str) -> str:
    """`one` is what a wildcard may cover. No star is tried twice: matching stays linear per star."""
    parts: list[str] = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif char == "?":
            parts[-1] += one
        elif char == "[":
            told, at = _bracket(pattern, at - 1)
            # What a bracket names is meant as it stands; a negated one is a wildcard too.
            parts[-1] += told if not told.startswith("[^") else f"(?:(?={one}){told})"
        elif char == "\\":
            if at == len(pattern):
                raise BadPattern("it ends with a \\ that quotes nothing")
            parts[-1] += re.escape(pattern[at])
            at += 1
        else:
            parts[-1] += re.escape(char)
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>{one}*?{part})" for part in parts[1:-1])
    return f"{parts[0]}{middle}{one}*{parts[-1]}"


@lru_cache(maxsize=1024)
def _compiled(pattern: str, one: str) -> re.Pattern[str]:
    if len(pattern) > LONGEST:
        raise BadPattern(f"it has {len(pattern)} characters, at most {LONGEST} are taken")
    try:
        return re.compile(_regex(pattern, one), re.DOTALL)
    except re.error as error:
        raise BadPattern(str(error)) from error


def fits_command(pattern: str, command: str, *, guarded: bool) -> bool:
    """Whether the whole command fits; `guarded`: no wildcard covers a shell operator.

    Raises:
        BadPattern: the pattern does not compile.
    """
    return _compiled(pattern.strip(), _PLAIN if guarded else _ANY).fullmatch(command) is not None


@lru_cache(maxsize=1024)
def _names(pattern: str) -> tuple[str, ...]:
    names = tuple(name for name in pattern.split("/") if name)
    if len(names) > DEEPEST:
        raise BadPattern(f"it has {len(names)} names, at most {DEEPEST} are taken")
    for name in names:
        if name in (".", ".."):
            raise BadPattern(f"{name} in it is never part of a path: paths are resolved first")
        if name != "**" and "**" in name:
            raise BadPattern(f"{name}: ** stands for whole names, so put it between two /")
        _compiled(name, _ANY)
    return names


def fits_path(pattern: str, path: str) -> bool:
    """Whether an absolute path fits; `**` stands for any number of names, also none.

    Raises:
        BadPattern: the pattern does not compile.
    """
    names = _names(pattern)
    reached = {0}
    reached |= _skipped(names, reached)
    for part in (part for part in path.split("/") if part):
        step: set[int] = set()
        for at in reached:
            if at == len(names):
                continue
            if names[at] == "**":
                step.add(at)
            elif _compiled(names[at], _ANY).fullmatch(part):
                step.add(at + 1)
        reached = step | _skipped(names, step)
    return len(names) in reached


def _skipped(names: tuple[str, ...], reached: set[int]) -> set[int]:
    found: set[int] = set()
    for at in reached:
        while at < len(names) and names[at] == "**":
            at += 1
            found.add(at)
    return found


def absolute(path: str, workspace: str) -> str:
    """A path as rules see it: from the root, without `.` and `..`; links are not followed."""
    joined = posixpath.normpath(posixpath.join(workspace, path))
    # POSIX lets two leading slashes stay; no agent means anything by them.
    return "/" + joined.lstrip("/") if joined.startswith("/") else joined


def inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it; both absolute."""
    path, folder = absolute(path, "/"), absolute(folder, "/")
    return path == folder or path.startswith(folder.rstrip("/") + "/")
