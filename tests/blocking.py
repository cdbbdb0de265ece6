"""Owns the check that no code of ours blocks the event loop: by what it calls, not by a clock.

An audit hook sees every file that is opened, every sleep, every database that is connected. When
the thread runs an event loop and the nearest frame of ours is source code, that is a finding.
"""

import asyncio
import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
OURS = tuple(str(ROOT / name) for name in ("agentctl", "adapters", "registry"))
BLOCKING = frozenset(
    {
        "open",
        "time.sleep",
        "sqlite3.connect",
        "os.listdir",
        "os.scandir",
        "os.remove",
        "os.rename",
        "os.mkdir",
        "shutil.rmtree",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "subprocess.Popen",
        "urllib.Request",
    }
)
# One guard per agent is started from the loop: no await may come between a spawn and its owner.
# The data directory is locked, the journal opened and addresses bound before anything is served.
ALLOWED = frozenset(
    {
        ("subprocess.Popen", "process/spawn.py"),
        ("open", "process/spawn.py"),
        ("open", "journal/lock.py"),
        ("os.mkdir", "journal/lock.py"),
        ("sqlite3.connect", "journal/schema.py"),
        ("open", "journal/schema.py"),
        ("open", "rpc/sockets.py"),
        ("os.mkdir", "rpc/sockets.py"),
        ("os.remove", "rpc/sockets.py"),
    }
)
SHOWN_FRAMES = 10
findings: list[str] = []
_installed = False


def _nearest(frame: FrameType | None) -> str | None:
    """The file of the nearest frame of ours, unless an import or a thread's work is nearer."""
    while frame is not None:
        name = frame.f_code.co_filename
        if "importlib" in name or name.endswith(
            ("linecache.py", "asyncio/unix_events.py", "tests/blocking.py")
        ):
            return None
        if name.startswith(OURS):
            return None if _called_by_a_test(frame) else name
        if name.startswith(str(ROOT / "tests")):
            return None
        frame = frame.f_back
    return None


def _called_by_a_test(frame: FrameType) -> bool:
    """Whether a test called this synchronous code itself, on its own account."""
    up: FrameType | None = frame
    while up is not None and up.f_code.co_filename.startswith(OURS):
        if up.f_code.co_flags & inspect.CO_COROUTINE:
            return False
        up = up.f_back
    return up is not None and up.f_code.co_filename.startswith(str(ROOT / "tests"))


def _path(frame: FrameType | None) -> list[str]:
    """Who called whom, without reading any source."""
    names: list[str] = []
    while frame is not None and len(names) < SHOWN_FRAMES:
        names.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return names


def _hook(event: str, _args: tuple[Any, ...]) -> None:
    if event not in BLOCKING:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    caller = sys._getframe(1)
    where = _nearest(caller)
    if where is None or any(event == e and where.endswith(f) for e, f in ALLOWED):
        return
    findings.append(f"{event} in the event loop: {' < '.join(_path(caller))}")


def install() -> None:
    """Installs the hook once; an audit hook cannot be taken out again."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)
