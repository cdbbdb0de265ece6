"""What a client sees of a run: event by event, without a server."""

from collections.abc import Sequence
from typing import Any

import pytest

from agentctl.gateway.opencode import ids
from agentctl.gateway.opencode.conversation import Conversation, copies
from agentctl.gateway.opencode.message import NO_MODEL, Facts, Said

Json = dict[str, Any]
RUN = "run_01m8q02dwdcwbyahs6rwfmv5dw"
OTHER = "run_01m8q02dwzzzzzzzzzzzzzzzzz"
SESSION = "ses_01m8q02djjmk8g33dmybpy8nm8"


class Story:
    """A conversation that is fed, and what it said."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        facts = Facts(SESSION, "demo", "/work")
        self.conversation = Conversation(facts, names or {})
        self.seq = 0
        self.said: list[Said] = []

    def feed(self, kind: str, data: Json, run: str = RUN, **more: Any) -> list[Said]:
        self.seq += 1
        event: Json = {"type": kind, "seq": self.seq, "ts": 1000 + self.seq, "data": data, **more}
        if run:
            event["run_id"] = run
        told = self.conversation.feed(event)
        self.said += told
        return told

    def flush(self) -> list[Said]:
        told = self.conversation.flush()
        self.said += told
        return told

    def begin(self, *texts: str, run: str = RUN, **more: Any) -> None:
        prompt = [{"type": "text", "text": text} for text in texts]
        self.feed(
            "run_status", {"status": "created", "origin": "client", "prompt": prompt, **more}, run
        )
        self.feed("run_status", {"status": "started"}, run)

    def end(self, outcome: str = "completed", run: str = RUN, **more: Any) -> list[Said]:
        return self.feed("complete", {"outcome": outcome, **more}, run)

    def say(self, text: str, own: str = "m1", run: str = RUN) -> list[Said]:
        return self.feed(
            "message_chunk", {"message_id": own, "role": "assistant", "text": text}, run
        )

    def tool(self, call: str = "c1", **fields: Any) -> list[Said]:
        return self.feed("tool_call", {"tool_call_id": call, "status": "running", **fields})

    def shown(self) -> list[Json]:
        """All parts of the answers, as a client has them now."""
        rows = [*self.conversation.messages()]
        return [part for row in rows if row["info"]["role"] == "assistant" for part in row["parts"]]

    def replayed(self) -> list[Json]:
        """The same, put together from what was said live, as a client does."""
        messages: dict[str, Json] = {}
        parts: dict[str, dict[str, Json]] = {}
        for said in self.said:
            told = said.properties
            match said.type:
                case "message.updated":
                    messages[told["info"]["id"]] = told["info"]
                case "message.part.updated":
                    own = parts.setdefault(told["part"]["messageID"], {})
                    own[told["part"]["id"]] = dict(told["part"])
                case "message.part.delta":
                    part = parts[told["messageID"]][told["partID"]]
                    part[told["field"]] += told["delta"]
                case "message.part.removed":
                    del parts[told["messageID"]][told["partID"]]
                case _:
                    pass
        return [
            {"info": messages[own], "parts": [parts[own][p] for p in sorted(parts.get(own, {}))]}
            for own in sorted(messages)
        ]


def kinds(said: Sequence[Said]) -> list[str]:
    return [each.type for each in said]


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
    story.tool(name=name, kind=kind, paths=["/work/a"])
    story.flush()
    part = story.shown()[0]
    assert part["tool"] == shown
    if shown in ("read", "edit", "write"):
        assert part["state"]["input"]["filePath"] == "/work/a"


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
    link: Json = {"type": "resource_link", "uri": "file:///work/a.txt", "name": "a.txt"}
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
    assert prompt["parts"][2]["url"] == "file:///work/a.txt"


ENDS: list[tuple[str, Json, str]] = [
    ("cancelled", {}, "MessageAbortedError"),
    ("timed_out", {}, "UnknownError"),
    ("failed", {"code": "AUTH_REQUIRED", "message": "Log in."}, "ProviderAuthError"),
    ("failed", {"code": "RATE_LIMITED", "message": "Slow.", "recoverable": True}, "APIError"),
    ("failed", {"code": "MODEL_ERROR", "message": "Bad."}, "APIError"),
    ("failed", {"code": "AGENT_EXITED", "message": "Gone."}, "UnknownError"),
    ("failed", {}, "UnknownError"),
]


@pytest.mark.proves("GO4")
@pytest.mark.parametrize(("outcome", "error", "name"), ENDS)
def test_a_run_that_did_not_complete_says_why(outcome: str, error: Json, name: str) -> None:
    story = Story()
    story.begin("hi")
    said = story.end(outcome, error=error)
    assert kinds(said)[-4:] == [
        "message.updated",
        "session.updated",
        "session.status",
        "session.idle",
    ]
    (told,) = (each.properties["error"] for each in said if each.type == "session.error")
    answer = [*story.conversation.messages()][1]["info"]
    assert answer["error"] == told and told["name"] == name and told["data"]["message"]
    assert answer["time"]["completed"] and "finish" not in answer


@pytest.mark.proves("GO4")
def test_queued_prompts_are_busy_until_the_last_has_ended() -> None:
    story = Story()
    story.begin("one")
    story.feed("run_status", {"status": "created", "origin": "client", "prompt": []}, OTHER)
    story.feed("run_status", {"status": "queued", "position": 1}, OTHER)
    assert "session.idle" not in kinds(story.end())
    assert story.conversation.status == {"type": "busy"}
    story.feed("run_status", {"status": "started"}, OTHER)
    assert "session.idle" in kinds(story.end(run=OTHER))
    assert story.conversation.status == {"type": "idle"}
    busy = [
        s
        for s in story.said
        if s.type == "session.status" and s.properties["status"]["type"] == "busy"
    ]
    assert len(busy) == 1


@pytest.mark.proves("GO4")
def test_a_turn_of_the_agents_own_has_a_message_that_is_not_the_users() -> None:
    story = Story()
    story.feed("run_status", {"status": "created", "origin": "agent"})
    story.feed("run_status", {"status": "started"})
    story.say("done in the background")
    story.end()
    user, answer = story.conversation.messages()
    assert user["parts"][0]["synthetic"] is True
    assert answer["parts"][0]["text"] == "done in the background"


@pytest.mark.proves("GO4")
def test_words_into_a_running_turn_part_its_answer() -> None:
    story = Story()
    story.begin("go")
    story.say("going", "m1")
    steered: Json = {
        "message_id": "u",
        "role": "user",
        "content": [{"type": "text", "text": "left"}],
    }
    story.feed("message", steered)
    story.say("left then", "m2")
    story.end()
    roles = [row["info"]["role"] for row in story.conversation.messages()]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert all(
        row["info"]["time"].get("completed")
        for row in story.conversation.messages()
        if row["info"]["role"] == "assistant"
    )
    assert story.replayed() == [*story.conversation.messages()]


@pytest.mark.proves("GO4")
def test_what_comes_late_joins_the_message_that_it_belonged_to() -> None:
    story = Story()
    story.begin("go")
    story.tool("c1", kind="execute", background=True)
    story.end()
    late: Json = {"tool_call_id": "c1", "status": "completed", "output_delta": "late"}
    story.feed("tool_update", late, "", after_run_id=RUN)
    story.feed(
        "message_chunk",
        {"message_id": "m", "role": "assistant", "text": "and"},
        "",
        after_run_id=RUN,
    )
    story.flush()
    tool, text = story.shown()
    assert tool["state"]["output"] == "late" and text["text"] == "and"
    assert story.conversation.status == {"type": "idle"}
    assert story.replayed() == [*story.conversation.messages()]


@pytest.mark.proves("GO4")
def test_a_subagents_tools_are_shown_and_its_words_are_not() -> None:
    story = Story()
    story.begin("go")
    story.feed("message_chunk", {"message_id": "s", "text": "inner"}, parent_tool_call_id="task")
    story.feed(
        "tool_call",
        {"tool_call_id": "c", "name": "grep", "status": "running"},
        parent_tool_call_id="task",
    )
    story.end()
    (tool,) = story.shown()
    assert tool["state"]["metadata"]["parentCallID"] == "task"


@pytest.mark.proves("GO4")
def test_plans_are_todos_and_changes_are_diffs() -> None:
    story = Story()
    story.begin("go")
    entries = [{"content": "look", "status": "in_progress", "priority": "high"}, {"content": "act"}]
    (todo,) = story.feed("plan", {"entries": entries})
    assert [t["status"] for t in todo.properties["todos"]] == ["in_progress", "pending"]
    story.tool("c1", kind="edit")
    for number in (1, 2):
        change = {
            "path": "/work/a",
            "change": "modify",
            "diff": f"@@ {number}",
            "additions": 2,
            "deletions": 1,
        }
        story.feed("file_change", {**change, "tool_call_id": "c1"})
    story.feed("file_change", {"path": "/work/b", "change": "create", "additions": 1})
    story.end()
    first, second = story.conversation.diffs()
    assert (first["file"], first["additions"], first["deletions"]) == ("/work/a", 4, 2)
    assert first["patch"] == "@@ 1\n@@ 2" and first["status"] == "modified"
    assert (second["file"], second["status"]) == ("/work/b", "added")
    assert story.shown()[0]["state"]["metadata"]["diff"] == "@@ 1\n@@ 2"
    assert next(s.properties["file"] for s in story.said if s.type == "file.edited") == "/work/a"
    assert len([s for s in story.said if s.type == "session.diff"][-1].properties["diff"]) == 2
    user = next(story.conversation.messages())["info"]
    assert len(user["summary"]["diffs"]) == 2


@pytest.mark.proves("GO4")
def test_a_limit_is_a_retry_until_the_agent_goes_on() -> None:
    story = Story()
    story.begin("go")
    (said,) = story.feed("rate_limit", {"message": "slow down", "attempt": 2, "next_try_at": 5000})
    assert said.properties["status"] == {
        "type": "retry",
        "attempt": 2,
        "message": "slow down",
        "next": 5000,
    }
    story.say("on")
    assert story.conversation.status == {"type": "busy"}


@pytest.mark.proves("GO4")
def test_the_context_that_is_shown_is_what_the_agent_said() -> None:
    story = Story()
    story.begin("go")
    story.feed("context_window", {"used": 1000, "size": 9000, "usage": {"input": 5, "output": 10}})
    story.end(usage={"input": 50, "output": 20})
    answer = [*story.conversation.messages()][1]
    told = answer["info"]["tokens"]
    assert told["input"] + told["output"] == 1000
    assert answer["parts"][-1]["tokens"]["input"] == 50


@pytest.mark.proves("GO4")
def test_a_notice_is_shown_and_ends_nothing() -> None:
    story = Story()
    story.begin("go")
    (said,) = story.feed(
        "error", {"code": "STALLED", "message": "Nothing came.", "recoverable": True}
    )
    assert said.type == "tui.toast.show" and said.properties["message"] == "Nothing came."
    assert story.feed("error", {"code": "X", "message": "Bad.", "recoverable": False}) == []


@pytest.mark.proves("GO4")
def test_events_that_were_had_already_are_passed_over() -> None:
    story = Story()
    story.begin("go")
    story.say("once")
    again = {"type": "message_chunk", "seq": 3, "ts": 1, "run_id": RUN}
    story.conversation.feed({**again, "data": {"message_id": "m1", "text": "twice"}})
    story.end()
    assert story.shown()[0]["text"] == "once"


@pytest.mark.proves("GO4")
def test_the_model_that_was_asked_for_is_the_users_and_the_one_in_force_the_agents() -> None:
    story = Story()
    story.feed("session_options", {"model": "demo-fast", "mode": "ask"}, "")
    story.begin("go")
    story.end()
    user, answer = (row["info"] for row in story.conversation.messages())
    assert user["model"] == {"providerID": "demo", "modelID": NO_MODEL}
    assert (answer["modelID"], answer["providerID"], answer["mode"]) == ("demo-fast", "demo", "ask")


@pytest.mark.proves("GO4")
def test_a_fork_has_copies_of_what_was_before_it() -> None:
    story = Story()
    story.begin("one")
    story.say("first")
    story.end()
    story.begin("two", run=OTHER)
    story.end(run=OTHER)
    fork = Facts("ses_01m8q0zzzzzzzzzzzzzzzzzzzz", "demo", "/work")
    rows = copies(story.conversation.messages(), fork, before=1004)
    assert len(rows) == 2 and {row["info"]["sessionID"] for row in rows} == {fork.id}
    assert rows[1]["info"]["parentID"] == rows[0]["info"]["id"]
    assert rows[1]["parts"][0]["messageID"] == rows[1]["info"]["id"]


@pytest.mark.proves("GO4")
def test_every_type_of_event_is_taken_and_none_breaks_the_session() -> None:
    from agentctl.core.words import EventType

    story = Story()
    story.begin("go")
    known = {
        "tool_call": {"tool_call_id": "c"},
        "tool_update": {"tool_call_id": "c"},
        "message_chunk": {"message_id": "m"},
        "message": {"message_id": "m"},
        "reasoning": {"message_id": "r"},
        "permission_request": {"approval_id": "apr_1"},
        "permission_resolved": {"approval_id": "apr_1", "decision": "approved"},
        "question_request": {"question_id": "qst_1"},
        "question_resolved": {"question_id": "qst_1", "outcome": "answered"},
        "complete": {"outcome": "completed"},
        "artifact": {"artifact_id": "art_1", "kind": "patch"},
    }
    for kind in EventType:
        if kind != "complete":
            story.feed(str(kind), known.get(str(kind), {}))
    story.feed("invented_later", {"what": "ever"})
    story.end()
    story.flush()
    assert story.conversation.status == {"type": "idle"}
    assert story.conversation.turns[RUN].patches == ["art_1"]
