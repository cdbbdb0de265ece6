"""Each field of the OpenClaw tool's answers and events is told by an RPC, in a session that did all of it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from google.protobuf.message import Message

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.client.views import ToolView
from agentctl.rpc.jsonview import to_dict
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio

# A session of the demo agent takes a second; on a busy machine some more.
WORK_S = 60

SCRIPT = (
    "plan || read a.txt || write a.txt changed || write new.txt hello || run! sh tests.sh || usage"
    " || say All done."
)

# What the gateway knows by itself: whether a call worked, which daemon it asked, and its own words.
OWN = frozenset(
    {"success", "message", "instance", "url", "connected", "disconnected", "subscribed", "scope"}
)

FIELDS: Mapping[str, str] = {
    "connect.server_version": "info version",
    "create_session.session_id": "session session_id",
    "create_session.project": "session workspace",
    "create_session.model": "session model",
    "create_session.status": "session created_at",
    "list_sessions.session_id": "listed session_id",
    "list_sessions.project": "listed workspace",
    "list_sessions.name": "listed name",
    "list_sessions.status": "listed phase",
    "list_sessions.model": "listed model",
    "list_sessions.created": "listed created_at",
    "list_sessions.last_active": "listed last_active_at",
    "list_sessions.message_count": "listed progress.message_count",
    "list_sessions.files_changed": "listed progress.files_changed",
    "list_sessions.tokens_used": "listed usage.total",
    "list_sessions.total": "list total",
    "attach_session.session_id": "session session_id",
    "attach_session.project": "session workspace",
    "attach_session.status": "session phase",
    "attach_session.last_message": "session progress.last_message",
    "send_message.session_id": "run session_id",
    "send_message.message_id": "run run_id",
    "send_message.status": "wait status",
    "send_message.response": "wait run.output.text",
    "get_status.session_id": "session session_id",
    "get_status.project": "session workspace",
    "get_status.status": "session phase",
    "get_status.progress.current_task": "session progress.current_task",
    "get_status.progress.files_open": "session progress.files_open",
    "get_status.progress.files_changed": "session progress.files_changed",
    "get_status.progress.files_created": "session progress.files_created",
    "get_status.progress.commands_run": "session progress.commands_run",
    "get_status.progress.last_command": "session progress.last_command",
    "get_status.progress.tests_passed": "session progress.tests_passed",
    "get_status.progress.tests_failed": "session progress.tests_failed",
    "get_status.model": "session model",
    "get_status.tokens.input": "session usage.input",
    "get_status.tokens.output": "session usage.output",
    "get_status.tokens.total": "session usage.total",
    "get_status.tokens.cost_usd": "session cost_usd",
    "get_status.timing.created": "session created_at",
    "get_status.timing.last_active": "session last_active_at",
    "get_status.timing.duration_seconds": "session last_active_at",
    "get_messages.session_id": "session session_id",
    "get_messages.messages.message_id": "messages events.0.data.message_id",
    "get_messages.messages.role": "messages events.0.data.role",
    "get_messages.messages.content": "messages events.0.data.content.0.text",
    "get_messages.messages.timestamp": "messages events.0.ts",
    "get_messages.messages.metadata.files_changed": "messages metadata.0.files_changed.0",
    "get_messages.messages.metadata.command_run": "messages metadata.0.command_run",
    "get_messages.messages.metadata.tokens_used": "messages metadata.0.tokens_used",
    "get_messages.total": "messages total",
    "terminate_session.session_id": "closed session_id",
    "terminate_session.status": "closed state",
    "terminate_session.saved_state": "closed state_saved",
    "export_session.session_id": "export session.session_id",
    "export_session.data.project": "export session.workspace",
    "export_session.data.created": "export session.created_at",
    "export_session.data.completed": "closed closed_at",
    "export_session.data.duration_seconds": "export stats.run_ms",
    "export_session.data.messages": "export message_chunk.text",
    "export_session.data.files_changed": "export file_change.path",
    "export_session.data.tokens": "export stats.usage.input",
    "export_session.data.outcome": "export complete.outcome",
    "get_stats.stats.sessions_total": "stats total.sessions",
    "get_stats.stats.sessions_active": "stats total.sessions_active",
    "get_stats.stats.tokens.input_total": "stats total.usage.input",
    "get_stats.stats.tokens.output_total": "stats total.usage.output",
    "get_stats.stats.tokens.total": "stats total.usage.total",
    "get_stats.stats.tokens.cost_usd": "stats total.cost_usd",
    "get_stats.stats.by_model.tokens": "stats by_model.0.usage.total",
    "get_stats.stats.by_model.cost_usd": "stats by_model.0.cost_usd",
    "approve_permission.request_id": "approval approval_id",
    "approve_permission.status": "approval decision",
}
"""Action and field -> the RPC's message and its field."""

EVENTS: Mapping[str, Sequence[str]] = {
    "agent.message": ("session_id", "content", "timestamp"),
    "agent.file_opened": ("session_id", "path", "timestamp"),
    "agent.file_changed": ("session_id", "path", "additions", "deletions", "timestamp"),
    "agent.command_run": ("session_id", "command", "exit_code", "timestamp"),
    "agent.permission_request": (
        "session_id",
        "request_id",
        "action",
        "details",
        "timestamp",
    ),
    "agent.progress": ("session_id", "task", "percent", "timestamp"),
    "agent.complete": ("session_id", "summary", "outcome", "timestamp"),
    "agent.error": ("session_id", "error", "recoverable", "timestamp"),
}


