"""A session on a server that somebody else runs, after a restart of the daemon, over gRPC."""

from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.core.errors import AgentctlError
from tests.adapters.opencode.live import outside
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse"


@pytest.mark.proves("TL11")
async def test_a_resume_brings_the_login_that_no_file_keeps(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with (
            outside(password=PASSWORD) as (url, _),
            daemon(tmp_path) as served,
            served.client() as client,
        ):
            login = {"password": PASSWORD}
            session = await client.sessions.create(
                "opencode", str(tmp_path), url=url, auth=login, wait_ready=True
            )
            made = await client.runs.create(session.session_id, "SAYTEXT one")
            await client.runs.wait(made.run.run_id)
            await served.stop()
            await served.start()
            with pytest.raises(AgentctlError) as caught:
                await client.sessions.resume(session.session_id, wait_ready=True)
            assert caught.value.reason == "AUTH_REQUIRED"
            back = await client.sessions.resume(
                session.session_id,
                create=v1.CreateSessionRequest(auth=login),
                wait_ready=True,
            )
            assert back.native_session_id == session.native_session_id
            made = await client.runs.create(session.session_id, "HISTORY")
            ended = await client.runs.wait(made.run.run_id)
            assert ended.run.output.text == "HISTORY 2"


async def test_the_journal_is_asked_though_the_agent_keeps_a_history(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with (
            outside() as (url, _),
            daemon(tmp_path) as served,
            served.client() as client,
        ):
            session = await client.sessions.create(
                "opencode", str(tmp_path), url=url, wait_ready=True
            )
            made = await client.runs.create(session.session_id, "SAYTEXT one")
            await client.runs.wait(made.run.run_id)
            own = await client.sessions.messages(session.session_id)
            told = await client.sessions.messages(session.session_id, from_journal=True)
            assert not own.HasField("total") and told.total == 2
            assert all(event.ts > 0 for event in told.events)
            assert told.events[0].message.message_id == made.run.run_id
