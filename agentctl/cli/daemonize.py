"""Owns starting the daemon in the background and waiting until it serves; knows no API.

Two starts at once give one daemon: the lock on the data directory lets one through, and the other
caller finds the socket of the first.
"""

import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.core.errors import DaemonFailed

if TYPE_CHECKING:
    from agentctl.config import Settings

# A cold start is 0.6 s; a boot sweep or the migration of a large journal on a slow disk takes longer.
READY_S = 30.0

# Between two looks at the socket: a start should not feel rounded up.
LOOK_S = 0.02

# A daemon that answers at all takes a connection at once, also under load.
CONNECT_S = 2.0


MAX_LOG = 5 << 20
"""Bytes of the log of background daemons; a longer one is put aside at the next start."""


def answers(address: str) -> bool:
    """Whether something accepts connections at a `unix:` address."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_S)
        try:
            probe.connect(address.removeprefix("unix:"))
        except OSError:
            return False
        return True


def server_pid(address: str) -> int | None:
    """The process that listens at a `unix:` address, as the kernel tells; None when it does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.settimeout(CONNECT_S)
        probe.connect(address.removeprefix("unix:"))
        if sys.platform == "darwin":
            local, peer_pid = 0, 2  # SOL_LOCAL, LOCAL_PEERPID: socket has no names for them
            return int.from_bytes(probe.getsockopt(local, peer_pid, 4), sys.byteorder)
        told = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", told)[0]
    return None


def log_file(settings: "Settings") -> Path:
    return settings.data_dir / "daemon.log"


def ensure(address: str, settings: "Settings", arguments: Sequence[str] = ()) -> int | None:
    """Starts a daemon when none answers at its Unix socket, and waits until it does.

    Args:
        arguments: further arguments of `agentctl serve`.

    Returns:
        The pid of the daemon that this call started, None when there was one.

    Raises:
        DaemonFailed: it ended or did not serve in time; the message holds its last words.
    """
    if answers(address):
        return None
    log = log_file(settings)
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > MAX_LOG:
            log.replace(log.with_suffix(".log.1"))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DaemonFailed(
            f"Cannot write to the data directory {settings.data_dir} ({error.strerror}): make it "
            "writable for this user or choose another with --data-dir."
        ) from error
    try:
        offset = os.fstat(handle).st_size
        daemon = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "agentctl",
                "serve",
                "--data-dir",
                str(settings.data_dir),
                *arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(handle)
    try:
        return _wait(daemon, address, log, offset)
    except KeyboardInterrupt:
        # In a session of its own it did not hear the Ctrl-C; nobody waits for it any more.
        daemon.terminate()
        daemon.wait()
        raise


def _wait(daemon: "subprocess.Popen[bytes]", address: str, log: Path, offset: int) -> int | None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        ended = daemon.poll() is not None
        if answers(address):
            if server_pid(address) not in (daemon.pid, None):
                # Another start was first. Ours could still win the lock when that daemon goes.
                daemon.kill()
                daemon.wait()
                return None
            # It outlives us: nobody is to wait for it, and Popen would complain that nobody did.
            daemon.returncode = daemon.returncode or 0
            return None if ended else daemon.pid
        words, reason = _last_words(log, offset) if ended else ("", None)
        if ended and "Another daemon" not in words:
            raise DaemonFailed(
                f"The daemon did not start: {words or 'it said nothing'} (its log: {log})",
                reason=reason,
            )
        time.sleep(LOOK_S)
    if daemon.poll() is None:
        daemon.kill()
        daemon.wait()
    raise DaemonFailed(
        f"The daemon does not answer at {address} within {READY_S:.0f} s: see {log}, or run "
        "`agentctl serve` to watch it start."
    )


def _last_words(log: Path, offset: int) -> tuple[str, str | None]:
    """The error that a daemon ended with, and its reason."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(offset)
        lines = file.read(65536).decode("utf-8", "replace").strip().splitlines()
        told = [line for line in lines if line.startswith("error: ")] or lines[-1:]
        words = told[-1].removeprefix("error: ") if told else ""
        message, _, reason = words.rpartition("  ")
        if message and re.fullmatch("[A-Z_]+", reason):
            return message.strip(), reason
        return words, None
    return "", None
