"""What a conversation is once its events are folded."""

from collections.abc import Sequence

import pytest

from agentctl import v1
from agentctl.core.events import Event, Message, MessageChunk, RunStatus, ToolCall, ToolUpdate
from agentctl.core.words import Outcome, Role, RunChange, ToolKind, ToolStatus
from agentctl.rpc.conversation import Conversation, Item, events_of, metadata, page
from tests.rpc.kept import run, said, wire, worked


def folded(events: Sequence[Event]) -> Conversation:
    fold = Conversation()
    for event in wire(events):
        fold.feed(event)
    return fold


def shown(items: Sequence[Item]) -> list[str]:
    return [
        f"{v1.Role.Name(each.event.message.role)[5:].lower()}: "
        + "".join(block.text for block in each.event.message.content)
        for each in items
        if each.kind == "message"
    ]


def test_chunks_are_one_message_and_the_whole_one_replaces_them() -> None:
    items = folded([*worked(), *run(2, said("m1", "Again "), said("m1", "here."))]).all()
    assert shown(items) == [
        "user: prompt 1",
        "assistant: Fixed it.",
        "user: prompt 2",
        "assistant: Again here.",
    ]
    first = items[0].event
    assert (first.message.message_id, first.run_id, first.ts) == ("run_1", "run_1", 10_000)
    assert (first.seq, first.cursor) == (0, "")


def test_a_prompt_that_waits_in_the_queue_stands_where_its_turn_comes() -> None:
    first, second = run(1, said("m1", "one")), run(2, said("m2", "two"))
    assert shown(folded([*first[:2], second[0], *first[2:], *second[1:]]).all()) == [
        "user: prompt 1",
        "assistant: one",
        "user: prompt 2",
        "assistant: two",
    ]
    assert shown(folded([*first[:2], second[0], *first[2:]]).all())[-1] == "user: prompt 2"


def test_what_was_taken_back_and_empty_words_are_no_messages() -> None:
    gone = Message("m1", retracted=True)
    items = folded(run(1, said("m1", "oops"), gone, MessageChunk("m2", text=""))).all()
    assert shown(items) == ["user: prompt 1"]


def test_a_tool_is_its_card_and_one_update_with_all_it_gave() -> None:
    (tool,) = (each for each in folded(worked()).all() if each.event.tool_call.command)
    card, update = events_of(tool)
    assert card.tool_call.status == v1.ToolStatus.TOOL_STATUS_FAILED
    assert (update.tool_update.output_replace, update.tool_update.exit_code) == ("1 failing\n", 1)


def test_a_tool_id_that_comes_again_in_another_run_is_another_tool() -> None:
    call = ToolCall("t1", kind=ToolKind.READ)
    done = ToolUpdate("t1", status=ToolStatus.COMPLETED)
    items = folded([*run(1, call, done), *run(2, call)]).all()
    assert [each.kind for each in items].count("tool_call") == 2


def test_the_last_answer_of_a_run_tells_what_came_of_it() -> None:
    fold = folded(run(1, said("m0", "first"), *[e.payload for e in worked()[2:-1]]))
    items = fold.all()
    (told,) = metadata(items, items, fold.facts)
    assert (told.message_id, told.run_id) == ("m1", "run_1")
    assert list(told.files_changed) == ["/w/a.py"]
    assert (told.command_run, told.tokens_used) == ("npm test", 15)
    assert metadata(items, items[:1], fold.facts) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 1000, 10**9])
def test_pages_go_back_and_hold_each_message_once(limit: int) -> None:
    items = folded([each for n in range(1, 6) for each in run(n, said("m1", f"a{n}"))]).all()
    pages: list[list[str]] = []
    before: int | None = None
    while before != 0:
        got = page(items, limit=limit, before=before)
        assert got.total == 10
        pages.insert(0, shown(got.items))
        before = got.before
    assert [len(each) for each in pages[1:]] == [limit] * (len(pages) - 1)
    assert [each for some in pages for each in some] == shown(items)


def test_a_role_and_a_time_leave_out_the_rest() -> None:
    items = folded([*worked(), *run(2, said("m2", "two"))]).all()
    users = page(items, limit=10, role=v1.Role.ROLE_USER)
    assert (shown(users.items), users.total) == (["user: prompt 1", "user: prompt 2"], 2)
    assert shown(page(items, limit=10, since=20_000).items) == ["user: prompt 2", "assistant: two"]
    assert page(items, limit=10, since=2**62).items == []
    assert page(items, limit=10, role=v1.Role.ROLE_SYSTEM).before == 0


def test_a_subagents_words_are_not_the_conversation() -> None:
    inner = run(1, said("m1", "inner"), said("m2", "outer"))
    inner[2].parent_tool_call_id = "t1"
    items = folded(inner).all()
    assert shown(page(items, limit=10).items) == ["user: prompt 1", "assistant: outer"]


def test_things_are_taken_run_by_run_and_a_prompt_that_waits_is_kept() -> None:
    fold = folded([*run(1, said("m1", "one")), *run(2, end=None)[:1]])
    assert shown(fold.take()) == ["user: prompt 1", "assistant: one"]
    assert fold.take() == []
    started = Event(RunStatus(RunChange.STARTED), run_id="run_2", session_id="ses_1")
    fold.feed(wire([started])[0])
    assert shown(fold.take()) == ["user: prompt 2"]


def test_the_words_of_another_client_are_the_users() -> None:
    items = folded(run(1, said("m9", "from elsewhere", Role.USER), end=Outcome.CANCELLED)).all()
    assert shown(items)[1] == "user: from elsewhere"
