"""`agentctl top`: a screen of what runs now, fed by events, that leaves the terminal as it was."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from agentctl.cli.topstate import AGENTS, APPROVALS, LISTS, SESSIONS, Overview
from agentctl.cli.topview import lines
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import AGENT, APPROVAL, RUN, SESSION, FakeDaemon
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.proves("C6")

OTHER_SCREEN, FORMER_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
CURSOR_BACK = "\x1b[?25h"
NOW = 1_764_500_000_000
WATCHED = ("Agents/List", "Sessions/List", "Runs/List", "Approvals/List", "Questions/List")


def event(kind: str, ts: int = NOW, run: str = RUN, **data: Any) -> dict[str, Any]:
    return {"type": kind, "ts": ts, "run_id": run, "data": data}


def test_events_say_which_lists_are_old() -> None:
    view = Overview()
    assert view.stale == set(LISTS)
    view.stale.clear()
    view.take(event("message_chunk", text="x"))
    assert view.stale == set()
    view.take(event("plan"))
    assert view.stale == {SESSIONS}
    view.take(event("permission_request"))
    assert {APPROVALS, SESSIONS} <= view.stale and AGENTS not in view.stale


def test_tokens_of_the_last_minute_count_once() -> None:
    view = Overview()
    view.take(event("context_window", usage={"input": 100, "output": 20}))
    view.take(event("context_window", NOW + 1000, usage={"total": 30}))
    assert view.tokens_per_minute(NOW + 1000) == 150
    view.take(event("complete", NOW + 2000, usage={"input": 150, "output": 10}))
    assert view.tokens_per_minute(NOW + 2000) == 160
    view.take(event("complete", NOW + 3000, run="run_2", usage={"input": 5, "output": 5}))
    assert view.tokens_per_minute(NOW + 3000) == 170
    assert view.tokens_per_minute(NOW + 60_500) == 50
    assert view.tokens_per_minute(NOW + 63_000) == 0


def test_what_waits_for_a_person_stays_on_a_small_screen() -> None:
    many = [
        {"session_id": f"ses_01m8pk21c5rr4gt2gzrv9k{n:04}", "state": "idle", "entry_id": "demo"}
        for n in range(300)
    ]
    agents = [{"agent_id": f"agt_01m8pk21c5rr4gt2gzrv9k{n:04}"} for n in range(50)]
    asked = [
        {
            "approval_id": f"apr_01m8pk21c5rr4gt2gzrv9k{n:04}",
            "request": {"tool_kind": "execute", "details": {"command": "rm -rf build " * 20}},
        }
        for n in range(9)
    ]
    view = Overview(sessions=many, agents=agents, approvals=asked)
    for height, room in ((24, 80), (12, 60), (60, 200)):
        shown = lines(view, NOW, room, height)
        assert len(shown) <= height
        assert max(len(line) for line in shown) <= room
        assert sum(line.startswith("? execute rm -rf") for line in shown) == 6
        assert "… 3 more: agentctl approvals, questions" in shown


@pytest.fixture
def busy(daemon: FakeDaemon) -> FakeDaemon:
    """One agent with a session at work, that may be asked what it wants."""
    agent = v1.Agent(
        agent_id=AGENT,
        entry_id="gemini",
        state=v1.AgentState.AGENT_STATE_READY,
        pid=41207,
        session_ids=[SESSION],
        started_at=time.time_ns() // 1_000_000 - 7_300_000,
        cpu_percent=12.4,
        memory_bytes=412_000_000,
    )
    session = v1.Session(
        session_id=SESSION,
        agent_id=AGENT,
        entry_id="gemini",
        state=v1.SessionState.SESSION_STATE_ACTIVE,
        phase=v1.SessionPhase.SESSION_PHASE_ACTIVE,
        progress=v1.SessionProgress(current_task="Fix the limiter", percent=40),
    )
    run = v1.Run(run_id=RUN, session_id=SESSION, started_at=time.time_ns() // 1_000_000 - 63_000)
    request = v1.PermissionRequest(
        approval_id=APPROVAL,
        tool_kind=v1.ToolKind.TOOL_KIND_EXECUTE,
        details=v1.PermissionDetails(command="rm -rf build"),
    )

    def approvals(_: Any) -> v1.ListApprovalsResponse:
        asked = any(each.HasField("permission_request") for each in daemon.events)
        one = v1.Approval(approval_id=APPROVAL, session_id=SESSION, request=request)
        return v1.ListApprovalsResponse(approvals=[one] if asked else [])

    usage = v1.EntryStats(usage=v1.Usage(input=900, output=100))
    daemon.answers |= {
        "Agents/List": lambda _: v1.ListAgentsResponse(agents=[agent]),
        "Sessions/List": lambda _: v1.ListSessionsResponse(sessions=[session]),
        "Runs/List": lambda _: v1.ListRunsResponse(runs=[run]),
        "Approvals/List": approvals,
        "Questions/List": lambda _: v1.ListQuestionsResponse(),
        "Stats/Get": lambda _: v1.GetStatsResponse(total=usage),
    }
    return daemon


def test_without_a_terminal_it_prints_once(with_daemon: Cli, busy: FakeDaemon) -> None:
    busy.ask()
    done = with_daemon("top")
    head, _, waiting, _, _, agent, _, _, session = done.out.splitlines()
    assert head.startswith("agentctl 0.1.0 · ") and head.endswith("1.0 k tokens/min")
    assert waiting == (
        f"? execute rm -rf build  agentctl approve {APPROVAL} · agentctl deny {APPROVAL}"
    )
    assert agent.split() == [AGENT, "gemini", "ready", "1", "41207", "12%", "412", "MB", "2h"]
    assert session.split()[:5] == [SESSION, "gemini", "active", "1", "m"]
    assert session.endswith("40 % · Fix the limiter")
    row = json.loads(with_daemon("top", "--once", "--json").out)
    assert row["tokens_per_minute"] == 1000
    assert row["approvals"][0]["request"]["details"]["command"] == "rm -rf build"


Open = Callable[..., Terminal]


@pytest.fixture
def at_terminal(quiet_home: Path, busy: FakeDaemon) -> Open:
    def start(*words: str) -> Terminal:
        command = [sys.executable, "-m", "agentctl", "--address", busy.address, "top"]
        return Terminal([*command, *words], dict(os.environ), cwd=str(quiet_home))

    return start


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_it_follows_the_events_and_gives_the_terminal_back(
    at_terminal: Open, busy: FakeDaemon, key: str
) -> None:
    with at_terminal() as terminal:
        terminal.expect("Fix the limiter")
        assert "rm -rf" not in terminal.text
        busy.ask()
        terminal.expect("agentctl approve")
        terminal.send(key)
        assert terminal.end() == 0
    assert OTHER_SCREEN in terminal.shown
    assert terminal.shown.rindex(FORMER_SCREEN) > terminal.shown.rindex("approve")
    assert CURSOR_BACK in terminal.shown[terminal.shown.rindex("approve") :]


def test_it_is_drawn_anew_when_the_window_changes(at_terminal: Open) -> None:
    with at_terminal() as terminal:
        terminal.expect("Fix the limiter")
        terminal.resize(rows=20, columns=50)
        terminal.expect("Fix the")
        terminal.send("q")
        assert terminal.end() == 0
        drawn = terminal.shown[terminal.shown.rindex("AGENT") :]
        assert "412 MB" not in drawn or "2h" in drawn


def test_a_storm_of_events_is_no_storm_of_calls(at_terminal: Open, busy: FakeDaemon) -> None:
    with at_terminal() as terminal:
        terminal.expect("Fix the limiter")
        before = {name: len(busy.called(name)) for name in WATCHED}
        began = time.monotonic()
        for _ in range(40):
            with busy.together():
                for _ in range(50):
                    busy.emit("plan", v1.Plan())
            busy.wait_until_sent()
        busy.ask()
        terminal.expect("agentctl approve")
        passed = time.monotonic() - began
        terminal.send("q")
        assert terminal.end() == 0
    for name in WATCHED:
        # One at once, one a second from then on.
        assert len(busy.called(name)) - before[name] <= passed + 2, name


def test_json_is_an_object_at_each_change(at_terminal: Open, busy: FakeDaemon) -> None:
    with at_terminal("--json") as terminal:
        terminal.expect('"approvals":[]')
        busy.ask()
        terminal.expect('"command":"rm -rf build"')
        terminal.interrupt()
        assert terminal.end() == 0
    rows = [json.loads(line) for line in terminal.text.splitlines() if line.startswith("{")]
    assert [len(row["approvals"]) for row in rows][-1] == 1
    assert OTHER_SCREEN not in terminal.shown


def test_it_outlives_a_restart_of_the_daemon(at_terminal: Open, busy: FakeDaemon) -> None:
    with at_terminal() as terminal:
        terminal.expect("Fix the limiter")
        busy.stop()
        terminal.expect("the daemon does not answer")
        again = FakeDaemon(Path(busy.address.removeprefix("unix:")))
        try:
            again.answers |= busy.answers
            terminal.expect("tokens/min")
            again.ask()
            busy.events[:] = again.events
            terminal.expect("agentctl approve")
            terminal.send("q")
            assert terminal.end() == 0
        finally:
            again.stop()


def test_a_daemon_that_is_not_there_is_said(cli: Cli, quiet_home: Path) -> None:
    done = cli("--address", f"unix:{quiet_home}/no.sock", "top")
    assert done.code == 1 and "agentctl up" in done.err
