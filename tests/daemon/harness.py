"""Owns a real daemon as a subprocess, for tests that kill it; knows nothing of what is tested."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import psutil

from agentctl.client import AgentCtl

# A daemon on a loaded machine may take its time; a test that waits longer has found a hang.
READY_S = 30
# The leash's own ladder ends within seconds; this is the bound of patience, not of the product.
GONE_S = 30


@dataclass
class Daemon:
    """A daemon that can be killed and started again on the same data."""

    data_dir: Path
    env: Mapping[str, str]
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"unix:{self.data_dir / 'run' / 'agentctl.sock'}"

    async def start(self) -> None:
        """Returns once it serves."""
        argv = [sys.executable, "-m", "agentctl", "serve", "--data-dir", str(self.data_dir)]
        log = (self.data_dir.parent / "daemon.log").open("ab")
        self.process = subprocess.Popen(  # noqa: ASYNC220  # a test kills it by hand
            [*argv, *self.options],
            env={**self.env, "AGENTCTL_DATA_DIR": str(self.data_dir)},
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        assert self.process.stdout is not None
        stream = anyio.wrap_file(self.process.stdout)
        with anyio.fail_after(READY_S):
            line = await stream.readline()
        assert line.startswith(b"agentctl listening on "), line

    def kill(self) -> None:
        """SIGKILL: nothing of it runs on to clean up."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def _close(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.stdout.close()

    async def stop(self) -> None:
        """SIGTERM, and its end."""
        if self.process is None or self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(GONE_S):
            await anyio.to_thread.run_sync(self.process.wait)
        self._close()

    def client(self) -> AgentCtl:
        return AgentCtl.connect(self.address)


@asynccontextmanager
async def daemon(root: Path, *options: str, **env: str) -> AsyncGenerator[Daemon]:
    """A daemon with a private home and data directory; stopped at the end, whatever happens."""
    home = root / "home"
    home.mkdir(parents=True, exist_ok=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    base = {
        "HOME": str(home),
        "PATH": path,
        "TMPDIR": str(root),
        "DEMO_AGENT_HOME": str(home),
        **env,
    }
    config = root / "agentctl.toml"
    if not config.exists():
        config.write_text("", encoding="utf-8")
    made = Daemon(root / "data", {**base, "AGENTCTL_CONFIG": str(config)}, options)
    made.data_dir.mkdir(parents=True, exist_ok=True)
    try:
        await made.start()
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await made.stop()


def marked(root: Path) -> list[psutil.Process]:
    """Every process that carries this test's TMPDIR in its environment, the daemon included."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == str(root) and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


async def wait_until_gone(root: Path) -> None:
    """Waits until no process of the test is left."""
    with anyio.fail_after(GONE_S):
        while await anyio.to_thread.run_sync(lambda: marked(root)):  # noqa: ASYNC110  # no event tells
            await anyio.sleep(0.05)
