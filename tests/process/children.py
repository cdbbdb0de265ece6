"""Small misbehaving programs for the tests of processes, and ways to look for what is left."""

import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import anyio
import psutil

from agentctl.process.spawn import Process, SpawnSpec
from agentctl.process.sweep import COOKIE

# Everything here ends in a second or two; the rest is for a machine under load.
PATIENCE_S = 30.0

ESCAPED_GRANDCHILD = """
import os, signal, sys, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.write(writer, b"x")
        time.sleep(600)
    os._exit(0)
os.wait()
os.read(reader, 1)
print("ready", flush=True)
sys.stdin.read()
"""

DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: time.sleep(600)
"""


def new_cookie() -> str:
    return f"test{uuid.uuid4().hex}.boot.agt_1"


def python(code: str, *args: str, cookie: str | None = None, cwd: Path | None = None) -> SpawnSpec:
    return command(sys.executable, "-c", code, *args, cookie=cookie, cwd=cwd)


def command(
    *argv: str,
    cookie: str | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> SpawnSpec:
    variables = {"PATH": os.environ["PATH"], **(env or {})}
    return SpawnSpec(argv, variables, cwd or Path.cwd(), cookie or new_cookie())


def alive(cookie: str) -> list[int]:
    """The processes, guards included, that carry this cookie."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get(COOKIE) == cookie
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the process table has no event to wait for
            await anyio.sleep(0.02)


async def read_line(process: Process) -> bytes:
    """Read up to the first line end; for children that say one line and wait."""
    text = b""
    with anyio.fail_after(PATIENCE_S):
        while not text.endswith(b"\n"):
            chunk = await process.read()
            assert chunk, "the child ended before its line did"
            text += chunk
    return text
