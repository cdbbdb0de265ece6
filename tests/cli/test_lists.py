"""Commands that list and change: tables for people, the API's messages for programs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import AGENT, APPROVAL, RUN, SESSION, FakeDaemon


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def an_approval() -> v1.Approval:
    request = v1.PermissionRequest(
        approval_id=APPROVAL,
        tool_kind=v1.ToolKind.TOOL_KIND_EXECUTE,
        details=v1.PermissionDetails(command="rm -rf build"),
        input_json=b'{"command":"rm -rf build"}',
    )
    return v1.Approval(
        approval_id=APPROVAL, session_id=SESSION, request=request, created_at=now_ms()
    )


@pytest.fixture
def running(daemon: FakeDaemon) -> FakeDaemon:
    agent = v1.Agent(
        agent_id=AGENT,
        entry_id="demo",
        state=v1.AgentState.AGENT_STATE_READY,
        pid=41207,
        session_ids=[SESSION],
        started_at=now_ms() - 7_300_000,
        cpu_percent=12.4,
        memory_bytes=412_000_000,
    )
    session = v1.Session(
        session_id=SESSION,
        agent_id=AGENT,
        entry_id="demo",
        state=v1.SessionState.SESSION_STATE_AWAITING,
        updated_at=now_ms(),
    )
    counts = v1.Counts(agents=1, sessions_open=1, sessions=3, approvals_open=1, questions_open=2)
    daemon.answers |= {
        "Agents/List": lambda request: v1.ListAgentsResponse(agents=[agent]),
        "Sessions/List": lambda request: v1.ListSessionsResponse(sessions=[session]),
        "Daemon/GetInfo": lambda request: v1.GetInfoResponse(
            version="0.1.0",
            counts=counts,
            pid=7,
            head_seq=41_204,
            started_at=now_ms() - 90_000,
            addresses=[daemon.address],
        ),
        "Approvals/List": lambda request: v1.ListApprovalsResponse(approvals=[an_approval()]),
    }
    return daemon


def test_ps_shows_what_runs_and_what_waits(with_daemon: Cli, running: FakeDaemon) -> None:
    done = with_daemon("ps")
    head, row, *rest = done.out.splitlines()
    assert head.split() == ["AGENT", "ENTRY", "STATE", "SESSIONS", "PID", "CPU", "MEM", "UP"]
    assert row.split() == [
        AGENT, "demo", "ready", "1", "(ask)", "41207", "12%", "412", "MB", "2h",
    ]  # fmt: skip
    assert rest == [
        "1 approval is waiting: agentctl approvals",
        "2 questions are waiting: agentctl questions",
    ]


def test_ps_as_json_is_the_message_of_the_api(with_daemon: Cli, running: FakeDaemon) -> None:
    (row,) = rows(with_daemon("ps", "--json").out)
    assert row["agent_id"] == AGENT
    assert row["state"] == "ready" and row["memory_bytes"] == 412_000_000
    assert "ended_at" not in row and "exit_code" not in row


def test_status_says_where_the_daemon_is_and_what_it_holds(
    with_daemon: Cli, running: FakeDaemon
) -> None:
    text = with_daemon("status").out
    assert running.address in text
    assert "7 · up 1 m 30 s" in text
    assert "41,204 events" in text
    assert "1 running · 1 of 3 sessions open" in text


def test_status_and_doctor_say_that_the_disk_is_full(with_daemon: Cli, running: FakeDaemon) -> None:
    running.answers |= {
        "Daemon/GetInfo": lambda request: v1.GetInfoResponse(disk_full=True),
        "Registry/List": lambda request: v1.ListEntriesResponse(),
        "Registry/Discover": lambda request: v1.DiscoverResponse(),
        "Registry/Validate": lambda request: v1.ValidateResponse(),
    }
    assert "the disk is full: free some space" in with_daemon("status").out
    done = with_daemon("doctor")
    assert done.code == 1
    assert done.out.splitlines()[0].split()[:2] == ["daemon", "problem"]


def test_approvals_of_several_pages_are_all_listed(with_daemon: Cli, running: FakeDaemon) -> None:
    pages = {"": "more", "more": ""}
    running.answers["Approvals/List"] = lambda request: v1.ListApprovalsResponse(
        approvals=[an_approval()], next_page_token=pages[request.page_token]
    )
    assert len(rows(with_daemon("approvals", "--json").out)) == 2


def test_approvals_lists_what_is_asked(with_daemon: Cli, running: FakeDaemon) -> None:
    _, row = with_daemon("approvals").out.splitlines()
    assert row.split()[0] == APPROVAL and row.endswith("execute  rm -rf build")
    (told,) = rows(with_daemon("approvals", "--json").out)
    assert told["request"]["input"] == {"command": "rm -rf build"}
    assert "decision" not in told


@pytest.mark.parametrize("name", [APPROVAL, "9c4f", "apr_01m…9c4f", "apr_9c4f"])
def test_an_id_may_be_shortened_to_its_end(
    with_daemon: Cli, running: FakeDaemon, name: str
) -> None:
    running.answers["Approvals/Respond"] = lambda request: an_approval()
    assert with_daemon("approve", name, "--always").code == 0
    request = running.called("Approvals/Respond")[0]
    assert request == v1.RespondRequest(
        approval_id=APPROVAL, decision=v1.Verdict.VERDICT_APPROVE, always=True
    )


def test_an_end_that_means_two_things_is_refused(with_daemon: Cli, running: FakeDaemon) -> None:
    other = an_approval()
    other.approval_id = "apr_01m8pk21d0bbbbbbbbbbbb9c4f"
    both = v1.ListApprovalsResponse(approvals=[an_approval(), other])
    running.answers["Approvals/List"] = lambda request: both
    done = with_daemon("approve", "9c4f")
    assert done.code == 1 and '"9c4f" means 2 approvals' in done.err
    assert running.called("Approvals/Respond") == []


def test_deny_sends_the_reason(with_daemon: Cli, running: FakeDaemon) -> None:
    running.answers["Approvals/Respond"] = lambda request: an_approval()
    assert with_daemon("deny", "9c4f", "--reason", "not on Fridays").code == 0
    assert running.called("Approvals/Respond")[0].reason == "not on Fridays"


def test_start_prints_the_three_ids(with_daemon: Cli, daemon: FakeDaemon) -> None:
    session = v1.Session(
        session_id=SESSION, agent_id=AGENT, native_session_id="native-1", entry_id="demo"
    )
    daemon.answers["Sessions/Create"] = lambda request: session
    (row,) = rows(with_daemon("start", "demo", "--json").out)
    assert (row["agent_id"], row["session_id"], row["native_session_id"]) == (
        AGENT,
        SESSION,
        "native-1",
    )
    assert daemon.called("Sessions/Create")[0].wait_ready
    text = with_daemon("start", "demo").out
    assert AGENT in text and SESSION in text and "native-1" in text


def test_start_resume_takes_our_session_or_the_agents_own(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    daemon.answers["Sessions/Resume"] = lambda request: v1.Session(session_id=SESSION)
    assert with_daemon("start", "demo", "--resume", SESSION[-5:]).code == 0
    assert with_daemon("start", "demo", "--resume", "native-7").code == 0
    ours, native = daemon.called("Sessions/Resume")
    assert ours.session_id == SESSION
    assert (native.entry_id, native.native_session_id) == ("demo", "native-7")
    assert native.create.workspace == str(Path.cwd())


def test_stop_closes_a_session_or_stops_an_agent(with_daemon: Cli, running: FakeDaemon) -> None:
    agent = v1.Agent(agent_id=AGENT, entry_id="demo")
    running.answers["Agents/Stop"] = lambda request: v1.StopAgentResponse(agents=[agent])
    assert with_daemon("stop", SESSION[-4:]).out == f"closed {SESSION}\n"
    assert with_daemon("stop", AGENT, "--force").out == f"stopped {AGENT} (demo)\n"
    assert with_daemon("stop", "--all").code == 0
    one, every = running.called("Agents/Stop")
    assert (one.agent_id, one.force, every.all) == (AGENT, True, True)


def test_events_prints_what_is_there_and_ends(with_daemon: Cli, daemon: FakeDaemon) -> None:
    daemon.begin()
    daemon.say("hi")
    daemon.end()
    told = rows(with_daemon("events", "--json").out)
    assert [row["seq"] for row in told] == [1, 2, 3, 4]
    assert not daemon.called("Events/Subscribe")[0].follow
    lines = with_daemon("events", "--type", "message_chunk").out.splitlines()
    assert len(lines) == 1 and lines[0].endswith("assistant  hi")
    sdk = rows(with_daemon("events", "--as", "app-sdk").out)
    assert [row["type"] for row in sdk] == [
        "run.started",
        "assistant.delta",
        "run.completed",
        "session.updated",
    ]
    tool = rows(with_daemon("events", "--as", "tool").out)
    assert [row["type"] for row in tool] == ["agent.message", "agent.complete"]


def test_a_gap_is_a_row_without_seq(with_daemon: Cli, daemon: FakeDaemon) -> None:
    gap = v1.Gap(requested="old:3", first_available="j:1", reason="another journal")
    daemon.gap = gap
    for view in ("agentctl", "app-sdk", "tool"):
        told = rows(with_daemon("events", "--after", "old:3", "--as", view, "--json").out)
        assert told == [
            {
                "type": "gap",
                "requested": "old:3",
                "first_available": "j:1",
                "reason": "another journal",
            }
        ]


def test_registry_set_sends_only_the_field_that_changes(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    raw = b'{"id":"demo","cmd":["a","b"],"env":{"X":"1"}}'
    entry = v1.Entry(entry_id="demo", entry_json=raw)
    daemon.answers["Registry/Get"] = lambda request: entry
    daemon.answers["Registry/Put"] = lambda request: entry
    assert with_daemon("registry", "set", "demo", "env.Y", "plain text").code == 0
    assert with_daemon("registry", "set", "demo", "cmd[1]", "3").code == 0
    first, second = [json.loads(each.entry_json) for each in daemon.called("Registry/Put")]
    assert first == {"id": "demo", "env": {"X": "1", "Y": "plain text"}}
    assert second == {"id": "demo", "cmd": ["a", 3]}


def test_registry_edit_opens_the_editor_and_sends_what_changed(
    with_daemon: Cli, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = v1.Entry(entry_id="demo", entry_json=b'{"id":"demo","cmd":["a"],"name":"old"}')
    daemon.answers["Registry/Get"] = lambda request: entry
    daemon.answers["Registry/Put"] = lambda request: entry
    monkeypatch.setenv("EDITOR", "sed -i s/old/new/")
    monkeypatch.delenv("VISUAL", raising=False)
    assert with_daemon("registry", "edit", "demo").out == "changed demo\n"
    sent = json.loads(daemon.called("Registry/Put")[0].entry_json)
    assert sent == {"id": "demo", "name": "new"}
    monkeypatch.setenv("EDITOR", "true")
    assert with_daemon("registry", "edit", "demo").out == "nothing was changed\n"


def test_doctor_asks_the_daemon_and_says_what_to_type_next(
    with_daemon: Cli, running: FakeDaemon
) -> None:
    found = [
        v1.Discovered(entry_id="gemini", installed=True, version="0.61.0", authenticated=True),
        v1.Discovered(entry_id="claude", installed=True, version="2.1", authenticated=False,
                      auth_detail="run `claude` once"),
        v1.Discovered(entry_id="codex", install="npm install -g @openai/codex"),
        v1.Discovered(entry_id="mine", installed=True, missing_env=["MY_KEY"]),
        v1.Discovered(entry_id="off", installed=True),
    ]  # fmt: skip
    entries = [v1.Entry(entry_id=each.entry_id, enabled=each.entry_id != "off") for each in found]
    running.answers |= {
        "Registry/List": lambda request: v1.ListEntriesResponse(entries=entries),
        "Registry/Discover": lambda request: v1.DiscoverResponse(agents=found),
        "Registry/Validate": lambda request: v1.ValidateResponse(
            problems=[
                v1.Problem(file="a.json", line=3, field="agents[0].cmd", message="expected a list")
            ]
        ),
    }
    done = with_daemon("doctor", "--json")
    told = {row["name"]: (row["state"], row["detail"]) for row in rows(done.out)}
    assert told["daemon"][0] == "ok" and "41,204 events" in told["daemon"][1]
    assert told["gemini"] == ("ok", "0.61.0 · logged in")
    assert told["claude"] == ("login", "2.1 · not logged in: run `claude` once")
    assert told["codex"] == ("missing", "npm install -g @openai/codex")
    assert told["mine"] == ("problem", "set MY_KEY")
    assert told["off"] == ("disabled", "agentctl registry enable off")
    assert told["registry"] == ("problem", "a.json:3: agents[0].cmd: expected a list")
    assert "node" in told and done.code == 1


def test_doctor_works_without_a_daemon(cli: Cli) -> None:
    told = {row["name"]: row["state"] for row in rows(cli("doctor", "--json").out)}
    assert told["daemon"] == "down" and told["demo"] == "ok"
    assert {"gemini", "node"} <= told.keys()


def test_registry_validate_names_file_line_and_field(cli: Cli, quiet_home: Path) -> None:
    good = quiet_home / "good.json"
    good.write_text('{"version": 1, "agents": [{"id": "x", "cmd": ["x"]}]}')
    assert cli("registry", "validate", str(good)).out == "nothing is wrong\n"
    bad = quiet_home / "bad.json"
    bad.write_text('{"version": 1, "agents": [\n{"id": "x", "cmd": ["x", 3]}]}')
    done = cli("registry", "validate", str(bad))
    assert done.code == 1
    assert done.out.startswith(f"{bad}:2: agents[0].cmd[1]: expected text, found 3")
    (told,) = rows(cli("registry", "validate", str(bad), "--json").out)
    assert told["valid"] is False and told["problems"][0]["line"] == 2


def test_runs_show_names_the_run(with_daemon: Cli, daemon: FakeDaemon) -> None:
    text = v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text="fix it")
    run = v1.Run(run_id=RUN, session_id=SESSION, prompt=[text])
    run.state = v1.RunState.RUN_STATE_FAILED
    run.created_at = 1_764_500_000_000
    daemon.answers["Runs/Get"] = lambda request: run
    daemon.answers["Runs/List"] = lambda request: v1.ListRunsResponse(runs=[run])
    assert "fix it" in with_daemon("runs", "ls").out
    assert with_daemon("runs", "show", RUN[-6:], "--json").code == 0
    shown = with_daemon("runs", "show", RUN).out
    assert "failed" in shown and "2025-11-30 " in shown and "1764500000000" not in shown
    assert daemon.called("Runs/Get")[0].run_id == RUN
