"""The actions on a real daemon: exactly the published fields, and what they mean."""

from datetime import datetime
from typing import Any

import pytest

from agentctl.gateway.tool import OpenCodeTool
from tests.gateway.tool.conftest import Served, approve_all, completes, ok, refused, session, until
from tests.gateway.tool.shapes import PROGRESS, ROW, STATUS, TOKENS, shaped

pytestmark = pytest.mark.anyio
Json = dict[str, Any]


@pytest.mark.proves("TL1")
async def test_connect_and_disconnect_answer_as_published(
    served: Served, tool: OpenCodeTool
) -> None:
    made = await ok(tool, action="connect", url=served.address, name="mine")
    shaped(
        made,
        {
            "instance": str,
            "url": str,
            "connected": bool,
            "server_version": str,
            "message": str,
        },
    )
    assert (made["instance"], made["url"], made["connected"]) == ("mine", served.address, True)
    named = await ok(tool, action="connect", url=served.address)
    assert named["instance"] in ("local", "mine"), "one URL is one instance"
    gone = await ok(tool, action="disconnect", instance="mine")
    shaped(gone, {"disconnected": list, "message": str})
    assert gone["disconnected"] == ["mine"]
    assert (await ok(tool, action="disconnect"))["disconnected"] == ["local"]
    assert (await ok(tool, action="disconnect"))["disconnected"] == []
    assert (await refused(tool, action="list_sessions"))["code"] == "INSTANCE_NOT_CONNECTED"
    error = await refused(tool, action="disconnect", instance="nobody")
    assert (error["code"], error["details"]["instance"]) == ("INSTANCE_NOT_CONNECTED", "nobody")


@pytest.mark.proves("TL1")
async def test_create_session_answers_as_published_and_sends_the_message(
    served: Served, tool: OpenCodeTool
) -> None:
    made = await ok(
        tool,
        action="create_session",
        project=served.project("made"),
        message="say hello",
        model="demo-thorough",
        session_name="api-ratelimit",
    )
    shaped(made, dict.fromkeys(("session_id", "instance", "project", "model", "message"), str)
           | {"status": ("created", "resumed")})  # fmt: skip
    assert made["status"] == "created" and made["model"] == "demo-thorough"
    assert (made["instance"], made["project"]) == ("local", served.project("made"))
    async with tool.events(made["session_id"], after="") as feed:
        rows = await until(feed, completes)
    assert [row["type"] for row in rows] == ["agent.message", "agent.complete"]


async def test_a_relative_project_lies_under_the_workspace_root(
    served: Served, tool: OpenCodeTool
) -> None:
    path = served.project("repos/api-server")
    made = await ok(tool, action="create_session", project="repos/api-server")
    assert made["project"] == path
    listed = await ok(tool, action="list_sessions", project="repos/api-server")
    assert [row["session_id"] for row in listed["sessions"]] == [made["session_id"]]
    error = await refused(tool, action="create_session", project="../../etc")
    assert error["details"]["parameters"] == ["project"]


@pytest.mark.proves("TL1")
async def test_list_sessions_answers_as_published_with_its_filters(
    served: Served, tool: OpenCodeTool
) -> None:
    project = served.project("listed")
    ids = [await session(tool, served, project=project, session_name=f"n{n}") for n in range(3)]
    await ok(tool, action="terminate_session", session_id=ids[0])
    listed = await ok(tool, action="list_sessions", project=project)
    shaped(listed, {"sessions": list, "total": int})
    assert listed["total"] == 3
    assert [row["session_id"] for row in listed["sessions"]] == ids[::-1], "newest first"
    for row in listed["sessions"]:
        shaped(row, ROW, ("name",))
        assert row["project"] == project and row["instance"] == "local"
    two = await ok(tool, action="list_sessions", project=project, limit=2)
    assert (len(two["sessions"]), two["total"]) == (2, 3)
    for status, expected in (("active", ids[:0:-1]), ("completed", ids[:1]), ("failed", [])):
        found = await ok(tool, action="list_sessions", project=project, status=status)
        assert [row["session_id"] for row in found["sessions"]] == expected
        assert found["total"] == len(expected)
        assert all(row["status"] == status for row in found["sessions"])
    here = await ok(tool, action="list_sessions", project=project, instance="local")
    assert here["total"] == 3


