"""The part of the bench with real agents: where it runs, what it says, and how it is judged."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench import inside
from bench.__main__ import FULL, PARTS, QUICK
from bench.agents import MARKS, AgentRow, agent_row, command, row
from bench.report import Results, as_json, lines, text
from bench.served import Place
from tests.real import netns, opencode

pytestmark = pytest.mark.anyio

CODEX: dict[str, Any] = {
    "shared": {"bytes": 2e6, "share_bytes": 1e6, "ready_ms": [10.0, 20.0, 30.0]},
    "own": {"bytes": 80e6, "share_bytes": 30e6, "ready_ms": [400.0]},
}


def results(*rows: AgentRow) -> Results:
    return Results("this machine", [], [], None, None, rows)


def test_a_session_more_is_shown_beside_one_with_its_own_server() -> None:
    shown = text(results(row("codex", CODEX)))
    assert "2.0 MB; with its own server 80 MB (30 as PSS), 40 x" in shown
    assert "20 (10..30) ms; with its own server 400 (400..400) ms, 20 x" in shown
    assert "≤ 10 MB ok" in shown
    assert "≤ 60 ms ok" in shown


def test_a_shared_server_that_grows_or_waits_too_much_misses_its_marks() -> None:
    slow = {"bytes": 11e6, "share_bytes": 11e6, "ready_ms": [61.0]}
    judged = lines(results(row("codex", {**CODEX, "shared": slow})))
    assert [line.ok for line in judged] == [False, False]


def test_a_server_that_gave_memory_back_meanwhile_makes_no_endless_ratio() -> None:
    shrunk = {**CODEX["shared"], "bytes": -5e6}
    steady = row("codex", {**CODEX, "shared": shrunk})
    assert steady.memory_ratio == 800
    assert "> 800 x" in text(results(steady))


def test_an_agent_that_is_not_installed_is_one_line_without_a_verdict() -> None:
    (line,) = lines(results(row("codex", {"note": "not installed: make test-real brings it"})))
    assert (line.name, line.ok) == ("codex, a session more", None)
    assert line.value == "not installed: make test-real brings it"


def test_the_json_holds_both_ways_and_their_ratios() -> None:
    both = results(row("codex", CODEX), row("opencode", {"note": "why"}))
    codex, other = json.loads(json.dumps(as_json(both)))["agents"]
    assert (codex["memory_ratio"], codex["time_ratio"]) == (40, 20)
    assert codex["shared"]["ready_ms"] == {"middle": 20.0, "low": 10.0, "high": 30.0}
    assert other == {"agent": "opencode", "note": "why"}


def test_an_agent_runs_where_it_can_call_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = command(Place(tmp_path), "codex", 8, 4)
    inner = argv.index("--")
    assert argv[1:inner] == ["-m", "tests.real.netns"]
    assert argv[inner + 2 :][:5] == ["-m", "bench.inside", "codex", "8", "4"]
    monkeypatch.setattr(netns, "ways_out", lambda: ["eth0"])
    with pytest.raises(SystemExit, match="codex could call out"):
        inside.main(["codex", "1", "1", str(tmp_path)])


async def test_a_missing_binary_is_told_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencode, "NODE_MODULES", tmp_path)
    with anyio.fail_after(10):
        told = await inside.measure("opencode", 1, 1, tmp_path / "none")
    assert told == {"note": "not installed: make test-real brings it"}
    assert not (tmp_path / "none").exists()


async def test_an_agent_that_cannot_be_measured_ends_no_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> list[str]:
        return ["/bin/sh", "-c", "echo 'no private network namespace' >&2; exit 1"]

    monkeypatch.setattr("bench.agents.command", refused)
    with anyio.fail_after(30):
        told = await agent_row(Place(tmp_path), "codex", 1, 1)
    assert told.note == "not measured: no private network namespace"


def test_every_agent_with_a_mark_can_be_measured() -> None:
    assert "agents" in PARTS
    assert MARKS.keys() == inside.INSTALLED.keys()
    assert 0 < QUICK.on_server < FULL.on_server and 0 < QUICK.own_server < FULL.own_server
