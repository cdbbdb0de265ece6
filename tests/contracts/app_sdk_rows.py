"""The rows of the app contract about calls and objects: what each must do, tried on the demo agent."""

import anyio
import pytest

from agentctl.client import (
    AgentCtl,
    Approval,
    Event,
    NotFound,
    Refused,
    Run,
    Session,
    ToolSpace,
    Unsupported,
)
from tests.contracts.lab import Lab, waiting
from tests.contracts.table import ROWS, row

__all__ = ["ROWS"]


@row("agents.list", "agents.get")
async def _(lab: Lab, client: AgentCtl) -> None:
    known = {each.entry_id for each in (await client.agents.list(known=True)).agents}
    assert {"demo", "gemini"} <= known
    assert (await client.agents.get("demo")).entry_id == "demo"
    with pytest.raises(NotFound) as caught:
        await client.agents.get("nobody")
    assert caught.value.reason == "AGENT_NOT_FOUND"


@row("agents.create", "agents.update")
async def _(lab: Lab, client: AgentCtl) -> None:
    made = await client.agents.create({"id": "mine", "cmd": ["true"], "display_name": "Mine"})
    assert made.entry_id == "mine" and made.enabled
    changed = await client.agents.update("mine", {"display_name": "Ours"})
    assert (changed.display_name, list(changed.cmd)) == ("Ours", ["true"])
    await client.registry.delete("mine")


@row("sessions.create", "sessions.list", "sessions.resolve", "sessions.send", "sessions.messages")
async def _(lab: Lab, client: AgentCtl) -> None:
    made = await client.sessions.create("demo", str(lab.workspace), key="one", wait_ready=True)
    assert made.session_id in {s.session_id for s in (await client.sessions.list()).sessions}
    assert (await client.sessions.resolve(key="one")).session_id == made.session_id
    sent = await client.sessions.send(made.session_id, "say hello")
    await client.runs.wait(sent.run.run_id)
    told = await client.sessions.messages(made.session_id, role="assistant")
    assert [event.message.content[0].text for event in told.events] == ["hello"]
    await client.sessions.close(made.session_id)


@row("sessions.fork", "sessions.compact", "sessions.abort")
async def _(lab: Lab, client: AgentCtl) -> None:
    async with waiting(keep_session=True) as (scripted, run, gate):
        await gate.reached()
        session_id = await run.session_id()
        assert (await scripted.sessions.abort(session_id)).run.run_id == run.id
        assert (await run.wait()).status == "cancelled"
        copy = await scripted.sessions.fork(session_id, wait_ready=True)
        assert copy.forked_from == session_id
        compacting = await scripted.sessions.compact(session_id)
        assert (await scripted.runs.wait(compacting.run_id)).status == 2


@row("runs.create", "runs.get", "runs.events", "runs.wait", "runs.cancel")
async def _(lab: Lab, client: AgentCtl) -> None:
    session = await client.sessions.create("demo", str(lab.workspace))
    made = (await client.runs.create(session.session_id, "hang")).run
    assert (await client.runs.get(made.run_id)).session_id == session.session_id
    assert (await client.runs.wait(made.run_id, timeout_ms=1)).status == 1
    await client.runs.cancel(made.run_id)
    events = [event async for event in client.runs.events(made.run_id)]
    assert events[-1].family == "run.cancelled"
    after = [event.id async for event in client.runs.events(made.run_id, after=events[0].id)]
    assert after == [event.id for event in events[1:]]
    assert (await client.runs.wait(made.run_id)).status == 4
    await client.sessions.close(session.session_id)


@row("tasks.list", "tasks.get", "tasks.cancel", "tasks.events")
async def _(lab: Lab, client: AgentCtl) -> None:
    for call in (client.tasks.list(), client.tasks.get("t"), client.tasks.cancel("t")):
        with pytest.raises(Unsupported):
            await call
    with pytest.raises(Unsupported):
        await anext(aiter(client.tasks.events("t", after="")))


@row("models.list", "models.status")
async def _(lab: Lab, client: AgentCtl) -> None:
    await lab.story()
    offers = (await client.models.list(agent="demo")).models
    assert "demo-fast" in {offer.model.id for offer in offers}
    (state,) = (await client.models.status(["demo"])).agents
    assert state.entry_id == "demo"


