"""An OpenCode server behind the daemon: one for many sessions, found by a client of its API."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.rpc.jsonview import to_dict
from tests.adapters.opencode.live import ROOT, outside
from tests.daemon.harness import daemon, wait_until_gone

pytestmark = pytest.mark.anyio
ENTRY: dict[str, Any] = {
    "id": "opencode",
    "protocol": "opencode",
    "cmd": [sys.executable, "-m", "tests.fakes.opencode.server"],
    "env": {"PYTHONPATH": str(ROOT)},
    "permission_config": {"tools_requiring_permission": ["edit", "bash", "webfetch"]},
}
PATIENCE_S = 30.0


@asynccontextmanager
async def served(root: Path, **entry: Any) -> AsyncGenerator[AgentCtl]:
    registry = root / "project.json"
    registry.write_text(json.dumps({"version": 1, "agents": [{**ENTRY, **entry}]}))
    with anyio.fail_after(PATIENCE_S * 2):
        async with daemon(root, "--registry", str(registry)) as made, made.client() as client:
            yield client
    await wait_until_gone(root)


async def told(client: AgentCtl, session: v1.Session) -> list[dict[str, Any]]:
    events = client.events(follow=False, sessions=[session.session_id])
    return [to_dict(event) async for event in events]


async def ask(client: AgentCtl, session: v1.Session, prompt: str) -> v1.WaitRunResponse:
    made = await client.runs.create(session.session_id, prompt)
    return await client.runs.wait(made.run.run_id)


@pytest.mark.proves("KM1", "KO2", "KO3")
async def test_a_new_session_tells_the_servers_own_id_and_then_answers(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        session = await client.sessions.create("opencode", str(tmp_path), wait_ready=True)
        await ask(client, session, "SAYTEXT hello")
        rows = await told(client, session)
        created = [
            r for r in rows if r["type"] == "session_status" and r["data"]["status"] == "created"
        ]
        assert created[0]["data"]["native_session_id"].startswith("ses_0")
        chunks = [r["data"]["text"] for r in rows if r["type"] == "message_chunk"]
        assert chunks == ["hello"]


async def test_sessions_of_several_directories_share_one_server_and_it_ends_with_them(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as client:
        sessions: list[v1.Session] = []
        for n in range(6):
            folder = tmp_path / f"w{n % 3}"
            folder.mkdir(exist_ok=True)
            made = await client.sessions.create("opencode", str(folder), wait_ready=True)
            sessions.append(made)
        agents = (await client.agents.list()).agents
        assert len(agents) == 1
        for n, session in enumerate(sessions):
            await ask(client, session, f"SAYTEXT mine{n}")
        for n, session in enumerate(sessions):
            rows = await told(client, session)
            assert [r["data"]["text"] for r in rows if r["type"] == "message_chunk"] == [f"mine{n}"]
        for session in sessions:
            await client.sessions.close(session.session_id)
        assert (await client.agents.list()).agents == []


async def test_a_server_at_a_url_is_used_and_outlives_the_daemon(tmp_path: Path) -> None:
    async with outside(password="word") as (url, pid):
        auth = {"user": "opencode", "password": "word"}
        async with served(tmp_path, url=url, auth=auth, cmd=["/nonexistent/none"]) as client:
            session = await client.sessions.create("opencode", str(tmp_path), wait_ready=True)
            await ask(client, session, "SAYTEXT remote")
            rows = await told(client, session)
            assert [r["data"]["text"] for r in rows if r["type"] == "message_chunk"] == ["remote"]
        assert psutil.Process(pid).is_running()
