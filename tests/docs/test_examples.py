"""The programs under examples/python do what they say, against a daemon of their own."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Shell

EXAMPLES = ROOT / "examples/python"
AGENTCTL = f"{sys.prefix}/bin/agentctl"
PROGRAM_S = 60.0


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        started = Shell.fresh(Path(folder))
        started.run(f"{AGENTCTL} up")
        try:
            yield started
        finally:
            started.run(f"{AGENTCTL} down")


def said(shell: Shell, example: str, *arguments: str, typed: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env=shell.env,
        cwd=shell.home,
        input=typed,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout.rstrip().splitlines()


def test_approvals_are_given_by_rule(shell: Shell, tmp_path: Path) -> None:
    prompt = "run echo hi || run rm -rf gone || say done"
    told = said(shell, "approvals.py", "demo", prompt, str(tmp_path))
    assert told[:2] == ["[allowed] echo hi", "[refused] rm -rf gone"]
    assert told[-1] == "[completed]"


def test_questions_are_answered_from_the_keyboard(shell: Shell, tmp_path: Path) -> None:
    told = said(shell, "questions.py", "demo", "ask Which port?", str(tmp_path), typed="8080\n")
    assert told == ["[asked] Which port?", "You answered: 8080", "[completed]"]


def test_artifacts_are_fetched_into_a_directory(shell: Shell, tmp_path: Path) -> None:
    prompt = "write made.txt some text || run! echo https://github.com/acme/app/pull/7"
    told = said(shell, "artifacts.py", "demo", prompt, str(tmp_path), str(tmp_path / "kept"))
    assert "[file] made.txt: 9 bytes" in told and told[-1] == "[completed]"
    assert "[pull_request] https://github.com/acme/app/pull/7" in told
    contents = {each.read_bytes() for each in (tmp_path / "kept").iterdir()}
    assert b"some text" in contents


@pytest.mark.proves("D2")
def test_after_a_restart_only_what_is_new_is_read(shell: Shell, tmp_path: Path) -> None:
    state = str(tmp_path / "cursor.txt")
    said(shell, "client.py", "demo", "say one", str(tmp_path))
    first = said(shell, "read_on.py", state)
    assert sum(line.startswith("run.completed ") for line in first) >= 1
    assert said(shell, "read_on.py", state) == []
    said(shell, "client.py", "demo", "say two", str(tmp_path))
    shell.run(f"{AGENTCTL} down")
    shell.run(f"{AGENTCTL} up")
    news = said(shell, "read_on.py", state)
    assert sum(line.startswith("run.completed ") for line in news) == 1
    assert "[a gap]" not in news
    assert not set(first) & {line for line in news if line.startswith("run.")}
