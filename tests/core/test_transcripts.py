"""What real agents said, through translate and turns: promises for all, golden events for some."""

import json
import os
from pathlib import Path

import pytest

from tests.invariants import broken, differs
from tests.replaying import ACP, ACP_IDS, GOLDEN, TRANSCRIPTS, lines_of, replayed, row

WITH_GOLDEN = (
    "acp-claude/ask",
    "acp-codex/perm",
    "acp-copilot/fail_mid",
    "acp-gemini/tools_two",
    "acp-opencode/tool_long",
    "acp-qwen/tool_fail",
)


@pytest.mark.proves("T1", "M1", "M4", "M5", "M9", "A3", "E1", "E3")
@pytest.mark.parametrize("path", ACP, ids=ACP_IDS)
def test_every_recorded_conversation_keeps_every_promise(path: Path) -> None:
    assert broken(replayed(lines_of(path))) == []


@pytest.mark.proves("T1", "M1", "M6")
@pytest.mark.parametrize("path", ACP, ids=ACP_IDS)
def test_a_recorded_conversation_is_told_as_its_lines_say(path: Path) -> None:
    lines = lines_of(path)
    assert differs(replayed(lines), lines) == []


def test_all_agents_are_among_the_transcripts() -> None:
    agents = {path.parent.name for path in ACP}
    assert len(agents) == 7
    assert len(ACP) >= 30


@pytest.mark.parametrize("name", WITH_GOLDEN)
def test_the_events_of_a_transcript_are_the_golden_ones(name: str) -> None:
    golden = GOLDEN / f"{name.replace('/', '-')}.jsonl"
    rows = [row(event) for event in replayed(lines_of(TRANSCRIPTS / f"{name}.jsonl"))]
    # Rewritten on purpose only: UPDATE_GOLDEN=1 pytest …, then read the difference.
    if os.environ.get("UPDATE_GOLDEN"):
        text = "".join(json.dumps(told, ensure_ascii=False) + "\n" for told in rows)
        golden.write_text(text, encoding="utf-8")
    assert rows == lines_of(golden)


def test_the_same_transcript_gives_the_same_events_twice() -> None:
    lines = lines_of(TRANSCRIPTS / "acp-claude" / "misc.jsonl")
    assert [row(e) for e in replayed(lines)] == [row(e) for e in replayed(lines)]
