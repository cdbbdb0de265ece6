"""What a client sees of a session: how runs end, what waits, plans and changes, forks. Without a server."""

import pytest

from agentctl.core.words import EventType
from agentctl.gateway.opencode.conversation import copies
from agentctl.gateway.opencode.message import NO_MODEL, Facts
from tests.gateway.opencode.story import OTHER, RUN, Json, Story, kinds

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
            "path": "/srv/w/a",
            "change": "modify",
            "diff": f"@@ {number}",
            "additions": 2,
            "deletions": 1,
        }
        story.feed("file_change", {**change, "tool_call_id": "c1"})
    story.feed("file_change", {"path": "/srv/w/b", "change": "create", "additions": 1})
    story.end()
    first, second = story.conversation.diffs()
    assert (first["file"], first["additions"], first["deletions"]) == ("/srv/w/a", 4, 2)
    assert first["patch"] == "@@ 1\n@@ 2" and first["status"] == "modified"
    assert (second["file"], second["status"]) == ("/srv/w/b", "added")
    assert story.shown()[0]["state"]["metadata"]["diff"] == "@@ 1\n@@ 2"
    assert next(s.properties["file"] for s in story.said if s.type == "file.edited") == "/srv/w/a"
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
    fork = Facts("ses_01m8q0zzzzzzzzzzzzzzzzzzzz", "demo", "/srv/w")
    rows = copies(story.conversation.messages(), fork, before=1004)
    assert len(rows) == 2 and {row["info"]["sessionID"] for row in rows} == {fork.id}
    assert rows[1]["info"]["parentID"] == rows[0]["info"]["id"]
    assert rows[1]["parts"][0]["messageID"] == rows[1]["info"]["id"]


@pytest.mark.proves("GO4")
def test_what_was_under_way_when_a_session_was_forked_has_ended_in_the_fork() -> None:
    story = Story()
    story.begin("one")
    story.say("first")
    fork = Facts("ses_01m8q0zzzzzzzzzzzzzzzzzzzz", "demo", "/srv/w")
    asked, early = copies(story.conversation.messages(), fork, before=2000)
    story.end()
    _, late = copies(story.conversation.messages(), fork, before=2000)
    assert "completed" not in asked["info"]["time"]
    assert 0 < early["info"]["time"]["completed"] <= 2000
    assert 0 < late["info"]["time"]["completed"] <= 2000


@pytest.mark.proves("GO4")
def test_every_type_of_event_is_taken_and_none_breaks_the_session() -> None:
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


@pytest.mark.proves("GO4")
def test_a_session_whose_queue_is_held_is_at_rest_until_a_client_prompts() -> None:
    story = Story()
    story.begin("one")
    story.feed("run_status", {"status": "created", "origin": "client", "prompt": []}, OTHER)
    assert story.conversation.status == {"type": "busy"}
    story.end("failed", error={"code": "AGENT_EXITED"})
    told = story.feed("session_status", {"status": "updated", "queue_held": True}, "")
    assert kinds(told) == ["session.status", "session.idle", "session.updated"]
    assert story.conversation.status == {"type": "idle"}
    story.feed("session_status", {"status": "updated", "queue_held": False}, "")
    assert "session.status" in kinds(story.feed("run_status", {"status": "started"}, OTHER))
    assert story.conversation.status == {"type": "busy"}


@pytest.mark.proves("GO4")
def test_what_happens_to_a_session_is_told_once() -> None:
    story = Story()
    changes = ["starting", "starting", "created", "compacted", "failed", "closed", "asleep"]
    for each in changes:
        story.feed("session_status", {"status": each, "reason": "why", "queue_held": False}, "")
    told = kinds(story.said)
    assert told.count("session.created") == 1 and told.count("session.compacted") == 1
    (error,) = [each.properties["error"] for each in story.said if each.type == "session.error"]
    assert error["data"]["message"] == "why"
