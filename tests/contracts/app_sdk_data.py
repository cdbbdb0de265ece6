"""The rows of the app contract about data: events, results, approvals, tools, artifacts, defaults."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agentctl.client import AgentCtl, Approval, Invalid
from agentctl.core.words import ToolSource
from agentctl.testing.fake_daemon import AskApproval, FakeDaemon, Say
from tests.contracts import app_sdk_names as names
from tests.contracts.lab import Lab, artifacts_of_all_kinds, waiting
from tests.contracts.table import ROWS, row
from tests.daemon.harness import daemon

Fact = Callable[[Any], bool]

EVENT: dict[str, Fact] = {
    "version": lambda view: view["version"] == 1,
    "id": lambda view: ":" in view["id"],
    "ts": lambda view: isinstance(view["ts"], int) and view["ts"] > 1_700_000_000_000,
    "type": lambda view: view["type"] == "run.completed",
    "runId": lambda view: view["runId"].startswith("run_"),
    "sessionId": lambda view: view["sessionId"].startswith("ses_"),
    "sessionKey": lambda view: view["sessionKey"] == "story",
    "taskId": lambda view: "taskId" not in view,
    "agentId": lambda view: view["agentId"].startswith("agt_"),
    "data": lambda view: view["data"]["outcome"] == "completed",
    "raw": lambda view: "raw" not in view,
}
RESULT: dict[str, Fact] = {
    "runId": lambda told: told["runId"].startswith("run_"),
    "sessionId": lambda told: told["sessionId"].startswith("ses_"),
    "sessionKey": lambda told: told["sessionKey"] == "story",
    "taskId": lambda told: "taskId" not in told,
    "startedAt": lambda told: isinstance(told["startedAt"], int),
    "endedAt": lambda told: told["endedAt"] >= told["startedAt"],
    "output": lambda told: set(told["output"]) >= {"text", "messages"},
    "usage": lambda told: set(told["usage"]) == set(names.USAGE.split()),
    "artifacts": lambda told: {each["type"] for each in told["artifacts"]} >= {"file", "patch"},
    "error": lambda told: "error" not in told,
    "output.text": lambda told: isinstance(told["output"]["text"], str),
    "output.messages": lambda told: told["output"]["messages"][0]["role"] == "assistant",
    "usage.inputTokens": lambda told: told["usage"]["inputTokens"] > 0,
    "usage.outputTokens": lambda told: told["usage"]["outputTokens"] > 0,
    "usage.totalTokens": lambda told: told["usage"]["totalTokens"] > 0,
    "usage.costUsd": lambda told: told["usage"]["costUsd"] > 0,
}
APPROVAL: dict[str, Callable[[Approval], bool]] = {
    "id": lambda asked: asked.id.startswith("apr_"),
    "run_id": lambda asked: (asked.run_id or "").startswith("run_"),
    "session_id": lambda asked: (asked.session_id or "").startswith("ses_"),
    "kind": lambda asked: asked.kind == "environment",
    "summary": lambda asked: asked.summary == "Open the network",
    "tool_name": lambda asked: asked.tool_name == "network",
    "risk": lambda asked: asked.risk == "high",
    "decisions": lambda asked: asked.decisions[0] == "approve_once" and "deny" in asked.decisions,
    "expires_at": lambda asked: asked.expires_at == 4_000_000_000_000,
    "reusable": lambda asked: asked.reusable is True,
}
ARTIFACT: dict[str, Fact] = {
    "id": lambda told: told.id.startswith("art_"),
    "runId": lambda told: told.run_id.startswith("run_"),
    "sessionId": lambda told: told.session_id.startswith("ses_"),
    "type": lambda told: told.type == "file",
    "title": lambda told: told.title == "made.txt",
    "mimeType": lambda told: told.mime_type == "text/plain",
    "sizeBytes": lambda told: told.size_bytes == 4,
    "createdAt": lambda told: told.created_at.endswith("Z") and "T" in told.created_at,
    "expiresAt": lambda told: told.expires_at is None or told.expires_at > told.created_at,
    "redacted": lambda told: told.redacted is False,
    "retention": lambda told: told.deleted is False,
}


def _family(name: str) -> Callable[[Lab, AgentCtl], Awaitable[None]]:
    async def check(lab: Lab, client: AgentCtl) -> None:
        view = (await lab.families())[name]
        assert (view["version"], view["type"]) == (1, name)
        assert view["id"] and view["sessionId"] and isinstance(view["data"], dict)
        assert set(view) <= set(names.EVENT.split())

    return check


def _fact(of: str, name: str, holds: Fact) -> Callable[[Lab, AgentCtl], Awaitable[None]]:
    async def check(lab: Lab, client: AgentCtl) -> None:
        told = await lab.story()
        ends = [event for event in told.events if event.family == "run.completed"]
        value = ends[0].as_app_sdk() if of == "event" else told.result.as_app_sdk()
        assert holds(value), f"{of}.{name} of {value}"

    return check


for _name in names.FAMILIES.split():
    row(f"family.{_name}")(_family(_name))
for _name, _holds in EVENT.items():
    row(f"event.{_name}")(_fact("event", _name, _holds))
for _name, _holds in RESULT.items():
    row(f"result.{_name}")(_fact("result", _name, _holds))


@row("result.status.accepted", "result.status.completed", "result.status.cancelled")
async def _(lab: Lab, client: AgentCtl) -> None:
    async with waiting() as (_scripted, run, gate):
        waited = await run.wait(timeout_ms=1)
        # The wait was up, not the run: it goes on, and ends as what it is.
        assert waited.status == "accepted" and waited.ended_at is None
        gate.open()
        assert (await run.wait()).status == "completed"
    run = await lab.demo(client, "hang")
    await run.cancel()
    assert (await run.wait()).status == "cancelled"


@row("result.status.timed_out", "result.status.failed")
async def _(lab: Lab, client: AgentCtl) -> None:
    late = await lab.demo(client, "hang", timeout_ms=50)
    assert (await late.wait()).status == "timed_out"
    bad = await (await lab.demo(client, "model-error 1 bad")).wait()
    assert bad.status == "failed" and bad.error and bad.error.message


@row(*(f"approval.{name}" for name in APPROVAL))
async def _(lab: Lab, client: AgentCtl) -> None:
    asks = AskApproval(
        "Open the network",
        kind="environment",
        tool_name="network",
        risk="high",
        command="network on",
        expires_at=4_000_000_000_000,
    )
    async with FakeDaemon("coder") as daemon, daemon.client() as scripted:
        daemon.agent("coder").on("", asks, Say("done"))
        run = await scripted.agent("coder").run("x", workspace=daemon.workspace)
        seen: list[Approval] = []

        async def allow(request: Approval) -> None:
            seen.append(request)
            await request.approve_once()

        run.on_approval(allow)
        await run.wait()
        (event,) = [e async for e in run.events() if e.family == "approval.requested"]
    wrong = [name for name, holds in APPROVAL.items() if not holds(seen[0])]
    assert wrong == [] and event.data["approval_id"] == seen[0].id


@row("approval.not_a_question")
async def _(lab: Lab, client: AgentCtl) -> None:
    told = await lab.story()
    families = {event.family for event in told.events}
    assert {"approval.requested", "question.requested"} <= families
    assert "question_id" not in told.data("approval.requested")
    assert told.data("question.answered")["outcome"] == "answered"


@row(*(f"tool.{name}" for name in names.TOOL.split()))
async def _(lab: Lab, client: AgentCtl) -> None:
    told = await lab.story()
    space = await client.run(told.run.id).tool_space()
    shell = next(tool for tool in space.list() if tool.kind == "execute")
    assert shell.name and shell.source == "runtime" and shell.requires_approval is True
    assert shell.runtimes == ("acp",) and shell.hidden is False
    assert shell.can_use_host and shell.can_write and not shell.read_only
    edit = next(tool for tool in space.list() if tool.kind == "edit")
    assert edit.can_write and not edit.can_use_host
    sources = {"agentctl", "mcp", "plugin", "channel", "runtime", "app"}
    assert set(ToolSource) == sources
    assert shell.schema_summary is None  # ACP tells no schemas, and nothing is made up.


@row(
    *(f"artifact.type.{name}" for name in names.ARTIFACT_TYPES.split()),
    *(f"artifact.{name}" for name in names.ARTIFACT.split()),
)
async def _(lab: Lab, client: AgentCtl) -> None:
    async with artifacts_of_all_kinds() as (_scripted, run, session_id):
        made = await run.artifacts.list()
        assert {each.type for each in made} == set(names.ARTIFACT_TYPES.split())
        file = next(each for each in made if each.title == "made.txt")
        assert [name for name, holds in ARTIFACT.items() if not holds(file.summary)] == []
        assert await file.read() == b"made" and file.summary.session_id == session_id
        link = next(each for each in made if each.type == "pull_request")
        assert link.url == "https://github.com/acme/app/pull/7"
        assert b"run_status" in await next(e for e in made if e.type == "trajectory").read()


@row("environment.id", *(f"environment.{name}" for name in names.CAPABILITIES.split()))
async def _(lab: Lab, client: AgentCtl) -> None:
    told = {each.id: each for each in await client.all_environments()}
    known = set(names.CAPABILITIES.split())
    assert all(set(each.capabilities) <= known for each in told.values())
    assert {"secrets", "artifacts", "logs", "long_running"} <= set(told["local"].capabilities)
    assert "checkout" in told["worktree"].capabilities
    # What cannot be used here says so, and promises nothing that is not there.
    assert all(each.available or each.detail for each in told.values())


@row("default.no_secrets_forwarded", "default.environment_allow_list", "default.secret_references")
async def _(lab: Lab, client: AgentCtl) -> None:
    async def sees(name: str, env: dict[str, str]) -> str:
        return (await (await lab.demo(client, f"env {name}", env=env)).wait()).text

    # The daemon has these in its own environment; see the fixture.
    assert "s3cret-value" not in await sees("UNRELATED_SECRET", {})
    assert "s3cret-value" not in await sees("NPM_CONFIG_THING", {})
    # A reference reaches the agent as its value, and nobody else.
    counted = "run! printf %s $GIVEN | wc -c"
    run = await lab.demo(client, counted, env={"GIVEN": "env:UNRELATED_SECRET"})
    outputs = [
        e.data.get("output_delta") or e.data.get("output_replace") async for e in run.events()
    ]
    assert str(len("s3cret-value")) in "".join(each or "" for each in outputs)
    events = [event.as_dict() async for event in client_events(client)]
    assert "s3cret-value" not in json.dumps(events)


def client_events(client: AgentCtl) -> Any:
    """All events of the daemon so far, as apps see them."""
    from agentctl.client import Event

    async def read() -> Any:
        async for event in client.events(follow=False, include_raw=True, include_log=True):
            yield Event(event)

    return read()


@row("default.approvals_for_host_execution")
async def _(lab: Lab, client: AgentCtl) -> None:
    run = await lab.demo(client, "run echo hi", timeout_ms=10_000)
    async for event in run.events():
        if event.family == "approval.requested":
            break
    await run.cancel()
    assert (await run.wait()).status == "cancelled"


@row("default.raw_redacted")
async def _(lab: Lab, client: AgentCtl) -> None:
    # Raw is kept only by a daemon that is told to, and sent only to who asks for it.
    assert all(event.raw is None for event in (await lab.story()).events)
    with TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        root = Path(folder)
        (root / "agentctl.toml").write_text("journal_raw = true\n")
        async with daemon(root) as served, served.client() as other:
            env = {"MY_API_KEY": "s3cret-value"}
            run = await other.agent("demo").run("env MY_API_KEY", workspace=root, env=env)
            assert (await run.wait()).status == "completed"
            told = [event.raw async for event in run.events(include_raw=True) if event.raw]
            unasked = [event.raw async for event in run.events() if event.raw]
    assert "[redacted]" in json.dumps(told) and "s3cret-value" not in json.dumps(told)
    assert unasked == []


@row("default.environment_retention_explicit")
async def _(lab: Lab, client: AgentCtl) -> None:
    options = (await client.environment("worktree").status()).options
    assert "keep" in options and "changed" in options["keep"]
    with pytest.raises(Invalid):
        wrong = {"environment": "worktree", "environment_options": {"keep": "maybe"}}
        await client.sessions.create("demo", str(lab.workspace), wait_ready=True, **wrong)  # pyright: ignore[reportArgumentType]


@row("package.objects", "package.low_level_client", "package.fake_daemon")
async def _(lab: Lab, client: AgentCtl) -> None:
    import agentctl.client
    from agentctl.v1 import runs_pb2_grpc

    for name in ("AgentCtl", "Agent", "Session", "Run", "Task", "Artifact", "Approval"):
        assert isinstance(getattr(agentctl.client, name), type)
    assert hasattr(agentctl.client, "Environment") and runs_pb2_grpc.RunsStub
    async with FakeDaemon("coder") as daemon, daemon.client() as scripted:
        assert (await scripted.daemon.get_info()).version


@row("package.generated_methods_compared")
async def _(lab: Lab, client: AgentCtl) -> None:
    from agentctl.rpc.catalogue import services
    from agentctl.rpc.server import snake

    missing = [
        f"{service.name}.{method.name}"
        for service in services()
        for method in service.methods
        if service.name != "Events"
        and not hasattr(getattr(client, snake(service.name)), snake(method.name))
    ]
    assert missing == []


__all__ = ["ROWS"]
