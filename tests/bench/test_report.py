"""What the bench prints: marks are judged, lost events are never ok, and JSON says the same."""

import json
from dataclasses import replace

import pytest

from bench.__main__ import FULL, QUICK, main
from bench.flow import FlowRow
from bench.footprint import PerSession, Start
from bench.gateways import GatewayRow
from bench.latency import LatencyRow
from bench.report import Results, as_json, lines, text
from bench.scale import Cost, Scale
from bench.stats import Spread


def same(value: float) -> Spread:
    return Spread(value, value, value)


ROW = FlowRow(
    60,
    1000,
    Spread(60e3, 50e3, 70e3),
    Spread(100e3, 90e3, 110e3),
    same(0.6),
    0,
    same(8.0),
    same(6.0),
)
START = Start(same(0.5), same(0.35), same(0.4), same(0.2), same(60e6))
SESSIONS = PerSession(30e3, 200e3, 5e6, same(2.0), same(150.0))
GOOD = Results("this machine", [ROW], [LatencyRow(1000, 10, 0.7, 2.0, 5.0)], START, SESSIONS)
COSTS = [
    Cost("list of 10,000 sessions, all pages", same(0.4), same(0.02), 3e6),
    Cost("export of 100,000 events", same(0.6), same(0.006), 9e6),
    Cost("statistics over 1,000,000 events", same(0.01), same(0.002), 0.1e6),
]


def test_what_reaches_its_mark_is_ok() -> None:
    shown = text(GOOD)
    assert "MISS" not in shown
    assert "60,000 (50,000..70,000)" in shown
    assert "ratio ≥ 0.5 ok" in shown
    assert "p50 ≤ 1 ms ok" in shown
    assert "≤ 0.6 s ok" in shown
    assert "≤ 70 MB ok" in shown


def test_what_misses_its_mark_says_so() -> None:
    poor = Results(
        "m",
        [replace(ROW, ratio=same(0.4))],
        [LatencyRow(1000, 10, 1.5, 2.0, 5.0)],
        Start(same(0.7), same(0.35), same(0.4), same(0.2), same(80e6)),
        None,
    )
    assert text(poor).count("MISS") == 4


def test_an_old_journal_is_judged_by_time_memory_and_by_who_waits() -> None:
    scale = Scale(COSTS, (5.0, 9.0, 12.0))
    shown = text(replace(GOOD, scale=scale)).splitlines()[-4:]
    assert [line.split("  ")[0] for line in shown] == [
        "list of 10,000 sessions, all pages",
        "export of 100,000 events",
        "… and other calls meanwhile",
        "statistics over 1,000,000 events",
    ]
    assert "0.600 s, 100 x bare SQLite (6.0 ms); memory + 9.0 MB" in shown[1]
    assert all(" ok" in line for line in shown)
    for poor in (
        Scale([replace(COSTS[1], ours=same(1.2))], (5.0, 9.0, 12.0)),
        Scale([replace(COSTS[1], grown=64e6)], (5.0, 9.0, 12.0)),
        Scale([COSTS[1]], (5.0, 80.0, 90.0)),
    ):
        assert text(Results("m", [], [], None, None, scale=poor)).count("MISS") == 1
    assert as_json(replace(GOOD, scale=scale))["scale"]["costs"][1]["grown"] == 9e6


def test_a_fast_flood_that_lost_an_event_is_not_ok() -> None:
    lossy = Results("m", [replace(ROW, lost=1)], [], None, None)
    assert "MISS" in text(lossy)
    assert as_json(lossy)["flow"][0]["ok"] is False
    assert as_json(lossy)["lost"] == 1


def test_only_the_rate_with_a_mark_is_judged() -> None:
    results = Results("m", [], [LatencyRow(100, 10, 9.0, 9.0, 9.0)], None, None)
    assert [line.verdict for line in lines(results)] == [""]


def test_every_row_says_what_bounds_it() -> None:
    assert all(line.bound for line in lines(GOOD))
    assert "bound by: " in text(GOOD)


def test_the_json_holds_the_same_figures() -> None:
    told = json.loads(json.dumps(as_json(GOOD)))
    assert told["flow"][0]["ratio"] == {"median": 0.6, "min": 0.6, "max": 0.6}
    assert told["latency"][0]["p50_ms"] == 0.7
    assert told["sessions"]["shared"] == 30e3
    assert all(mark["ok"] for mark in told["marks"])


def test_a_quick_run_measures_the_same_rows_with_less() -> None:
    assert (
        [size for size, _ in QUICK.floods] == [size for size, _ in FULL.floods] == [60, 200, 1000]
    )
    assert QUICK.rates == FULL.rates
    assert FULL.rounds >= 3 and QUICK.rounds >= 3


def test_an_unknown_part_is_a_mistake_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["speed"])
    assert stop.value.code == 2
    assert "there is no part speed" in capsys.readouterr().err


def test_a_gateway_stands_beside_plain_grpc_and_keeps_its_mark() -> None:
    row = GatewayRow(
        "ACP over stdio", 1000, same(30e3), same(60e3), same(0.5), 21.0, 20.0, 0.7, 0.6
    )
    shown = text(replace(GOOD, gateways=[row]))
    assert "chunk p50 0.70 ms (gRPC 0.60), short turn 21 ms (20), 30,000 chunks/s" in shown
    assert "ratio ≥ 0.3 ok" in shown
    whole = replace(row, ratio=same(0.1), chunk_ms=None, base_chunk_ms=None)
    assert "tells no chunks" in text(replace(GOOD, gateways=[whole]))
    assert "ratio ≥ 0.3 MISS" in text(replace(GOOD, gateways=[whole]))
    assert as_json(replace(GOOD, gateways=[row]))["gateways"][0]["turn_ms"] == 21.0
