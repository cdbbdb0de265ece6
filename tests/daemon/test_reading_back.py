"""A session of the demo agent, read back whole while the daemon serves it and after it is closed."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.client import AgentCtl
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio

# Two agents start on a loaded machine; a test that waits longer has found a hang.
LIMIT_S = 60
SCRIPT = "think first || run! false || write note.txt hello || say all done"


async def export(client: AgentCtl, session: str, **options: Any) -> str:
    chunks = client.sessions.export(session, **options)
    return b"".join([chunk.data async for chunk in chunks]).decode()


async def test_a_conversation_is_read_exported_and_counted_also_once_it_is_closed(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    with anyio.fail_after(LIMIT_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create("demo", str(workspace), policy="allow")
            name = session.session_id
            run = (await client.runs.create(name, SCRIPT)).run
            await client.runs.wait(run.run_id)
            hanging = (await client.runs.create(name, "say begun || hang")).run
            async for event in client.events(runs=[hanging.run_id]):
                if event.HasField("message_chunk"):
                    break
            cut = [json.loads(each) for each in (await export(client, name)).splitlines()]
            states = [each["data"]["state"] for each in cut if each["type"] == "run"]
            assert states == ["completed", "running"]
            assert cut[-1]["seq"] <= int(cut[0]["cursor"].rpartition(":")[2])

            await client.runs.cancel(hanging.run_id)
            await client.runs.wait(hanging.run_id)
            await client.sessions.close(name)
            users = await client.sessions.messages(name, role="user")
            assert [each.run_id for each in users.events] == [run.run_id, hanging.run_id]
            said = await client.sessions.messages(name, role="assistant", page_size=1)
            assert said.events[0].message.content[0].text == "begun"
            assert said.total > 1 and said.next_page_token

            text = await export(client, name, format="markdown", include_files=True)
            for words in ("> think first", "`false` · failed · exit 1", "all done", "```diff"):
                assert words in text
            assert text.endswith("```txt\nhello\n```\n")

            stats = await client.stats.get(session_id=name)
            total = stats.total
            assert (total.runs, total.runs_completed, total.runs_cancelled) == (2, 1, 1)
            assert (total.commands, total.files_changed, total.sessions_active) == (1, 1, 0)
            assert [each.runs for each in stats.by_model] == [2]
            models = await client.models.list(agent="demo")
            assert [each.model.id for each in models.models if each.is_default] == ["demo-fast"]
