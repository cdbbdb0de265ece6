"""What the tool remembers between processes, and that it keeps no secret."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.gateway.tool.state import MAX_SESSIONS, Connected, State, StateFile

SNIPPET = """
import sys
from pathlib import Path
from agentctl.gateway.tool.state import StateFile
memory = StateFile(Path(sys.argv[1]))
for number in range(25):
    memory.change(lambda state: state.remember(f"{sys.argv[2]}-{number}", "local"))
"""


def test_what_was_changed_is_read_back_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tool.json"

    def change(state: State) -> None:
        state.connected["a"] = Connected("http://h", token=True)
        state.disconnected.add("b")
        state.remember("ses_1", "a")

    StateFile(path).change(change)
    told = StateFile(path).read()
    assert told.connected == {"a": Connected("http://h", token=True)}
    assert (told.disconnected, told.sessions) == ({"b"}, {"ses_1": "a"})
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("TL11")
def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tool.json"
    argv = [sys.executable, "-c", SNIPPET, str(path)]
    writers = [subprocess.Popen([*argv, name], env=dict(os.environ)) for name in "abc"]
    assert [each.wait(30) for each in writers] == [0, 0, 0]
    assert len(StateFile(path).read().sessions) == 75


@pytest.mark.parametrize("text", ["", "{", "[]", '{"connected": 5}', "\xff", '{"version": 1}'])
def test_a_damaged_file_is_no_obstacle(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tool.json"
    path.write_text(text, encoding="latin-1")
    assert StateFile(path).read() == State()
    StateFile(path).change(lambda state: state.remember("ses_1", "a"))
    assert StateFile(path).read().sessions == {"ses_1": "a"}


def test_a_file_that_cannot_be_written_undoes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tool.json"
    path.mkdir()
    StateFile(path).change(lambda state: state.remember("ses_1", "a"))
    assert f"{path} cannot be written" in caplog.text


def test_only_so_many_sessions_are_remembered() -> None:
    state = State()
    for number in range(MAX_SESSIONS + 5):
        state.remember(str(number), "a")
    state.remember("5", "b")
    assert len(state.sessions) == MAX_SESSIONS
    assert "4" not in state.sessions and state.sessions["5"] == "b"


def test_sessions_of_a_name_that_means_another_server_now_are_forgotten() -> None:
    state = State(sessions={"1": "a", "2": "b"})
    state.forget_instance("a")
    assert state.sessions == {"2": "b"}