@asynccontextmanager
async def worked(root: Path) -> AsyncGenerator[tuple[AgentCtl, str, str]]:
    """A daemon with a session of the demo agent that did a bit of everything."""
    workspace = root / "work"
    workspace.mkdir()
    # An agent that does not hear a cancel is an error, which is told after this time.
    (root / "agentctl.toml").write_text(
        "cancel_ack_seconds = 0.2\ncancel_end_seconds = 0.2\n", encoding="utf-8"
    )
    (workspace / "a.txt").write_text("old\n", encoding="utf-8")
    (workspace / "tests.sh").write_text("echo '1 failed, 3 passed in 0.10s'\n", encoding="utf-8")
    with anyio.fail_after(WORK_S):
        async with daemon(root) as served, served.client() as client:
            session = await client.sessions.create(
                "demo", str(workspace), policy="allow", name="all of it", wait_ready=True
            )
            run = (await client.runs.create(session.session_id, SCRIPT)).run
            await client.runs.wait(run.run_id)
            yield client, session.session_id, run.run_id


async def exported(client: AgentCtl, session: str) -> dict[str, Any]:
    """The first row of each type."""
    data = b"".join([piece.data async for piece in client.sessions.export(session)])
    found: dict[str, Any] = {}
    for line in data.splitlines():
        row = orjson.loads(line)
        found.setdefault(row["type"], row["data"])
    return found


async def asked(client: AgentCtl, workspace: str) -> v1.Approval:
    """A request that was answered."""
    session = await client.sessions.create("demo", workspace, policy="ask", wait_ready=True)
    created = await client.runs.create(session.session_id, "run true")
    async for event in client.events(runs=[created.run.run_id]):
        if event.HasField("permission_request"):
            approval = await client.approvals.respond(
                event.permission_request.approval_id, "approve"
            )
            await client.runs.wait(created.run.run_id)
            return approval
    raise AssertionError("nothing was asked")


def plain(message: Message) -> dict[str, Any]:
    return to_dict(message)


def told(value: Any, path: str) -> Any:
    """The value at a path; None when something on the way was not told."""
    for name in path.split("."):
        try:
            value = value[int(name)] if name.isdigit() else value[name]
        except (KeyError, IndexError):
            return None
    return value


@pytest.mark.proves("F7")
async def test_every_field_of_an_answer_is_told_by_an_rpc(tmp_path: Path) -> None:
    async with worked(tmp_path) as (client, session, run):
        listed = await client.sessions.list()
        answers: dict[str, Any] = {
            "info": plain(await client.daemon.get_info()),
            "session": plain(await client.sessions.get(session)),
            "list": plain(listed),
            "listed": plain(listed.sessions[0]),
            "run": plain(await client.runs.get(run)),
            "wait": plain(await client.runs.wait(run)),
            "messages": plain(
                await client.sessions.messages(session, role="assistant", from_journal=True)
            ),
            "export": await exported(client, session),
            "stats": plain(await client.stats.get()),
            "closed": plain(await client.sessions.close(session, save_state=False)),
        }
        answers["approval"] = plain(await asked(client, answers["session"]["workspace"]))
    missing = {
        field: source
        for field, source in FIELDS.items()
        if told(answers[source.split()[0]], source.split()[1]) in (None, "", [])
    }
    assert not missing
    assert not OWN & {field.rpartition(".")[2] for field in FIELDS}
    progress = answers["session"]["progress"]
    assert progress["tests_passed"] == 3 and progress["tests_failed"] == 1
    assert progress["files_open"] == 1 and progress["files_changed"] == 2
    assert progress["files_created"] == 1 and progress["commands_run"] == 1
    assert progress["message_count"] == 2 and progress["last_command"] == "sh tests.sh"
    assert answers["wait"]["run"]["output"]["text"] == progress["last_message"] == "All done."
    assert answers["closed"]["state_saved"] is False and answers["session"]["phase"] == "active"


@pytest.mark.proves("F7")
async def test_every_field_of_an_event_is_told_by_the_stream(tmp_path: Path) -> None:
    async with worked(tmp_path) as (client, _, _):
        await asked(client, str(tmp_path / "work"))
        deaf = await client.sessions.create("demo", str(tmp_path / "work"), wait_ready=True)
        run = (await client.runs.create(deaf.session_id, "say here || hang-hard")).run
        async for event in client.events(runs=[run.run_id]):
            if event.HasField("message_chunk"):
                await client.runs.cancel(run.run_id)
        view = ToolView()
        seen: dict[str, set[str]] = {}
        async for event in client.events(follow=False):
            for row in view.feed(to_dict(event)):
                seen.setdefault(row["type"], set()).update(row)
    missing = {
        kind: sorted(set(fields) - seen.get(kind, set()))
        for kind, fields in EVENTS.items()
        if set(fields) - seen.get(kind, set())
    }
    assert not missing
