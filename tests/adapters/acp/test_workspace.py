"""Files that an agent asks for: those of its workspace, and by no trick any other."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentctl_adapters.acp import workspace as module
from agentctl_adapters.acp.workspace import FileMissing, FileRefused, Workspace
from tests.adapters.acp.adapter_harness import one_turn, puppet, running, spec, steps

BOTH = {"client_capabilities": {"fs": {"readTextFile": True, "writeTextFile": True}}}
READ = {"client_capabilities": {"fs": {"readTextFile": True}}}


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A workspace, with a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "a.txt").write_text("one\ntwo\nthree\n")
    return tmp_path / "ws"


def _escapes(room: Path) -> list[str]:
    outside = room.parent
    (room / "link").symlink_to(outside / "secret")
    (room / "up").symlink_to(outside)
    (room / "dangling").symlink_to(outside / "made")
    return [
        str(outside / "secret"),
        f"{room}/../secret",
        f"{room}/link",
        f"{room}/up/secret",
        f"{room}/dangling",
        f"{room}-beside/x",
        "/etc/hostname",
        "/proc/self/environ",
        "a.txt",
        "",
        f"{room}/a\0.txt",
    ]


@pytest.mark.parametrize("number", range(11))
def test_no_path_leads_out_of_the_workspace(room: Path, number: int) -> None:
    path = _escapes(room)[number]
    files = Workspace([str(room)])
    with pytest.raises(FileRefused):
        files.read_text(path)
    with pytest.raises(FileRefused):
        files.write_text(path, "overwritten")
    assert (room.parent / "secret").read_text() == "secret"
    assert not (room.parent / "made").exists()


def test_a_link_swapped_in_after_the_check_leads_nowhere(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Workspace([str(room)])
    (room / "dir").mkdir()
    (room / "dir" / "secret").write_text("harmless")
    real = os.path.realpath

    def swap(path: str) -> str:
        checked = real(path)
        (room / "dir" / "secret").unlink()
        (room / "dir").rmdir()
        (room / "dir").symlink_to(room.parent)
        return checked

    monkeypatch.setattr(module.os.path, "realpath", swap)
    with pytest.raises(FileRefused, match="outside"):
        files.read_text(f"{room}/dir/secret")


def test_a_file_swapped_for_a_link_after_the_check_is_not_followed(
    room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Workspace([str(room)])
    real = os.path.realpath

    def swap(path: str) -> str:
        checked = real(path)
        (room / "a.txt").unlink()
        (room / "a.txt").symlink_to(room.parent / "secret")
        return checked

    monkeypatch.setattr(module.os.path, "realpath", swap)
    with pytest.raises(FileRefused, match="symbolic link"):
        files.write_text(f"{room}/a.txt", "x")
    assert (room.parent / "secret").read_text() == "secret"


def test_links_within_the_workspace_and_other_roots_are_served(room: Path) -> None:
    other = room.parent / "other"
    other.mkdir()
    (room / "inner").symlink_to(room / "a.txt")
    (room / "to-other").symlink_to(other)
    files = Workspace([str(room), str(other)])
    assert files.read_text(f"{room}/inner").startswith("one")
    files.write_text(f"{room}/to-other/new.txt", "new")
    assert (other / "new.txt").read_text() == "new"


def test_lines_are_counted_from_one(room: Path) -> None:
    files = Workspace([str(room)])
    path = str(room / "a.txt")
    assert files.read_text(path) == "one\ntwo\nthree\n"
    assert files.read_text(path, line=2) == "two\nthree\n"
    assert files.read_text(path, line=2, limit=1) == "two\n"
    assert files.read_text(path, limit=0) == ""
    assert files.read_text(path, line=9) == ""


def test_a_write_replaces_the_whole_content(room: Path) -> None:
    files = Workspace([str(room)])
    files.write_text(str(room / "a.txt"), "é")
    assert (room / "a.txt").read_bytes() == "é".encode()
    with pytest.raises(FileMissing):
        files.write_text(str(room / "no" / "such.txt"), "x")


def test_what_is_no_text_file_is_refused(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Workspace([str(room)])
    os.mkfifo(room / "pipe")
    (room / "binary").write_bytes(b"\xff\xfe")
    (room / "dir").mkdir()
    for name in ("pipe", "binary", "dir"):
        with pytest.raises(FileRefused):
            files.read_text(str(room / name))
    for name in ("pipe", "dir"):
        with pytest.raises(FileRefused):
            files.write_text(str(room / name), "x")
    monkeypatch.setattr(module, "MAX_READ_BYTES", 8)
    with pytest.raises(FileRefused, match="ask for lines"):
        files.read_text(str(room / "a.txt"))
    with pytest.raises(FileRefused, match="ask for lines"):
        files.read_text(str(room / "a.txt"), line=1)
    assert files.read_text(str(room / "a.txt"), line=3) == "three\n"


async def _ask(config: Any, room: Path, method: str, **params: Any) -> Any:
    async with running(**puppet(), config=config) as (connection, seen):
        session = await connection.new_session(spec(room))
        ask = ["request", method, params]
        return json.loads(await one_turn(connection, seen, session, steps(ask)))


@pytest.mark.anyio
async def test_an_agent_reads_and_writes_where_the_entry_allows_it(room: Path) -> None:
    path = str(room / "a.txt")
    read = await _ask(READ, room, "fs/read_text_file", path=path, line=1, limit=1)
    assert read == {"content": "one\n"}
    assert await _ask(BOTH, room, "fs/write_text_file", path=path, content="new") == {}
    assert (room / "a.txt").read_text() == "new"
    refused = await _ask(READ, room, "fs/write_text_file", path=path, content="x")
    assert refused["code"] == -32601


@pytest.mark.anyio
async def test_an_agent_is_told_what_is_wrong_with_its_request(room: Path) -> None:
    outside = await _ask(BOTH, room, "fs/read_text_file", path=f"{room}/../secret")
    assert outside["code"] == -32602
    assert "outside the workspace" in outside["message"]
    stranger = await _ask(BOTH, room, "fs/read_text_file", path="/x", sessionId="other")
    assert "unknown session" in stranger["message"]
    wrong = await _ask(BOTH, room, "fs/write_text_file", path=f"{room}/a.txt", content=7)
    assert "must be a text" in wrong["message"]


@pytest.mark.anyio
async def test_a_missing_file_is_empty_for_agents_that_read_before_they_write(room: Path) -> None:
    missing = f"{room}/new.txt"
    assert await _ask(BOTH, room, "fs/read_text_file", path=missing) == {"content": ""}
    assert (await _ask(READ, room, "fs/read_text_file", path=missing))["code"] == -32002
