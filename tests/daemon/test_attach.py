"""A session on a server that somebody else runs, over gRPC and from the command line."""

from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.core.errors import Unsupported
from tests.adapters.opencode.live import outside
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse"


async def test_a_session_is_attached_by_url_and_its_server_outlives_it(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with (
            outside(password=PASSWORD) as (url, _),
            daemon(tmp_path) as served,
            served.client() as client,
        ):
            session = await client.sessions.create(
                "opencode",
                str(tmp_path),
                url=url,
                auth={"password": PASSWORD},
                wait_ready=True,
            )
            made = await client.runs.create(session.session_id, "SAYTEXT attached")
            ended = await client.runs.wait(made.run.run_id)
            assert ended.run.state == v1.RunState.RUN_STATE_COMPLETED
            with pytest.raises(Unsupported):
                await client.sessions.create("demo", str(tmp_path), url=url, wait_ready=True)
            await client.sessions.close(session.session_id)

            login = ("--url", url, "--auth", f"opencode:{PASSWORD}")
            run = ("run", "opencode", "SAYTEXT again", "--workspace", str(tmp_path), *login)
            env = {**served.env, "AGENTCTL_ADDRESS": served.address}
            said = await anyio.run_process(["agentctl", *run], env=env)
            assert said.stdout == b"again\n"
