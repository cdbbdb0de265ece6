"""The normal form of a stream: what two agents word differently becomes the same words."""

from agentctl.core.events import (
    Complete,
    Error,
    Event,
    Message,
    MessageChunk,
    Payload,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    Reasoning,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock
from agentctl.core.words import (
    ContentType,
    DecidedBy,
    Decision,
    Outcome,
    Role,
    SessionChange,
    ToolStatus,
)
from agentctl.testing.conformance.sequence import normalised, spoken


def words(*payloads: Payload, run: str | None = "run_1", parent: str | None = None) -> list[str]:
    return normalised([Event(p, run_id=run, parent_tool_call_id=parent) for p in payloads])


def whole(message_id: str, text: str, *, retracted: bool | None = None) -> Message:
    return Message(message_id, Role.ASSISTANT, [ContentBlock(ContentType.TEXT, text)], retracted)


def test_chunks_and_the_message_that_replaces_them_are_one_message() -> None:
    said = [MessageChunk("m1", text="a"), Reasoning("r", text="hm"), MessageChunk("m1", text="b")]
    assert words(*said, whole("m1", "ab")) == words(whole("m1", "ab")) == ["message"]
    events = [Event(each, run_id="run_1") for each in [*said, whole("m1", "AB")]]
    assert spoken(events, "run_1") == "AB"


def test_white_space_other_voices_and_what_was_taken_back_are_no_message() -> None:
    assert words(MessageChunk("m1", text=" \n")) == []
    assert words(MessageChunk("m1", Role.USER, text="do")) == []
    assert words(MessageChunk("m1", text="a"), whole("m1", "", retracted=True)) == []
    assert words(MessageChunk("m1", text="a"), parent="call_1") == []
    assert words(MessageChunk("m1", text="late"), run=None) == []


def test_a_tool_is_its_card_and_its_end_however_many_updates_it_had() -> None:
    running = ToolUpdate("t", status=ToolStatus.RUNNING)
    done = ToolUpdate("t", status=ToolStatus.COMPLETED)
    want = ["tool_call", "tool_update:completed"]
    assert words(ToolCall("t"), running, running, done, ToolUpdate("t", exit_code=0)) == want
    assert words(ToolCall("t", status=ToolStatus.COMPLETED)) == want


def test_the_end_of_a_refused_tool_is_told_only_if_it_ran_all_the_same() -> None:
    asked = PermissionRequest("apr_1", tool_call_id="t")
    denied = PermissionResolved("apr_1", Decision.DENIED, by=DecidedBy.CLIENT)
    for status in (ToolStatus.FAILED, ToolStatus.CANCELLED):
        told = words(ToolCall("t"), asked, denied, ToolUpdate("t", status=status))
        assert told[2:] == ["permission_resolved:denied"]
    ran = words(ToolCall("t"), asked, denied, ToolUpdate("t", status=ToolStatus.COMPLETED))
    assert ran[-1] == "tool_update:completed"


def test_the_tool_that_asks_a_question_is_the_question() -> None:
    card = ToolCall("t")
    assert words(card, QuestionRequest("qst_1", tool_call_id="t")) == ["question_request"]


def test_sessions_and_errors_are_told_where_they_decide_something() -> None:
    changes = [SessionStatus(each) for each in (SessionChange.STARTING, SessionChange.CREATED)]
    assert words(*changes, run=None) == ["session_status:created"]
    assert words(Error("X", "x"), Error("Y", "y", recoverable=False)) == ["error"]
    assert words(Complete(Outcome.TIMED_OUT)) == ["complete:timed_out"]
