"""Owns the file that keeps some room on the disk, so that what must be written still can be."""

import os
from pathlib import Path
from typing import Protocol

RESERVE_BYTES = 8 * 1024 * 1024
"""Room for the ends of some thousand runs, and for the WAL to be checkpointed."""


class Reserve(Protocol):
    """Room that can be given up once the disk is full."""

    def release(self) -> None:
        """Gives the room up."""
        ...

    def restore(self) -> bool:
        """Takes the room again; False while the disk has none to spare."""
        ...


class ReserveFile:
    """A preallocated file beside the database."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size

    def release(self) -> None:
        self._path.unlink(missing_ok=True)

    def restore(self) -> bool:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            os.posix_fallocate(handle, 0, self._size)
        except OSError:
            self._path.unlink(missing_ok=True)
            return False
        finally:
            os.close(handle)
        return True
