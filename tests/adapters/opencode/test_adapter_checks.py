"""What somebody who plans to use OpenCode checks first, one sentence a check, and how its events map."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import (
    Complete,
    ContextWindow,
    Error,
    Event,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    Reasoning,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.replay import Replayer
from agentctl.core.words import Decision, Outcome, ToolStatus
from agentctl_adapters.opencode.translate import OpenCodeTranslator
from tests.adapters.opencode.live import Live, fake, running

pytestmark = pytest.mark.anyio


@pytest.fixture
async def live(tmp_path: Path) -> AsyncGenerator[Live]:
    async with running(workspace=str(tmp_path), **fake()) as live:
        yield live


@pytest.mark.proves("KO1")
async def test_the_server_starts_and_its_health_is_good(live: Live) -> None:
    assert live.connection.info.version == "1.18.33"
    assert live.connection.info.pid


@pytest.mark.proves("KO2")
async def test_a_session_is_created_in_its_directory(live: Live) -> None:
    session = await live.session()

    assert session.startswith("ses_")
    assert live.requests("/session")[-1]["query"] == {"directory": live.workspace}


@pytest.mark.proves("KO3")
async def test_a_prompt_is_sent_and_its_answer_streams(live: Live) -> None:
    run = await live.ask(await live.session(), "SAY 5")

    assert [c.text for c in run.of(MessageChunk)] == [f"word{n} " for n in range(1, 6)]


@pytest.mark.proves("KO4")
async def test_text_is_shown_as_the_model_said_it(live: Live) -> None:
    assert (await live.ask(await live.session(), 'SAYTEXT "a  b\\n"')).text == "a  b\n"


@pytest.mark.proves("KO5")
async def test_reasoning_is_shown_apart(live: Live) -> None:
    run = await live.ask(await live.session(), "THINK 1")

    assert run.thoughts
    assert run.thoughts not in run.text


@pytest.mark.proves("KO6", "KO7")
async def test_a_tool_is_shown_through_its_states_and_asks_first(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "TOOL echo x")
    request = await live.approve(session)
    run = await live.ended(session)

    (card,) = run.of(ToolCall)
    states = [update.status for update in run.of(ToolUpdate) if update.status]
    assert request.tool_call_id == card.tool_call_id
    assert states[-1] is ToolStatus.COMPLETED
    assert ToolStatus.RUNNING in states or ToolStatus.AWAITING_APPROVAL in states


@pytest.mark.proves("KO8")
@pytest.mark.parametrize("decision", [Decision.APPROVED, Decision.DENIED])
async def test_an_approval_runs_the_tool_and_a_denial_does_not(
    live: Live, decision: Decision
) -> None:
    session = await live.session()
    await live.begin(session, "WRITE a.txt x")
    await live.answer(await live.asked(session), decision)
    run = await live.ended(session)

    assert [answer.decision for answer in run.of(PermissionResolved)] == [decision]
    assert Path(live.workspace, "a.txt").exists() == (decision is Decision.APPROVED)  # noqa: ASYNC240


@pytest.mark.proves("KO9")
async def test_a_session_resumes_itself_and_forks_with_its_history(live: Live) -> None:
    session = await live.session()
    await live.ask(session, "SAYTEXT one")
    assert await live.connection.resume_session(session, live.spec()) == session
    fork = await live.connection.fork_session(session, live.spec())

    assert fork != session
    assert (await live.ask(fork, "HISTORY")).text == "HISTORY 2"


@pytest.mark.proves("KO10")
async def test_tokens_are_counted(live: Live) -> None:
    run = await live.ask(await live.session(), "SAY 3")

    assert run.complete.usage and run.complete.usage.total == 103
    assert run.of(ContextWindow)[-1].used == 103


@pytest.mark.proves("KO11")
async def test_an_abort_ends_the_run_as_cancelled(live: Live) -> None:
    session = await live.session()
    await live.begin(session, "SLOW 100 50")
    await live.until(lambda: live.of_type(MessageChunk))
    await live.cancel(session)

    assert (await live.ended(session)).complete.outcome is Outcome.CANCELLED


@pytest.mark.proves("KO12")
async def test_an_error_of_the_model_fails_the_run_and_says_why(live: Live) -> None:
    run = await live.ask(await live.session(), "FAIL 400")

    assert run.complete.outcome is Outcome.FAILED
    assert run.complete.error and "failure 400" in run.complete.error.message


# How single events of the server map


def mapped(*events: tuple[str, dict[str, object]]) -> list[Event]:
    """The events of one prompt, whose server says these."""
    replayer = Replayer(OpenCodeTranslator())
    prompt = {"messageID": "msg_u", "parts": [{"type": "text", "text": "hi"}]}
    path = "/session/ses_1/prompt_async"
    request = {"id": 1, "method": "POST", "path": path, "body": prompt}
    user = {"id": "msg_u", "sessionID": "ses_1", "role": "user", "time": {"created": 1}}
    answer = {"id": "msg_a", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_u"}
    said = [("message.updated", {"info": user}), ("message.updated", {"info": answer}), *events]
    told = replayer.feed(0, Frame("http_request", request))
    for kind, properties in said:
        told += replayer.feed(1, Frame("sse", {"type": kind, "properties": properties}))
    return told


def part(kind: str, **more: object) -> tuple[str, dict[str, object]]:
    told = {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_a", "type": kind, **more}
    return "message.part.updated", {"part": told}


@pytest.mark.proves("KM2")
def test_a_text_part_is_a_message_chunk() -> None:
    (chunk,) = [e.payload for e in mapped(part("text", text="hello")) if e.type == "message_chunk"]
    assert isinstance(chunk, MessageChunk) and chunk.text == "hello"


@pytest.mark.proves("KM3")
def test_a_reasoning_part_is_reasoning() -> None:
    (thought,) = [e.payload for e in mapped(part("reasoning", text="hm")) if e.type == "reasoning"]
    assert isinstance(thought, Reasoning) and thought.text == "hm"


@pytest.mark.proves("KM4")
def test_a_tool_part_is_a_tool_call_and_its_updates() -> None:
    running_ = {"status": "running", "input": {"command": "ls"}, "time": {"start": 1}}
    done = {**running_, "status": "completed", "output": "x", "title": "ls", "metadata": {}}
    events = mapped(
        part("tool", callID="c", tool="bash", state=running_),
        part("tool", callID="c", tool="bash", state=done),
    )
    (card,) = [e.payload for e in events if isinstance(e.payload, ToolCall)]
    assert (card.tool_call_id, card.name) == ("c", "bash")
    ends = [e.payload.status for e in events if isinstance(e.payload, ToolUpdate)]
    assert ends[-1] is ToolStatus.COMPLETED


@pytest.mark.proves("KM5")
def test_permission_asked_is_a_permission_request() -> None:
    asked: dict[str, object] = {
        "id": "per_1",
        "sessionID": "ses_1",
        "permission": "bash",
        "patterns": ["ls"],
        "metadata": {"command": "ls"},
        "always": ["ls"],
    }
    events = mapped(("permission.asked", asked))
    (request,) = [e.payload for e in events if isinstance(e.payload, PermissionRequest)]
    assert (request.native_request_id, request.action) == ("per_1", "bash")
    assert request.title and "ls" in request.title


@pytest.mark.proves("KM6")
def test_tokens_of_a_message_are_a_context_window() -> None:
    tokens = {"input": 7, "output": 3, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    info = {"id": "msg_a", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_u"}
    events = mapped(("message.updated", {"info": {**info, "tokens": tokens}}))
    (window,) = [e.payload for e in events if isinstance(e.payload, ContextWindow)]
    assert window.used == 10


@pytest.mark.proves("KM7")
def test_an_idle_after_the_answer_is_a_complete() -> None:
    done = {"id": "msg_a", "sessionID": "ses_1", "role": "assistant", "parentID": "msg_u"}
    finished = {**done, "finish": "stop", "time": {"created": 1, "completed": 2}}
    events = mapped(
        part("text", text="hello"),
        ("message.updated", {"info": finished}),
        ("session.idle", {"sessionID": "ses_1"}),
    )
    (complete,) = [e.payload for e in events if isinstance(e.payload, Complete)]
    assert complete.outcome is Outcome.COMPLETED


@pytest.mark.proves("KM8")
def test_a_session_error_is_an_error() -> None:
    error = {"name": "APIError", "data": {"message": "broken", "statusCode": 400}}
    events = mapped(("session.error", {"sessionID": "ses_1", "error": error}))
    (told,) = [e.payload for e in events if isinstance(e.payload, Error)]
    assert "broken" in told.message
