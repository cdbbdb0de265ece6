"""The example for Node.js runs as its README line says; it needs its packages from npm."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Shell

pytestmark = pytest.mark.real

# Node and a daemon start on a busy machine.
NODE_S = 60.0


@pytest.fixture
def shell() -> Iterator[Shell]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        started = Shell.fresh(Path(folder))
        started.run(f"{sys.prefix}/bin/agentctl up")
        try:
            yield started
        finally:
            started.run(f"{sys.prefix}/bin/agentctl down")


def test_the_node_example_shows_text_a_tool_and_the_end(shell: Shell) -> None:
    node = shutil.which("node")
    assert node is not None
    client = ROOT / "examples/node/client.mjs"
    prompt = "write made.txt by node || say done"
    done = subprocess.run(
        [node, str(client), "demo", prompt, str(shell.home)],
        env=shell.env,
        cwd=shell.home,
        capture_output=True,
        text=True,
        timeout=NODE_S,
        check=False,
    )
    assert done.returncode == 0, done
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines == ["[tool] Write made.txt", "[allowed] Write made.txt", "done", "[completed]"]
    assert (shell.home / "made.txt").read_text().strip() == "by node"
