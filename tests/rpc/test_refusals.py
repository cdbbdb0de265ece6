"""What a caller is told of a request that is wrong, not served, or failed in a room behind it."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc.aio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import CallerError, DaemonFailed, Invalid, Unsupported
from agentctl.rpc.status import CODES
from tests.rpc.fakes import house

pytestmark = pytest.mark.anyio

Call = Callable[[AgentCtl], Awaitable[Any]]


async def refused(call: Call) -> CallerError:
    async with house() as rooms:
        with pytest.raises(CallerError) as caught:
            await call(rooms.client)
        assert rooms.manager.calls == []
    return caught.value


BAD: dict[str, tuple[Call, str]] = {
    "no agent": (lambda c: c.sessions.create("", "/w"), "agent"),
    "no workspace": (lambda c: c.sessions.create("demo", ""), "workspace"),
    "a zero byte": (lambda c: c.sessions.create("demo", "/w\0"), "workspace"),
    "a relative directory": (
        lambda c: c.sessions.create("demo", "/w", additional_directories=["x"]),
        "additional_directories",
    ),
    "an impossible variable": (lambda c: c.sessions.create("demo", "/w", env={"A=": "b"}), "env"),
    "an unknown policy": (lambda c: c.sessions.create("demo", "/w", policy="maybe"), "policy"),
    "a rule that decides nothing": (
        lambda c: c.sessions.create("demo", "/w", rules=[v1.Rule(command="ls")]),
        "rules.decision",
    ),
    "a standing rule that decides nothing": (
        lambda c: c.approvals.put_rule("", v1.Rule(command="ls")),
        "rule.decision",
    ),
    "a rule without end": (
        lambda c: c.approvals.put_rule(
            "", v1.Rule(command="x" * 20_000, decision=v1.Policy.POLICY_ALLOW)
        ),
        "rule.command",
    ),
    "no rule to delete": (lambda c: c.approvals.delete_rule("ses_1", ""), "rule_id"),
    "an MCP server without a name": (
        lambda c: c.sessions.create("demo", "/w", mcp_servers=[v1.McpServer(command="x")]),
        "mcp_servers.name",
    ),
    "an MCP server without a way": (
        lambda c: c.sessions.create("demo", "/w", mcp_servers=[v1.McpServer(name="x")]),
        "mcp_servers",
    ),
    "an MCP program without a command": (
        lambda c: c.sessions.create(
            "demo",
            "/w",
            mcp_servers=[v1.McpServer(name="x", url="http://x", transport=1)],  # pyright: ignore[reportArgumentType]  a raw number
        ),
        "mcp_servers",
    ),
    "two MCP servers of one name": (
        lambda c: c.sessions.create(
            "demo", "/w", mcp_servers=[v1.McpServer(name="x", command="x")] * 2
        ),
        "mcp_servers",
    ),
    "a wait that is over before it begins": (
        lambda c: c.sessions.create("demo", "/w", wait_ready=True, wait_timeout_ms=0),
        "wait_timeout_ms",
    ),
    "resume of nothing": (lambda c: c.sessions.resume(), "session_id"),
    "resume of two things": (
        lambda c: c.sessions.resume("ses_1", entry_id="demo"),
        "session_id",
    ),
    "resume without the agent's id": (
        lambda c: c.sessions.resume(entry_id="demo"),
        "native_session_id",
    ),
    "resolve by nothing": (lambda c: c.sessions.resolve(), "key"),
    "get without an id": (lambda c: c.sessions.get(""), "session_id"),
    "an unknown state": (lambda c: c.sessions.list(states=["happy"]), "states"),
    "an empty prompt": (lambda c: c.runs.create("ses_1", ""), "input"),
    "a prompt of white space": (lambda c: c.runs.create("ses_1", " \n\t"), "input"),
    "no prompt at all": (lambda c: c.runs.create("ses_1", []), "input"),
    "two prompts": (
        lambda c: c.runs.create("ses_1", v1.RunInput(review=True, compact=True)),
        "input",
    ),
    "a command without a name": (
        lambda c: c.runs.create("ses_1", v1.RunInput(command=v1.CommandInput(name="/"))),
        "input.command.name",
    ),
    "a prompt with a terminal": (
        lambda c: c.runs.create("ses_1", [v1.ContentBlock(type=8)]),  # pyright: ignore[reportArgumentType]  a raw number
        "input.blocks[0]",
    ),
    "a block of no type": (
        lambda c: c.runs.create("ses_1", [v1.ContentBlock(text="x")]),
        "input.blocks[0]",
    ),
    "no session": (lambda c: c.runs.create("", "x"), "session_id"),
    "no time": (lambda c: c.runs.create("ses_1", "x", timeout_ms=-1), "timeout_ms"),
    "an unknown if_busy": (lambda c: c.runs.create("ses_1", "x", if_busy="wait"), "if_busy"),
    "a schema that is no JSON": (
        lambda c: c.runs.create("ses_1", "x", output_schema_json=b"{"),
        "output_schema_json",
    ),
    "cancel of nothing": (lambda c: c.runs.cancel(), "run_id"),
    "cancel of two things": (lambda c: c.runs.cancel("r", session_id="s"), "run_id"),
    "an answer that says nothing": (lambda c: c.approvals.respond("apr_1"), "decision"),
    "an answer that says two things": (
        lambda c: c.approvals.respond("apr_1", "approve", option_id="x"),
        "decision",
    ),
    "always no": (lambda c: c.approvals.respond("apr_1", "deny", always=True), "always"),
    "input that is no JSON": (
        lambda c: c.approvals.respond("apr_1", "approve", updated_input_json=b"x"),
        "updated_input_json",
    ),
    "an empty answer": (lambda c: c.questions.answer("qst_1"), "answers"),
    "stop of nothing": (lambda c: c.agents.stop(), "agent_id"),
    "stop of one and all": (lambda c: c.agents.stop("agt_1", stop_all=True), "agent_id"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_request_is_refused_by_the_name_of_its_field(case: str) -> None:
    call, field = BAD[case]
    error = await refused(call)
    assert isinstance(error, Invalid)
    assert (error.reason, error.metadata["field"]) == ("INVALID_PARAMETERS", field)
    assert error.message.endswith(".")


async def test_unknown_numbers_of_enums_are_refused_with_the_words_there_are() -> None:
    async with house() as rooms, grpc.aio.insecure_channel(f"unix:{rooms.path}") as channel:
        ask = cast(Any, channel).unary_unary("/agentctl.v1.Sessions/Create")
        request = v1.CreateSessionRequest(agent="demo", workspace="/w").SerializeToString()
        with pytest.raises(grpc.aio.AioRpcError, match="use one of ask, allow, deny"):
            await ask(request + b"\x58\x63")


@pytest.mark.parametrize("reason", CODES)
async def test_every_error_of_the_rooms_reaches_the_client_as_itself(reason: str) -> None:
    _, kind = CODES[reason]

    async def fail(*_: Any, **__: Any) -> None:
        raise kind("do this", reason=reason, metadata={"entry": "demo"})

    async with house() as rooms:
        rooms.manager.answers["get_run"] = fail
        with pytest.raises(kind) as caught:
            await rooms.client.runs.get("run_1")
    error = caught.value
    assert (type(error), error.reason, error.message) == (kind, reason, "do this")
    assert error.metadata == {"entry": "demo"}


async def test_a_defect_of_the_daemon_is_logged_and_not_shown(caplog: Any) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret")

    async with house() as rooms:
        rooms.manager.answers["get_run"] = fail
        with pytest.raises(DaemonFailed) as caught:
            await rooms.client.runs.get("run_1")
    assert caught.value.reason == "SERVER_ERROR"
    assert "secret" not in caught.value.message
    assert "ZeroDivisionError" in caplog.text


NOT_SERVED: list[Call] = [
    lambda c: c.tasks.list(),
    lambda c: c.tools.invoke("ses_1", "x", b"{}"),
    lambda c: c.environments.create("x"),
    lambda c: c.environments.delete("x"),
]


@pytest.mark.parametrize("call", NOT_SERVED)
async def test_what_is_not_served_says_so(call: Call) -> None:
    error = await refused(call)
    assert isinstance(error, Unsupported)
    assert error.reason == "UNSUPPORTED"
    assert "is not served by this daemon" in error.message
