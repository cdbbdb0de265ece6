"""The command line of the bench: what to measure, for how long, and how to show it."""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import anyio

from bench.agents import MARKS, agent_row
from bench.flow import flow_row
from bench.footprint import session_cost, start_cost
from bench.gateways import gateway_row
from bench.latency import latency_row
from bench.report import Results, as_json, text
from bench.scale import scale
from bench.served import Place
from bench.ways import WAYS

PARTS = ("flow", "latency", "start", "sessions", "agents", "scale", "gateways")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured. `floods`: (bytes of a chunk, how many chunks)."""

    floods: tuple[tuple[int, int], ...] = ((60, 200_000), (200, 100_000), (1_000, 50_000))
    rounds: int = 3
    rates: tuple[int, ...] = (100, 1_000)
    seconds: float = 10.0
    starts: int = 5
    shared: int = 50
    exclusive: int = 10
    on_server: int = 8
    own_server: int = 4
    kept: tuple[int, int, int] = (10_000, 100_000, 1_000_000)
    """Sessions to list, events to export, events to sum over."""
    through: int = 50_000
    """Chunks of a flood through a gateway."""
    turns: int = 50


FULL = Plan()
QUICK = Plan(
    floods=((60, 20_000), (200, 20_000), (1_000, 10_000)),
    seconds=2.0,
    starts=3,
    shared=20,
    exclusive=3,
    on_server=4,
    own_server=2,
    kept=(1_000, 20_000, 50_000),
    through=10_000,
    turns=20,
)


async def measure(plan: Plan, parts: Sequence[str], place: Place) -> Results:
    def on(part: str) -> bool:
        if part in parts:
            sys.stderr.write(f"measuring: {part} …\n")
        return part in parts

    flow = [await flow_row(place, *flood, plan.rounds) for flood in plan.floods if on("flow")]
    latency = [await latency_row(place, rate, plan.seconds) for rate in plan.rates if on("latency")]
    start = await start_cost(place, plan.starts) if on("start") else None
    sessions = await session_cost(place, plan.shared, plan.exclusive) if on("sessions") else None
    servers = plan.on_server, plan.own_server
    agents = [await agent_row(place, each, *servers) for each in MARKS if on("agents")]
    kept = await scale(place, *plan.kept, plan.rounds) if on("scale") else None
    gateways = [
        await gateway_row(
            place,
            name,
            way,
            count=plan.through,
            rounds=plan.rounds,
            seconds=plan.seconds,
            turns=plan.turns,
        )
        for name, way in WAYS.items()
        if on("gateways")
    ]
    return Results(machine(), flow, latency, start, sessions, agents, kept, gateways)


def machine() -> str:
    """What the figures were made on, and how busy it was besides."""
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} CPUs, load {load:.1f}, Python {platform.python_version()},"
        f" grpcio {version('grpcio')}, {platform.system()} {platform.release()}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; none: all"
    )
    parser.add_argument("--quick", action="store_true", help="a short run, with more noise")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    # A socket's path may have 103 bytes, and a long TMPDIR would not leave enough.
    root = Path(tempfile.mkdtemp(prefix="acb-", dir="/tmp"))
    try:
        plan = QUICK if given.quick else FULL
        results = anyio.run(measure, plan, given.parts or PARTS, Place(root))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    shown = json.dumps(as_json(results)) + "\n" if given.json else text(results)
    sys.stdout.write(shown)
    return 1 if results.lost else 0


if __name__ == "__main__":
    sys.exit(main())
