"""Measures what the daemon costs before it does anything: its start, its memory, and a new session.

Times in seconds or milliseconds as named; memory in bytes, resident unless it says otherwise.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import anyio
import psutil

from agentctl import v1
from agentctl.client import AgentCtl
from bench.served import Place, cpu_s, daemon
from bench.stats import Spread

# What is loaded with the first session belongs to no later one.
WARM_UP_SESSIONS = 5
CREATES = 20
# A session on a process that runs is ready within milliseconds.
SETTLE_TIMEOUT_S = 30.0
SETTLE_LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class Start:
    """`ready_s`: from spawn to the first answered GetInfo, `cpu_s`: what of it was its own work;
    `grpc_s`: `python -c "import grpc"`, the least that any gRPC server in Python takes."""

    ready_s: Spread
    cpu_s: Spread
    listening_s: Spread
    grpc_s: Spread
    idle_bytes: Spread


@dataclass(frozen=True, slots=True)
class PerSession:
    """`shared`: in the daemon, for each session on one process; `exclusive`: in the daemon, for each
    session with a process of its own; `guard`: what that process's guard has for itself."""

    shared: float
    exclusive: float
    guard: float
    create_ms: Spread
    ready_ms: Spread


async def start_cost(place: Place, rounds: int) -> Start:
    ready: list[float] = []
    worked: list[float] = []
    listening: list[float] = []
    bare: list[float] = []
    idle: list[float] = []
    for _ in range(rounds):
        bare.append(await asyncio.to_thread(_import_grpc_s))
        async with daemon(place) as served, AgentCtl.connect(served.address) as client:
            await client.daemon.get_info()
            ready.append(time.perf_counter() - served.started_at)
            listening.append(served.listening_at - served.started_at)
            process = psutil.Process(served.pid)
            worked.append(cpu_s(process))
            idle.append(process.memory_info().rss)
    return Start(*map(Spread.of, (ready, worked, listening, bare, idle)))


def _import_grpc_s() -> float:
    start = time.perf_counter()
    environ = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    subprocess.run([sys.executable, "-c", "import grpc"], check=True, env=environ)
    return time.perf_counter() - start


async def session_cost(place: Place, shared: int, exclusive: int) -> PerSession:
    async with daemon(place) as served, AgentCtl.connect(served.address) as client:
        process = psutil.Process(served.pid)
        on_shared, _ = await _grow(client, place, process, "demo-shared", shared)
        answered = [await _create_ms(client, place) for _ in range(CREATES)]
        before = {child.pid for child in process.children()}
        alone, ready = await _grow(client, place, process, "demo", exclusive)
        guards = [child for child in process.children() if child.pid not in before]
        if len(guards) != WARM_UP_SESSIONS + exclusive:
            raise RuntimeError(f"{len(guards)} guards for {WARM_UP_SESSIONS + exclusive} agents")
        guard = statistics.mean(each.memory_full_info().uss for each in guards)
    return PerSession(on_shared, alone, guard, Spread.of(answered), Spread.of(ready))


async def _grow(
    client: AgentCtl, place: Place, process: psutil.Process, agent: str, count: int
) -> tuple[float, list[float]]:
    """Opens sessions; returns the daemon's growth for each, and the time until each was ready (ms)."""
    ready: list[float] = []
    before = 0
    for number in range(WARM_UP_SESSIONS + count):
        if number == WARM_UP_SESSIONS:
            before = process.memory_info().rss
        start = time.perf_counter()
        await client.sessions.create(agent, str(place.workspace), wait_ready=True)
        ready.append((time.perf_counter() - start) * 1000)
    return (process.memory_info().rss - before) / count, ready[WARM_UP_SESSIONS:]


async def _create_ms(client: AgentCtl, place: Place) -> float:
    """The answer alone; the next measurement begins once this session has settled."""
    start = time.perf_counter()
    session = await client.sessions.create("demo-shared", str(place.workspace))
    took = (time.perf_counter() - start) * 1000
    with anyio.fail_after(SETTLE_TIMEOUT_S):
        while session.state == v1.SessionState.SESSION_STATE_STARTING:
            await anyio.sleep(SETTLE_LOOK_S)
            session = await client.sessions.get(session.session_id)
    return took
