"""The document says of the tool what its tables say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.gateway.tool.actions import ACTIONS
from agentctl.gateway.tool.config import Defaults, Features, InstanceConfig, ToolConfig
from agentctl.gateway.tool.errors import CODES
from tests.docs.blocks import ROOT, blocks
from tests.gateway.tool.conftest import Served
from tests.gateway.tool.test_events import EVENTS

DOCUMENT = ROOT / "docs/gateway-tool.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    text = DOCUMENT.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    split = (re.split(r"\s*\|\s*", line.strip("| ")) for line in lines[1:])
    return [[cell.strip("`") for cell in cells] for cells in split]


def test_it_lists_every_action_event_and_reason() -> None:
    assert [cells[0] for cells in rows("Actions")] == list(ACTIONS)
    assert [cells[0] for cells in rows("Events")] == list(EVENTS)
    assert {cells[0]: cells[1] for cells in rows("Errors")} == dict(CODES)


def test_it_lists_every_field_of_the_configuration_with_its_default() -> None:
    told = {cells[0]: cells[1] for cells in rows("Configuration")}
    parts = {"": ToolConfig, "instances[].": InstanceConfig, "defaults.": Defaults}
    known: dict[str, str] = {}
    for prefix, model in {**parts, "features.": Features}.items():
        for name, info in model.model_fields.items():
            if name in ("instances", "defaults", "features"):
                continue
            value = "" if info.is_required() or info.default is None else str(info.default)
            known[prefix + name] = value.lower() if value in ("True", "False") else value
    assert told == known


@pytest.mark.parametrize("number", [0, 1])
def test_its_python_runs_as_it_stands(served: Served, tmp_path: Path, number: int) -> None:
    found = [block for block in blocks(DOCUMENT) if block.info == ("python",)]
    assert len(found) == 2
    file = tmp_path / "snippet.py"
    file.write_text(found[number].text)
    done = subprocess.run(
        [sys.executable, str(file)],
        env={**served.env, "AGENTCTL_ADDRESS": served.address},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(agent\.\w+\n)*", done.stdout)