@pytest.mark.proves("TL1")
async def test_attach_session_says_whether_events_really_come(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    await ok(
        tool,
        action="send_message",
        session_id=found,
        message="say Should I write tests?",
        wait_for_completion=True,
    )
    alone = await ok(tool, action="attach_session", session_id=found)
    shape = dict.fromkeys(("session_id", "instance", "project", "last_message", "message"), str)
    shaped(alone, {**shape, "status": STATUS, "subscribed": bool})
    assert (alone["status"], alone["subscribed"]) == ("active", False)
    assert alone["last_message"] == "Should I write tests?"
    async with tool.events(found):
        assert (await ok(tool, action="attach_session", session_id=found))["subscribed"] is True
        unasked = await ok(tool, action="attach_session", session_id=found, subscribe=False)
        assert unasked["subscribed"] is False
        other = await session(tool, served)
        assert (await ok(tool, action="attach_session", session_id=other))["subscribed"] is False
    assert (await ok(tool, action="attach_session", session_id=found))["subscribed"] is False


@pytest.mark.proves("TL1")
async def test_send_message_answers_at_once_or_when_the_agent_is_done(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    waited = await ok(
        tool,
        action="send_message",
        session_id=found,
        message="say one",
        wait_for_completion=True,
    )
    fields = dict.fromkeys(("session_id", "message_id", "message", "response"), str)
    shaped(waited, {**fields, "status": ("sent", "delivered", "completed")})
    assert (waited["status"], waited["response"]) == ("completed", "one")
    sent = await ok(tool, action="send_message", session_id=found, message="hang")
    shaped(sent, {**fields, "status": ("sent", "delivered", "completed")}, ("response",))
    assert sent["status"] in ("sent", "delivered") and "response" not in sent
    busy = await refused(tool, action="send_message", session_id=found, message="say two")
    assert busy["code"] == "SESSION_BUSY"


async def test_a_wait_that_is_up_is_a_timeout_and_the_agent_goes_on(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    async with tool.events(found) as feed:
        error = await refused(
            tool,
            action="send_message",
            session_id=found,
            message="write made.txt hi || say done",
            wait_for_completion=True,
            timeout_ms=600,
        )
        assert error["code"] == "TIMEOUT" and error["details"]["session_id"] == found
        (request,) = error["details"]["permission_requests"]
        assert request["action"] == "modify_file"
        assert request["details"]["file"].endswith("made.txt")
        status = await ok(tool, action="get_status", session_id=found)
        assert request["request_id"] in status["message"], "a client without events finds it"
        await ok(
            tool,
            action="approve_permission",
            session_id=found,
            request_id=request["request_id"],
            approved=True,
        )
        rows = await until(feed, completes)
    assert rows[-1]["outcome"] == "success" and rows[-1]["summary"] == "done"


@pytest.mark.proves("TL1")
async def test_get_status_answers_as_published(served: Served, tool: OpenCodeTool) -> None:
    found = await session(tool, served)
    prompt = "write new.py x = 1 || read new.py || run echo 12 passed, 3 failed || usage || plan"
    async with tool.events(found) as feed:
        await ok(tool, action="send_message", session_id=found, message=prompt)
        await approve_all(tool, feed, found)
    status = await ok(tool, action="get_status", session_id=found)
    shaped(
        status,
        {
            "session_id": str,
            "instance": str,
            "project": str,
            "status": STATUS,
            "progress": dict,
            "model": str,
            "tokens": dict,
            "timing": dict,
        },
    )
    shaped(status["progress"], PROGRESS, ("tests_passed", "tests_failed", "current_task"))
    told = status["progress"]
    assert (told["files_open"], told["files_changed"], told["files_created"]) == (1, 1, 1)
    assert told["commands_run"] == 1 and "echo 12 passed" in told["last_command"]
    shaped(status["tokens"], TOKENS)
    assert status["tokens"]["total"] > 0 and status["tokens"]["cost_usd"] > 0
    times = {"created": "iso", "last_active": "iso", "duration_seconds": "number"}
    shaped(status["timing"], times)
    began, active = (
        datetime.fromisoformat(status["timing"][n]) for n in ("created", "last_active")
    )
    assert status["timing"]["duration_seconds"] == pytest.approx((active - began).total_seconds())


@pytest.mark.proves("TL1")
async def test_get_messages_answers_as_published(served: Served, tool: OpenCodeTool) -> None:
    found = await session(tool, served)
    for prompt in ("say one || run! ls", "say two", "say three || usage"):
        await ok(
            tool,
            action="send_message",
            session_id=found,
            message=prompt,
            wait_for_completion=True,
        )
    told = await ok(tool, action="get_messages", session_id=found)
    shaped(told, {"session_id": str, "messages": list, "total": int})
    for row in told["messages"]:
        fields = {"message_id": str, "role": ("user", "agent", "system"), "content": str}
        shaped(row, {**fields, "timestamp": "iso", "metadata": dict}, ("metadata",))
    assert [(row["role"], row["content"]) for row in told["messages"]] == [
        ("user", "say one || run! ls"),
        ("agent", "one"),
        ("user", "say two"),
        ("agent", "two"),
        ("user", "say three || usage"),
        ("agent", "three"),
    ]
    assert told["messages"][1]["metadata"]["command_run"] == "ls"
    assert told["messages"][5]["metadata"]["tokens_used"] > 0
    last = await ok(tool, action="get_messages", session_id=found, limit=2, role="agent")
    assert [row["content"] for row in last["messages"]] == ["two", "three"]
    assert last["total"] == 3
    since = told["messages"][4]["timestamp"]
    newer = await ok(tool, action="get_messages", session_id=found, since=since)
    assert newer["messages"] == told["messages"][4:] and newer["total"] == 2
    system = await ok(tool, action="get_messages", session_id=found, role="system")
    assert (system["messages"], system["total"]) == ([], 0)


@pytest.mark.proves("TL1")
async def test_a_terminated_session_goes_on_with_a_message_when_its_state_was_saved(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    await ok(
        tool, action="send_message", session_id=found, message="say a", wait_for_completion=True
    )
    ended = await ok(tool, action="terminate_session", session_id=found, reason="enough")
    shaped(
        ended, {"session_id": str, "status": ("terminated",), "saved_state": bool, "message": str}
    )
    assert ended["saved_state"] is True
    assert (await ok(tool, action="get_status", session_id=found))["status"] == "completed"
    again = await ok(
        tool, action="send_message", session_id=found, message="history", wait_for_completion=True
    )
    assert "2 user turns" in again["response"]
    ended = await ok(tool, action="terminate_session", session_id=found, save_state=False)
    assert ended["saved_state"] is False
    error = await refused(tool, action="send_message", session_id=found, message="say b")
    assert error["code"] == "INVALID_PARAMETERS"
    assert error["details"]["parameters"] == ["session_id"]
    assert error["details"]["reason"] == "SESSION_CLOSED"
