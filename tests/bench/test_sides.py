"""The two sides that are compared, each with real processes and a small flood, and the paced agent."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from bench.flow import Bare, flow_row
from bench.latency import latency_row
from bench.producer import pace, plan
from bench.served import ROOT, Place, daemon_command, pump

pytestmark = pytest.mark.anyio


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    yield Place(tmp_path_factory.mktemp("b"))


async def test_the_bare_pump_delivers_every_chunk_once_in_order_and_whole(place: Place) -> None:
    async with pump(place) as served, grpc.aio.insecure_channel(served.address) as channel:
        side = Bare(channel)
        for count, size in ((500, 60), (50, 1_000)):
            rate, tally = await side.flood(count, size)
            assert (tally.good, tally.lost, tally.out_of_order) == (count, 0, 0)
            assert rate > 0


async def test_a_row_drives_both_sides_and_loses_nothing(place: Place) -> None:
    row = await flow_row(place, size=60, count=300, rounds=2)
    assert (row.size, row.count, row.lost) == (60, 300, 0)
    assert 0 < row.ratio.low <= row.ratio.middle <= row.ratio.high


async def test_a_chunk_is_received_after_it_was_written_and_every_one_is_counted(
    place: Place,
) -> None:
    row = await latency_row(place, rate=200, seconds=0.2)
    assert row.samples == 40
    assert 0 < row.p50_ms <= row.p99_ms <= row.max_ms


async def test_what_ends_before_it_listens_says_its_last_words(place: Place) -> None:
    with pytest.raises(RuntimeError, match="no-such-agent"):
        async with pump(place, ["/no-such-agent"]):
            pass


def test_the_daemon_is_started_as_a_user_starts_it(place: Place, tmp_path: Path) -> None:
    command = daemon_command(place, tmp_path)
    assert command[command.index("serve") :][:3] == ["serve", "--data-dir", str(tmp_path)]
    registry = json.loads(place.registry.read_text())
    assert {entry["id"] for entry in registry["agents"]} == {"demo-shared", "bench"}


def test_the_paced_agent_says_the_clock_at_which_it_spoke() -> None:
    requests: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {}},
        {"id": 2, "method": "session/new", "params": {}},
        {
            "id": 3,
            "method": "session/prompt",
            "params": {
                "sessionId": "bench-1",
                "prompt": [{"type": "text", "text": "pace 1000 5"}],
            },
        },
    ]
    before = time.monotonic_ns()
    done = subprocess.run(
        [sys.executable, "-S", str(ROOT / "bench" / "producer.py")],
        input="".join(json.dumps(each) + "\n" for each in requests).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=30,
    )
    after = time.monotonic_ns()
    said = [json.loads(line) for line in done.stdout.splitlines()]
    times = [int(m["params"]["update"]["content"]["text"]) for m in said if "method" in m]
    assert [m["id"] for m in said if "id" in m] == [1, 2, 3]
    assert said[-1]["result"] == {"stopReason": "end_turn"}
    assert len(times) == 5
    assert before <= min(times) and max(times) <= after
    assert times == sorted(times)


def test_a_pace_is_read_from_the_prompt_and_anything_else_is_refused() -> None:
    assert plan("pace 1000 20") == (0.001, 20)
    for wrong in ("hello", "pace 0 1", "run 1 1"):
        with pytest.raises(ValueError, match=r".+"):
            plan(wrong)


def test_a_pace_of_none_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    pace("s", 0.001, 0)
    assert capfd.readouterr().out == ""
