"""What a client sees of a run, event by event: texts, thoughts, tools, files. Without a server."""

import pytest

from agentctl.gateway.opencode import ids
from tests.gateway.opencode.story import OTHER, RUN, SESSION, Json, Story, kinds


@pytest.mark.proves("GO4")
def test_a_plain_turn_is_told_in_the_order_that_clients_rely_on() -> None:
    story = Story()
    story.begin("hi")
    story.say("hel")
    story.say("lo")
    story.flush()
    story.end(stop_reason="end_turn", usage={"input": 7, "output": 2}, cost_usd=0.5)
    assert kinds(story.said) == [
        "message.updated",
        "message.part.updated",
        "session.status",
        "message.updated",
        "message.part.updated",
        "message.part.updated",
        "message.part.updated",
        "message.updated",
        "session.updated",
        "session.status",
        "session.idle",
    ]
    user, answer = story.conversation.messages()
    assert user["info"]["role"] == "user" and user["parts"][0]["text"] == "hi"
    assert answer["info"]["parentID"] == user["info"]["id"]
    assert answer["info"]["finish"] == "stop" and answer["info"]["cost"] == 0.5
    assert answer["info"]["tokens"]["input"] == 7
    assert [p["type"] for p in answer["parts"]] == ["text", "step-finish"]
    assert story.replayed() == [*story.conversation.messages()]


@pytest.mark.proves("GO4")
def test_ids_hold_the_run_and_sort_by_time() -> None:
    assert ids.run_of(ids.user_message(RUN)) == RUN
    assert ids.run_of(ids.answer(ids.user_message(RUN), 1)) == RUN
    assert ids.run_of("msg_of_a_client") is None
    first, second = ids.user_message(RUN), ids.user_message(OTHER)
    assert first < ids.answer(first, 1) < ids.answer(first, 2) < second
    assert ids.time_of(RUN) // 1000 == 1796068161
    assert ids.time_of("run_1") == 0
    copy = ids.copied(first, SESSION)
    assert first < copy < ids.copied(ids.answer(first, 1), SESSION)
    assert ids.part(first, 1) < ids.part(first, 2) < ids.part(ids.answer(first, 1), 1)
    assert ids.approval(ids.permission("apr_1")) == "apr_1"
    assert ids.our_question(ids.question("qst_1")) == "qst_1"
    assert ids.seq_of(ids.event(42, 3)) == 42
    assert ids.event(9, 1) < ids.event(10, 0) < ids.event(10, 1)


@pytest.mark.proves("GO4")
def test_a_message_that_a_client_named_keeps_its_name() -> None:
    story = Story({RUN: "msg_mine"})
    story.begin("hi")
    story.say("hello")
    story.end()
    user, answer = story.conversation.messages()
    assert user["info"]["id"] == "msg_mine" and answer["info"]["parentID"] == "msg_mine"
    assert answer["info"]["id"].startswith("msg_mine")


@pytest.mark.proves("GO4")
def test_a_long_text_costs_a_client_no_more_than_three_times_its_size() -> None:
    story = Story()
    story.begin("hi")
    for number in range(2000):
        story.say(f"word{number} ")
        story.flush()
    story.end()
    texts = [
        said.properties["part"]["text"]
        for said in story.said
        if said.type == "message.part.updated" and said.properties["part"]["type"] == "text"
    ]
    deltas = [s.properties["delta"] for s in story.said if s.type == "message.part.delta"]
    whole = story.shown()[0]["text"]
    assert whole == "".join(f"word{number} " for number in range(2000))
    assert sum(map(len, texts)) + sum(map(len, deltas)) <= 4 * len(whole)
    assert story.replayed() == [*story.conversation.messages()]


@pytest.mark.proves("GO4")
def test_one_batch_of_chunks_is_one_event() -> None:
    story = Story()
    story.begin("hi")
    story.say("x" * 100)
    story.flush()
    before = len(story.said)
    for _ in range(50):
        story.say("y")
    assert kinds(story.flush()) == ["message.part.delta"]
    assert len(story.said) == before + 1


@pytest.mark.proves("GO4")
def test_thoughts_texts_and_tools_keep_their_order() -> None:
    story = Story()
    story.begin("hi")
    story.feed("reasoning", {"message_id": "r1", "text": "hm"})
    story.say("first", "m1")
    story.tool("c1", name="Bash", kind="execute", command="ls", input={"command": "ls"})
    story.feed("tool_update", {"tool_call_id": "c1", "output_delta": "a\n"})
    story.feed("tool_update", {"tool_call_id": "c1", "output_delta": "b\n"})
    story.flush()
    story.feed("tool_update", {"tool_call_id": "c1", "status": "completed", "exit_code": 0})
    story.say("second", "m2")
    story.end()
    thought, first, tool, second = story.shown()
    assert [p["type"] for p in (thought, first, tool, second)] == [
        "reasoning",
        "text",
        "tool",
        "text",
    ]
    assert (thought["text"], first["text"], second["text"]) == ("hm", "first", "second")
    assert tool["tool"] == "bash" and tool["callID"] == "c1"
    assert tool["state"]["status"] == "completed" and tool["state"]["output"] == "a\nb\n"
    assert tool["output"] == "a\nb\n" and tool["input"] == {"command": "ls"}
    assert tool["state"]["metadata"]["exit"] == 0
    assert all("end" in part["time"] for part in (thought, first, second))
    assert story.replayed() == [*story.conversation.messages()]


