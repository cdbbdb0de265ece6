"""The help, the completion and how quickly they come."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from agentctl import v1
from agentctl.cli.app import app
from agentctl.cli.completion import agents, approvals, entries, runs, sessions
from agentctl.cli.root import GROUPS
from agentctl.cli.state import STATE
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import APPROVAL, RUN, SESSION, FakeDaemon


def walk(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inside: dict[str, Any] = getattr(command, "commands", {})
    return [path, *(each for name, sub in inside.items() for each in walk(sub, (*path, name)))]


GROUPED = ("session", "runs", "rules", "registry", "artifacts", "environments", "tool")
COMMANDS = walk(typer.main.get_command(app))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_help_fits_one_screen_and_has_two_examples(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli(*words, "--help")
    assert done.code == 0
    lines = done.out.splitlines()
    group = words in [(name,) for name in GROUPED]
    assert len([line for line in lines if line.strip()]) <= 24, done.out
    assert max(len(line) for line in lines) <= 100
    examples = lines[lines.index("  Examples:") + 1 :][:2] if not group else []
    assert group or all("agentctl " in line for line in examples)


def test_every_command_stands_in_the_first_help() -> None:
    named = {name for names, _ in GROUPS for name in names.split()}
    assert named == {words[0] for words in COMMANDS if words}


def test_every_command_of_the_contract_is_there() -> None:
    told = """environments top serve up down status doctor start stop ps run prompt cancel chat events session runs
    approvals approve deny rules questions answer reject registry artifacts stats models tools auth
    replay version"""
    assert set(told.split()) <= {words[0] for words in COMMANDS if words}
    session = "ls show resume fork messages export close delete"
    assert set(session.split()) == {words[1] for words in COMMANDS if words[:-1] == ("session",)}
    registry = "ls show add set rm enable disable validate discover edit"
    assert set(registry.split()) == {words[1] for words in COMMANDS if words[:-1] == ("registry",)}


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["version"]])
def test_help_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    # pydantic is not in the list: typer itself loads it to convert arguments.
    program = (
        "import sys; from agentctl.cli.app import run; code = run(sys.argv[1:]);"
        "heavy = {'agentctl.config', 'grpc', 'rich', 'anyio', 'google.protobuf'} & set(sys.modules);"
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "[]"


def test_completion_prints_nothing_and_fails_nowhere_without_a_daemon(
    quiet_home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [sessions(""), runs(""), agents(""), approvals("")] == [[], [], [], []]
    assert ("demo", "Demo") in entries("de")
    assert capfd.readouterr() == ("", "")


def test_completion_knows_what_the_daemon_knows(
    quiet_home: Path, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = v1.Run(run_id=RUN, prompt=[v1.ContentBlock(text="fix it")])
    approval = v1.Approval(approval_id=APPROVAL, request=v1.PermissionRequest(title="rm x"))
    daemon.answers |= {
        "Runs/List": lambda request: v1.ListRunsResponse(runs=[run]),
        "Approvals/List": lambda request: v1.ListApprovalsResponse(approvals=[approval]),
    }
    monkeypatch.setenv("AGENTCTL_ADDRESS", daemon.address)
    monkeypatch.setattr(STATE, "address", "")
    assert sessions("ses_") == [(SESSION, "demo /srv/api")]
    assert runs("") == [(RUN, "fix it")]
    assert approvals("apr") == [(APPROVAL, "rm x")]
    assert entries("") == [("demo", "")]
    assert agents("") == [] and runs("ses") == []


def test_the_shell_completes_commands_and_agents(quiet_home: Path) -> None:
    def complete(line: str, at: int) -> list[str]:
        env = {
            **os.environ,
            "_AGENTCTL_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(at),
        }
        command = [sys.executable, "-m", "agentctl"]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert "registry" in complete("agentctl reg", 1)
    assert complete("agentctl run de", 2) == ["demo"]
