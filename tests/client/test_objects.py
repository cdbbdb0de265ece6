"""The objects of the client: what an app does with agents, sessions, runs and their artifacts."""

from pathlib import Path

import anyio
import pytest

from agentctl.client import (
    AgentCtl,
    AgentctlError,
    Event,
    Image,
    Invalid,
    NotFound,
    Refused,
    Resource,
    Run,
    RunParams,
    Unreachable,
    Unsupported,
)
from agentctl.client.params import RunOptions
from agentctl.testing.fake_daemon import (
    AskApproval,
    Exit,
    Fail,
    FakeDaemon,
    Gate,
    Say,
    ScriptedAgent,
    Spend,
    UseTool,
    Wait,
    WriteFile,
)

pytestmark = pytest.mark.anyio

HELLO = (Say("Hello there.", in_words=True), Spend(3, 4, 0.25))


async def test_a_prompt_gives_a_run_whose_result_has_all_that_was_told(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("hello", *HELLO)
    agent = client.agent("coder")
    run = await agent.run("hello", workspace=daemon.workspace, session_key="main")
    result = await run.wait()
    assert (result.run_id, result.status, result.session_key) == (run.id, "completed", "main")
    assert result.session_id == await run.session_id()
    assert result.text == "Hello there."
    assert result.output and [each.role for each in result.output.messages] == ["assistant"]
    usage = result.usage
    assert usage and (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (3, 4, 7)
    assert usage.cost_usd == 0.25
    assert result.started_at and result.ended_at and result.started_at <= result.ended_at
    assert result.error is None and result.task_id is None
    assert coder.prompts == ["hello"]


@pytest.mark.proves("D4")
async def test_a_wait_that_is_up_says_accepted_and_a_run_over_its_time_timed_out(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    gate = Gate()
    coder.on("slow", Wait(gate), Say("done"))
    run = await client.agent("coder").run("slow", workspace=daemon.workspace)
    assert (await run.wait(timeout_ms=1)).status == "accepted"
    await gate.reached()
    assert (await run.result()).status == "accepted"
    assert await run.state() == "running"
    gate.open()
    assert (await run.wait()).status == "completed"

    coder.on("never", Wait(Gate()))
    never = await client.agent("coder").run("never", workspace=daemon.workspace, timeout_ms=20)
    assert (await never.wait()).status == "timed_out"


async def test_a_run_that_fails_says_why(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("model", Fail("RATE_LIMITED", "come back later", recoverable=True))
    coder.on("die", Say("I"), Exit(3))
    agent = client.agent("coder")
    failed = await (await agent.run("model", workspace=daemon.workspace)).wait()
    assert failed.status == "failed" and failed.error
    assert (failed.error.reason, failed.error.recoverable) == ("RATE_LIMITED", True)
    died = await (await agent.run("die", workspace=daemon.workspace)).wait()
    assert died.status == "failed" and died.error and died.error.code == "AGENT_EXITED"
    nothing = await (await agent.run("unknown", workspace=daemon.workspace)).wait()
    assert nothing.error and "no script for this prompt" in nothing.error.message


async def test_a_run_is_cancelled_once_and_not_at_all_after_its_end(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    gate = Gate()
    coder.on("", Wait(gate)).on("short", Say("done"))
    run = await client.agent("coder").run("x", workspace=daemon.workspace)
    await gate.reached()
    await run.cancel()
    await run.cancel()
    assert (await run.wait()).status == "cancelled"
    ended = await client.agent("coder").run("short", workspace=daemon.workspace)
    await ended.wait()
    with pytest.raises(Refused) as caught:
        await ended.cancel()
    assert caught.value.reason == "RUN_FINISHED"


async def test_a_run_of_its_own_session_closes_it_and_one_with_a_key_keeps_it(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", Say("ok"))
    agent = client.agent("coder")
    once = await agent.run("a", workspace=daemon.workspace)
    await once.wait()
    async for event in (await once.session()).events():
        if event.data.get("status") == "closed":
            break
    first = await agent.run("b", session_key="k", workspace=daemon.workspace)
    second = await agent.run({"input": "c", "session_key": "k"}, workspace=daemon.workspace)
    assert (await first.session()).id == (await second.session()).id
    assert (await second.wait()).status == "completed"
    session = await second.session()
    assert [each.id for each in await client.open_sessions(key="k")] == [session.id]
    assert [message.text for message in await session.messages(role="assistant")] == ["ok", "ok"]
    assert {each.id for each in await session.runs()} == {first.id, second.id}
    copy = await session.fork(name="copy")
    assert (await copy.info()).name == "copy"
    compacted = await session.compact()
    assert (await compacted.wait()).status == "completed"
    assert (await session.update(title="New")).title == "New"
    assert await session.abort() is None
    await session.close()
    assert (await session.info()).state == "closed"
    with pytest.raises(Refused):
        await session.send("d")


async def test_a_session_has_the_name_and_the_labels_it_was_asked_for(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    agent = client.agent("coder")
    asked = RunParams(workspace=daemon.workspace, session_key="k", labels={"team": "one"})
    session = await agent.session(asked, name="first")
    told = await session.info()
    assert (told.name, dict(told.labels)) == ("first", {"team": "one"})
    other = await agent.session(
        workspace=daemon.workspace, labels={"a": "b"}, session={"name": "x", "labels": {"c": "d"}}
    )
    told = await other.info()
    assert (told.name, dict(told.labels)) == ("x", {"a": "b"})
    found = await agent.session(asked, name="second", labels={})
    told = await found.info()
    assert (found.id, told.name, dict(told.labels)) == (session.id, "first", {"team": "one"})


async def test_a_prompt_takes_texts_pictures_resources_and_files(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", Say("seen"))
    parts = ["look ", Image(b"\x89PNG"), Resource("of a kind", "mem:note"), Path("/etc/hostname")]
    run = await client.agent("coder").run(
        RunParams(parts, labels={"a": "b"}), workspace=daemon.workspace
    )
    assert (await run.wait()).text == "seen"
    told = await client.runs.get(run.id)
    assert [each.type for each in told.prompt] == [1, 2, 5, 4]
    assert dict(told.labels) == {"a": "b"}


def test_the_arguments_of_a_run_are_the_fields_of_its_parameters() -> None:
    named = set(RunOptions.__annotations__) | {"input"}
    assert named == set(RunParams.__dataclass_fields__)


@pytest.mark.proves("D2")
async def test_events_come_once_in_order_across_a_restart_of_the_daemon(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    gate = Gate()
    coder.on("", Say("one two three", in_words=True), Wait(gate))
    run = await client.agent("coder").run("x", workspace=daemon.workspace)
    seen: list[Event] = []

    async def read() -> None:
        seen.extend([event async for event in run.events()])

    results: list[str] = []

    async def wait() -> None:
        result = await run.wait()
        assert result.error
        results.append(result.error.code)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(wait)
        await gate.reached()
        await daemon.restart()
    assert results == ["DAEMON_RESTARTED"]
    ids = [event.id for event in seen]
    assert len(ids) == len(set(ids))
    assert "".join(event.text for event in seen) == "one two three"
    assert seen[-1].family == "run.failed"
    middle = seen[2]
    assert [event.id async for event in run.events(after=middle.id)] == ids[3:]
    assert [event.id async for event in client.runs.events(run.id, after=middle.id)] == ids[3:]
    assert [event.id async for event in client.run(run.id).events(follow=False)] == ids


@pytest.mark.proves("D7")
async def test_an_artifact_is_read_whole_in_part_and_into_a_file(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl, tmp_path: Path
) -> None:
    coder.on("", WriteFile("made.txt", "0123456789"))
    run = await client.agent("coder").run("x", workspace=daemon.workspace)
    result = await run.wait()
    (file,) = await run.artifacts.list(kinds=["file"])
    assert file.id in {each.id for each in result.artifacts}
    assert (file.type, file.run_id, file.size_bytes) == ("file", run.id, 10)
    assert file.summary.created_at.endswith("Z") and file.path and file.url is None
    assert await file.read() == b"0123456789"
    assert await file.read(offset=2, length=3) == b"234"
    assert b"".join([piece async for piece in file.stream(offset=8)]) == b"89"
    assert await file.download(tmp_path / "copy.txt") == tmp_path / "copy.txt"
    assert (tmp_path / "copy.txt").read_bytes() == b"0123456789"
    with pytest.raises(Invalid):
        await file.download(tmp_path / "none.txt", offset=99)
    assert [each.name async for each in anyio.Path(tmp_path).iterdir()] == ["copy.txt"]
    assert (await run.artifacts.get(file.id)).id == file.id
    session = await run.session()
    assert file.id in {each.id for each in await session.artifacts.list()}
    with pytest.raises(NotFound):
        await client.artifact(file.id, run_id="run_of_somebody_else")


async def test_what_the_registry_and_the_environments_have_is_plain_data(
    client: AgentCtl,
) -> None:
    known = {each.id: each for each in await client.all_agents()}
    assert known["coder"].protocol == "acp" and known["coder"].definition["id"] == "coder"
    assert (await client.agent("coder").info()) == known["coder"]
    local = await client.environment("local").status()
    assert (local.id, local.available) == ("local", True)
    assert local in await client.all_environments()
    with pytest.raises(NotFound) as caught:
        await client.agent("codr").info()
    assert caught.value.reason == "AGENT_NOT_FOUND"


async def test_what_no_daemon_serves_raises_unsupported(client: AgentCtl) -> None:
    for call in (
        client.task("t").status(),
        client.task("t").cancel(),
        client.environment("local").create(),
        client.environment("local").delete(),
        client.tools.invoke("ses_1", "x", b"{}"),
    ):
        with pytest.raises(Unsupported):
            await call
    with pytest.raises(Unsupported):
        await anext(client.task("t").events())


async def test_open_requests_can_be_listed_and_answered_without_callbacks(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", AskApproval("Deploy", kind="environment", risk="high"), Say("on"))
    run = await client.agent("coder").run("x", workspace=daemon.workspace)
    async for event in run.events():
        if event.family == "approval.requested":
            break
    (mine,) = await run.approvals()
    assert [each.id for each in await client.open_approvals()] == [mine.id]
    assert (mine.kind, mine.risk, mine.summary) == ("environment", "high", "Deploy")
    assert mine.run_id == run.id and mine.decision is None
    chosen = await mine.choose("once", reason="go")
    assert (chosen.decision, chosen.by, chosen.option_id) == ("approved", "client", "once")
    assert (await run.wait()).text == "on"
    assert await run.approvals() == [] and await run.questions() == []


@pytest.mark.proves("D5")
async def test_the_tools_of_a_run_come_with_what_they_can_do(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", UseTool("bash", "execute"), UseTool("bash", "execute"), UseTool("mcp__gh__pr"))
    run = await client.agent("coder").run("x", workspace=daemon.workspace, keep_session=True)
    await run.wait()
    space = await run.tool_space()
    assert [(tool.name, tool.calls) for tool in space.list()] == [("bash", 2), ("mcp__gh__pr", 1)]
    bash, other = space
    assert (bash.source, bash.access, bash.requires_approval) == ("runtime", "host", True)
    assert bash.can_use_host and not bash.read_only and bash.runtimes == ("acp",)
    assert (other.source, other.server, other.access) == ("mcp", "gh", None)
    assert space.list(source="mcp") == (other,) and space.get("bash") is bash and len(space) == 2


async def test_an_absent_daemon_is_told_at_once(tmp_path: Path) -> None:
    async with AgentCtl.connect(f"unix:{tmp_path}/none.sock") as client:
        for call in (client.run("run_1").wait(), client.agent("coder").run("x")):
            with pytest.raises(Unreachable) as caught:
                await call
            assert isinstance(caught.value, AgentctlError)


async def test_a_run_is_found_again_by_its_id(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", Say("ok"))
    run = await client.agent("coder").run("x", workspace=daemon.workspace)
    await run.wait()
    again = client.run(run.id)
    assert isinstance(again, Run) and (await again.result()).text == "ok"
    assert await again.session_id() == await run.session_id()
    with pytest.raises(NotFound) as caught:
        await client.run("run_none").wait()
    assert caught.value.reason == "RUN_NOT_FOUND"


async def test_a_client_that_was_closed_says_so(daemon: FakeDaemon, coder: ScriptedAgent) -> None:
    coder.on("hello", *HELLO)
    async with daemon.client() as client:
        run = await client.agent("coder").run("hello", workspace=daemon.workspace)
    with pytest.raises(RuntimeError, match="this client is closed"):
        await run.wait()
    with pytest.raises(RuntimeError, match="this client is closed"):
        _ = [event async for event in run.events()]


async def test_a_task_that_reads_when_the_client_is_closed_is_told_so(
    daemon: FakeDaemon, coder: ScriptedAgent
) -> None:
    coder.on("", Wait(Gate()))
    told: list[str] = []

    async def read(run: Run, reads: anyio.Event) -> None:
        with pytest.raises(RuntimeError, match="this client is closed"):
            async for _event in run.events():
                reads.set()
        told.append(run.id)

    async with daemon.client() as client:
        run, reads = await client.agent("coder").run("x", workspace=daemon.workspace), anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(read, run, reads)
            await reads.wait()
            await client.close()
    assert told == [run.id]


async def test_what_is_no_part_of_a_prompt_is_named(client: AgentCtl) -> None:
    agent = client.agent("coder")
    for prompt, says in ((["a", 5], "not int"), (b"text", "decode these bytes")):
        with pytest.raises(TypeError, match=says):
            await agent.run(prompt)  # pyright: ignore[reportArgumentType]  what is tested
