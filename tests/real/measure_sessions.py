"""What one more session on a shared server costs: `python -m tests.real.netns -- python -m tests.real.measure_sessions`.

Owns the numbers of Codex and OpenCode on this machine, through the daemon. It asserts nothing: times
depend on the machine, and memory on what the agent's own runtime gives back.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio

from agentctl import v1
from tests.real.agents import AGENTS, RealAgent
from tests.real.served import Served

SESSIONS, FOLDERS = 10, 4
MB = 1024 * 1024


def memory(served: Served, agent: RealAgent) -> int:
    """Resident bytes of the agent's own processes."""
    own = [p for p in served.agent_processes() if p.name() == agent.process]
    return sum(process.memory_info().rss for process in own)


async def made(served: Served, folder: Path) -> tuple[v1.Session, float]:
    """A session that is ready, and the milliseconds that this took."""
    await anyio.Path(folder).mkdir(exist_ok=True)
    how = AGENTS[served.entry].script(served.home).create()
    begun = time.perf_counter()
    session = await served.client.sessions.create(served.entry, str(folder), wait_ready=True, **how)
    return session, (time.perf_counter() - begun) * 1000


async def measure(name: str, root: Path) -> str:
    """One row of the table."""
    agent = AGENTS[name]
    async with agent.serving(root) as served:
        folders = [served.home.workspace / f"w{n}" for n in range(FOLDERS)]
        # The first session of each folder warms the server: its instance, its caches.
        for folder in folders:
            session, _ = await made(served, folder)
            await served.ask(session, "SAYTEXT hello")
        warm = idle = memory(served, agent)
        spent: list[float] = []
        for nth in range(SESSIONS):
            session, ms = await made(served, folders[nth % FOLDERS])
            spent.append(ms)
            idle = memory(served, agent)
            await served.ask(session, "SAYTEXT hello")
        grown = (memory(served, agent) - warm) / SESSIONS / MB
        (shared,) = {each.agent_id for each in (await served.client.sessions.list()).sessions}
        assert shared
        unused = (idle - warm) / SESSIONS / MB
    return (
        f"{name:<9} +1 session: create median {statistics.median(spent):.0f} ms, most "
        f"{max(spent):.0f} ms; memory {grown:+.1f} MB with one turn each ({unused:+.1f} MB at the "
        f"last create), server {warm / MB:.0f} MB\n"
    )


async def main() -> None:
    for name in ("codex", "opencode"):
        with tempfile.TemporaryDirectory(prefix="measure-") as root:
            sys.stdout.write(await measure(name, Path(root)))


if __name__ == "__main__":
    anyio.run(main)
