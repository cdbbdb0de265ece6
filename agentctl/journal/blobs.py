"""Owns the bytes that are too large for the journal: one file each, named by their SHA-256.

A blob is written beside its place and moved there, so that there is never half of one. Who refers to
it is for its callers to know. Every method blocks and may be called from any thread.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agentctl.core.errors import DaemonFailed, Exhausted

NEW = ".new-"
"""How the name of a blob begins that is being written."""

# What a full disk, a full quota and a file-size limit say: there is no room for these bytes.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Blob:
    """`sha256` in hex; `size` in bytes."""

    sha256: str
    size: int


class Blobs:
    """The blobs of one data directory.

    A blob that was put is pinned until `unpin`: whoever put it writes meanwhile who refers to it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._new = f"{NEW}{secrets.token_hex(4)}-"
        self._lock = threading.Lock()
        self._pins: dict[str, int] = {}
        self._doomed: set[str] = set()
        self.total = 0
        """Bytes of all blobs; known once `recount` has looked."""

    def recount(self) -> None:
        """Removes what a crash left half written, and sums up the rest."""
        with self._lock:
            self.total = 0
            for path in self._files():
                if path.name.startswith(self._new):
                    continue
                if path.name.startswith(NEW):
                    path.unlink(missing_ok=True)
                    continue
                with contextlib.suppress(OSError):
                    self.total += path.stat().st_size

    def put(self, data: bytes | Iterable[bytes]) -> Blob:
        """Keeps bytes, once however often they come, and pins them.

        Raises:
            Exhausted: the disk is full (DISK_FULL); nothing is left of them.
            DaemonFailed: the directory cannot be written.
        """
        if isinstance(data, bytes):
            blob = Blob(hashlib.sha256(data).hexdigest(), len(data))
            if self._pin(blob.sha256):
                return blob
            data = (data,)
        try:
            self._root.mkdir(mode=0o700, exist_ok=True)
            return self._write(data)
        except OSError as error:
            raise _explained(self._root, error) from error

    def unpin(self, sha256: str) -> None:
        with self._lock:
            left = self._pins.get(sha256, 0) - 1
            if left > 0:
                self._pins[sha256] = left
            else:
                self._pins.pop(sha256, None)

    def _pin(self, sha256: str) -> bool:
        """Whether it is there; then it is pinned."""
        with self._lock:
            if not self.path(sha256).is_file():
                return False
            self._pins[sha256] = self._pins.get(sha256, 0) + 1
            self._doomed.discard(sha256)
            return True

    def _write(self, data: Iterable[bytes]) -> Blob:
        new = self._root / f"{self._new}{secrets.token_hex(8)}"
        digest, size = hashlib.sha256(), 0
        try:
            with _create(new) as file:
                for piece in data:
                    digest.update(piece)
                    size += len(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            sha256 = digest.hexdigest()
            place = self.path(sha256)
            place.parent.mkdir(mode=0o700, exist_ok=True)
            with self._lock:
                if not place.is_file():
                    new.rename(place)
                    self.total += size
                self._pins[sha256] = self._pins.get(sha256, 0) + 1
                self._doomed.discard(sha256)
            return Blob(sha256, size)
        finally:
            new.unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Where the blob is, if it is there."""
        return self._root / sha256[:2] / sha256[2:]

    def open(self, sha256: str) -> BinaryIO:
        """Opens a blob to be read.

        Raises:
            FileNotFoundError: it is gone.
        """
        return self.path(sha256).open("rb")

    def doom(self, sha256: str) -> None:
        """Says that it may have become useless; a `put` of it takes that back."""
        with self._lock:
            self._doomed.add(sha256)

    def drop(self, sha256: str) -> bool:
        """Removes a blob that was doomed and that nobody has put or pinned since."""
        with self._lock:
            if sha256 not in self._doomed or sha256 in self._pins:
                self._doomed.discard(sha256)
                return False
            self._doomed.discard(sha256)
            path = self.path(sha256)
            try:
                size = path.stat().st_size
                path.unlink()
            except OSError:
                return False
            self.total -= size
            return True

    def spare(self, sha256: str) -> None:
        """Takes `doom` back."""
        with self._lock:
            self._doomed.discard(sha256)

    def all(self) -> list[str]:
        """The hashes of all blobs, sorted."""
        names = (path.parent.name + path.name for path in self._files())
        return sorted(name for name in names if len(name) == 64 and set(name) <= _DIGITS)

    def _files(self) -> Iterator[Path]:
        if not self._root.is_dir():
            return
        for entry in self._root.iterdir():
            if entry.is_dir():
                yield from entry.iterdir()
            else:
                yield entry


def _create(path: Path) -> BinaryIO:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.fdopen(handle, "wb")


def _explained(root: Path, error: OSError) -> Exhausted | DaemonFailed:
    if error.errno in _NO_ROOM:
        return Exhausted(
            f"The disk that holds {root} is full: free some space, then try again.",
            reason="DISK_FULL",
        )
    return DaemonFailed(
        f"{root} cannot be written ({error.strerror or error}): see to its owner and its rights."
    )
