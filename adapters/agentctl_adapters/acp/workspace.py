"""Owns the files that an agent may ask us for: those of its workspace and of no other place.

A path counts by what it leads to. Every file is opened beneath an already opened directory whose
real place was checked, so a link that is swapped in between check and open leads nowhere. Blocking:
callers run it in a thread. Knows no protocol.
"""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

# A whole file travels in one line of JSON; beyond this the agent has to ask for lines of it.
MAX_READ_BYTES = 16 * 1024 * 1024


class FileRefused(Exception):
    """The path or file is none that the agent may have; the message says why."""


class FileMissing(Exception):
    """There is no such file."""


class Workspace:
    """The workspace and the additional directories of one session."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = tuple(os.path.realpath(root) for root in roots)

    @property
    def root(self) -> str:
        """The real path of the workspace itself."""
        return self._roots[0]

    def directory(self, path: str) -> str:
        """The real path of a directory inside.

        Raises:
            FileRefused: it is outside, relative, or no directory.
        """
        real = self._real(path)
        if not Path(real).is_dir():
            raise FileRefused(f"{path} is not a directory")
        return real

    def read_text(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, or `limit` lines of it from line `line` (1 is the first).

        Raises:
            FileMissing: there is none.
            FileRefused: outside, no regular file, no UTF-8 text, or too long.
        """
        fd = self._open(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            if line is None and limit is None:
                data = file.read(MAX_READ_BYTES + 1)
            else:
                start = max(0, (line or 1) - 1)
                stop = None if limit is None else start + max(0, limit)
                data = _joined(islice(file, start, stop))
        if len(data) > MAX_READ_BYTES:
            raise FileRefused(f"{path} is longer than {MAX_READ_BYTES} bytes: ask for lines of it")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise FileRefused(f"{path} is not UTF-8 text") from error

    def write_text(self, path: str, content: str) -> None:
        """Replaces the content of a file, or makes it; its directory must exist.

        Raises:
            FileMissing: its directory does not exist.
            FileRefused: outside, or no regular file.
        """
        data = content.encode("utf-8", "surrogatepass")
        fd = self._open(path, os.O_WRONLY | os.O_CREAT)
        with os.fdopen(fd, "wb") as file:
            file.truncate(0)
            file.write(data)

    def _real(self, path: str) -> str:
        if "\0" in path or not Path(path).is_absolute():
            raise FileRefused(f"{path!r} is not an absolute path")
        real = os.path.realpath(path)
        self._check(path, real)
        return real

    def _check(self, path: str, real: str) -> None:
        if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in self._roots):
            raise FileRefused(f"{path} is outside the workspace")

    def _open(self, path: str, flags: int) -> int:
        directory, name = os.path.split(self._real(path))
        if not name:
            raise FileRefused(f"{path} is not a file")
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with ExitStack() as stack:
            try:
                parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, parent)
                self._check(path, os.readlink(f"/proc/self/fd/{parent}"))  # noqa: PTH115 - magic link
                fd = os.open(name, flags, 0o666, dir_fd=parent)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise FileMissing(f"{path} does not exist") from error
            except OSError as error:
                raise FileRefused(f"{path}: {_why(error)}") from error
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise FileRefused(f"{path} is not a regular file")
        return fd


def _joined(lines: Iterable[bytes]) -> bytes:
    """The lines in one, not reading on once they are too long."""
    size, taken = 0, list[bytes]()
    for line in lines:
        taken.append(line)
        size += len(line)
        if size > MAX_READ_BYTES:
            break
    return b"".join(taken)


def _why(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it became a symbolic link meanwhile"
    return error.strerror or str(error)
