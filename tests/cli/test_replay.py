"""What `agentctl replay` prints of recordings, and how it refuses what is none."""

import json
from pathlib import Path

import pytest

from agentctl.cli.out import out
from agentctl.cli.replay import replay
from agentctl.core.errors import Invalid
from tests.replaying import TRANSCRIPTS, lines_of, replayed

PLAIN = TRANSCRIPTS / "acp-gemini" / "plain.jsonl"
TOOLS = TRANSCRIPTS / "acp-gemini" / "tools_two.jsonl"


@pytest.fixture(autouse=True)
def todays_stdout() -> None:
    """The stream is remembered, and each test has its own."""
    out.cache_clear()


def test_one_json_object_a_line_however_a_reader_splits_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    replay("acp", [PLAIN], json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    events = replayed(lines_of(PLAIN))
    assert [(row["seq"], row["type"]) for row in rows] == [(e.seq, e.type) for e in events]
    assert {row["version"] for row in rows} == {1}
    assert "file" not in rows[0]


def test_rows_of_several_files_name_their_file(capsys: pytest.CaptureFixture[str]) -> None:
    replay("acp", [PLAIN, TOOLS], json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["file"] for row in rows} == {str(PLAIN), str(TOOLS)}
    assert [row["seq"] for row in rows].count(1) == 2


def test_a_person_sees_one_line_for_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    replay("acp", [TOOLS], json=False)
    shown = capsys.readouterr().out
    assert "awaiting_approval execute touch one.txt" in shown
    assert ["4913", "complete", "run_1", "completed"] in [row.split() for row in shown.splitlines()]


def test_an_unknown_protocol_names_the_known_ones() -> None:
    with pytest.raises(Invalid, match=r"use one of: .*acp"):
        replay("morse", [PLAIN], json=True)


@pytest.mark.parametrize("line", ["not json", "[1]", '{"dir": "note"}', '{"t": 1}'])
def test_a_line_that_is_none_of_a_transcript_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"t":0,"dir":"note","msg":{{"event":"spawn"}}}}\n\n{line}\n')
    with pytest.raises(Invalid, match=r"x\.jsonl:3 is no line of a transcript"):
        replay("acp", [path], json=True)


def test_broken_bytes_of_an_agent_do_not_stop_a_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    lone = '{"t":1,"dir":"from_agent","raw":"half \\ud83c of a pair"}\n'
    path.write_bytes(lone.encode() + b'{"t":2,"dir":"from_agent","raw":"\xff"}\n')
    replay("acp", [path], json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["type"] for row in rows] == ["log", "log"]


def test_of_several_clients_of_one_server_the_first_one_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(PLAIN)
    path = tmp_path / "two.jsonl"
    both = [{**line, "client": name} for line in lines for name in ("A", "B")]
    path.write_text("".join(json.dumps(line) + "\n" for line in both))
    replay("acp", [path], json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["type"] for row in rows] == [e.type for e in replayed(lines)]


def test_a_file_that_is_not_there_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replay("acp", [tmp_path / "none.jsonl"], json=True)
