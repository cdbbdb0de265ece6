"""Owns how what agents made becomes fit to be kept: files read where they may be, secrets taken out,
names and media types. Everything here blocks or is pure; it knows no session and no store.
"""

import mimetypes
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agentctl.process.env import REDACTED, SHORTEST_SECRET

FILE_BYTES = 16 << 20
"""A larger file is no artifact; that it changed stands in its file_change."""

PIECE_CHARS = 64 << 10
"""Text is cleaned in pieces, between which the event loop gets its turn."""

_SCREENSHOT = re.compile(
    r"screen[-_ ]?(shot|cap|grab)|snapshot of the (page|screen)", re.IGNORECASE
)
_TEXT = "text/plain; charset=utf-8"
# What the tables of systems lack or disagree on.
_OWN_TYPES = {
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".ts": "text/typescript",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".webp": "image/webp",
}


def read_inside(path: str, roots: Sequence[str], *, limit: int = FILE_BYTES) -> bytes | None:
    """The content of a plain file that lies under one of the roots, wherever its path may lead.

    None: there is none (any more), it lies elsewhere, or it is larger than `limit` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as file:
        told = os.fstat(handle)
        if not stat.S_ISREG(told.st_mode) or told.st_size > limit:
            return None
        if not any(_under(_place(handle, path), os.path.realpath(root)) for root in roots):
            return None
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


def _place(handle: int, path: str) -> str:
    """Where an open file lies, whatever happens to its directories meanwhile."""
    own = f"/proc/self/fd/{handle}"
    return os.path.realpath(own if Path(own).exists() else path)


def _under(path: str, root: str) -> bool:
    return path.startswith(root.rstrip("/") + "/")


def absolute(path: str, workspace: str) -> str:
    """A path as the agent named it, as an absolute one."""
    return os.path.normpath(os.path.join(workspace, path))  # noqa: PTH118  (keeps links and "..")


def short_path(path: str, workspace: str) -> str:
    """The path as seen from the workspace, when it lies in it."""
    inside = os.path.relpath(path, workspace)
    return path if inside.startswith("..") else inside


def without_secrets(data: bytes, secrets: Iterable[str]) -> tuple[bytes, bool]:
    """Takes out exactly these values, the longest first; whether there were any."""
    before = data
    known = sorted(
        {each for each in secrets if len(each) >= SHORTEST_SECRET}, key=len, reverse=True
    )
    for secret in known:
        data = data.replace(secret.encode(), REDACTED.encode())
    return data, data != before


def cleaned(text: str, redact: Callable[[str], str], secrets: Iterable[str]) -> tuple[bytes, bool]:
    """A text without secrets and what looks like one, as bytes; whether there were any.

    It is cleaned in pieces; the secrets that lie across their borders go in one sweep after that.
    """
    pieces: list[str] = []
    at = 0
    while at < len(text):
        end = text.find("\n", at + PIECE_CHARS, at + 2 * PIECE_CHARS) + 1 or at + 2 * PIECE_CHARS
        pieces.append(redact(text[at:end]))
        at = end
    clean = "".join(pieces)
    data, more = without_secrets(clean.encode("utf-8", "replace"), secrets)
    return data, more or clean != text


def mime_of(path: str, data: bytes) -> str:
    """The media type by the name, else text or not."""
    ending = os.path.splitext(path)[1].lower()  # noqa: PTH122  (a name, no path of this system)
    # The names that Python brings along: guess_type() would read files of the system first.
    told = _OWN_TYPES.get(ending) or mimetypes.types_map.get(ending)
    if told is not None:
        return told
    start = data[:4096]
    if b"\0" in start:
        return "application/octet-stream"
    try:
        start.decode()
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4 or len(data) <= len(start):
            return "application/octet-stream"
    return _TEXT


def shows_screen(*names: str | None) -> bool:
    """Whether a tool of that name or title makes pictures of a screen."""
    return any(name and _SCREENSHOT.search(name) for name in names)


def counted(files: int, additions: int, deletions: int) -> str:
    """A patch in few words: `3 files, +10 -2`."""
    return f"{files} file{'' if files == 1 else 's'}, +{additions} -{deletions}"
