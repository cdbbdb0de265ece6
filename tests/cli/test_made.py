"""What sessions made, hold and used, at the command line: artifacts, environments, tools, statistics."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from agentctl.cli.times import moment
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import RUN, SESSION, FakeDaemon
from tests.cli.terminal import Terminal

PATCH = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
IMAGE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256))
PATCH_ID = "art_01m8pk21d0aaaaaaaaaaaap4tc"
IMAGE_ID = "art_01m8pk21d0aaaaaaaaaaaaim4g"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def artifact(identifier: str, kind: Any, data: bytes, **more: Any) -> v1.ArtifactSummary:
    return v1.ArtifactSummary(
        artifact_id=identifier,
        kind=kind,
        session_id=SESSION,
        run_id=RUN,
        size=len(data),
        created_at=now_ms() - 65_000,
        sha256=hashlib.sha256(data).hexdigest(),
        **more,
    )


@pytest.fixture
def made(daemon: FakeDaemon) -> FakeDaemon:
    kept = {
        PATCH_ID: (
            artifact(PATCH_ID, v1.ArtifactKind.ARTIFACT_KIND_PATCH, PATCH, title="3 files"),
            PATCH,
        ),
        IMAGE_ID: (
            artifact(
                IMAGE_ID,
                v1.ArtifactKind.ARTIFACT_KIND_SCREENSHOT,
                IMAGE,
                mime_type="image/png",
                title="page.png",
            ),
            IMAGE,
        ),
    }

    def download(request: v1.DownloadArtifactRequest) -> v1.ArtifactChunk:
        data = kept[request.artifact_id][1][request.offset :]
        return v1.ArtifactChunk(data=data[: request.length] if request.HasField("length") else data)

    daemon.answers |= {
        "Artifacts/List": lambda request: v1.ListArtifactsResponse(
            artifacts=[each for each, _ in kept.values()]
        ),
        "Artifacts/Get": lambda request: kept[request.artifact_id][0],
        "Artifacts/Download": download,
    }
    return daemon


@pytest.mark.proves("C4")
def test_artifacts_are_a_table_filtered_as_asked(with_daemon: Cli, made: FakeDaemon) -> None:
    done = with_daemon("artifacts", "--session", SESSION, "--run", RUN, "--kind", "patch")
    head, first, second = done.out.splitlines()
    assert head.split() == ["ARTIFACT", "KIND", "SIZE", "AGE", "RUN", "TITLE"]
    assert first.split() == [PATCH_ID, "patch", f"{len(PATCH)}", "B", "1m", RUN, "3", "files"]
    assert second.split()[:2] == [IMAGE_ID, "screenshot"]
    (sent,) = made.called("Artifacts/List")
    assert (sent.session_id, sent.run_id) == (SESSION, RUN)
    assert list(sent.kinds) == [v1.ArtifactKind.ARTIFACT_KIND_PATCH]
    rows = [json.loads(line) for line in with_daemon("artifacts", "ls", "--json").out.splitlines()]
    assert [row["kind"] for row in rows] == ["patch", "screenshot"]
    assert with_daemon("artifacts", "--kind", "song").code == 2


@pytest.mark.proves("C4")
def test_an_artifact_is_found_by_its_tail_and_comes_byte_for_byte(
    with_daemon: Cli, made: FakeDaemon, quiet_home: Path
) -> None:
    shown = with_daemon("artifacts", "show", "p4tc").out
    assert PATCH_ID in shown and "sha256" in shown and "agentctl artifacts get" in shown
    target = quiet_home / "page.png"
    assert with_daemon("artifacts", "get", "im4g", "-o", str(target)).code == 0
    assert target.read_bytes() == IMAGE
    assert [each.name for each in quiet_home.glob("*.part")] == []


@pytest.mark.parametrize(
    ("part", "wanted"),
    [("2-4", PATCH[2:5]), ("30-", PATCH[30:]), ("-5", PATCH[-5:]), ("0-0", PATCH[:1])],
)
def test_a_range_of_bytes_is_asked_for_as_curl_does(
    with_daemon: Cli, made: FakeDaemon, quiet_home: Path, part: str, wanted: bytes
) -> None:
    target = quiet_home / "part"
    assert with_daemon("artifacts", "get", "p4tc", "--range", part, "-o", str(target)).code == 0
    assert target.read_bytes() == wanted


def test_a_range_that_is_none_is_refused(with_daemon: Cli, made: FakeDaemon) -> None:
    for part in ("x", "-", "5-2", "1-2-3"):
        assert with_daemon("artifacts", "get", "p4tc", f"--range={part}").code == 2


@pytest.mark.proves("C4")
def test_what_came_changed_is_not_saved(
    with_daemon: Cli, made: FakeDaemon, quiet_home: Path
) -> None:
    made.answers["Artifacts/Download"] = lambda request: v1.ArtifactChunk(data=b"cut")
    target = quiet_home / "x.patch"
    target.write_text("older")
    done = with_daemon("artifacts", "get", "p4tc", "-o", str(target))
    assert done.code == 1 and "not what was kept" in done.err
    assert target.read_text() == "older" and list(quiet_home.glob(".*.part")) == []


@pytest.mark.proves("C4")
def test_a_terminal_gets_texts_and_no_binary(made: FakeDaemon, quiet_home: Path) -> None:
    def at_terminal(*words: str) -> Terminal:
        command = [sys.executable, "-m", "agentctl", "--address", made.address, "artifacts", "get"]
        return Terminal([*command, *words], dict(os.environ), cwd=str(quiet_home))

    with at_terminal("p4tc") as terminal:
        terminal.expect("+new")
        assert terminal.end() == 0
    with at_terminal("im4g") as terminal:
        assert terminal.end() == 1
        assert "image/png" in terminal.text and "--output FILE" in terminal.text
        assert "IHDR" not in terminal.shown
    with at_terminal("im4g", "-o", "-") as terminal:
        terminal.expect("IHDR")
        assert terminal.end() == 0


@pytest.mark.proves("C4")
def test_environments_say_what_they_can_and_take(with_daemon: Cli, daemon: FakeDaemon) -> None:
    tree = v1.Environment(
        name="worktree",
        available=True,
        detail="a checkout of its own",
        capabilities=["checkout"],
        sessions=2,
        options={"branch": "to make or take", "keep": "always, changed or never"},
    )
    away = v1.Environment(name="sandbox", detail="bubblewrap is missing")
    daemon.answers |= {
        "Environments/List": lambda request: v1.ListEnvironmentsResponse(environments=[tree, away]),
        "Environments/Status": lambda request: tree,
    }
    head, first, second = with_daemon("environments").out.splitlines()
    assert head.split() == ["ENVIRONMENT", "STATE", "SESSIONS", "DETAIL"]
    assert first.split()[:3] == ["worktree", "ready", "2"]
    assert second.split()[:3] == ["sandbox", "missing", "–"]  # noqa: RUF001  as it is shown
    shown = with_daemon("environments", "show", "worktree").out
    assert "--keep" in shown and "checkout" in shown
    row = json.loads(with_daemon("environments", "show", "worktree", "--json").out)
    assert row["options"]["branch"] == "to make or take"


@pytest.mark.proves("C4")
def test_a_session_is_made_in_a_worktree(with_daemon: Cli, daemon: FakeDaemon) -> None:
    words = ("start", "demo", "--environment", "worktree", "--branch", "try", "--keep", "never")
    assert with_daemon(*words).code == 0
    (sent,) = daemon.called("Sessions/Create")
    assert sent.environment == "worktree"
    assert dict(sent.environment_options) == {"branch": "try", "keep": "never"}
    done = with_daemon("start", "demo", "--branch", "try")
    assert done.code == 2 and "--environment worktree" in done.err


@pytest.mark.proves("C4")
def test_tools_tell_whose_they_are_and_whether_they_ask(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    tools = [
        v1.Tool(
            name="run_shell",
            source=v1.ToolSource.TOOL_SOURCE_RUNTIME,
            access=v1.ToolAccess.TOOL_ACCESS_HOST,
            requires_approval=True,
            calls=3,
            description="Runs a command",
        ),
        v1.Tool(
            name="search",
            source=v1.ToolSource.TOOL_SOURCE_MCP,
            server="docs",
            access=v1.ToolAccess.TOOL_ACCESS_READ_ONLY,
            requires_approval=False,
        ),
    ]
    daemon.answers["Tools/List"] = lambda request: v1.ListToolsResponse(tools=tools)
    head, first, second = with_daemon("tools", SESSION).out.splitlines()
    assert head.split()[:5] == ["TOOL", "SOURCE", "ACCESS", "ASKS", "CALLS"]
    assert first.split()[:5] == ["run_shell", "runtime", "host", "asks", "3"]
    assert second.split()[:5] == ["search", "mcp", "docs", "read-only", "no"]
    daemon.answers["Tools/List"] = lambda request: v1.ListToolsResponse()
    assert "no tools yet" in with_daemon("tools", SESSION).out


def a_session() -> v1.Session:
    return v1.Session(
        session_id=SESSION,
        entry_id="gemini",
        model="flash",
        workspace="/srv/tree",
        source_workspace="/srv/api",
        branch="fix",
        environment="worktree",
        state=v1.SessionState.SESSION_STATE_IDLE,
        phase=v1.SessionPhase.SESSION_PHASE_ACTIVE,
        policy=v1.Policy.POLICY_ASK,
        progress=v1.SessionProgress(
            message_count=5,
            runs=2,
            files_open=4,
            files_changed=2,
            files_created=1,
            commands_run=1,
            last_command="pytest -q",
            tests_passed=41,
            tests_failed=1,
            current_task="Fix the limiter",
            percent=40,
        ),
        usage=v1.Usage(input=12_400, output=870),
        cost_usd=0.0041,
        created_at=now_ms() - 7_300_000,
        last_active_at=now_ms() - 5_000,
    )


@pytest.mark.proves("C5")
def test_a_session_shows_what_was_done_in_it(with_daemon: Cli, daemon: FakeDaemon) -> None:
    daemon.answers["Sessions/Get"] = lambda request: a_session()
    lines = with_daemon("session", "show", SESSION).out.splitlines()
    told = {line[:14].strip(): line[14:].strip() for line in lines}
    assert told["phase"] == "active (idle)"
    assert told["workspace"] == "/srv/tree · worktree · branch fix · of /srv/api"
    assert told["task"] == "40 % · Fix the limiter"
    assert told["progress"] == "2 runs, 5 messages, 4 files read, 2 changed (1 new), 1 command"
    assert told["tests"] == "41 passed, 1 failed"
    assert told["used"] == "12.4 k in, 870 out · $0.0041"
    assert told["times"].startswith("made 2h ago, last active ")
    row = json.loads(with_daemon("session", "show", SESSION, "--json").out)
    assert row["phase"] == "active" and row["progress"]["percent"] == 40


@pytest.mark.proves("C5")
def test_sessions_are_listed_by_phase_project_and_place(
    with_daemon: Cli, daemon: FakeDaemon, quiet_home: Path
) -> None:
    (quiet_home / "api").mkdir()
    words = ("--phase", "failed", "--project", "p", "--workspace", str(quiet_home / "api"))
    assert with_daemon("session", "ls", *words).code == 0
    (sent,) = daemon.called("Sessions/List")
    assert list(sent.phases) == [v1.SessionPhase.SESSION_PHASE_FAILED]
    assert (sent.project, sent.workspace) == ("p", str((quiet_home / "api").resolve()))
    assert not sent.open_only


@pytest.mark.proves("C5")
def test_a_session_is_closed_for_good(with_daemon: Cli, daemon: FakeDaemon) -> None:
    assert with_daemon("session", "close", SESSION, "--discard", "--reason", "done").code == 0
    assert with_daemon("session", "close", SESSION).code == 0
    first, second = daemon.called("Sessions/Close")
    assert (first.save_state, first.reason) == (False, "done") and first.HasField("save_state")
    assert not second.HasField("save_state")


@pytest.mark.proves("C5")
def test_statistics_have_a_line_for_each_session(with_daemon: Cli, daemon: FakeDaemon) -> None:
    total = v1.EntryStats(entry_id="gemini", sessions=1, runs=2)
    daemon.answers |= {
        "Stats/Get": lambda request: v1.GetStatsResponse(entries=[total], total=total),
        "Sessions/List": lambda request: v1.ListSessionsResponse(
            sessions=[a_session(), v1.Session(session_id="ses_idle", last_active_at=now_ms())]
        ),
    }
    lines = with_daemon("stats", "--since", "7d", "--sessions").out.splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("SESSION"))
    assert lines[head + 1].split()[:6] == [SESSION, "gemini", "2", "13.3", "k", "$0.0041"]
    assert len(lines) == head + 2 and lines[head].endswith("SEEN")
    (sent,) = daemon.called("Stats/Get")
    assert abs(now_ms() - 7 * 86_400_000 - sent.since) < 60_000


def test_times_are_typed_as_an_age_or_a_date() -> None:
    assert abs(moment("90s") - (now_ms() - 90_000)) < 5_000
    assert moment("1970-01-01T00:00:02Z") == 2000
