"""What real app-servers said, through translate and turns: promises for all, facts for some."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.events import (
    Complete,
    FileChange,
    Message,
    MessageChunk,
    PermissionRequest,
    QuestionRequest,
    Task,
)
from agentctl.core.words import Outcome
from tests.adapters.codex.telling import TRANSCRIPTS, replayed
from tests.invariants import broken
from tests.replaying import lines_of

IDS = [path.stem for path in TRANSCRIPTS]
# Lines cut, doubled and swapped, over and over: what a crash or a lost read leaves of a recording.
DAMAGES_EACH = 4


def _damaged(lines: list[dict[str, Any]], dice: random.Random) -> list[dict[str, Any]]:
    kept = [line for line in lines if dice.random() > 0.06]
    for _ in range(6):
        at = dice.randrange(max(1, len(kept) - 1))
        kept[at : at + 2] = reversed(kept[at : at + 2])
    kept = [each for line in kept for each in ([line] * (1 + (dice.random() < 0.03)))]
    return kept[: dice.randrange(1, len(kept) + 1)]


def _turns(lines: list[dict[str, Any]]) -> Counter[str]:
    """Ends of turns that were prompted, by status, counted from the lines; children left out."""
    prompted = {line["msg"]["params"]["threadId"] for line in _called(lines, "turn/start")}
    ends = [m["params"] for m in _heard(lines, "turn/completed")]
    return Counter(end["turn"]["status"] for end in ends if end["threadId"] in prompted)


def _called(lines: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    return [
        line
        for line in lines
        if line["dir"] == "to_agent" and line.get("msg", {}).get("method") == method
    ]


def _heard(lines: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    told = [line.get("msg", {}) for line in lines if line["dir"] == "from_agent"]
    return [message for message in told if message.get("method") == method]


@pytest.mark.proves("T1", "M1", "M4", "M5", "M9", "A5")
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=IDS)
def test_every_recorded_conversation_keeps_every_promise(path: Path) -> None:
    assert broken(replayed(lines_of(path))) == []


@pytest.mark.proves("M8")
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=IDS)
def test_damaged_recordings_keep_every_promise(path: Path) -> None:
    lines, dice = lines_of(path), random.Random(path.stem)
    for _ in range(DAMAGES_EACH):
        assert broken(replayed(_damaged(lines, dice))) == []


@pytest.mark.proves("M1")
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=IDS)
def test_the_text_of_each_message_is_what_its_item_says(path: Path) -> None:
    lines = lines_of(path)
    events = replayed(lines)
    said: dict[str, str] = {}
    for event in events:
        if isinstance(event.payload, MessageChunk):
            of = event.payload.message_id
            said[of] = said.get(of, "") + (event.payload.text or "")
        elif isinstance(event.payload, Message):
            said[event.payload.message_id] = "".join(b.text or "" for b in event.payload.content)
    items = [m["params"]["item"] for m in _heard(lines, "item/completed")]
    whole = {i["id"]: i["text"] for i in items if i["type"] == "agentMessage"}
    assert {name: said.get(name, "") for name in whole} == whole


@pytest.mark.proves("T1")
@pytest.mark.parametrize(
    "name", ["patch-approval", "err-sse", "err-http", "steer", "interrupt-clean", "subagent"]
)
def test_turns_end_as_the_agent_says(name: str) -> None:
    path = next(path for path in TRANSCRIPTS if path.stem == name)
    lines = lines_of(path)
    ends = [e.payload for e in replayed(lines) if isinstance(e.payload, Complete)]
    words = {"completed": Outcome.COMPLETED, "failed": "failed", "interrupted": "cancelled"}
    told = Counter(words[status] for status in _turns(lines).elements())
    assert Counter(end.outcome for end in ends) == told


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("patch-approval", PermissionRequest, 5),
        ("patch-approval", FileChange, 3),
        ("ask", QuestionRequest, 1),
        ("ask-error", QuestionRequest, 2),
        ("subagent", Task, 4),
        ("busy", Complete, 4),
        ("pipelined", Complete, 2),
        ("queue", Complete, 2),
        ("review", Complete, 2),
        ("shellcmd", Complete, 1),
    ],
)
def test_a_recording_holds_what_was_done_in_it(name: str, kind: type, count: int) -> None:
    path = next(path for path in TRANSCRIPTS if path.stem == name)
    found = [e for e in replayed(lines_of(path)) if isinstance(e.payload, kind)]
    assert len(found) == count


def test_prompts_that_went_into_one_turn_end_together() -> None:
    path = next(path for path in TRANSCRIPTS if path.stem == "pipelined")
    first, second = [e for e in replayed(lines_of(path)) if isinstance(e.payload, Complete)]
    assert isinstance(second.payload, Complete)
    assert second.payload.folded_into == first.run_id
