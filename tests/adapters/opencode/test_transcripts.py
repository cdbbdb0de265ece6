"""What a real OpenCode server said, through translate and turns: promises for all, golden events for some."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import (
    Complete,
    Event,
    PermissionRequest,
    QuestionRequest,
    ToolCall,
)
from agentctl.core.replay import frame_of
from tests.adapters.opencode.scripted import OPENCODE, replayed, shown
from tests.invariants import broken
from tests.replaying import GOLDEN, TRANSCRIPTS, Line, lines_of, payloads, row

WITH_GOLDEN = ("write_ask", "subagent_permission", "abort_with_queued", "question_reply")
PROMPT = re.compile(r"/session/[^/]+/(message|prompt_async|command|shell|summarize|init)")
IDS = [path.stem for path in OPENCODE]


def said(lines: list[Line]) -> dict[str, Any]:
    """Prompts, requests, tools and text, counted from the lines alone."""
    children: set[str] = set()
    roles: dict[str, str] = {}
    tools: set[str] = set()
    texts: dict[str, str] = {}
    counts = {"prompts": 0, "approvals": 0, "questions": 0}
    for line in lines:
        msg: Any = line.get("msg") or {}
        if line["dir"] == "http_request" and msg["method"] == "POST":
            counts["prompts"] += bool(PROMPT.fullmatch(msg["path"]))
        if line["dir"] != "sse":
            continue
        told: Any = msg.get("properties") or {}
        match msg.get("type"):
            case "session.created" if told["info"].get("parentID"):
                children.add(told["info"]["id"])
            case "message.updated":
                roles[told["info"]["id"]] = told["info"]["role"]
            case "message.part.updated":
                part = told["part"]
                if part["type"] == "tool":
                    tools.add(part["callID"])
                answer = roles.get(part["messageID"]) == "assistant"
                if part["type"] == "text" and answer and part["sessionID"] not in children:
                    texts[part["id"]] = part["text"] or texts.get(part["id"], "")
            case "permission.asked":
                counts["approvals"] += 1
            case "question.asked":
                counts["questions"] += 1
            case _:
                pass
    return {**counts, "tools": len(tools), "text": "".join(texts.values())}


def told(events: list[Event]) -> dict[str, Any]:
    return {
        "prompts": len(payloads(events, Complete)),
        "approvals": len(payloads(events, PermissionRequest)),
        "questions": len(payloads(events, QuestionRequest)),
        "tools": len(payloads(events, ToolCall)),
        "text": shown(events),
    }


@pytest.mark.proves("T1", "M1", "M4", "M5", "M9")
@pytest.mark.parametrize("path", OPENCODE, ids=IDS)
def test_every_recorded_conversation_keeps_every_promise(path: Path) -> None:
    assert broken(replayed(path)) == []


@pytest.mark.proves("T1", "M1", "M6")
@pytest.mark.parametrize("path", OPENCODE, ids=IDS)
def test_a_recorded_conversation_is_told_as_its_lines_say(path: Path) -> None:
    assert told(replayed(path)) == said(lines_of(path))


def test_there_are_transcripts() -> None:
    assert len(OPENCODE) >= 12


@pytest.mark.parametrize("name", WITH_GOLDEN)
def test_the_events_of_a_transcript_are_the_golden_ones(name: str) -> None:
    golden = GOLDEN / f"opencode-{name}.jsonl"
    rows = [row(event) for event in replayed(TRANSCRIPTS / "opencode" / f"{name}.jsonl")]
    # Rewritten on purpose only: UPDATE_GOLDEN=1 pytest …, then read the difference.
    if os.environ.get("UPDATE_GOLDEN"):
        text = "".join(json.dumps(told, ensure_ascii=False) + "\n" for told in rows)
        golden.write_text(text, encoding="utf-8")
    assert rows == lines_of(golden)


@pytest.mark.proves("M1")
@pytest.mark.parametrize("path", OPENCODE, ids=IDS)
def test_a_stream_without_any_delta_gives_the_same_text(path: Path, tmp_path: Path) -> None:
    kept = [line for line in lines_of(path) if "message.part.delta" not in json.dumps(line)]
    thinned = tmp_path / path.name
    thinned.write_text("".join(f"{json.dumps(line)}\n" for line in kept), encoding="utf-8")
    assert shown(replayed(thinned)) == shown(replayed(path))


def test_the_id_of_a_recorded_request_joins_its_answer() -> None:
    line = {"t": 0, "dir": "http_request", "id": 7, "msg": {"method": "GET", "path": "/"}}
    assert frame_of(line) == Frame("http_request", {"id": 7, "method": "GET", "path": "/"})
