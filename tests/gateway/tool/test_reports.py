"""Exports, statistics and permissions on a real daemon: exactly the published fields."""

from pathlib import Path

import pytest

from agentctl.gateway.tool import OpenCodeTool
from tests.gateway.tool.conftest import Served, approve_all, completes, ok, refused, session, until
from tests.gateway.tool.shapes import shaped

pytestmark = pytest.mark.anyio


@pytest.mark.proves("TL1")
async def test_export_session_gives_json_and_markdown(served: Served, tool: OpenCodeTool) -> None:
    found = await session(tool, served, project=served.project("exported"))
    async with tool.events(found) as feed:
        prompt = "write out.txt hello || say written || usage"
        await ok(tool, action="send_message", session_id=found, message=prompt)
        await approve_all(tool, feed, found)
    told = await ok(tool, action="export_session", session_id=found, include_files=True)
    shaped(told, {"session_id": str, "format": ("json",), "data": dict})
    data = told["data"]
    shaped(
        data,
        {
            "session_id": str,
            "project": str,
            "created": "iso",
            "completed": "iso",
            "duration_seconds": "number",
            "messages": list,
            "files_changed": list,
            "tokens": dict,
            "outcome": ("success",),
        },
    )
    assert data["project"] == served.project("exported")
    assert [row["role"] for row in data["messages"]] == ["user", "agent"]
    (file,) = data["files_changed"]
    assert Path(file["path"]).name == "out.txt" and file["content"].strip() == "hello"
    least = await ok(
        tool,
        action="export_session",
        session_id=found,
        include_messages=False,
        include_stats=False,
    )
    assert not {"messages", "tokens"} & least["data"].keys()
    assert [Path(each).name for each in least["data"]["files_changed"]] == ["out.txt"]
    written = await ok(tool, action="export_session", session_id=found, format="markdown")
    assert written["format"] == "markdown" and "say written" in written["data"]
    assert written["data"].startswith("# ")


async def test_an_export_of_a_session_at_work_says_so(served: Served, tool: OpenCodeTool) -> None:
    found = await session(tool, served)
    assert (await ok(tool, action="export_session", session_id=found))["data"][
        "outcome"
    ] == "in_progress"
    await ok(tool, action="send_message", session_id=found, message="hang")
    data = (await ok(tool, action="export_session", session_id=found))["data"]
    assert data["outcome"] == "in_progress" and "completed" not in data


@pytest.mark.proves("TL1")
async def test_get_stats_counts_a_session_a_server_and_all(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    await ok(
        tool,
        action="send_message",
        session_id=found,
        message="usage || say x",
        wait_for_completion=True,
    )
    one = await ok(tool, action="get_stats", session_id=found)
    shaped(one, {"scope": ("session",), "stats": dict})
    totals = {"input_total": int, "output_total": int, "total": int, "cost_usd": "number"}
    stats = one["stats"]
    shaped(
        stats,
        {"sessions_total": int, "sessions_active": int, "tokens": dict, "by_model": dict},
    )
    shaped(stats["tokens"], totals)
    assert (stats["sessions_total"], stats["sessions_active"]) == (1, 1)
    assert stats["tokens"]["total"] > 0
    for name, used in stats["by_model"].items():
        assert name == "demo-fast"
        shaped(used, {"tokens": int, "cost_usd": "number"})
        assert used["tokens"] == stats["tokens"]["total"]
    here = await ok(tool, action="get_stats", instance="local")
    every = await ok(tool, action="get_stats")
    assert (here["scope"], every["scope"]) == ("instance", "all")
    assert here["stats"] == every["stats"]
    assert every["stats"]["tokens"]["total"] >= stats["tokens"]["total"]


@pytest.mark.proves("TL1")
@pytest.mark.parametrize(("approved", "status"), [(True, "approved"), (False, "denied")])
async def test_approve_permission_answers_as_published(
    served: Served, tool: OpenCodeTool, approved: bool, status: str
) -> None:
    found = await session(tool, served, project=served.project(f"approve-{approved}"))
    async with tool.events(found) as feed:
        await ok(tool, action="send_message", session_id=found, message="write a.txt hi")
        asked = (await until(feed, lambda e: e["type"] == "agent.permission_request"))[-1]
        request = {"session_id": found, "request_id": asked["request_id"], "approved": approved}
        answer = await ok(tool, action="approve_permission", **request, reason="because")
        shaped(answer, {"request_id": str, "status": (status,), "message": str})
        assert answer["request_id"] == asked["request_id"]
        await until(feed, completes)
    assert served.holds(f"approve-{approved}", "a.txt") is approved
    again = await refused(tool, action="approve_permission", **request)
    assert again["code"] == "INVALID_PARAMETERS"
    assert again["details"]["parameters"] == ["request_id"]
    assert again["details"]["reason"] == "ALREADY_RESOLVED"
