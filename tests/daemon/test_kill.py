"""What is left when the daemon is killed, and what it says when it is back."""

from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from tests.daemon.harness import daemon, wait_until_gone

pytestmark = pytest.mark.anyio


async def start(client: AgentCtl, workspace: Path, prompt: str) -> tuple[str, str]:
    session = await client.sessions.create("demo", str(workspace), policy="allow", wait_ready=True)
    created = await client.runs.create(session.session_id, prompt)
    return session.session_id, created.run.run_id


async def read_until_text(client: AgentCtl, run_id: str, text: str) -> list[v1.AgentEvent]:
    seen: list[v1.AgentEvent] = []
    async for event in client.events(runs=[run_id]):
        seen.append(event)
        if text in event.message_chunk.text:
            return seen
    raise AssertionError(f"{text!r} was never said")


async def text_of(client: AgentCtl, run_id: str) -> str:
    events = client.events(runs=[run_id])
    return "".join([event.message_chunk.text async for event in events])


async def everything(client: AgentCtl) -> list[v1.AgentEvent]:
    return [event async for event in client.events(follow=False)]


@pytest.mark.proves("P1", "S6")
async def test_a_killed_daemon_leaves_no_process_and_loses_nothing_it_showed(
    tmp_path: Path,
) -> None:
    prompts = ["say one || hang", "run! sleep 600", "spawn-escape || say two || hang"]
    with anyio.fail_after(120):
        async with daemon(tmp_path) as served:
            async with served.client() as client:
                started = [await start(client, tmp_path, prompt) for prompt in prompts]
                await read_until_text(client, started[0][1], "one")
                await read_until_text(client, started[2][1], "two")
                async for event in client.events(runs=[started[1][1]]):
                    if event.HasField("tool_call"):
                        break
                queued = await client.runs.create(started[0][0], "say later")
                shown = await everything(client)
            served.kill()
            await wait_until_gone(tmp_path)

            await served.start()
            async with served.client() as client:
                again = await everything(client)
                assert again[: len(shown)] == shown
                for session_id, run_id in started:
                    session = await client.sessions.get(session_id)
                    assert session.state == v1.SessionState.SESSION_STATE_INTERRUPTED
                    run = await client.runs.get(run_id)
                    assert run.state == v1.RunState.RUN_STATE_FAILED
                    assert run.error.code == "DAEMON_RESTARTED"
                    ends = [e for e in again if e.HasField("complete") and e.run_id == run_id]
                    assert len(ends) == 1
                waiting = await client.runs.get(queued.run.run_id)
                assert waiting.state == v1.RunState.RUN_STATE_QUEUED

                await client.sessions.resume(started[0][0])
                waited = await client.runs.wait(queued.run.run_id, timeout_ms=30_000)
                assert waited.run.state == v1.RunState.RUN_STATE_COMPLETED
                history = await client.runs.create(started[0][0], "history")
                told = await text_of(client, history.run.run_id)
                assert "3 user turns" in told, told


@pytest.mark.proves("P11")
async def test_a_daemon_that_is_stopped_says_so_and_calls_no_agent_a_failure(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(90):
        async with daemon(tmp_path) as served:
            async with served.client() as client:
                session_id, run_id = await start(client, tmp_path, "say one || hang")
                await read_until_text(client, run_id, "one")
            await served.stop()
            await wait_until_gone(tmp_path)

            await served.start()
            async with served.client() as client:
                run = await client.runs.get(run_id)
                assert run.error.code == "DAEMON_RESTARTED"
                session = await client.sessions.get(session_id)
                assert session.state == v1.SessionState.SESSION_STATE_INTERRUPTED
                exits = [
                    e.agent_status for e in await everything(client) if e.HasField("agent_status")
                ]
                assert exits[-1].state == v1.AgentState.AGENT_STATE_EXITED
                assert not exits[-1].HasField("detail")


async def test_a_second_daemon_on_the_same_data_is_refused_with_the_first_ones_pid(
    tmp_path: Path,
) -> None:
    with anyio.fail_after(60):
        async with daemon(tmp_path) as served:
            assert served.process is not None
            argv = ["agentctl", "serve", "--data-dir", str(served.data_dir)]
            second = await anyio.run_process(argv, env=dict(served.env), check=False)
            assert second.returncode == 1
            assert str(served.process.pid) in second.stderr.decode()
