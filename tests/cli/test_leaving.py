"""Ctrl-C where nothing runs yet or nothing runs any more: the command ends, and leaves nothing."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.acp.adapter_harness import FAULTY
from tests.cli.test_first_session import Installed


@pytest.fixture(scope="module")
def program() -> Iterator[Installed]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        installed = Installed(Path(folder))
        silent = {"id": "silent", "cmd": [sys.executable, str(FAULTY), "never-answers-initialize"]}
        registry = Path(folder) / "agents.json"
        registry.write_text(json.dumps({"agents": [silent]}))
        installed.env["AGENTCTL_REGISTRY"] = str(registry)
        installed("up")
        try:
            yield installed
        finally:
            installed("down")


def test_ctrl_c_at_the_prompt_of_a_chat_leaves_it(program: Installed) -> None:
    with program.terminal("chat", "demo") as terminal:
        terminal.expect("> ")
        terminal.send("say hi\r")
        terminal.expect("completed")
        terminal.expect("> ")
        terminal.interrupt()
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
    assert "no agent runs" in program("ps").stdout


@pytest.mark.proves("P5")
@pytest.mark.parametrize("command", ["start", "chat"])
def test_ctrl_c_in_the_start_of_an_agent_leaves_no_session_behind(
    program: Installed, command: str
) -> None:
    with program.terminal(command, "silent") as terminal:
        terminal.expect("starting silent")
        terminal.interrupt()
        assert terminal.end() == 130
    assert "no agent runs" in program("ps").stdout
    sessions = [
        json.loads(line) for line in program("session", "ls", "--json").stdout.split("\n")[:-1]
    ]
    assert {each["state"] for each in sessions} <= {"closed"}
