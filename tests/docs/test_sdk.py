"""docs/sdk.md: each program in it runs as it stands, and prints what stands below it."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from agentctl.client import AgentCtl
from agentctl.client.params import RunParams
from agentctl.client.results import RunResult
from tests.docs.blocks import ROOT, Block, Shell, blocks
from tests.docs.test_tables import table

SDK = ROOT / "docs/sdk.md"
PROGRAM_S = 60.0


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        started = Shell.fresh(Path(folder))
        started.run(f"{sys.prefix}/bin/agentctl up")
        try:
            yield started
        finally:
            started.run(f"{sys.prefix}/bin/agentctl down")


def programs() -> list[tuple[Block, str]]:
    """Each Python block with the text block that follows it."""
    found = blocks(SDK)
    return [
        (block, after.text if after.info == ("text",) else "")
        for block, after in pairwise(found)
        if block.info == ("python",)
    ]


def done(shell: Shell, *command: str) -> str:
    ended = subprocess.run(
        [sys.executable, *command],
        env=shell.env,
        cwd=shell.home,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert ended.returncode == 0, ended
    return ended.stdout


@pytest.mark.parametrize("program", programs(), ids=lambda pair: f"line {pair[0].line}")
def test_a_program_prints_what_stands_below_it(
    shell: Shell, tmp_path: Path, program: tuple[Block, str]
) -> None:
    block, expected = program
    file = tmp_path / "program.py"
    file.write_text(block.text)
    shown = [line.rstrip() for line in done(shell, str(file)).rstrip().splitlines()]
    assert shown == expected.rstrip().splitlines()


@pytest.mark.proves("D6")
def test_the_tests_that_it_shows_pass(shell: Shell, tmp_path: Path) -> None:
    (block,) = [each for each in blocks(SDK) if each.info == ("python", "pytest")]
    file = tmp_path / "test_app.py"
    file.write_text(block.text)
    assert "2 passed" in done(shell, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file))


@pytest.mark.anyio
async def test_every_call_of_a_namespace_is_named_and_exists() -> None:
    async with AgentCtl.connect("unix:/nowhere") as client:
        for name, calls in table("docs/sdk.md", "namespace"):
            space = getattr(client, name.removeprefix("client."))
            made = {each for each in dir(space) if not each.startswith("_")}
            named = set(re.findall(r"`([a-z_]+)`", f"`{calls}`"))
            assert made == named, name


def test_every_parameter_of_a_run_and_every_field_of_its_result_is_named() -> None:
    def words(head: str) -> set[str]:
        cells = (row[0] for row in table("docs/sdk.md", head))
        return {word for cell in cells for word in re.findall(r"\w+", cell)}

    assert words("parameter") == set(RunParams.__dataclass_fields__) - {"input"}
    assert words("field") == set(RunResult.__dataclass_fields__)
