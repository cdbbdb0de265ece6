"""Measures what a gateway adds to plain gRPC: how long a chunk and a turn take, and how many come a second.

Chunks are timed in one turn that is seen through the gateway and by a gRPC subscriber at once. Turns and
floods come one after the other, through the gateway and through gRPC, each on a session of its own.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio

from agentctl import v1
from agentctl.client import AgentCtl
from bench.served import Place, daemon, live
from bench.stats import Spread, percentile, ratios
from bench.ways import Open, Plain, Way

CHUNK_BYTES = 60
# Faster than any model speaks, slow enough that no queue forms.
RATE = 500
WARM_UP = 2_000
# A turn takes some seconds; one that is ten times slower has hung.
TURN_S = 120.0

_CHUNK = v1.EventType.EVENT_TYPE_MESSAGE_CHUNK
_COMPLETE = v1.EventType.EVENT_TYPE_COMPLETE


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """Floods of `count` chunks, per second; medians in ms. `base_…` is plain gRPC in the same run.

    `chunk_ms` is absent of a gateway that tells whole messages.
    """

    name: str
    count: int
    rate: Spread
    base_rate: Spread
    ratio: Spread
    turn_ms: float
    base_turn_ms: float
    chunk_ms: float | None
    base_chunk_ms: float | None


async def gateway_row(
    place: Place, name: str, way: Open, *, count: int, rounds: int, seconds: float, turns: int
) -> GatewayRow:
    """Raises RuntimeError when anything was lost."""
    async with daemon(place) as served, AgentCtl.connect(served.address) as client:
        async with way(place, served, "bench") as paced:
            delays = await _delays_ms(client, paced, int(RATE * seconds))
        async with way(place, served, "demo") as through:
            # Elsewhere: what runs beside a session may be told through its gateway, too.
            made = await client.sessions.create("demo", str(place.fresh("plain")), wait_ready=True)
            plain = Plain(client, made.session_id)
            for each in (through, plain):
                await _flood(each, WARM_UP)
            times = [(await _turn_ms(through), await _turn_ms(plain)) for _ in range(turns)]
            rates = [
                (await _flood(through, count), await _flood(plain, count)) for _ in range(rounds)
            ]
    ours, base = [mine for mine, _ in rates], [other for _, other in rates]
    return GatewayRow(
        name,
        count,
        Spread.of(ours),
        Spread.of(base),
        Spread.of(ratios(ours, base)),
        percentile([mine for mine, _ in times], 0.50),
        percentile([other for _, other in times], 0.50),
        None if delays is None else percentile(delays[0], 0.50),
        None if delays is None else percentile(delays[1], 0.50),
    )


async def _delays_ms(
    client: AgentCtl, way: Way, count: int
) -> tuple[list[float], list[float]] | None:
    """Of each chunk of one turn: through the gateway, and by gRPC; None when it tells no chunks."""
    through: list[float] = []
    plain: list[float] = []
    width = len(str(time.monotonic_ns()))

    async def subscribed(batches: AsyncIterator[v1.EventBatch]) -> None:
        async for batch in batches:
            now = time.monotonic_ns()
            for event in batch.events:
                if event.type == _CHUNK:
                    plain.append((now - int(event.message_chunk.text)) / 1e6)
                elif event.type == _COMPLETE:
                    return

    reads = 0
    with anyio.fail_after(TURN_S):
        async with live(client, way.session_id) as batches, anyio.create_task_group() as group:
            group.start_soon(subscribed, batches)
            async for texts in way.turn(f"pace {RATE} {count}"):
                now, text = time.monotonic_ns(), "".join(texts)
                reads += bool(text)
                # Pieces may come joined; each is a time of the same width.
                stamps = [int(text[at : at + width]) for at in range(0, len(text), width)]
                through += [(now - each) / 1e6 for each in stamps]
    if not len(through) == len(plain) == count:
        raise RuntimeError(f"of {count} chunks {len(through)} came, {len(plain)} by gRPC")
    # The first ones pay for what is loaded on first use.
    return (through[RATE // 2 :], plain[RATE // 2 :]) if reads > 1 else None


async def _turn_ms(way: Way) -> float:
    """A short turn, from the prompt to its end."""
    start = time.perf_counter()
    with anyio.fail_after(TURN_S):
        async for _ in way.turn("say ok"):
            pass
    return (time.perf_counter() - start) * 1e3


async def _flood(way: Way, count: int) -> float:
    """Chunks a second, from the prompt to the end of the turn."""
    size = 0
    start = time.perf_counter()
    with anyio.fail_after(TURN_S):
        async for texts in way.turn(f"chunks {count} {CHUNK_BYTES}"):
            size += sum(map(len, texts))
    rate = count / (time.perf_counter() - start)
    if size != count * CHUNK_BYTES:
        raise RuntimeError(f"{count * CHUNK_BYTES} bytes were sent, {size} came")
    return rate
