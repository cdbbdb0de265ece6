"""Runs one real agent behind a daemon and tells, as JSON, what each session more took.

    python -m tests.real.netns -- python -m bench.inside codex SHARED OWN DIRECTORY

Owns the measuring where no network is. How an agent is made hermetic belongs to tests.real; what the
figures mean belongs to bench.agents.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil

from tests.real import netns, opencode
from tests.real.agents import AGENTS, RealAgent
from tests.real.codex import CODEX
from tests.real.served import Served

# What is loaded with the first sessions belongs to no later one.
WARM_UP_SESSIONS = 4
# An agent's collector comes and goes; once two looks differ by less, it rests.
STEADY_BYTES = 2**20
LOOK_S = 0.25
# One that never rests is measured as it is.
SETTLE_S = 3.0

INSTALLED: dict[str, Callable[[], object]] = {
    "opencode": opencode.binary,
    "codex": lambda: CODEX.command,
}


async def memory(served: Served) -> tuple[int, int]:
    """Resident bytes, and proportional ones (PSS), of the agent's processes, once they rest."""
    found = _memory(served)
    with anyio.move_on_after(SETTLE_S):
        while True:
            await anyio.sleep(LOOK_S)
            before, found = found, _memory(served)
            if abs(found[0] - before[0]) < STEADY_BYTES:
                break
    return found


def _memory(served: Served) -> tuple[int, int]:
    resident = share = 0
    for process in served.agent_processes():
        with suppress(psutil.NoSuchProcess):
            held = process.memory_full_info()
            resident += held.rss
            share += held.pss
    return resident, share


async def cost(agent: RealAgent, root: Path, sharing: str, warm: int, count: int) -> dict[str, Any]:
    """Opens sessions of which `warm` do not count; the first has a turn, as a server in use has."""
    ready: list[float] = []
    before = 0, 0
    async with agent.serving(root, sharing=sharing) as served:
        script = agent.script(served.home)
        for number in range(warm + count):
            if number == warm:
                before = await memory(served)
            start = time.perf_counter()
            session = await served.session(**script.create())
            ready.append((time.perf_counter() - start) * 1000)
            if number == 0:
                await served.ask(session, script.say("hello").prompt)
        after = await memory(served)
    grown, share = ((late - early) / count for early, late in zip(before, after, strict=True))
    return {"bytes": grown, "share_bytes": share, "ready_ms": ready[warm:]}


async def measure(name: str, shared: int, own: int, root: Path) -> dict[str, Any]:
    try:
        INSTALLED[name]()
    except FileNotFoundError:
        return {"note": "not installed: make test-real brings it"}
    agent = AGENTS[name]
    return {
        "shared": await cost(agent, root / "s", "shared", WARM_UP_SESSIONS, shared),
        "own": await cost(agent, root / "o", "exclusive", 1, own),
    }


def main(arguments: list[str]) -> None:
    name, shared, own, root = arguments
    if open_interfaces := netns.ways_out():
        sys.exit(f"{name} could call out through {open_interfaces}")
    told = anyio.run(measure, name, int(shared), int(own), Path(root))
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
