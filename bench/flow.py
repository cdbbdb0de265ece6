"""Measures floods: chunks a second from an agent's stdout to a client, by the daemon and by the pump.

Both are driven alike: the clock starts with the client's request and stops at the last chunk.
"""

import time
from dataclasses import dataclass

import anyio
import grpc.aio
import psutil

from agentctl import v1
from agentctl.client import AgentCtl
from bench.pump import METHOD
from bench.served import Place, cpu_s, daemon, live, pump
from bench.stats import Spread, ratios
from bench.tally import Tally

# A row takes some seconds; one that is ten times slower has hung.
FLOOD_TIMEOUT_S = 120.0
# The first flood pays for imports, page cache and a growing heap.
WARM_UP_CHUNKS = 2_000


@dataclass(frozen=True, slots=True)
class FlowRow:
    """Floods of `count` chunks of `size` bytes; rates in events/s, `lost` over all of them.

    `ours_cpu_us` and `base_cpu_us`: what an event costs the process that carries it, user and system.
    """

    size: int
    count: int
    ours: Spread
    base: Spread
    ratio: Spread
    lost: int
    ours_cpu_us: Spread
    base_cpu_us: Spread


class Daemon:
    """A session of the demo agent in the daemon."""

    def __init__(self, client: AgentCtl, session_id: str) -> None:
        self._client = client
        self._session_id = session_id

    async def flood(self, count: int, size: int) -> tuple[float, Tally]:
        """Returns chunks a second, and what was checked."""
        tally = Tally(count, size)
        with anyio.fail_after(FLOOD_TIMEOUT_S):
            async with live(self._client, self._session_id) as batches:
                start = time.perf_counter()
                await self._client.runs.create(self._session_id, f"chunks {count} {size}")
                async for batch in batches:
                    tally.take(batch)
                    if tally.ended:
                        break
        return count / (tally.last_at - start), tally


class Bare:
    """The pump."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call = channel.unary_stream(
            METHOD,
            request_serializer=str.encode,
            response_deserializer=v1.EventBatch.FromString,
        )

    async def flood(self, count: int, size: int) -> tuple[float, Tally]:
        """Returns chunks a second, and what was checked."""
        tally = Tally(count, size)
        with anyio.fail_after(FLOOD_TIMEOUT_S):
            start = time.perf_counter()
            async for batch in self._call(f"chunks {count} {size}"):
                tally.take(batch)
        return count / (tally.last_at - start), tally


async def flow_row(place: Place, size: int, count: int, rounds: int) -> FlowRow:
    """Both sides by turns, so that a busy moment of the machine weighs on both."""
    rates: tuple[list[float], list[float]] = ([], [])
    costs: tuple[list[float], list[float]] = ([], [])
    lost = 0
    async with (
        daemon(place) as one,
        pump(place) as other,
        AgentCtl.connect(one.address) as client,
        grpc.aio.insecure_channel(other.address) as channel,
    ):
        session = await client.sessions.create("demo", str(place.workspace), wait_ready=True)
        sides = Daemon(client, session.session_id), Bare(channel)
        processes = psutil.Process(one.pid), psutil.Process(other.pid)
        for side in sides:
            await side.flood(WARM_UP_CHUNKS, size)
        for _ in range(rounds):
            for number, (side, process) in enumerate(zip(sides, processes, strict=True)):
                before = cpu_s(process)
                rate, tally = await side.flood(count, size)
                costs[number].append((cpu_s(process) - before) / count * 1e6)
                rates[number].append(rate)
                lost += tally.lost
    return FlowRow(
        size,
        count,
        Spread.of(rates[0]),
        Spread.of(rates[1]),
        Spread.of(ratios(*rates)),
        lost,
        Spread.of(costs[0]),
        Spread.of(costs[1]),
    )
