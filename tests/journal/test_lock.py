import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.core.errors import DaemonFailed
from agentctl.journal.lock import lock_data_dir

HOLD = """
import sys
from pathlib import Path
from agentctl.journal.lock import lock_data_dir
with lock_data_dir(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_daemon_is_refused_and_told_the_pid_of_the_first(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"locked\n"
        with pytest.raises(DaemonFailed, match=f"pid {first.pid}"), lock_data_dir(tmp_path):
            pass
        first.kill()
    with lock_data_dir(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_data_directory_is_made_for_this_user_only(tmp_path: Path) -> None:
    with lock_data_dir(tmp_path / "a" / "data"):
        assert (tmp_path / "a" / "data").stat().st_mode & 0o777 == 0o700


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DaemonFailed, match=r"file/data.*--data-dir"),
        lock_data_dir(tmp_path / "file" / "data"),
    ):
        pass
