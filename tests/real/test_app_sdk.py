"""The app contract on the four real agents: what an app does with the Python client, each the same."""

from pathlib import Path

import anyio
import pytest

from agentctl.client import Approval, Event, Question, Run, Session
from tests.contracts.lab import repository
from tests.real.agents import AGENTS, ModelScript
from tests.real.harness import TURN_TIMEOUT_S
from tests.real.served import Served

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.proves("D8")]

ASKS_QUESTIONS = {"claude", "codex", "opencode"}


async def opened(served: Served, script: ModelScript) -> Session:
    agent = served.client.agent(served.entry)
    return await agent.session(
        workspace=served.home.workspace, session_key="app", session=script.create()
    )


async def answered(run: Run) -> list[Event]:
    """Its events to its end, with every approval allowed."""
    run.on_approval(lambda request: request.approve_once(reason="allowed by policy"))
    return [event async for event in run.events()]


@pytest.mark.parametrize("agent", AGENTS)
async def test_an_app_does_the_same_with_every_agent(tmp_path: Path, agent: str) -> None:
    real = AGENTS[agent]
    async with real.serving(tmp_path) as served:
        await anyio.to_thread.run_sync(repository, served.home.workspace)
        script = real.script(served.home)
        with anyio.fail_after(TURN_TIMEOUT_S * 6):
            session = await opened(served, script)
            await says_and_tells_all(served, session, script)
            await asks_for_leave_and_makes_a_file(served, session, script)
            if agent in ASKS_QUESTIONS:
                await asks_a_question(session, script)
            else:
                assert script.ask("Which?", ["red"]) is None
            await is_cancelled(session, script)
            await is_waited_for(session, script)
            (state,) = (await served.client.models.status([served.entry])).agents
            assert state.entry_id == served.entry
            assert (await served.client.models.list(session_id=session.id)).models
            await session.close()


async def says_and_tells_all(served: Served, session: Session, script: ModelScript) -> None:
    run = await session.send(script.say("Hello from the model.").prompt)
    events = [event async for event in run.events()]
    result = await run.wait()
    assert (result.status, result.run_id, result.session_id) == ("completed", run.id, session.id)
    assert result.session_key == "app" and result.error is None
    assert result.text.strip() == "Hello from the model."
    assert result.output and result.output.messages[-1].role == "assistant"
    assert result.started_at and result.ended_at and result.started_at <= result.ended_at
    usage = result.usage
    assert usage and usage.input_tokens and usage.output_tokens and usage.total_tokens
    families = [event.family for event in events]
    assert families[0] == "run.created" and families[-1] == "run.completed"
    assert "assistant.delta" in families or "assistant.message" in families
    views = [view for event in events if (view := event.as_app_sdk()) is not None]
    assert {view["version"] for view in views} == {1}
    assert {view["runId"] for view in views} == {run.id}
    assert {view["sessionKey"] for view in views} == {"app"}
    middle = events[len(events) // 2]
    rest = [event.id async for event in served.client.run(run.id).events(after=middle.id)]
    assert rest == [event.id for event in events[len(events) // 2 + 1 :]]
    words = [message.text.strip() for message in await session.messages(role="assistant")]
    assert words[-1] == "Hello from the model."


async def asks_for_leave_and_makes_a_file(
    served: Served, session: Session, script: ModelScript
) -> None:
    run = await session.send(script.run("echo made > made.txt").prompt)
    seen: list[Approval] = []
    run.on_approval(seen.append)
    families = {event.family for event in await answered(run)}
    assert (await run.wait()).status == "completed"
    (asked,) = seen
    assert (asked.run_id, asked.session_id, asked.kind) == (run.id, session.id, "tool")
    assert asked.command and "made.txt" in asked.command and asked.summary
    assert {"approve_once", "deny"} <= set(asked.decisions) and asked.options
    assert {"approval.requested", "approval.resolved", "tool.call.started"} <= families
    assert "tool.call.completed" in families
    assert (await anyio.Path(served.home.workspace / "made.txt").read_text()).strip() == "made"
    made = {each.type: each for each in await run.artifacts.list()}
    assert {"trajectory", "patch"} <= made.keys()
    assert b"+made" in await made["patch"].read()
    assert made["patch"].id in {each.id for each in (await run.wait()).artifacts}
    (shell,) = [tool for tool in await run.tool_space() if tool.calls]
    assert shell.can_use_host and shell.requires_approval


async def asks_a_question(session: Session, script: ModelScript) -> None:
    line = script.ask("Which colour?", ["red", "blue"])
    assert line is not None
    run = await session.send(line.prompt)
    seen: list[Question] = []

    async def tell(question: Question) -> None:
        seen.append(question)
        await question.answer(question.questions[0].options[1].id)

    run.on_question(tell)
    families = {event.family for event in await answered(run)}
    assert (await run.wait()).status == "completed"
    (question,) = seen
    assert question.text == "Which colour?" and question.run_id == run.id
    assert [option.name for option in question.questions[0].options][:2] == ["red", "blue"]
    assert {"question.requested", "question.answered"} <= families


async def is_cancelled(session: Session, script: ModelScript) -> None:
    run = await session.send(script.stream().prompt)
    async for event in run.events():
        if event.family == "assistant.delta":
            break
    assert (await run.wait(timeout_ms=1)).status == "accepted"
    await run.cancel()
    assert (await run.wait()).status == "cancelled"


async def is_waited_for(session: Session, script: ModelScript) -> None:
    run = await session.send(script.stream().prompt, timeout_ms=1500)
    result = await run.wait()
    assert result.status == "timed_out" and result.ended_at
    again = await session.send(script.say("And on.").prompt)
    assert (await again.wait()).status == "completed"
