"""Every published error code, asked of a real daemon; and what is refused because it is switched off."""

import os
from typing import Any

import pytest

from agentctl.client import AgentCtl
from agentctl.gateway.tool import OpenCodeTool
from agentctl.gateway.tool.config import Defaults, Features, InstanceConfig, ToolConfig
from agentctl.gateway.tool.errors import ToolError
from tests.gateway.tool.conftest import (
    SETTINGS,
    Served,
    completes,
    ok,
    refused,
    serving,
    session,
    until,
)
from tests.gateway.tool.test_actions import PARAMETERS, least
from tests.gateway.tool.test_codes import PUBLISHED

pytestmark = pytest.mark.anyio
Json = dict[str, Any]

NO_SESSION = "ses_01m8pzzgkhfdpf9qedhs4tmg2q"


@pytest.mark.proves("TL3")
async def test_a_project_that_does_not_exist_is_told(served: Served, tool: OpenCodeTool) -> None:
    missing = str(served.root / "nowhere")
    error = await refused(tool, action="create_session", project=missing)
    assert error["code"] == "PROJECT_NOT_FOUND" and missing in error["message"]
    file = served.root / "file"
    file.write_text("x")
    error = await refused(tool, action="create_session", project=str(file))
    assert error["code"] == "PROJECT_NOT_FOUND"
    error = await refused(tool, action="create_session", project="no/such")
    assert error["code"] == "PROJECT_NOT_FOUND"


@pytest.mark.proves("TL3")
async def test_a_model_that_the_agent_does_not_have_leaves_no_session(
    served: Served, tool: OpenCodeTool
) -> None:
    project = served.project("models")
    picky = b'{"id": "picky", "cmd": ["agentctl-demo"], "protocol": "acp"}'
    async with AgentCtl.connect(served.address) as client:
        await client.registry.put(picky)
    request = {"action": "create_session", "project": project, "agent": "picky"}
    error = await refused(tool, **request, model="no/such")
    assert error["code"] == "INVALID_MODEL" and "demo-fast" in error["message"]
    open_ = await ok(tool, action="list_sessions", project=project, status="active")
    assert open_["total"] == 0


async def test_an_agent_that_does_not_exist_is_a_wrong_parameter(
    served: Served, tool: OpenCodeTool
) -> None:
    request = {"action": "create_session", "project": served.project("p"), "agent": "nobody"}
    error = await refused(tool, **request)
    assert error["code"] == "INVALID_PARAMETERS"
    assert error["details"]["parameters"] == ["agent"]


@pytest.mark.proves("TL3")
@pytest.mark.parametrize(
    "action",
    [
        {"action": "attach_session"},
        {"action": "send_message", "message": "x"},
        {"action": "get_status"},
        {"action": "get_messages"},
        {"action": "terminate_session"},
        {"action": "export_session"},
        {"action": "get_stats"},
        {"action": "approve_permission", "request_id": "apr_1", "approved": True},
    ],
    ids=lambda action: action["action"],
)
async def test_a_session_that_does_not_exist_is_told(tool: OpenCodeTool, action: Json) -> None:
    error = await refused(tool, session_id=NO_SESSION, **action)
    assert error["code"] == "SESSION_NOT_FOUND"
    assert error["details"]["session_id"] == NO_SESSION


@pytest.mark.proves("TL3")
async def test_an_instance_that_is_not_connected_is_told(
    served: Served, tool: OpenCodeTool
) -> None:
    asked = {"action": "create_session", "project": served.project("p"), "instance": "vps"}
    error = await refused(tool, **asked)
    assert error["code"] == "INSTANCE_NOT_CONNECTED" and error["details"]["instance"] == "vps"
    gone = f"unix:{served.root}/none.sock"
    config = ToolConfig(instances=(InstanceConfig(name="gone", url=gone),))
    async with served.tool(config) as other:
        error = await refused(other, action="list_sessions")
    assert error["code"] == "INSTANCE_NOT_CONNECTED"
    assert error["details"] == {"instance": "gone", "cause": "ECONNREFUSED"}


