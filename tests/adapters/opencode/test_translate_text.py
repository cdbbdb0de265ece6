"""Text and thoughts of OpenCode as events: each word once, whatever repeats it."""

import pytest

from agentctl.core.events import Log, Message, MessageChunk, Reasoning, RunStatus
from agentctl.core.words import Outcome, RunChange
from tests.adapters.opencode.scripted import Scripted, shown
from tests.replaying import one, payloads


@pytest.mark.proves("M1", "M6")
def test_deltas_and_the_whole_part_that_repeats_them_give_the_text_once() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_1", "text", text="", time={"start": 1})
    for word in ("a ", " ", "\n", "\u2028b"):
        server.delta("prt_1", word)
    assert server.part("prt_1", "text", text="a  \n\u2028b", time={"start": 1, "end": 2}) == []
    assert server.texts() == ["a ", " ", "\n", "\u2028b"]


@pytest.mark.proves("M2")
def test_deltas_before_their_part_are_held_and_come_with_it() -> None:
    server = Scripted()
    server.begin()
    assert server.delta("prt_1", "a ") == []
    assert server.delta("prt_1", "b ") == []
    server.part("prt_1", "text", text="")
    server.delta("prt_1", "c")
    server.part("prt_1", "text", text="a b c", time={"end": 2})
    assert "".join(server.texts()) == "a b c"


@pytest.mark.proves("M2")
def test_deltas_of_a_part_that_never_comes_are_told_before_the_end() -> None:
    server = Scripted()
    server.begin()
    server.delta("prt_1", "lost?")
    server.done()
    server.idle()
    assert server.texts() == ["lost?"]
    assert server.events[-1].payload == server.completes()[0]


@pytest.mark.proves("M2")
def test_a_whole_text_without_deltas_is_told_at_its_end() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_1", "text", text="all of it", time={"start": 1, "end": 2})
    assert server.texts() == ["all of it"]


@pytest.mark.proves("M1")
def test_cumulative_parts_without_deltas_stream_what_is_new() -> None:
    server = Scripted()
    server.begin()
    for text in ("one", "one two", "one two", "one two three"):
        server.part("prt_1", "text", text=text)
    assert server.texts() == ["one", " two", " three"]


def test_a_final_text_that_differs_replaces_what_was_shown_once() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_1", "text", text="")
    server.delta("prt_1", "draft   ")
    server.part("prt_1", "text", text="draft", time={"end": 2})
    server.part("prt_1", "text", text="draft", time={"end": 2})
    assert shown(server.events) == "draft"
    assert len(payloads(server.events, Message)) == 1


def test_text_that_changes_while_it_is_written_waits_for_the_end_of_its_message() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_1", "text", text="first thought")
    assert server.part("prt_1", "text", text="other words") == []
    server.done()
    assert shown(server.events) == "other words"


def test_each_part_of_a_message_has_an_id_of_its_own() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_r", "reasoning", text="hm", time={"start": 1, "end": 2})
    server.part("prt_1", "text", text="a")
    server.part("prt_2", "text", text="b")
    thought = one(server.events, Reasoning)
    ids = [thought.message_id] + [c.message_id for c in payloads(server.events, MessageChunk)]
    assert ids == ["msg_a", "msg_a/1", "msg_a/2"]


def test_thoughts_stream_as_reasoning_and_are_no_text() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_r", "reasoning", text="")
    server.delta("prt_r", "let me ")
    server.delta("prt_r", "see")
    server.part("prt_r", "reasoning", text="let me see", time={"end": 2})
    assert [r.text for r in payloads(server.events, Reasoning)] == ["let me ", "see"]
    assert server.texts() == []


@pytest.mark.proves("M4")
def test_the_users_words_and_what_the_server_adds_to_them_never_come_back() -> None:
    server = Scripted()
    server.begin("read it")
    server.part("prt_s", "text", "msg_u", text="Called the Read tool", synthetic=True)
    assert server.texts() == []
    created = [s for s in payloads(server.events, RunStatus) if s.status is RunChange.CREATED]
    assert [block.text for block in created[0].prompt] == ["read it"]


@pytest.mark.proves("M5")
def test_messages_that_a_fork_copied_are_not_told_even_after_the_first_prompt() -> None:
    server = Scripted()
    request = server.request("POST", "/session/ses_0/fork", {})
    server.answer(request, {"id": "ses_1", "directory": "/code", "time": {"created": 150}})
    server.prompt("go on", message="")
    server.user("msg_old", time={"created": 20})
    server.part("prt_o", "text", "msg_old", text="go on")
    server.open("msg_oa", "msg_old", time={"created": 21})
    server.part("prt_oa", "text", "msg_oa", text="old answer", time={"end": 22})
    server.tool("c1", "completed", message="msg_oa", input={}, output="x")
    server.user("msg_new")
    server.open("msg_a", "msg_new")
    server.part("prt_1", "text", text="new answer")
    server.done("msg_a", "msg_new")
    server.idle()
    assert server.texts() == ["new answer"]
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]


@pytest.mark.proves("M5")
def test_a_complete_answer_to_a_prompt_that_nobody_saw_is_history() -> None:
    server = Scripted()
    server.session()
    server.done("msg_x", "msg_unseen")
    server.part("prt_x", "text", "msg_x", text="old")
    assert server.texts() == []


def test_a_message_that_was_taken_back_is_retracted_in_its_own_run() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_1", "text", text="never mind")
    server.done()
    server.idle()
    (event,) = server.say("message.removed", sessionID="ses_1", messageID="msg_a")
    assert isinstance(event.payload, Message)
    assert event.payload.retracted
    assert event.after_run_id == "run_1"


@pytest.mark.proves("M8")
def test_unknown_events_and_parts_are_noted_and_counted_and_never_fatal() -> None:
    server = Scripted()
    server.begin()
    server.say("session.dreamt", sessionID="ses_1", of="sheep")
    server.part("prt_x", "hologram", depth=3)
    server.say("message.part.delta", nonsense=True)
    assert len(payloads(server.events, Log)) == 3
    assert server.translator.unknown == {"session.dreamt": 1}
    server.part("prt_1", "text", text="still here")
    assert server.texts() == ["still here"]


def test_pictures_in_an_answer_are_content_of_it() -> None:
    server = Scripted()
    server.begin()
    url = "data:image/png;base64,aGVsbG8="
    server.part("prt_f", "file", mime="image/png", url=url)
    server.part("prt_f", "file", mime="image/png", url=url)
    block = one(server.events, MessageChunk).content
    assert block is not None
    assert block.data == b"hello"
