"""Reads a registry file and replaces it whole or not at all.

Owns the file system side of agents.json; it knows nothing of what is written in it.
"""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

# A registry of thousands of entries is smaller; anything larger is the wrong file.
MAX_BYTES = 8 * 1024 * 1024
# The file may hold secrets in `env`, so a new one is for its owner only.
NEW_FILE_MODE = 0o600

Signature = tuple[int, ...] | None


class Unreadable(Exception):
    """The file is there but cannot be used; the message says why, without its name."""


def signature(path: Path) -> Signature:
    """What changes when the file is edited, replaced, made or removed; None when it is absent."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def read(path: Path) -> str | None:
    """The text of the file, or None when there is none.

    Raises:
        Unreadable: it is no regular file, too big, not UTF-8 or not permitted.
    """
    try:
        # Before opening: opening a pipe would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unreadable("expected a file, found a directory or device")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise Unreadable(f"expected at most {MAX_BYTES} bytes, found more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"expected UTF-8 text, found another byte on line {line}") from error


def replace(path: Path, text: str) -> None:
    """Write text to path so that a reader or a crash sees the old file or the new one.

    The mode stays; a symbolic link stays and its target is replaced; directories are made.

    Raises:
        OSError: nothing was changed.
    """
    target = path.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = NEW_FILE_MODE
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    # The rename has happened; that it is not yet durable is no reason to call it failed.
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
