"""The output of a run is what the assistant said in it, and nothing else."""

from dataclasses import replace

import pytest

from agentctl import v1
from agentctl.core.events import Event, Message, MessageChunk, ToolCall
from agentctl.core.limits import EVENT_BYTES, TEXT_BYTES
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, Role, RunState
from agentctl.rpc.conversation import Conversation
from agentctl.rpc.convert import to_message
from agentctl.rpc.output import answer
from tests.rpc.fakes import RUN, house
from tests.rpc.kept import serving


def said(*events: Event) -> v1.RunOutput:
    fold = Conversation()
    for seq, event in enumerate(events, start=1):
        event.seq, event.run_id, event.session_id = seq, "run_1", "ses_1"
        fold.feed(to_message(event, ""))
    return answer(fold.all())


def chunk(id_: str, text: str, parent: str | None = None) -> Event:
    return Event(MessageChunk(id_, text=text), parent_tool_call_id=parent)


def whole(id_: str, *texts: str, role: Role = Role.ASSISTANT, retracted: bool = False) -> Event:
    content = [ContentBlock(ContentType.TEXT, text=text) for text in texts]
    return Event(Message(id_, role, content, retracted or None))


def texts(output: v1.RunOutput) -> list[str]:
    return ["".join(block.text for block in each.content) for each in output.messages]


@pytest.mark.proves("F4")
def test_the_text_is_that_of_the_last_message() -> None:
    output = said(chunk("a", "one "), chunk("a", "two"), Event(ToolCall("t")), chunk("b", "three"))
    assert output.text == "three" and texts(output) == ["one two", "three"]
    assert not output.HasField("truncated")


@pytest.mark.proves("F4")
def test_a_whole_message_replaces_its_chunks_and_a_retracted_one_never_was() -> None:
    output = said(chunk("a", "on"), whole("a", "one"), chunk("b", "no"), whole("b", retracted=True))
    assert output.text == "one" and texts(output) == ["one"]


@pytest.mark.proves("F4")
def test_neither_subagents_nor_users_speak_in_it() -> None:
    output = said(
        chunk("a", "mine"),
        chunk("s", "a subagent's", parent="t"),
        whole("u", "steer", role=Role.USER),
    )
    assert output.text == "mine" and texts(output) == ["mine"]


def test_a_run_that_said_nothing_has_an_empty_output() -> None:
    assert said(Event(ToolCall("t"))) == v1.RunOutput()


@pytest.mark.proves("F4")
def test_of_a_long_output_the_oldest_messages_go_first() -> None:
    output = said(*(chunk(f"m{n}", str(n) * 100_000) for n in range(4)))
    assert texts(output) == ["2" * 100_000, "3" * 100_000] and output.truncated
    assert output.text == "3" * 100_000


@pytest.mark.parametrize("letter", ["x", "\u20ac"])
def test_a_last_message_that_is_too_long_alone_shows_its_end(letter: str) -> None:
    output = said(chunk("a", "old"), *(chunk("b", letter * 100_000) for _ in range(4)))
    assert output.truncated and len(output.messages) == 1
    assert output.text == texts(output)[0] and set(output.text) == {letter}
    assert TEXT_BYTES - 3 < len(output.text.encode()) <= TEXT_BYTES
    assert output.messages[0].ByteSize() <= EVENT_BYTES


@pytest.mark.anyio
@pytest.mark.proves("F4")
async def test_get_and_wait_have_the_output_of_a_run_that_ended() -> None:
    spoken = [Event(MessageChunk("a", text="hello"), "run_1", session_id="ses_1")]
    ended = replace(RUN, state=RunState.COMPLETED, ended_at=9, session_key="mine")
    async with house() as rooms:
        rooms.hub.stream = serving(spoken)
        running = await rooms.client.runs.get("run_1")
        accepted = await rooms.client.runs.wait("run_1", timeout_ms=5)
        assert not rooms.hub.queries
        rooms.manager.answers |= {"get_run": ended, "wait_run": (ended, True)}
        got = await rooms.client.runs.get("run_1")
        waited = await rooms.client.runs.wait("run_1")
        rooms.manager.answers["get_run"] = replace(ended, id="run_2", folded_into="run_1")
        folded = await rooms.client.runs.get("run_2")
        listed = await rooms.client.runs.list()
    assert not running.HasField("output") and not accepted.run.HasField("output")
    assert got.output.text == waited.run.output.text == folded.output.text == "hello"
    assert got.session_key == "mine"
    assert [query.runs for query in rooms.hub.queries] == [frozenset({"run_1"})] * 3
    assert not listed.runs[0].HasField("output")
