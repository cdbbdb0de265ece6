"""The eight events: their published fields, and readers who leave and come back."""

from typing import Any

import anyio
import pytest

from agentctl.gateway.tool import OpenCodeTool
from agentctl.gateway.tool.errors import ToolError
from tests.gateway.tool.conftest import (
    PATIENCE_S,
    Served,
    completes,
    ok,
    session,
    until,
)
from tests.gateway.tool.shapes import shaped

pytestmark = pytest.mark.anyio
Json = dict[str, Any]

EVENTS: dict[str, Json] = {
    "agent.message": {"content": str},
    "agent.file_opened": {"path": str},
    "agent.file_changed": {"path": str, "additions": int, "deletions": int},
    "agent.command_run": {"command": str, "exit_code": int},
    "agent.permission_request": {"request_id": str, "action": str, "details": dict},
    "agent.progress": {"task": str, "percent": int},
    "agent.complete": {"summary": str, "outcome": ("success", "failed", "cancelled")},
    "agent.error": {"error": str, "recoverable": bool},
}
COMMON: Json = {"type": str, "session_id": str, "timestamp": "iso"}


async def everything(tool: OpenCodeTool, served: Served, name: str) -> tuple[str, list[Json]]:
    """A session with a turn that makes all kinds of events, and those events."""
    found = await session(tool, served, project=served.project(name))
    prompt = "plan || write a.txt one || read a.txt || run true || say all done"
    rows: list[Json] = []
    async with tool.events(found) as feed:
        await ok(tool, action="send_message", session_id=found, message=prompt)
        with anyio.fail_after(PATIENCE_S):
            async for event in feed:
                rows.append(event)
                if event["type"] == "agent.permission_request":
                    asked = {"session_id": found, "request_id": event["request_id"]}
                    await ok(tool, action="approve_permission", approved=True, **asked)
                if completes(event):
                    return found, rows
    raise AssertionError("the stream ended")


@pytest.mark.proves("TL4")
async def test_each_event_has_exactly_its_published_fields(
    served: Served, tool: OpenCodeTool
) -> None:
    found, rows = await everything(tool, served, "events")
    for row in rows:
        shaped(row, {**COMMON, **EVENTS[row["type"]]})
        assert row["session_id"] == found
    assert set(EVENTS) - {row["type"] for row in rows} == {"agent.error"}
    by_type = {row["type"]: row for row in rows}
    assert by_type["agent.complete"]["summary"] == "all done"
    assert by_type["agent.complete"]["outcome"] == "success"
    assert by_type["agent.command_run"]["exit_code"] == 0
    assert by_type["agent.file_changed"]["additions"] == 1
    asked = [row for row in rows if row["type"] == "agent.permission_request"]
    assert [row["action"] for row in asked] == ["modify_file", "execute_command"]
    assert asked[0]["details"]["file"].endswith("a.txt")
    assert asked[1]["details"]["command"] == "true"


@pytest.mark.proves("TL5")
async def test_a_reader_who_leaves_at_any_event_comes_back_to_the_rest(
    served: Served, tool: OpenCodeTool
) -> None:
    found, plain = await everything(tool, served, "again")
    async with tool.events(found, after="") as feed:
        rows = await until(feed, completes)
    assert [{k: v for k, v in row.items() if k != "cursor"} for row in rows] == plain
    for number, row in enumerate(rows[:-1]):
        async with tool.events(found, after=row["cursor"]) as feed:
            assert await until(feed, completes) == rows[number + 1 :]


@pytest.mark.proves("TL5")
async def test_a_reader_who_comes_in_the_middle_of_a_turn_knows_what_is_open(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served, project=served.project("middle"))
    async with tool.events(found) as early:
        await ok(tool, action="send_message", session_id=found, message="run true || say end")
        asked = (await until(early, lambda e: e["type"] == "agent.permission_request"))[-1]
        async with tool.events(found) as late:
            request = {"session_id": found, "request_id": asked["request_id"], "approved": True}
            await ok(tool, action="approve_permission", **request)
            rest = await until(early, completes)
            assert await until(late, completes) == rest
    assert [row["type"] for row in rest] == ["agent.command_run", "agent.message", "agent.complete"]
    assert rest[0]["command"] == "true"


async def test_a_stream_of_all_sessions_tells_each_ones_own(
    served: Served, tool: OpenCodeTool
) -> None:
    first, second = await session(tool, served), await session(tool, served)
    async with tool.events() as feed:
        for found in (first, second):
            await ok(tool, action="send_message", session_id=found, message=f"say {found}")
        ended: set[str] = set()

        def both(event: Json) -> bool:
            ended.update({event["session_id"]} if completes(event) else ())
            return ended == {first, second}

        rows = await until(feed, both)
    for row in rows:
        if row["type"] == "agent.message":
            assert row["content"] == row["session_id"]


@pytest.mark.proves("TL4")
async def test_a_turn_that_breaks_says_why_and_one_that_is_stopped_is_cancelled(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    async with tool.events(found) as feed:
        prompt = "model-error -32000 the model is away"
        await ok(tool, action="send_message", session_id=found, message=prompt)
        end = (await until(feed, completes))[-1]
        assert end["outcome"] == "failed" and "the model is away" in end["summary"]
        await ok(tool, action="send_message", session_id=found, message="say begun || hang")
        await ok(tool, action="terminate_session", session_id=found)
        end = (await until(feed, completes))[-1]
        assert end["outcome"] == "cancelled"


@pytest.mark.proves("TL1", "TL4")
async def test_the_published_parallel_review_runs(served: Served, tool: OpenCodeTool) -> None:
    sessions: list[str] = []
    async with tool.events() as feed:
        for number in (86, 87, 88):
            made = await ok(
                tool,
                action="create_session",
                project=served.project(f"pr-{number}-review"),
                message=f"plan || say PR {number} is fine",
            )
            sessions.append(made["session_id"])
        summaries: dict[str, str] = {}

        def all_done(event: Json) -> bool:
            if completes(event):
                summaries[event["session_id"]] = event["summary"]
            return len(summaries) == 3

        await until(feed, all_done)
    for number, found in zip((86, 87, 88), sessions, strict=True):
        assert summaries[found] == f"PR {number} is fine"
        status = await ok(tool, action="get_status", session_id=found)
        assert status["status"] == "active"


@pytest.mark.proves("TL2")
async def test_a_stream_is_refused_for_what_is_no_cursor_and_no_session(
    served: Served, tool: OpenCodeTool
) -> None:
    with pytest.raises(ToolError) as caught:
        async with tool.events(after="nonsense"):
            pass
    assert caught.value.details["parameters"] == ["after"]
    with pytest.raises(ToolError) as caught:
        async with tool.events("ses_01m8pzzgkhfdpf9qedhs4tmg2q"):
            pass
    assert caught.value.code == "SESSION_NOT_FOUND"


async def test_a_cursor_of_another_journal_is_told_as_a_gap(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served, message="say hello")
    async with tool.events(found, after="abcdefabcdef:7") as feed:
        rows = await until(feed, completes)
    assert rows[0]["type"] == "gap" and rows[0]["requested"] == "abcdefabcdef:7"
    assert [row["type"] for row in rows[1:]] == ["agent.message", "agent.complete"]