STATES = [
    ("pending", "pending"),
    ("awaiting_approval", "running"),
    ("running", "running"),
    ("completed", "completed"),
    ("failed", "error"),
    ("cancelled", "error"),
]


@pytest.mark.proves("GO4")
@pytest.mark.parametrize(("ours", "theirs"), STATES)
def test_each_state_of_a_tool_has_its_word(ours: str, theirs: str) -> None:
    story = Story()
    story.begin("hi")
    story.tool(
        status=ours, name="thing", title="Do it", error="broken" if ours == "failed" else None
    )
    story.flush()
    state = story.shown()[0]["state"]
    assert state["status"] == theirs
    needed = {
        "pending": {"input", "raw"},
        "running": {"input", "title", "metadata", "time"},
        "completed": {"input", "output", "title", "metadata", "time"},
        "error": {"input", "error", "metadata", "time"},
    }
    assert needed[theirs] <= {*state}
    if theirs == "error":
        assert state["error"]


NAMES = [
    ("run_shell_command", "execute", "bash"),
    ("Read", "read", "read"),
    ("read_file", "read", "read"),
    ("Edit", "edit", "edit"),
    ("apply_patch", "edit", "apply_patch"),
    ("Write", "edit", "write"),
    ("Grep", "search", "grep"),
    ("mcp__x__y", "mcp", "mcp__x__y"),
    ("", "other", "other"),
]


@pytest.mark.parametrize(("name", "kind", "shown"), NAMES)
def test_tools_that_clients_draw_have_the_names_they_know(name: str, kind: str, shown: str) -> None:
    story = Story()
    story.begin("hi")
    story.tool(name=name, kind=kind, paths=["/srv/w/a"])
    story.flush()
    part = story.shown()[0]
    assert part["tool"] == shown
    if shown in ("read", "edit", "write"):
        assert part["state"]["input"]["filePath"] == "/srv/w/a"


@pytest.mark.proves("GO4")
def test_a_whole_message_replaces_its_chunks_and_a_retracted_one_goes() -> None:
    story = Story()
    story.begin("hi")
    story.say("wrong", "m1")
    story.flush()
    whole = [{"type": "text", "text": "right"}]
    story.feed("message", {"message_id": "m1", "role": "assistant", "content": whole})
    story.say("taken back", "m2")
    story.flush()
    story.feed(
        "message", {"message_id": "m2", "role": "assistant", "content": [], "retracted": True}
    )
    story.feed("reasoning", {"message_id": "r", "text": "half"})
    story.feed("reasoning", {"message_id": "r", "text": "whole", "whole": True})
    story.end()
    assert [part["text"] for part in story.shown()] == ["right", "whole"]
    assert story.replayed() == [*story.conversation.messages()]


@pytest.mark.proves("GO4")
def test_an_image_is_a_file_and_a_prompt_shows_what_it_held() -> None:
    image: Json = {"type": "image", "data": "aGk=", "mime_type": "image/png", "name": "x.png"}
    link: Json = {"type": "resource_link", "uri": "file:///srv/w/a.txt", "name": "a.txt"}
    story = Story()
    story.begin()
    story.feed("message_chunk", {"message_id": "m", "role": "assistant", "content": image})
    story.end()
    (shown,) = story.shown()
    assert (shown["type"], shown["mediaType"], shown["mime"]) == ("file", "image", "image/png")
    assert shown["url"] == "data:image/png;base64,aGk="
    other = Story()
    told = {
        "status": "created",
        "origin": "client",
        "prompt": [{"type": "text", "text": "x"}, image, link],
    }
    other.feed("run_status", told)
    (prompt,) = other.conversation.messages()
    assert [part["type"] for part in prompt["parts"]] == ["text", "file", "file"]
    assert prompt["parts"][2]["url"] == "file:///srv/w/a.txt"


FAILURES: list[tuple[Json, str]] = [
    ({"status": "failed", "error": "no leave"}, "no leave"),
    ({"status": "failed", "content": [{"type": "text", "text": "Not allowed."}]}, "Not allowed."),
    ({"status": "failed", "content": [{"type": "diff", "diff": "@@"}]}, "The tool failed."),
    ({"status": "cancelled"}, "Tool execution aborted"),
    ({"status": "failed", "output_replace": "exit 1"}, "exit 1"),
]


@pytest.mark.parametrize(("told", "words"), FAILURES)
def test_a_tool_that_failed_says_why_and_never_with_its_diff(told: Json, words: str) -> None:
    story = Story()
    story.begin("hi")
    story.tool("c1", kind="edit")
    story.feed("tool_update", {"tool_call_id": "c1", **told})
    story.flush()
    assert story.shown()[0]["state"]["error"] == words
