"""A first session with the real daemon and the demo agent, from nothing to `down`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.terminal import LIMIT_S, Terminal


class Installed:
    """The program in a home of its own; whatever daemon it starts is stopped at the end."""

    def __init__(self, home: Path) -> None:
        self.workspace = home / "ws"
        self.workspace.mkdir()
        self.data_dir = str(home / "data")
        foreign = ("AGENTCTL_", "XDG_")
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
            "HOME": str(home),
            "AGENTCTL_DATA_DIR": self.data_dir,
            "DEMO_AGENT_HOME": str(home / "demo"),
        }

    def __call__(self, *words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-m", "agentctl", *words],
            env=self.env,
            cwd=self.workspace,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == code, done
        assert "Traceback" not in done.stderr
        return done

    def terminal(self, *words: str) -> Terminal:
        command = [sys.executable, "-m", "agentctl", *words]
        return Terminal(command, self.env, cwd=str(self.workspace))


def installed() -> Iterator[Installed]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        program = Installed(Path(folder))
        try:
            yield program
        finally:
            program("down")
            assert daemons(program.data_dir) == []


# Starting and stopping a daemon takes seconds on a busy machine: most tests share one.
shared = pytest.fixture(scope="module", name="agentctl")(installed)
alone = pytest.fixture(name="fresh")(installed)


def daemons(data_dir: str) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter(["cmdline"]):
        command: list[str] = process.info["cmdline"] or []
        if "serve" in command and data_dir in command:
            found.append(process.pid)
    return found


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_first_session_from_nothing(agentctl: Installed) -> None:
    assert agentctl("run", "demo", "say hello").stdout == "hello\n"
    told = rows(agentctl("run", "demo", "write a.txt hi", "--approve", "allow", "--json").stdout)
    kinds = [row["type"] for row in told]
    assert kinds.count("complete") == kinds.count("file_change") == 1
    assert told[-1]["data"]["status"] == "closed"
    assert (agentctl.workspace / "a.txt").read_text().strip() == "hi"
    (run,) = {row["run_id"] for row in told if "run_id" in row}
    kept = rows(agentctl("events", "--run", run, "--json").stdout)
    assert kept and kept == [row for row in told if row.get("run_id") == run]
    assert agentctl("ps").stdout == "no agent runs\n"
    assert "0 running · " in agentctl("status").stdout
    assert "daemon        ok" in agentctl("doctor").stdout
    last = rows(agentctl("runs", "ls", "--json").stdout)[:2]
    assert [row["state"] for row in last] == ["completed", "completed"]


@pytest.mark.proves("C3")
def test_the_tour_of_the_demo_agent_is_answered_at_the_keyboard(agentctl: Installed) -> None:
    with agentctl.terminal("run", "demo", "show me") as terminal:
        terminal.expect("[d]iff")
        terminal.send("y")
        terminal.expect("completed in")
        assert terminal.end() == 0
    text = terminal.text
    assert text.startswith("demo 1.0.0 · demo-fast · ")
    assert "? edit demo.txt" in text and "● edit    demo.txt" in text
    assert "● read    " in text and "▸ Look around the workspace" in text
    assert (agentctl.workspace / "demo.txt").exists()


def test_a_chat_takes_one_prompt_after_the_other(agentctl: Installed) -> None:
    with agentctl.terminal("chat", "demo") as terminal:
        terminal.expect("> ")
        terminal.send("say one\n")
        terminal.expect("completed in")
        terminal.expect("> ")
        terminal.send("write chat.txt two\n")
        terminal.expect("[d]iff")
        terminal.send("n")
        terminal.expect("completed in")
        terminal.expect("> ")
        terminal.send("/exit\n")
        assert terminal.end() == 0
    assert terminal.text.count("demo 1.0.0 ·") == 1
    assert not (agentctl.workspace / "chat.txt").exists()
    assert agentctl("ps").stdout == "no agent runs\n"


def test_a_started_agent_is_prompted_listed_and_stopped(agentctl: Installed) -> None:
    (started,) = rows(agentctl("start", "demo", "--json").stdout)
    session, agent = started["session_id"], started["agent_id"]
    assert started["native_session_id"].startswith("demo-")
    assert agentctl("prompt", session[-6:], "say again").stdout == "again\n"
    listed = agentctl("ps").stdout
    assert agent in listed and " ready " in listed
    assert session in agentctl("session", "ls").stdout
    assert agentctl("stop", agent[-6:]).stdout == f"stopped {agent} (demo)\n"
    assert agentctl("ps").stdout == "no agent runs\n"


@pytest.mark.proves("C1")
@pytest.mark.parametrize(
    ("prompt", "options", "code"),
    [
        ("crash 3", (), 1),
        ("model-error 500 out of luck", (), 1),
        ("hang", ("--timeout", "0.3"), 124),
        ("write a.txt x || say done", ("--approve", "deny"), 0),
        ("write a.txt x || crash", ("--on-ask", "fail"), 3),
    ],
)
def test_exit_codes_tell_how_a_real_run_ended(
    agentctl: Installed, prompt: str, options: tuple[str, ...], code: int
) -> None:
    done = agentctl("run", "demo", prompt, *options, code=code)
    assert code in (0, 3) or "✗" in done.stderr


@pytest.mark.proves("T6")
def test_ctrl_c_cancels_a_real_run(agentctl: Installed) -> None:
    with agentctl.terminal("run", "demo", "say on it || hang") as terminal:
        terminal.expect("on it")
        terminal.interrupt()
        terminal.expect("cancelled")
        assert terminal.end() == 130
    assert agentctl("ps").stdout == "no agent runs\n"


def test_a_run_whose_terminal_goes_away_is_still_ended_by_the_daemon(agentctl: Installed) -> None:
    with agentctl.terminal("run", "demo", "say on it || slow 5 50") as terminal:
        terminal.expect("on it")
        terminal.signal(signal.SIGKILL)
        terminal.end()
    run = rows(agentctl("runs", "ls", "--json").stdout)[0]
    told = agentctl("events", "--run", run["run_id"], "--follow", "--json")
    assert rows(told.stdout)[-1]["data"]["outcome"] == "completed"


@pytest.mark.proves("S6")
def test_a_run_outlives_no_daemon_and_says_so_when_it_is_back(fresh: Installed) -> None:
    fresh("up")
    with fresh.terminal("run", "demo", "say on it || hang") as terminal:
        terminal.expect("on it")
        fresh("down", "--force")
        fresh("up")
        terminal.expect("DAEMON_RESTARTED")
        assert terminal.end() == 1


@pytest.mark.proves("P5")
def test_first_commands_at_once_start_one_daemon(fresh: Installed) -> None:
    said: list[str] = []

    def first(word: str) -> None:
        said.append(fresh("run", "demo", f"say {word}").stdout)

    threads = [threading.Thread(target=first, args=(word,)) for word in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert sorted(said) == ["one\n", "three\n", "two\n"]
    assert len(daemons(fresh.data_dir)) == 1


def test_serve_prints_its_address_stops_at_sigterm_and_keeps_others_out(
    fresh: Installed,
) -> None:
    command = [sys.executable, "-m", "agentctl", "serve"]
    with subprocess.Popen(
        command, env=fresh.env, cwd=fresh.workspace, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdout is not None
        line = daemon.stdout.readline()
        assert line == f"agentctl listening on unix:{fresh.data_dir}/run/agentctl.sock\n"
        assert "already listening" in fresh("up").stdout
        done = fresh("serve", code=1)
        assert f"pid {daemon.pid}" in done.stderr and "agentctl down" in done.stderr
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(LIMIT_S) == 0


def test_an_edited_registry_refuses_what_does_not_fit(
    agentctl: Installed,
) -> None:
    assert "enabled" in agentctl("registry", "enable", "qwen").stdout
    done = agentctl("registry", "set", "demo", "cmd", '["agentctl-demo", 3]', code=1)
    assert "cmd[1]" in done.stderr and "REGISTRY_INVALID" in done.stderr
    assert "Nothing was changed" in done.stderr
    done = agentctl("run", "demmo", "x", code=1)
    assert 'Did you mean "demo"?' in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("prompt", "ses_00000000000000000000000000", "x"), "SESSION_NOT_FOUND"),
        (("cancel", "run_00000000000000000000000000"), "RUN_NOT_FOUND"),
        (("approve", "apr_00000000000000000000000000"), "APPROVAL_NOT_FOUND"),
        (("events", "--after", "nonsense"), "INVALID_CURSOR"),
        (("run", "demo", "x", "--workspace", "/nowhere/at/all"), "INVALID_PARAMETERS"),
        (("session", "messages", "ses_00000000000000000000000000"), "SESSION_NOT_FOUND"),
        (("session", "export", "ses_00000000000000000000000000"), "SESSION_NOT_FOUND"),
        (("stats", "--entry", "nobody"), "AGENT_NOT_FOUND"),
        (("models", "nobody"), "AGENT_NOT_FOUND"),
        (("artifacts", "show", "art_00000000000000000000000000"), "ARTIFACT_NOT_FOUND"),
    ],
)
def test_bad_input_gives_the_reason_of_the_daemon(
    agentctl: Installed, words: tuple[str, ...], reason: str
) -> None:
    done = agentctl(*words, code=1)
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert reason in done.stderr.split("  ")[-1]
