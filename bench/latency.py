"""Measures how long a chunk travels, from the agent's write to the client's receipt, at a steady pace.

CLOCK_MONOTONIC is one clock for all processes of a machine, so the agent writes it into its text.
"""

import time
from dataclasses import dataclass

import anyio

from agentctl import v1
from agentctl.client import AgentCtl
from bench.served import Place, daemon, live
from bench.stats import percentile

# The first chunks pay for what is loaded on first use.
WARM_UP_S = 0.5
# Beyond the time the pace itself takes.
PATIENCE_S = 60.0

_CHUNK = v1.EventType.EVENT_TYPE_MESSAGE_CHUNK
_COMPLETE = v1.EventType.EVENT_TYPE_COMPLETE


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Milliseconds at `rate` chunks a second."""

    rate: int
    samples: int
    p50_ms: float
    p99_ms: float
    max_ms: float


async def latency_row(place: Place, rate: int, seconds: float) -> LatencyRow:
    """Raises RuntimeError when chunks were lost: a figure over the rest would flatter."""
    warm_up = int(rate * WARM_UP_S)
    count = warm_up + int(rate * seconds)
    async with daemon(place) as served, AgentCtl.connect(served.address) as client:
        session = await client.sessions.create("bench", str(place.workspace), wait_ready=True)
        with anyio.fail_after(count / rate + PATIENCE_S):
            taken = await _delays_ms(client, session.session_id, f"pace {rate} {count}")
    if len(taken) != count:
        raise RuntimeError(f"{count} chunks were sent, {len(taken)} came")
    kept = taken[warm_up:]
    p50, p99 = percentile(kept, 0.50), percentile(kept, 0.99)
    return LatencyRow(rate, len(kept), p50, p99, max(kept))


async def _delays_ms(client: AgentCtl, session_id: str, prompt: str) -> list[float]:
    delays: list[float] = []
    async with live(client, session_id) as batches:
        await client.runs.create(session_id, prompt)
        async for batch in batches:
            now = time.monotonic_ns()
            for event in batch.events:
                if event.type == _CHUNK:
                    delays.append((now - int(event.message_chunk.text)) / 1e6)
                elif event.type == _COMPLETE:
                    return delays
    return delays
