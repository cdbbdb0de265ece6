"""Measures what a session more of a real agent costs: on a server that others share, or with its own.

Each agent is measured by `bench.inside`, in a process that can reach nothing but this machine. Knows
neither the agents nor how they are installed.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import anyio

from bench.served import ROOT, Place
from bench.stats import Spread

# Half a minute is the rule on two busy cores; what takes ten times that has hung.
INSIDE_TIMEOUT_S = 300.0
# Less than this cannot be told from what the agent's own garbage collector does meanwhile.
LEAST_BYTES = 1e5


@dataclass(frozen=True, slots=True)
class Marks:
    """What a session more on a shared server may cost."""

    megabytes: float
    milliseconds: float


MARKS = {"opencode": Marks(5.0, 150.0), "codex": Marks(10.0, 60.0)}


@dataclass(frozen=True, slots=True)
class Cost:
    """A session more: resident bytes of all the agent's processes, and the milliseconds until ready.

    Resident memory counts a page that processes share, such as the program's own, in each of them;
    `share_bytes` divides it among them (PSS), so that the sum is what the machine has less of.
    """

    bytes: float
    share_bytes: float
    ready_ms: Spread


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent both ways, or `note`: why it was not measured."""

    agent: str
    shared: Cost | None = None
    own: Cost | None = None
    note: str = ""

    @property
    def memory_ratio(self) -> float:
        """How many sessions on the shared server take the memory of one with its own."""
        assert self.shared is not None and self.own is not None
        return self.own.bytes / max(self.shared.bytes, LEAST_BYTES)

    @property
    def time_ratio(self) -> float:
        assert self.shared is not None and self.own is not None
        return self.own.ready_ms.middle / self.shared.ready_ms.middle


def command(place: Place, agent: str, shared: int, own: int) -> list[str]:
    """The argv that measures an agent where it cannot call out."""
    python = [sys.executable, "-m"]
    counts = [str(shared), str(own), str(place.fresh(agent))]
    return [*python, "tests.real.netns", "--", *python, "bench.inside", agent, *counts]


async def agent_row(place: Place, agent: str, shared: int, own: int) -> AgentRow:
    with anyio.fail_after(INSIDE_TIMEOUT_S):
        done = await anyio.run_process(
            command(place, agent, shared, own), cwd=ROOT, check=False, stderr=subprocess.PIPE
        )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return AgentRow(agent, note=f"not measured: {said[-1] if said else done.returncode}")
    return row(agent, json.loads(done.stdout))


def row(agent: str, told: dict[str, Any]) -> AgentRow:
    """What `bench.inside` told of an agent."""
    if "note" in told:
        return AgentRow(agent, note=str(told["note"]))
    return AgentRow(agent, _cost(told["shared"]), _cost(told["own"]))


def _cost(told: dict[str, Any]) -> Cost:
    return Cost(told["bytes"], told["share_bytes"], Spread.of(told["ready_ms"]))
