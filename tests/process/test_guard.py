"""No descendant survives: not the agent's end, not the daemon's, not the guard's."""

import os
import signal
import subprocess
import sys

import anyio
import psutil
import pytest

from agentctl.process import guard
from agentctl.process.spawn import GUARD, Exit, spawn
from tests.process.children import (
    DEAF,
    ESCAPED_GRANDCHILD,
    PATIENCE_S,
    alive,
    command,
    new_cookie,
    python,
    read_line,
    until,
)

pytestmark = pytest.mark.anyio

DAEMON = """
import sys
from pathlib import Path
import anyio
from agentctl.process import guard
from agentctl.process.spawn import SpawnSpec, spawn

async def main():
    code, cookie = sys.argv[1:]
    spec = SpawnSpec((sys.executable, "-c", code), {}, Path.cwd(), cookie)
    async with spawn(spec, grace_s=0.3) as process:
        print((await process.read()).decode(), flush=True)
        await process.wait_exit()

anyio.run(main)
"""


@pytest.mark.proves("P1", "P2")
async def test_leaving_the_context_ends_an_escaped_grandchild_that_ignores_term() -> None:
    spec = python(ESCAPED_GRANDCHILD)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await read_line(process)
            assert len(alive(spec.cookie)) == 3
    assert alive(spec.cookie) == []
    assert process.exit == Exit(0, None)


@pytest.mark.proves("P1", "P2")
async def test_a_killed_daemon_leaves_no_process() -> None:
    cookie = new_cookie()
    daemon = subprocess.Popen(  # noqa: ASYNC220 - it stands for the daemon and is killed below
        [sys.executable, "-c", DAEMON, ESCAPED_GRANDCHILD, cookie], stdout=subprocess.PIPE
    )
    try:
        assert daemon.stdout is not None
        line = await anyio.to_thread.run_sync(daemon.stdout.readline)
        assert line == b"ready\n"
        assert len(alive(cookie)) == 3
    finally:
        daemon.kill()
        daemon.communicate()
    await until(lambda: alive(cookie) == [])


@pytest.mark.proves("P1")
async def test_a_killed_guard_takes_the_agent_along_and_the_sweep_finds_the_rest() -> None:
    spec = python(ESCAPED_GRANDCHILD)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await read_line(process)
            os.kill(process.guard_pid, signal.SIGKILL)
            assert await process.wait_exit() == Exit(None, None)
            await until(lambda: not psutil.pid_exists(process.pid))
            assert len(alive(spec.cookie)) == 1
            await process.wait_empty()
            assert alive(spec.cookie) == []


@pytest.mark.proves("P1")
async def test_a_hung_guard_does_not_keep_its_agent_alive() -> None:
    spec = python(ESCAPED_GRANDCHILD)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await read_line(process)
            os.kill(process.guard_pid, signal.SIGSTOP)
            await process.stop(force=True)
            assert alive(spec.cookie) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_to_the_guard_ends_its_whole_tree(number: signal.Signals) -> None:
    spec = python(DEAF)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec, grace_s=0.1) as process:
            await read_line(process)
            os.kill(process.guard_pid, number)
            assert await process.wait_exit() == Exit(None, signal.SIGKILL)
            await process.wait_empty()
            assert alive(spec.cookie) == []


@pytest.mark.proves("P1")
async def test_a_wrapper_that_dies_first_leaves_no_worker_behind() -> None:
    worker = "import subprocess, sys; subprocess.Popen(['sleep', '600']); sys.exit(3)"
    spec = python(worker)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            assert await process.wait_exit() == Exit(3, None)
            await process.wait_empty()
            assert alive(spec.cookie) == []


async def test_a_tree_that_keeps_forking_is_outrun() -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    time.sleep(0.002)
    if os.fork():
        os._exit(0)
    os.setsid()
"""
    spec = python(code)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await read_line(process)
            await process.wait_empty()
            assert alive(spec.cookie) == []


async def test_an_agent_that_signals_its_own_group_does_not_hit_the_guard() -> None:
    spec = python("import os, signal; os.killpg(0, signal.SIGKILL)")
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            assert await process.wait_exit() == Exit(None, signal.SIGKILL)


async def test_the_agent_starts_with_default_signals_and_no_foreign_descriptors() -> None:
    # A shell without pipeline: it opens nothing of its own and resets no signal.
    spec = command("sh", "-c", "grep SigIgn /proc/self/status; exec ls -l /proc/self/fd")
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await process.wait_exit()
            told = await process.read()
    ignored = int(told.split()[1], 16)
    # Bits 31 and 32 are of the C library: make passes them on ignored, and no program can change it.
    assert ignored & ~(0b11 << 31) == 0, hex(ignored)
    assert told.count(b"pipe:") == 3


async def test_the_guard_needs_nothing_but_python() -> None:
    with anyio.fail_after(PATIENCE_S):
        done = await anyio.run_process([sys.executable, "-I", "-S", str(GUARD)], check=False)
    assert done.returncode == 2


@pytest.mark.proves("P4")
async def test_the_guard_signals_only_the_process_it_saw() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(ESCAPED_GRANDCHILD)) as process:
            await read_line(process)
            tree = guard.descendants(process.guard_pid)
            assert tree[0][0] == process.pid
            assert len(tree) == 2
            pid, started = tree[1]
            guard.signal_exactly(pid, started - 1, signal.SIGKILL)
            assert guard.read_stat(pid) is not None
            guard.signal_exactly(pid, started, signal.SIGKILL)
            await until(lambda: guard.read_stat(pid) is None)
            guard.signal_exactly(pid, started, signal.SIGKILL)


async def test_a_pid_that_is_gone_has_no_descendants() -> None:
    assert guard.read_stat(2**22 + 1) is None
    assert guard.descendants(2**22 + 1) == []
