"""Owns how results are judged and shown: marks, the table for people and the object for programs.

Pure. A mark that is missed is said and never an error: times depend on the machine.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.agents import LEAST_BYTES, MARKS, AgentRow
from bench.flow import FlowRow
from bench.footprint import PerSession, Start
from bench.gateways import GatewayRow
from bench.latency import LatencyRow
from bench.scale import Scale
from bench.stats import Spread

RATIO_MARK = 0.5
P50_MARK_MS = 1.0
P50_MARK_RATE = 1_000
READY_MARK_S = 0.6
IDLE_MARK_MB = 70.0
SCALE_MARK_S = 1.0
GROWN_MARK_MB = 32.0
MEANWHILE_MARK_MS = 50.0

GATEWAY_MARKS = {
    "ACP over stdio": 0.3,
    "OpenCode's server-sent events": 0.15,
    "the tool's WebSocket": 0.2,
}
"""Least share of plain gRPC's chunks a second that come through a gateway."""

MB = 1e6


@dataclass(frozen=True, slots=True)
class Results:
    """All that one run of the bench measured; None where it was not asked for."""

    machine: str
    flow: Sequence[FlowRow]
    latency: Sequence[LatencyRow]
    start: Start | None
    sessions: PerSession | None
    agents: Sequence[AgentRow] = ()
    scale: Scale | None = None
    gateways: Sequence[GatewayRow] = ()

    @property
    def lost(self) -> int:
        return sum(row.lost for row in self.flow)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table. `mark` is empty where none was set; `ok` is then None."""

    name: str
    value: str
    mark: str = ""
    ok: bool | None = None
    bound: str = ""

    @property
    def verdict(self) -> str:
        return "" if self.ok is None else f"{self.mark} {'ok' if self.ok else 'MISS'}"


BOUNDS = {
    "flow": (
        "one interpreter: every event is parsed (a sixth), translated, given to its run and session,"
        " encoded, stored; SQLite and gRPC, which work on batches, are an eighth of it."
    ),
    "latency": "four wake-ups: daemon, journal's thread, loop, client; gRPC and the commit between",
    "ready": "imports: four fifths of it, a third of those pydantic, typer and grpc",
    "idle": "shared libraries and modules: asyncio with ssl, grpc, protobuf, pydantic",
    "shared": "the session's records and its views in adapter and journal",
    "exclusive": "the same, with pipes, tasks and a connection of its own",
    "guard": "a Python interpreter without site packages",
    "create": "one commit, and gRPC both ways",
    "agent": "the start of the agent's own program, then initialize and session/new",
    "agent memory": "what the agent keeps of a session; its own: a whole program and its guard",
    "list": "a record and its message for each row; what is filtered and counted is SQLite's",
    "export": "the JSON of each event, made in Python",
    "statistics": "one small document for each run, read and summed",
    "meanwhile": "a page of events that is taken apart in one go",
    "agent ready": "the agent's answer to a new session; its own: the start of the program",
    "gateway": "a process more: each event is read, told in the gateway's words as JSON, and read again",
}
"""What sets each figure, as profiles show it."""


def lines(results: Results) -> list[Line]:
    """The rows below the table of floods."""
    made = [_latency(row) for row in results.latency]
    if results.start is not None:
        made += _start(results.start)
    if results.sessions is not None:
        made += _sessions(results.sessions)
    for row in results.agents:
        made += _agent(row)
    if results.scale is not None:
        made += _scale(results.scale)
    made += [_gateway(row) for row in results.gateways]
    return made


def _gateway(row: GatewayRow) -> Line:
    chunk = (
        "tells no chunks"
        if row.chunk_ms is None or row.base_chunk_ms is None
        else f"chunk p50 {row.chunk_ms:.2f} ms (gRPC {row.base_chunk_ms:.2f})"
    )
    least = GATEWAY_MARKS.get(row.name)
    return Line(
        row.name,
        f"{chunk}, short turn {row.turn_ms:.0f} ms ({row.base_turn_ms:.0f}),"
        f" {row.rate.middle:,.0f} chunks/s, ratio {_spread(row.ratio, '.2f')}",
        "" if least is None else f"ratio ≥ {least:g}",
        None if least is None else row.ratio.middle >= least,
        BOUNDS["gateway"],
    )


def _scale(scale: Scale) -> list[Line]:
    made = [
        Line(
            cost.name,
            f"{cost.ours.middle:.3f} s, {cost.ratio:,.0f} x bare SQLite"
            f" ({cost.base.middle * 1e3:,.1f} ms); memory + {cost.grown / MB:.1f} MB",
            f"≤ {SCALE_MARK_S:g} s, ≤ {GROWN_MARK_MB:g} MB",
            cost.ours.middle <= SCALE_MARK_S and cost.grown <= GROWN_MARK_MB * MB,
            BOUNDS[cost.name.split()[0]],
        )
        for cost in scale.costs
    ]
    p50, p99, longest = scale.meanwhile
    value = f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {longest:.1f} ms"
    mark, ok = f"p99 ≤ {MEANWHILE_MARK_MS:g} ms", p99 <= MEANWHILE_MARK_MS
    meanwhile = Line("… and other calls meanwhile", value, mark, ok, BOUNDS["meanwhile"])
    at = 1 + max(n for n, cost in enumerate(scale.costs) if cost.name.startswith("export"))
    return [*made[:at], meanwhile, *made[at:]]


def _latency(row: LatencyRow) -> Line:
    value = f"p50 {row.p50_ms:.2f} ms, p99 {row.p99_ms:.2f} ms, max {row.max_ms:.1f} ms"
    name = f"latency at {row.rate:,}/s"
    if row.rate != P50_MARK_RATE:
        return Line(name, value, bound=BOUNDS["latency"])
    mark = f"p50 ≤ {P50_MARK_MS:g} ms"
    return Line(name, value, mark, row.p50_ms <= P50_MARK_MS, BOUNDS["latency"])


def _start(start: Start) -> list[Line]:
    ready, grpc = start.ready_s, start.grpc_s
    idle_mb = start.idle_bytes.middle / MB
    times = ready.middle / grpc.middle
    return [
        Line(
            "ready: spawn to first answer",
            f"{_spread(ready, '.2f')} s, {start.cpu_s.middle:.2f} s of work;"
            f" {times:.1f} x `import grpc` ({grpc.middle:.2f} s)",
            f"≤ {READY_MARK_S:g} s",
            ready.middle <= READY_MARK_S,
            BOUNDS["ready"],
        ),
        Line(
            "resident memory, idle",
            f"{idle_mb:.1f} MB",
            f"≤ {IDLE_MARK_MB:g} MB",
            idle_mb <= IDLE_MARK_MB,
            BOUNDS["idle"],
        ),
    ]


def _sessions(cost: PerSession) -> list[Line]:
    rows = [
        ("a session more on a shared process", cost.shared, "shared"),
        ("a session more with its own process", cost.exclusive, "exclusive"),
        ("the guard of that process, its own", cost.guard, "guard"),
    ]
    made = [Line(name, f"{size / 1e3:,.0f} kB", bound=BOUNDS[key]) for name, size, key in rows]
    create, ready = _spread(cost.create_ms, ".1f"), _spread(cost.ready_ms, ".0f")
    made.append(Line("Sessions.Create answers", f"{create} ms", bound=BOUNDS["create"]))
    made.append(Line("… and the agent is ready", f"{ready} ms", bound=BOUNDS["agent"]))
    return made


def _agent(row: AgentRow) -> list[Line]:
    if row.shared is None or row.own is None:
        return [Line(f"{row.agent}, a session more", row.note)]
    mark, shared, own = MARKS[row.agent], row.shared, row.own
    size = shared.bytes / MB
    over = "> " if shared.bytes < LEAST_BYTES else ""
    return [
        Line(
            f"{row.agent}, a session more",
            f"{size:.1f} MB; with its own server {own.bytes / MB:,.0f} MB"
            f" ({own.share_bytes / MB:,.0f} as PSS), {over}{row.memory_ratio:,.0f} x",
            f"≤ {mark.megabytes:g} MB",
            size <= mark.megabytes,
            BOUNDS["agent memory"],
        ),
        Line(
            f"{row.agent}, … and it is ready",
            f"{_spread(shared.ready_ms, '.0f')} ms; with its own server"
            f" {_spread(own.ready_ms, ',.0f')} ms, {row.time_ratio:,.0f} x",
            f"≤ {mark.milliseconds:g} ms",
            shared.ready_ms.middle <= mark.milliseconds,
            BOUNDS["agent ready"],
        ),
    ]


def _spread(spread: Spread, form: str) -> str:
    return f"{spread.middle:{form}} ({spread.low:{form}}..{spread.high:{form}})"


def text(results: Results) -> str:
    """The tables for people."""
    head = (
        "chunk",
        "agentctl, events/s",
        "bare pump, events/s",
        "ratio",
        "lost",
        "CPU/event",
        "mark",
    )
    rows = [head, *(_flow_cells(row) for row in results.flow)]
    parts = [results.machine]
    if results.flow:
        parts += ["", *_table(rows), f"  bound by: {BOUNDS['flow']}"]
    others = [(line.name, line.value, line.verdict, line.bound) for line in lines(results)]
    if others:
        parts += ["", *_table([("", "measured", "mark", "bound by"), *others])]
    return "\n".join(parts) + "\n"


def _flow_cells(row: FlowRow) -> tuple[str, ...]:
    ok = row.ratio.middle >= RATIO_MARK and not row.lost
    return (
        f"{row.size} B x {row.count:,}",
        _spread(row.ours, ",.0f"),
        _spread(row.base, ",.0f"),
        _spread(row.ratio, ".2f"),
        str(row.lost),
        f"{row.ours_cpu_us.middle:.1f} : {row.base_cpu_us.middle:.1f} µs",
        f"ratio ≥ {RATIO_MARK:g} {'ok' if ok else 'MISS'}",
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def as_json(results: Results) -> dict[str, Any]:
    """The same for programs; every figure in the unit of its name."""
    return {
        "machine": results.machine,
        "lost": results.lost,
        "flow": [
            {
                "bytes": row.size,
                "count": row.count,
                "agentctl_per_s": row.ours.as_json(),
                "pump_per_s": row.base.as_json(),
                "ratio": row.ratio.as_json(),
                "agentctl_cpu_us": row.ours_cpu_us.as_json(),
                "pump_cpu_us": row.base_cpu_us.as_json(),
                "lost": row.lost,
                "mark": RATIO_MARK,
                "ok": row.ratio.middle >= RATIO_MARK and not row.lost,
            }
            for row in results.flow
        ],
        "latency": [asdict(row) for row in results.latency],
        "start": None if results.start is None else asdict(results.start),
        "sessions": None if results.sessions is None else asdict(results.sessions),
        "agents": [_agent_json(row) for row in results.agents],
        "gateways": [asdict(row) for row in results.gateways],
        "scale": None if results.scale is None else asdict(results.scale),
        "marks": [
            {"name": line.name, "mark": line.mark, "ok": line.ok}
            for line in lines(results)
            if line.ok is not None
        ],
    }


def _agent_json(row: AgentRow) -> dict[str, Any]:
    if row.shared is None or row.own is None:
        return {"agent": row.agent, "note": row.note}
    return {
        "agent": row.agent,
        "shared": asdict(row.shared),
        "own": asdict(row.own),
        "memory_ratio": row.memory_ratio,
        "time_ratio": row.time_ratio,
    }
