"""What does not fit into the journal lies beside it, whole or not at all."""

import errno
import hashlib
import os
from pathlib import Path
from typing import Any, Self

import pytest

from agentctl.core.errors import DaemonFailed, Exhausted
from agentctl.journal import blobs as module
from agentctl.journal.blobs import Blobs


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_a_blob_is_named_by_what_it_holds_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    kept = Blobs(tmp_path / "blobs").put(b"hello")
    digest = hashlib.sha256(b"hello").hexdigest()
    (path,) = files(tmp_path)
    assert (kept.sha256, kept.size) == (digest, 5)
    assert path == tmp_path / "blobs" / digest[:2] / digest[2:]
    assert path.read_bytes() == b"hello"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_same_bytes_are_kept_once(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    first, second = blobs.put(b"same"), blobs.put(iter([b"sa", b"me"]))
    assert first == second
    assert len(files(tmp_path)) == 1
    assert blobs.total == 4


class FullDisk:
    """A disk that takes so many bytes of a file and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOSPC) -> None:
        create = module._create  # pyright: ignore[reportPrivateUsage]  the door to the disk

        def full(path: Path) -> Any:
            file = create(path)
            write = file.write

            class Short:
                def write(self, data: bytes) -> int:
                    write(data[:3])
                    raise OSError(code, os.strerror(code))

                def __enter__(self) -> Self:
                    return self

                def __exit__(self, *_: object) -> None:
                    file.close()

            return Short()

        monkeypatch.setattr(module, "_create", full)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_told_and_leaves_no_half_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    FullDisk(monkeypatch, code)
    with pytest.raises(Exhausted, match="is full: free some space") as full:
        Blobs(tmp_path).put(b"a long one")
    assert full.value.reason == "DISK_FULL"
    assert files(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file is in the way")
    with pytest.raises(DaemonFailed, match="cannot be written"):
        Blobs(tmp_path / "blobs").put(b"x")


def test_what_a_crash_left_half_written_goes_and_the_rest_is_counted(tmp_path: Path) -> None:
    before = Blobs(tmp_path)
    kept = before.put(b"whole")
    (tmp_path / f"{module.NEW}1234").write_bytes(b"ha")
    after = Blobs(tmp_path)
    after.recount()
    assert [path.read_bytes() for path in files(tmp_path)] == [b"whole"]
    assert after.total == 5
    assert after.all() == [kept.sha256]


def test_a_blob_goes_only_when_nobody_has_put_it_since(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    kept = blobs.put(b"x")
    blobs.doom(kept.sha256)
    assert not blobs.drop(kept.sha256), "whoever put it has not said yet who needs it"
    blobs.unpin(kept.sha256)
    assert not blobs.drop(kept.sha256), "nobody has said that it is useless"
    blobs.doom(kept.sha256)
    blobs.put(b"x")
    blobs.unpin(kept.sha256)
    assert not blobs.drop(kept.sha256), "it was put again"
    blobs.doom(kept.sha256)
    assert blobs.drop(kept.sha256)
    assert files(tmp_path) == []
    assert blobs.total == 0


def test_a_blob_that_two_have_put_is_pinned_until_both_are_done(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    kept = blobs.put(b"x")
    blobs.put(b"x")
    blobs.unpin(kept.sha256)
    blobs.doom(kept.sha256)
    assert not blobs.drop(kept.sha256)
    blobs.unpin(kept.sha256)
    blobs.doom(kept.sha256)
    blobs.spare(kept.sha256)
    assert not blobs.drop(kept.sha256)
    with blobs.open(kept.sha256) as file:
        assert file.read() == b"x"