async def test_a_permission_request_of_another_session_is_refused(
    served: Served, tool: OpenCodeTool
) -> None:
    asking = await session(tool, served, project=served.project("asking"))
    other = await session(tool, served)
    async with tool.events(asking) as feed:
        await ok(tool, action="send_message", session_id=asking, message="write a.txt x")
        asked = (await until(feed, lambda e: e["type"] == "agent.permission_request"))[-1]
    for request_id in (asked["request_id"], "apr_none"):
        error = await refused(
            tool,
            action="approve_permission",
            session_id=other,
            request_id=request_id,
            approved=True,
        )
        assert error["details"]["reason"] == "APPROVAL_NOT_FOUND" or request_id != "apr_none"
        assert error["code"] == "INVALID_PARAMETERS"
        assert error["details"]["parameters"] == ["request_id"]
    assert not served.holds("asking", "a.txt")


@pytest.mark.proves("TL3")
async def test_a_turn_that_fails_is_a_server_error_with_its_reason(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    error = await refused(
        tool,
        action="send_message",
        session_id=found,
        message="say partly || model-error -32000 the model is away",
        wait_for_completion=True,
    )
    assert error["code"] == "SERVER_ERROR" and "the model is away" in error["message"]
    assert error["details"]["outcome"] == "failed"
    assert error["details"]["response"] == "partly"


@pytest.mark.proves("TL3")
async def test_more_sessions_than_are_allowed_are_refused() -> None:
    with serving(SETTINGS + "max_sessions = 1\n") as one:
        async with one.tool() as tool:
            await session(tool, one)
            error = await refused(tool, action="create_session", project=one.project("q"))
            assert error["code"] == "SESSION_LIMIT"


@pytest.mark.proves("TL3")
async def test_a_start_that_takes_too_long_is_a_timeout_and_leaves_no_session(
    served: Served, tool: OpenCodeTool
) -> None:
    project = served.project("slow")
    error = await refused(tool, action="create_session", project=project, timeout_ms=1)
    assert error["code"] == "TIMEOUT"
    assert (await ok(tool, action="list_sessions", project=project, status="active"))["total"] == 0


async def test_without_a_root_a_relative_project_is_a_wrong_parameter() -> None:
    with serving() as plain:
        async with plain.tool() as tool:
            error = await refused(tool, action="create_session", project="repos/x", agent="demo")
            assert error["details"]["parameters"] == ["project"]
            assert "workspace_root" in error["message"]


@pytest.mark.proves("TL6")
async def test_a_tool_that_is_switched_off_refuses_everything(served: Served) -> None:
    async with served.tool(ToolConfig(enabled=False)) as tool:
        error = await refused(tool, action="list_sessions")
    assert error["code"] == "PERMISSION_DENIED" and "enabled" in error["message"]


@pytest.mark.proves("TL6")
async def test_without_permission_approval_requests_are_denied_at_once(served: Served) -> None:
    features = Features(permission_approval=False)
    async with served.tool(ToolConfig(features=features)) as tool:
        found = await session(tool, served, project=served.project("denied"))
        async with tool.events(found) as feed:
            prompt = {"session_id": found, "message": "write a.txt x || say done"}
            await ok(tool, action="send_message", **prompt)
            rows = await until(feed, completes)
        assert "agent.permission_request" not in {row["type"] for row in rows}
        assert not served.holds("denied", "a.txt")
        asked = {"session_id": found, "request_id": "apr_1", "approved": True}
        error = await refused(tool, action="approve_permission", **asked)
        assert error["code"] == "PERMISSION_DENIED" and "permission_approval" in error["message"]


@pytest.mark.proves("TL6")
async def test_without_streaming_nobody_is_subscribed(served: Served) -> None:
    async with served.tool(ToolConfig(features=Features(streaming=False))) as tool:
        found = await session(tool, served)
        attached = await ok(tool, action="attach_session", session_id=found)
        assert attached["subscribed"] is False and "streaming" in attached["message"]
        with pytest.raises(ToolError, match="streaming"):
            async with tool.events(found):
                pass


@pytest.mark.proves("TL6")
async def test_the_defaults_of_the_file_hold_where_a_request_says_nothing(served: Served) -> None:
    config = ToolConfig(defaults=Defaults(model="demo-thorough", agent="demo", timeout_ms=700))
    async with served.tool(config) as tool:
        made = await ok(tool, action="create_session", project=served.project("p"))
        assert made["model"] == "demo-thorough"
        error = await refused(
            tool,
            action="send_message",
            session_id=made["session_id"],
            message="hang",
            wait_for_completion=True,
        )
        assert error["code"] == "TIMEOUT"


async def test_a_file_that_is_wrong_is_told_by_every_call(served: Served) -> None:
    file = served.root / "gateway.yaml"
    file.write_text("tools: {opencode: {enabled: perhaps}}")
    async with OpenCodeTool(file, address=served.address) as tool:
        error = await refused(tool, action="get_stats")
    assert error["code"] == "SERVER_ERROR" and error["details"]["file"] == str(file)
    assert error["details"]["field"] == "tools.opencode.enabled"


async def test_a_question_of_the_agent_is_answered_by_the_next_message(
    served: Served, tool: OpenCodeTool
) -> None:
    found = await session(tool, served)
    async with tool.events(found) as feed:
        await ok(tool, action="send_message", session_id=found, message="ask Which colour?")
        asked = (await until(feed, lambda e: e["type"] == "agent.message"))[-1]
        assert "Which colour?" in asked["content"]
        answered = await ok(
            tool,
            action="send_message",
            session_id=found,
            message="blue",
            wait_for_completion=True,
        )
        assert answered["response"] == "You answered: blue"


async def test_resume_takes_up_the_last_session_of_a_project(
    served: Served, tool: OpenCodeTool
) -> None:
    project = served.project("resumed")
    none = await ok(tool, action="create_session", project=project, resume=True)
    assert none["status"] == "created", "there was none"
    second = await session(tool, served, project=project)
    for prompt in (none["session_id"], second, none["session_id"]):
        request = {"session_id": prompt, "message": "say x", "wait_for_completion": True}
        await ok(tool, action="send_message", **request)
    await ok(tool, action="terminate_session", session_id=none["session_id"])
    again = await ok(tool, action="create_session", project=project, resume=True)
    assert (again["status"], again["session_id"]) == ("resumed", none["session_id"])
    assert (await ok(tool, action="get_status", session_id=again["session_id"]))["status"] == (
        "active"
    )


async def test_the_variables_that_an_entry_names_arrive_at_the_agent(
    served: Served, tool: OpenCodeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_AGENT_HOME", str(served.root / "elsewhere"))
    (served.root / "elsewhere").mkdir()
    found = await session(tool, served, project=served.project("variables"))
    request = {"session_id": found, "message": "env DEMO_AGENT_HOME", "wait_for_completion": True}
    answer = await ok(tool, action="send_message", **request)
    assert os.environ["DEMO_AGENT_HOME"] in answer["response"]


ODD: tuple[Any, ...] = (
    0,
    -1,
    1.5,
    True,
    "",
    " ",
    "\0",
    "\ud800",
    [],
    {},
    [1],
    {"a": 1},
    "x" * 5000,
)


@pytest.mark.proves("TL2")
@pytest.mark.parametrize("action", PARAMETERS)
async def test_whatever_is_sent_is_answered_in_the_published_shape(
    tool: OpenCodeTool, action: str
) -> None:
    for name in PARAMETERS[action]:
        for value in ODD:
            answer = await tool({**least(action), "session_id": NO_SESSION, name: value})
            if answer["success"]:
                continue
            error = answer["error"]
            assert error["code"] in PUBLISHED
            assert "its log says why" not in error["message"], (name, value)
    odd: tuple[Any, ...] = ({"action": action, 5: 6}, {"action": [action]}, {"action": {}}, {5: 5})
    for request in odd:
        answer = await tool(request)
        assert answer["error"]["code"] == "INVALID_PARAMETERS"
