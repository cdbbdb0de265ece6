"""An instance that is an OpenCode URL: connected, used and kept apart from the daemon's own sessions."""

from typing import Any

import anyio
import httpx
import pytest

from agentctl.gateway.tool import OpenCodeTool
from agentctl.gateway.tool.config import InstanceConfig, ToolConfig
from tests.adapters.opencode.live import outside
from tests.gateway.tool.conftest import (
    PATIENCE_S,
    SETTINGS,
    Served,
    completes,
    ok,
    refused,
    serving,
    session,
    until,
)

pytestmark = pytest.mark.anyio
Json = dict[str, Any]

PASSWORD = "correct horse"


@pytest.mark.proves("TL10")
async def test_sessions_on_an_opencode_url_are_used_like_any_other(
    served: Served, tool: OpenCodeTool
) -> None:
    async with outside(password=PASSWORD) as (url, _):
        error = await refused(tool, action="connect", url=url)
        assert error["code"] == "AUTH_FAILED"
        made = await ok(tool, action="connect", url=url, name="vps", auth_token=PASSWORD)
        assert (made["instance"], made["url"], made["connected"]) == ("vps", url, True)
        project = served.project("attached")
        created = await ok(tool, action="create_session", instance="vps", project=project)
        assert created["instance"] == "vps"
        found = created["session_id"]
        async with tool.events(found) as feed:
            answer = await ok(
                tool,
                action="send_message",
                session_id=found,
                message="SAYTEXT attached",
                wait_for_completion=True,
            )
            rows = await until(feed, completes)
        assert answer["response"] == "attached"
        assert [row["type"] for row in rows] == ["agent.message", "agent.complete"]
        status = await ok(tool, action="get_status", session_id=found)
        assert (status["instance"], status["project"]) == ("vps", project)
        told = await ok(tool, action="get_messages", session_id=found)
        assert [row["role"] for row in told["messages"]] == ["user", "agent"]
        assert all(row["timestamp"].endswith("Z") for row in told["messages"])
        ended = await ok(tool, action="terminate_session", session_id=found)
        assert ended["status"] == "terminated"


@pytest.mark.proves("TL10")
async def test_each_session_has_one_instance_though_one_daemon_holds_both(
    served: Served, tool: OpenCodeTool
) -> None:
    project = served.project("both")
    async with outside() as (url, _):
        await ok(tool, action="connect", url=url, name="far")
        near = await session(tool, served, project=project)
        far = await ok(tool, action="create_session", instance="far", project=project)
        for name, expected in (("local", near), ("far", far["session_id"])):
            rows = await ok(tool, action="list_sessions", instance=name, project=project)
            assert [(r["session_id"], r["instance"]) for r in rows["sessions"]] == [
                (expected, name)
            ]
            assert rows["total"] == 1
        both = await ok(tool, action="list_sessions", project=project)
        assert both["total"] == 2 and len(both["sessions"]) == 2
        stats = await ok(tool, action="get_stats", instance="far")
        assert stats["stats"]["sessions_total"] == 1
        everything = (await ok(tool, action="get_stats"))["stats"]["sessions_total"]
        own = (await ok(tool, action="get_stats", instance="local"))["stats"]["sessions_total"]
        assert own == everything - 1


@pytest.mark.proves("TL3")
async def test_a_model_that_the_server_does_not_offer_is_refused_at_once(
    served: Served, tool: OpenCodeTool
) -> None:
    async with outside() as (url, _):
        await ok(tool, action="connect", url=url, name="models")
        request = {"action": "create_session", "project": served.project("m")}
        error = await refused(tool, instance="models", model="nobody/nothing", **request)
        assert error["code"] == "INVALID_MODEL" and "nobody/nothing" in error["message"]


