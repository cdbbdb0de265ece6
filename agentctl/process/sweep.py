"""Finding and ending processes that a dead guard or a dead daemon left behind, by their cookie.

Knows only AGENTCTL_COOKIE in a process's environment; never waits for a child, never signals a pid
whose creation time it has not just checked, never touches this process or its ancestors.
"""

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

import anyio.to_thread
import psutil

COOKIE = "AGENTCTL_COOKIE"
# Leftovers have lost their daemon: a second to end cleanly, as long as a TERM handler needs.
TERM_WAIT_S = 1.0
# KILL works at once unless the kernel is busy with the process; then waiting longer does not help.
KILL_WAIT_S = 2.0
# Between two looks at the process table (5 to 20 ms of work each).
LOOK_PAUSE_S = 0.05
# Two readings of one process's creation time differ by less than a tick (10 ms); when the clock was
# set in between they differ by more, and then a process is rather spared than hit wrongly.
SAME_TIME_S = 0.02


@dataclass(frozen=True, slots=True)
class Killed:
    """One process that was signalled; create_time is in Unix seconds, signal the last one sent."""

    pid: int
    create_time: float
    cookie: str
    name: str
    signal: int


def signal_process(pid: int, create_time: float, number: int) -> bool:
    """Signal a process only if it is still the one created at create_time; True when sent."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - create_time) > SAME_TIME_S:
            return False
    except psutil.Error:
        return False
    return _signal(process, number)


def _signal(process: psutil.Process, number: int) -> bool:
    try:
        handle = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return False
    try:
        # Asked after the handle is open: it then belongs to the process that was meant.
        if not process.is_running():
            return False
        if handle is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (psutil.Error, OSError):
        return False
    else:
        return True
    finally:
        if handle is not None:
            os.close(handle)


def _find(wanted: Callable[[str], bool]) -> list[tuple[psutil.Process, str]]:
    me = psutil.Process()
    spared = {me.pid, *(parent.pid for parent in me.parents())}
    found: list[tuple[psutil.Process, str]] = []
    for pid in psutil.pids():
        if pid in spared:
            continue
        try:
            process = psutil.Process(pid)
            cookie = process.environ().get(COOKIE)
            if cookie is not None and wanted(cookie) and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process, cookie))
        except (psutil.Error, OSError):
            continue
    return found


def _end(wanted: Callable[[str], bool]) -> list[Killed]:
    killed: dict[psutil.Process, Killed] = {}

    def hit(number: int) -> bool:
        left = _find(wanted)
        for process, cookie in left:
            with suppress(psutil.Error):
                target = Killed(process.pid, process.create_time(), cookie, process.name(), number)
                if _signal(process, number):
                    killed[process] = target
        return bool(left)

    if not hit(signal.SIGTERM):
        return []
    end = time.monotonic() + TERM_WAIT_S
    while time.monotonic() < end and _find(wanted):
        time.sleep(LOOK_PAUSE_S)
    end = time.monotonic() + KILL_WAIT_S
    while hit(signal.SIGKILL) and time.monotonic() < end:
        time.sleep(LOOK_PAUSE_S)
    return list(killed.values())


def sweep(cookie_prefix: str, *, keep: Collection[str] = ()) -> list[Killed]:
    """End every process whose cookie starts with the prefix and is not in keep. Blocks.

    Args:
        cookie_prefix: `<data-dir-hash>.`, with or without more; never empty.
        keep: whole cookies to spare.
    """
    if not cookie_prefix:
        raise ValueError("a sweep needs a cookie prefix: an empty one would match every agent")
    return _end(lambda cookie: cookie.startswith(cookie_prefix) and cookie not in keep)


async def sweep_async(cookie_prefix: str, *, keep: Collection[str] = ()) -> list[Killed]:
    """The same on a worker thread."""
    return await anyio.to_thread.run_sync(lambda: sweep(cookie_prefix, keep=keep))


async def sweep_one(cookie: str) -> list[Killed]:
    """End what carries exactly this cookie, on a worker thread."""
    return await anyio.to_thread.run_sync(lambda: _end(lambda found: found == cookie))
