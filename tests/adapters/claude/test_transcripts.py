"""What the real Claude Code said, through translate and turns: whole, cut off and damaged."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.events import Complete, PermissionRequest, QuestionRequest, ToolCall
from tests.adapters.claude.talk import Line, replayed, shown
from tests.invariants import broken
from tests.replaying import TRANSCRIPTS, lines_of

ALL = sorted((TRANSCRIPTS / "claude").glob("*.jsonl"))
IDS = [path.stem for path in ALL]
CUTS = 12


def messages(lines: list[Line], direction: str) -> Iterator[Any]:
    for line in lines:
        if line["dir"] == direction and isinstance(line.get("msg"), dict):
            yield line["msg"]


def words(lines: list[Line]) -> Iterator[str]:
    """The text blocks that came whole, each frame once, API errors and subagents left out."""
    seen: set[str] = set()
    for message in messages(lines, "from_agent"):
        if message.get("type") != "assistant" or message["uuid"] in seen:
            continue
        seen.add(message["uuid"])
        if message.get("parent_tool_use_id") or message.get("is_api_error_message"):
            continue
        for block in message["message"]["content"]:
            if block["type"] == "text":
                yield block["text"]


def count(events: list[Any], kind: type[Any]) -> int:
    return sum(isinstance(event.payload, kind) for event in events)


@pytest.mark.proves("T1", "M1", "M3", "M4", "M9", "A3", "T3")
@pytest.mark.parametrize("path", ALL, ids=IDS)
def test_a_recorded_conversation_keeps_every_promise_and_says_what_its_lines_say(
    path: Path,
) -> None:
    lines = lines_of(path)
    events = replayed(lines)
    assert broken(events) == []
    heard = list(messages(lines, "from_agent"))
    asked = [m["request"]["tool_name"] for m in heard if m["type"] == "control_request"]
    prompts = [m for m in messages(lines, "to_agent") if m["type"] == "user"]
    own = [m for m in heard if m["type"] == "result" and m.get("origin")]
    assert shown(events) == "".join(words(lines))
    assert count(events, Complete) == len(prompts) + len(own)
    assert count(events, QuestionRequest) == asked.count("AskUserQuestion")
    assert count(events, PermissionRequest) == len(asked) - asked.count("AskUserQuestion")
    assert count(events, ToolCall) == sum(
        block["type"] == "tool_use"
        for m in heard
        if m["type"] == "assistant"
        for block in m["message"]["content"]
    )


@pytest.mark.proves("T1")
@pytest.mark.parametrize("path", ALL, ids=IDS)
def test_a_conversation_that_breaks_off_anywhere_keeps_every_promise(path: Path) -> None:
    lines = lines_of(path)
    for at in range(1, len(lines), max(1, len(lines) // CUTS)):
        assert broken(replayed(lines[:at])) == []


@pytest.mark.proves("T1", "M2")
@pytest.mark.parametrize("path", ALL, ids=IDS)
def test_a_conversation_with_lost_or_repeated_lines_keeps_every_promise(path: Path) -> None:
    lines = lines_of(path)
    for step in range(2, 2 + CUTS):
        assert broken(replayed(line for n, line in enumerate(lines) if n % step)) == []
    doubled = [line for line in lines for _ in range(2)]
    assert broken(replayed(doubled)) == []


def mangled(value: Any, junk: Any, at: list[int]) -> Any:
    """The value with the n-th of its inner parts replaced."""
    at[0] -= 1
    if at[0] == 0:
        return junk
    match value:
        case dict():
            return {k: mangled(v, junk, at) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # foreign JSON
        case list():
            return [mangled(v, junk, at) for v in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # foreign JSON
        case _:
            return value


@pytest.mark.parametrize("name", ["ask", "subagent", "error-drop", "todo-tasks", "bg-bash"])
def test_nothing_that_an_agent_says_is_fatal(name: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = lines_of(TRANSCRIPTS / "claude" / f"{name}.jsonl")
    junk: list[Any] = [None, 7, "x", [], {}, [None], {"type": []}]
    for number, line in enumerate(lines):
        if line["dir"] != "from_agent" or "commands" in str(line):
            continue
        part = 2 + number % 9
        odd = {**line, "msg": mangled(line.get("msg"), junk[number % len(junk)], [part])}
        assert broken(replayed([*lines[:number], odd, *lines[number + 1 :]])) == []
    caplog.clear()
