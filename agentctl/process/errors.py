"""What can go wrong with a process, worded for the person who has to mend it. Knows no agent."""

import errno as codes
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

# The kernel's limit for one argument or one NAME=value (32 pages), whatever the total may be.
MAX_STRING_BYTES = 131_072


class ProcessError(Exception):
    """Base of what this room raises."""


class ClosedByPeer(ProcessError):
    """The process no longer reads its stdin."""


class SecretUnavailable(ProcessError):
    """A reference (`env:NAME`, `file:PATH`) leads to nothing; the message names the reference."""


class SpawnFailed(ProcessError):
    """A program could not be started.

    Attributes: argv0 as asked for, cwd, errno (None when the system gave none), strerror.
    """

    def __init__(self, argv0: str, cwd: Path, errno: int | None, strerror: str) -> None:
        super().__init__(f"cannot start {argv0}: {strerror}")
        self.argv0 = argv0
        self.cwd = cwd
        self.errno = errno
        self.strerror = strerror


def exec_failed(argv0: str, cwd: Path, errno: int) -> SpawnFailed:
    """Word the failure of execvp itself."""
    named = "/" in argv0
    match errno:
        case codes.ENOENT if named and Path(cwd, argv0).exists():
            text = "the program that its first line names does not exist"
        case codes.ENOENT:
            text = (
                "no such file" if named else "not found on PATH; install it or name its full path"
            )
        case codes.EACCES | codes.EISDIR:
            text = "it is not an executable file (chmod +x?)"
        case codes.ENOEXEC:
            text = "it is neither a program nor a script with a #! line"
        case _:
            text = os.strerror(errno)
    return SpawnFailed(argv0, cwd, errno, text)


def cwd_failed(argv0: str, cwd: Path, errno: int | None) -> SpawnFailed:
    """Word the failure to enter the working directory."""
    match errno:
        case codes.ENOENT:
            text = f"the working directory {cwd} does not exist"
        case codes.ENOTDIR:
            text = f"the working directory {cwd} is not a directory"
        case codes.EACCES:
            text = f"no permission to enter the working directory {cwd}"
        case _:
            text = f"cannot enter the working directory {cwd}: {os.strerror(errno or codes.EINVAL)}"
    return SpawnFailed(argv0, cwd, errno, text)


def too_big(argv: Iterable[str], env: Mapping[str, str], cwd: Path) -> SpawnFailed:
    """Name the largest argument or variable, its size and the size of all (bytes)."""
    items = list(argv)
    sizes = [(len(os.fsencode(item)) + 1, f"argument {n}") for n, item in enumerate(items)]
    sizes += [
        (len(os.fsencode(name)) + len(os.fsencode(value)) + 2, f"environment variable {name}")
        for name, value in env.items()
    ]
    size, name = max(sizes)
    text = f"arguments and environment are too big: {name} has {size} bytes"
    if size > MAX_STRING_BYTES:
        text += f" ({MAX_STRING_BYTES} are allowed for one)"
    text += f", all together {sum(size for size, _ in sizes)} bytes; make it smaller or unset it"
    return SpawnFailed(items[0], cwd, codes.E2BIG, text)
