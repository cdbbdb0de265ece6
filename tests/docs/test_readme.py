"""The README and the documents under docs/ do what they say: each shown command is typed, in order."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, Shell, blocks

README = ROOT / "README.md"
LISTINGS = ("agentctl approvals", "agentctl questions")
"""What these show follows a prompt that was not waited for: they are asked again until it is there."""

LISTED_S = 20.0
SNIPPET_S = 60.0


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        started = Shell.fresh(Path(folder))
        try:
            yield started
        finally:
            assert "Traceback" not in started.run(f"{sys.prefix}/bin/agentctl down")


def named(block: Block) -> str:
    return f"line {block.line}"


def shown(document: Path, *info: str) -> list[Block]:
    return [block for block in blocks(document) if block.info == info]


def typed(shell: Shell, command: str, expected: str) -> str:
    """What differs from the document after a command was typed."""
    deadline = time.monotonic() + LISTED_S
    while True:
        differs = shell.check(expected, shell.run(command, expected))
        if not differs or command not in LISTINGS or time.monotonic() > deadline:
            return differs


@pytest.mark.parametrize("block", shown(README, "console"), ids=named)
def test_a_newcomer_who_types_the_readme_sees_what_it_shows(shell: Shell, block: Block) -> None:
    for command, expected in block.steps():
        differs = typed(shell, command, expected)
        assert not differs, f"README.md:{block.line}: $ {command}\n{differs}"


@pytest.mark.parametrize("document", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_what_the_documents_show_is_what_happens(shell: Shell, document: Path) -> None:
    for block in shown(document, "console"):
        for command, expected in block.steps():
            differs = typed(shell, command, expected)
            assert not differs, f"{document.name}:{block.line}: $ {command}\n{differs}"


def python(shell: Shell, file: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(file), *arguments],
        env=shell.env,
        cwd=shell.home,
        capture_output=True,
        text=True,
        timeout=SNIPPET_S,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


def test_the_python_of_the_readme_runs_as_it_stands(shell: Shell, tmp_path: Path) -> None:
    (snippet,) = shown(README, "python")
    file = tmp_path / "snippet.py"
    file.write_text(snippet.text)
    shell.run(f"{sys.prefix}/bin/agentctl up")
    assert python(shell, file) == "hello"


@pytest.mark.parametrize(
    ("example", "end"), [("client.py", "[completed]"), ("plain_grpc.py", "[OUTCOME_COMPLETED]")]
)
def test_each_python_example_allows_what_is_asked_and_sees_the_end(
    shell: Shell, tmp_path: Path, example: str, end: str
) -> None:
    shell.run(f"{sys.prefix}/bin/agentctl up")
    prompt = "write made.txt by the example || say done"
    told = python(shell, ROOT / "examples/python" / example, "demo", prompt, str(tmp_path))
    assert "[allowed] " in told and told.rstrip().endswith(end)
    assert (tmp_path / "made.txt").read_text().strip() == "by the example"


def test_each_target_of_make_that_is_named_exists() -> None:
    rules = (ROOT / "Makefile").read_text()
    texts = [file.read_text() for file in (README, ROOT / "CONTRIBUTING.md")]
    named_targets = set(re.findall(r"\bmake ([a-z-]+)", "\n".join(texts)))
    named_targets -= {"the"}
    assert {"run", "test"} <= named_targets
    assert all(re.search(rf"^{each}:", rules, re.MULTILINE) for each in named_targets)


def test_nobody_is_told_to_install_a_stranger_s_package() -> None:
    for file in (README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "tools/first_run.py"):
        assert "pip install agentctl" not in file.read_text(), file
