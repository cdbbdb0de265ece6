"""Owns a Unix socket's path: whose it is, and who may open it. It refuses to know what is served."""

import fcntl
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentctl.config import MAX_SOCKET_PATH
from agentctl.core.errors import DaemonFailed, Invalid

PRIVATE_DIRECTORY = 0o700
PRIVATE_SOCKET = 0o600
ONLY_OWNER_UMASK = 0o177


def check_path(path: Path) -> None:
    """Refuses a path that the system would cut.

    Raises:
        Invalid: it is too long or not absolute.
    """
    length = len(os.fsencode(path))
    if length > MAX_SOCKET_PATH:
        raise Invalid(
            f"the socket path {path} has {length} bytes and the system takes {MAX_SOCKET_PATH}: "
            "serve on a shorter one, as --listen unix:/tmp/NAME/agentctl.sock.",
            metadata={"field": "listen"},
        )
    if not path.is_absolute():
        raise Invalid(
            f"the socket path {path} is relative: give an absolute one.",
            metadata={"field": "listen"},
        )


@contextmanager
def owned_path(path: Path) -> Generator[None]:
    """Makes the path ours alone while the context is open, and leaves no socket behind.

    A stale socket is removed only under the lock that stands beside it: binding by itself would
    silently take the path from a daemon that serves on it.

    Raises:
        DaemonFailed: another process serves there (its pid is named), or the path cannot be used.
        Invalid: the path is no socket's, too long or not absolute.
    """
    check_path(path)
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DaemonFailed(
            f"the directory of the socket {path} cannot be used ({error}): make it writable, or "
            "serve elsewhere with --listen.",
            metadata={"address": f"unix:{path}"},
        ) from None
    try:
        _lock(handle, path)
        _remove_stale(path)
        yield
        with suppress(FileNotFoundError):
            path.unlink()
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pid = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
        raise DaemonFailed(
            f"another daemon (pid {pid}) serves on {path}: stop it with `agentctl down`, or serve "
            "elsewhere with --listen.",
            metadata={"address": f"unix:{path}", "pid": pid},
        ) from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Invalid(
            f"{path} is there and is no socket: serve elsewhere with --listen.",
            metadata={"field": "listen"},
        )
    path.unlink()


@contextmanager
def only_owner() -> Generator[None]:
    """Files made inside are for their owner only: gRPC binds a socket with the umask of the moment."""
    before = os.umask(ONLY_OWNER_UMASK)
    try:
        yield
    finally:
        os.umask(before)