@pytest.mark.proves("TL4")
async def test_a_permission_on_an_opencode_url_is_asked_and_answered(
    served: Served, tool: OpenCodeTool
) -> None:
    async with outside() as (url, _):
        await ok(tool, action="connect", url=url, name="asks")
        made = await ok(
            tool, action="create_session", instance="asks", project=served.project("asks")
        )
        found = made["session_id"]
        async with tool.events(found) as feed:
            await ok(tool, action="send_message", session_id=found, message="TOOL echo hi")
            asked = (await until(feed, lambda e: e["type"] == "agent.permission_request"))[-1]
            assert asked["action"] == "execute_command"
            answer = {"session_id": found, "request_id": asked["request_id"], "approved": True}
            await ok(tool, action="approve_permission", **answer)
            rows = await until(feed, completes)
        assert rows[-1]["outcome"] == "success"


async def test_the_published_configuration_names_an_opencode_url(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with outside(password=PASSWORD) as (url, _):
        monkeypatch.setenv("OPENCODE_VPS_TOKEN", PASSWORD)
        instances = (
            InstanceConfig(name="vps", url=url, default=True, auth_token_env="OPENCODE_VPS_TOKEN"),
        )
        async with served.tool(ToolConfig(instances=instances)) as tool:
            made = await ok(tool, action="create_session", project=served.project("cfg"))
            assert made["instance"] == "vps"
            with anyio.fail_after(PATIENCE_S):
                answer = await ok(
                    tool,
                    action="send_message",
                    session_id=made["session_id"],
                    message="SAYTEXT configured",
                    wait_for_completion=True,
                )
            assert answer["response"] == "configured"


@pytest.mark.proves("TL11")
async def test_a_session_on_a_server_with_a_password_outlives_the_daemon() -> None:
    with serving(SETTINGS) as daemon:
        async with outside(password=PASSWORD) as (url, _), daemon.tool() as tool:
            await ok(tool, action="connect", url=url, name="vps", auth_token=PASSWORD)
            request = {"action": "create_session", "project": daemon.project("kept")}
            made = await ok(tool, instance="vps", **request)
            say: Json = {"action": "send_message", "session_id": made["session_id"]}
            say["wait_for_completion"] = True
            await ok(tool, message="SAYTEXT one", **say)
            await anyio.to_thread.run_sync(daemon.restart)
            assert (await ok(tool, message="SAYTEXT two", **say))["response"] == "two"
            await anyio.to_thread.run_sync(daemon.restart)
            attached = await ok(tool, action="attach_session", session_id=made["session_id"])
            assert attached["status"] == "active"
            await ok(tool, action="terminate_session", session_id=made["session_id"])
            again = await ok(tool, instance="vps", resume=True, **request)
            assert (again["status"], again["session_id"]) == ("resumed", made["session_id"])
            assert (await ok(tool, message="HISTORY", **say))["response"].startswith("HISTORY 3")


@pytest.mark.proves("TL10")
async def test_a_conversation_that_others_began_there_is_attached_by_its_own_id() -> None:
    with serving(SETTINGS) as daemon:
        async with outside(password=PASSWORD) as (url, _), daemon.tool() as tool:
            await ok(tool, action="connect", url=url, name="theirs", auth_token=PASSWORD)
            login = httpx.BasicAuth("opencode", PASSWORD)
            place = {"directory": daemon.project("theirs")}
            async with httpx.AsyncClient(base_url=url, auth=login) as web:
                native = (await web.post("/session", json={}, params=place)).json()["id"]
            error = await refused(tool, action="terminate_session", session_id=native)
            assert error["code"] == "SESSION_NOT_FOUND", "a look-up takes nothing up"
            attached = await ok(tool, action="attach_session", session_id=native)
            assert (attached["instance"], attached["project"]) == ("theirs", place["directory"])
            assert attached["status"] == "active" and attached["session_id"] != native
            named = {"session_id": attached["session_id"], "wait_for_completion": True}
            answer = await ok(tool, action="send_message", message="SAYTEXT mine too", **named)
            assert answer["response"] == "mine too"
            again = await ok(tool, action="attach_session", session_id=native)
            assert again["session_id"] == attached["session_id"], "it is one session"
            listed = await ok(tool, action="list_sessions", instance="theirs")
            (row,) = listed["sessions"]
            assert row["session_id"] == attached["session_id"]
            error = await refused(tool, action="attach_session", session_id="ses_none")
            assert error["code"] == "SESSION_NOT_FOUND"
