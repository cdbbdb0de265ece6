"""Owns starting and stopping what is measured: the daemon and the bare pump, each in its own process.

Everything they keep lies in one temporary directory. It refuses to know what is measured with them.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import psutil

from agentctl import v1
from agentctl.client import AgentCtl

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
DEMO = [sys.executable, "-m", "agentctl_adapters.demo.agent"]

# A cold start on a busy machine takes a few seconds; longer than this is a hang.
START_TIMEOUT_S = 60.0
# The daemon ends its agents within their grace; longer than this is a hang.
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """The temporary directory of one bench. Short, because a socket's path may have 103 bytes."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self._made("workspace")

    @property
    def registry(self) -> Path:
        """A project registry: the demo agent alone and shared, and the bench's own producer."""
        path = self._made("registry") / "agents.json"
        if not path.exists():
            producer = [sys.executable, "-S", str(ROOT / "bench" / "producer.py")]
            entries = [
                {"id": "demo-shared", "cmd": ["agentctl-demo"], "protocol": "acp"},
                {"id": "bench", "cmd": producer, "protocol": "acp"},
            ]
            entries[0]["sharing"] = "shared"
            entries[0]["env_passthrough"] = ["DEMO_AGENT_HOME"]
            path.write_text(json.dumps({"version": 1, "agents": entries}))
        return path

    def fresh(self, name: str) -> Path:
        """A directory that no earlier daemon used."""
        number = sum(1 for each in self.root.iterdir() if each.name.startswith(name))
        return self._made(f"{name}{number}")

    @property
    def environ(self) -> dict[str, str]:
        mine = {key: value for key, value in os.environ.items() if not key.startswith("AGENTCTL_")}
        mine["PATH"] = f"{BIN}{os.pathsep}{mine.get('PATH', os.defpath)}"
        mine["HOME"] = str(self._made("home"))
        mine["DEMO_AGENT_HOME"] = str(self._made("demo"))
        return mine

    def _made(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path


@dataclass(frozen=True, slots=True)
class Served:
    """A process that listens. `started_at` and `listening_at` are perf_counter seconds."""

    pid: int
    address: str
    started_at: float
    listening_at: float


def daemon_command(place: Place, data_dir: Path) -> list[str]:
    script = BIN / "agentctl"
    start = [str(script)] if script.exists() else [sys.executable, "-m", "agentctl"]
    return [*start, "serve", "--data-dir", str(data_dir), "--registry", str(place.registry)]


@asynccontextmanager
async def daemon(place: Place, data: Path | None = None) -> AsyncGenerator[Served]:
    """A fresh daemon, on a fresh data directory unless one is given."""
    async with listening(place, daemon_command(place, data or place.fresh("data"))) as served:
        yield served


@asynccontextmanager
async def pump(place: Place, agent: Sequence[str] = DEMO) -> AsyncGenerator[Served]:
    """The bare pump with its own producer."""
    home = place.fresh("pump")
    command = [sys.executable, "-m", "bench.pump", str(home / "sock"), str(home / "pump.db")]
    async with listening(place, [*command, str(place.workspace), *agent]) as served:
        yield served


def cpu_s(process: psutil.Process) -> float:
    """What it has worked so far, in user and system mode."""
    times = process.cpu_times()
    return times.user + times.system


@asynccontextmanager
async def live(client: AgentCtl, session_id: str) -> AsyncGenerator[AsyncIterator[v1.EventBatch]]:
    """The batches of a session from now on; entered once the daemon has answered the first time."""
    head = (await client.daemon.get_info()).head_cursor
    batches = client.subscribe(head, sessions=[session_id]).batches()
    async with aclosing(batches):
        await anext(batches)
        yield batches


@asynccontextmanager
async def listening(place: Place, command: list[str]) -> AsyncGenerator[Served]:
    log = place.root / "stderr.log"
    with log.open("ab") as errors:
        started_at = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=errors, env=place.environ, cwd=ROOT
        )
        try:
            with anyio.fail_after(START_TIMEOUT_S):
                address = await _address(process)
            if address is None:
                told = await anyio.Path(log).read_text(errors="replace")
                raise RuntimeError(f"{command[0]} ended before it listened:\n{told[-2000:]}")
            listening_at = time.perf_counter()
            yield Served(process.pid, address, started_at, listening_at)
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)


async def _address(process: asyncio.subprocess.Process) -> str | None:
    """What it says it listens on; None when it ends without a word of that."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        _, found, address = line.decode().strip().partition("listening on ")
        if found:
            return address.split()[0]
    return None


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    with anyio.move_on_after(STOP_TIMEOUT_S) as waited:
        await process.communicate()
    if waited.cancelled_caught:
        process.kill()
        await process.wait()
