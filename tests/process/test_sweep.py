"""What a dead daemon left is found by cookie and ended; nothing else is touched."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import psutil
import pytest

from agentctl.process.sweep import COOKIE, signal_process, sweep, sweep_async
from tests.process.children import DEAF, PATIENCE_S, alive, new_cookie, until

pytestmark = pytest.mark.anyio


@contextmanager
def child(cookie: str, code: str = DEAF) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={COOKIE: cookie}
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.proves("P1")
async def test_a_leftover_that_ignores_term_is_killed() -> None:
    cookie = new_cookie()
    with child(cookie) as process, anyio.fail_after(PATIENCE_S):
        killed = await sweep_async(cookie.partition(".")[0] + ".")
        assert [(each.pid, each.cookie, each.signal) for each in killed] == [
            (process.pid, cookie, signal.SIGKILL)
        ]
        assert alive(cookie) == []


async def test_a_leftover_that_obeys_is_not_killed() -> None:
    cookie = new_cookie()
    with child(cookie, "import time; print('ready', flush=True); time.sleep(600)") as process:
        killed = sweep(cookie)
        assert [(each.pid, each.signal) for each in killed] == [(process.pid, signal.SIGTERM)]
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


async def test_other_cookies_and_kept_ones_are_spared() -> None:
    mine, foreign = new_cookie(), new_cookie()
    kept = mine + "2"
    with child(mine), child(kept) as spared, child(foreign) as other:
        killed = sweep(mine.partition(".")[0] + ".", keep=[kept])
        assert [each.cookie for each in killed] == [mine]
        assert spared.poll() is None
        assert other.poll() is None


async def test_an_empty_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="every agent"):
        sweep("")


@pytest.mark.proves("P4")
async def test_a_recycled_pid_is_never_signalled() -> None:
    with child(new_cookie()) as process:
        created = psutil.Process(process.pid).create_time()
        assert not signal_process(process.pid, created - 60, signal.SIGKILL)
        assert process.poll() is None
        assert signal_process(process.pid, created, signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL


@pytest.mark.proves("P4")
async def test_a_pid_that_is_gone_is_no_error() -> None:
    with child(new_cookie()) as process:
        created = psutil.Process(process.pid).create_time()
    assert not signal_process(process.pid, created, signal.SIGTERM)


async def test_the_sweeper_and_its_ancestors_are_never_touched() -> None:
    cookie = new_cookie()
    code = f"""
import os
from agentctl.process.sweep import sweep
print("ready", flush=True)
print(len(sweep({cookie!r})), flush=True)
os.read(0, 1)
"""
    process = subprocess.Popen(  # noqa: ASYNC220 - a daemon that itself carries a cookie
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, COOKIE: cookie},
    )
    assert process.stdout is not None
    told = await anyio.to_thread.run_sync(process.stdout.read, 8)
    assert told == b"ready\n0\n"
    process.communicate(b"x")
    assert process.returncode == 0
    await until(lambda: alive(cookie) == [])