@row("tools.list", "tools.invoke")
async def _(lab: Lab, client: AgentCtl) -> None:
    told = await lab.story()
    listed = await client.tools.list(await told.run.session_id())
    assert {tool.calls for tool in listed.tools} >= {1}
    with pytest.raises(Unsupported):
        session = await told.run.session_id()
        await client.tools.invoke(session, "execute", b"{}", idempotency_key="once")


@row("artifacts.list", "artifacts.get", "artifacts.download")
async def _(lab: Lab, client: AgentCtl) -> None:
    run_id = (await lab.story()).run.id
    (file,) = (await client.artifacts.list(run_id=run_id, kinds=["file"])).artifacts
    assert (await client.artifacts.get(file.artifact_id, run_id=run_id)) == file
    chunks = client.artifacts.download(file.artifact_id, run_id=run_id)
    assert b"".join([chunk.data async for chunk in chunks]) == b"some text"
    with pytest.raises(NotFound) as caught:
        await client.artifacts.get(file.artifact_id, run_id="run_other")
    assert caught.value.reason == "ARTIFACT_NOT_FOUND"


@row("approvals.list", "approvals.respond", "request.ask_user")
async def _(lab: Lab, client: AgentCtl) -> None:
    run = await lab.demo(client, "run echo hi || say done")
    left = anyio.Event()

    async def leave(request: Approval) -> None:
        await request.ask_user()
        left.set()

    run.on_approval(leave)
    await left.wait()
    (asked,) = (await client.approvals.list(session_id=await run.session_id())).approvals
    done = await client.approvals.respond(asked.approval_id, "approve", reason="fine")
    assert done.decision == 1
    with pytest.raises(Refused) as caught:
        await client.approvals.respond(asked.approval_id, "deny")
    assert caught.value.reason == "ALREADY_RESOLVED"
    assert (await run.wait()).text == "done"


@row("environments.list", "environments.status", "environments.create", "environments.delete")
async def _(lab: Lab, client: AgentCtl) -> None:
    names = {each.name for each in (await client.environments.list()).environments}
    assert {"local", "worktree", "sandbox", "container"} <= names
    assert (await client.environments.status("local")).available
    for call in (client.environments.create("mine"), client.environments.delete("local")):
        with pytest.raises(Unsupported):
            await call


@row("agent.run", "run.wait", "run.events", "run.session", "run.tool_space", "run.artifacts.list")
async def _(lab: Lab, client: AgentCtl) -> None:
    run = await client.agent("demo").run({"input": "say hi", "workspace": str(lab.workspace)})
    assert isinstance(run, Run)
    seen = [event async for event in run.events()]
    assert all(isinstance(event, Event) for event in seen) and seen[-1].family == "run.completed"
    assert (await run.wait()).text == "hi"
    assert isinstance(await run.session(), Session)
    assert isinstance(await run.tool_space(), ToolSpace)
    assert [each.type for each in await run.artifacts.list()] == ["trajectory"]


@row("run.cancel")
async def _(lab: Lab, client: AgentCtl) -> None:
    run = await lab.demo(client, "hang")
    await run.cancel()
    assert (await run.wait()).status == "cancelled"


@row("run.on_approval", "request.approve_once")
async def _(lab: Lab, client: AgentCtl) -> None:
    run = await lab.demo(client, "run echo hi || say done")

    async def decide(request: Approval) -> object:
        if request.kind == "tool" and request.command == "echo hi":
            return request.approve_once(reason="allowed by policy")
        return request.ask_user()

    run.on_approval(decide)
    assert (await run.wait()).text == "done"
    (told,) = (
        await client.approvals.list(session_id=await run.session_id(), include_resolved=True)
    ).approvals
    assert told.reason == "allowed by policy"


@row("event.replay.after")
async def _(lab: Lab, client: AgentCtl) -> None:
    told = await lab.story()
    run = client.run(told.run.id)
    ids = [event.id async for event in run.events()]
    for place in (0, len(ids) // 2, len(ids) - 2):
        assert [event.id async for event in run.events(after=ids[place])] == ids[place + 1 :]
