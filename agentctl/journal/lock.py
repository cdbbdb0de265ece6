"""Owns the lock on a data directory: one daemon at a time; knows nothing of what lies in it."""

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from agentctl.core.errors import DaemonFailed


@contextlib.contextmanager
def lock_data_dir(data_dir: Path) -> Generator[None]:
    """Holds `<data_dir>/lock` for as long as the context is open; makes the directory (0700).

    Raises:
        DaemonFailed: another daemon holds it (metadata `pid`), or it is not writable.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise not_writable(data_dir, error) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise DaemonFailed(
                f"Another daemon (pid {pid}) already uses {data_dir}: stop it with `agentctl down`"
                " or give this one another --data-dir.",
                metadata={"pid": pid, "data_dir": str(data_dir)},
            ) from error
        # The lock is what counts: a full disk must not keep a daemon from starting.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


def not_writable(data_dir: Path, error: OSError) -> DaemonFailed:
    """The error for a data directory that we cannot use."""
    return DaemonFailed(
        f"Cannot write to the data directory {data_dir} ({error.strerror}): make it writable for"
        " this user or choose another with --data-dir.",
        metadata={"data_dir": str(data_dir)},
    )
