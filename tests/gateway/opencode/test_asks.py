"""Permission requests and questions over HTTP: how they look, who wins, what an answer does."""

from typing import Any

import pytest

from agentctl.gateway.opencode import asks, words
from tests.gateway.opencode.live import Events, Live

Json = dict[str, Any]


def asked(
    server: Live, events: Events, session: str, prompt: str, kind: str = "permission"
) -> Json:
    server.begin(session, prompt)
    return events.until(f"{kind}.asked", sessionID=session)


@pytest.mark.proves("GO5")
def test_a_permission_request_is_listed_told_and_answered_once(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        request = asked(server, events, session, "run touch once.txt || say done")
        (listed,) = [r for r in server.get("/permission") if r["sessionID"] == session]
        assert listed == request
        assert request["id"].startswith("per_") and request["permission"] == "bash"
        assert request["patterns"] == ["touch once.txt"] == request["always"]
        assert request["metadata"]["input"]["command"] == "touch once.txt"
        assert request["metadata"]["requests"][0]["action"] == "execute"
        messages = server.get(f"/session/{session}/message")
        assert request["tool"]["messageID"] == messages[-1]["info"]["id"]
        assert request["tool"]["callID"] == messages[-1]["parts"][0]["callID"]
        assert not (server.workspace / "once.txt").exists()
        path = f"/permission/{request['id']}/reply"
        assert server.post(path, {"reply": "once"}) is True
        second = server.call("POST", path, {"reply": "once"})
        assert second.status_code == 404 and second.json()["_tag"] == "PermissionNotFoundError"
        replied = events.until("permission.replied", requestID=request["id"])
        assert replied == {"sessionID": session, "requestID": request["id"], "reply": "once"}
        events.idle(session)
    assert (server.workspace / "once.txt").exists()
    assert [r for r in server.get("/permission") if r["sessionID"] == session] == []


@pytest.mark.proves("GO5")
def test_always_is_remembered_for_exactly_this_command(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        request = asked(server, events, session, "run touch again.txt")
        body = {"body": {"reply": "always"}}
        assert server.post(f"/permission/{request['id']}/reply", body) is True
        assert events.until("permission.replied", sessionID=session)["reply"] == "always"
        events.idle(session)
        server.say(session, "run touch again.txt")
        server.begin(session, "run touch other.txt")
        other = events.until("permission.asked", sessionID=session, patterns=["touch other.txt"])
        server.post(f"/permission/{other['id']}/reply", {"reply": "once"})


@pytest.mark.proves("GO5")
def test_a_rejection_with_words_lets_the_agent_go_on(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        request = asked(server, events, session, "run touch never.txt || say went on")
        told = {"reply": "reject", "message": "use another file"}
        assert server.post(f"/permission/{request['id']}/reply", told) is True
        assert events.until("permission.replied", sessionID=session)["reply"] == "reject"
        events.idle(session)
    last = server.get(f"/session/{session}/message")[-1]
    assert last["parts"][-2]["text"] == "went on" and last["info"]["finish"] == "stop"
    assert not (server.workspace / "never.txt").exists()


@pytest.mark.proves("GO5")
def test_a_rejection_without_words_ends_the_turn(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        request = asked(server, events, session, "run touch never.txt || say went on")
        path = f"/session/{session}/permissions/{request['id']}"
        assert server.post(path, {"response": "reject"}) is True
        assert server.call("POST", path, {"response": "once"}).status_code == 404
        seen = events.idle(session)
    kinds = [event["type"] for event in seen]
    assert kinds.index("permission.replied") < kinds.index("session.idle")
    texts = [p.get("text") for p in server.get(f"/session/{session}/message")[-1]["parts"]]
    assert "went on" not in texts and not (server.workspace / "never.txt").exists()


@pytest.mark.proves("GO5")
def test_an_abort_takes_the_open_requests_away(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        request = asked(server, events, session, "run touch never.txt")
        server.post(f"/session/{session}/abort")
        assert events.until("permission.replied", requestID=request["id"])["reply"] == "reject"
    assert (
        server.call("POST", f"/permission/{request['id']}/reply", {"reply": "once"}).status_code
        == 404
    )


@pytest.mark.proves("GO5")
def test_a_question_is_listed_told_and_answered(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        request = asked(server, events, session, "ask Which colour?", "question")
        (listed,) = [q for q in server.get("/question") if q["sessionID"] == session]
        assert listed == request and request["id"].startswith("que_")
        (question,) = request["questions"]
        assert question["custom"] is True and "Which colour?" in question["question"]
        path = f"/question/{request['id']}"
        for wrong in ({"answers": "blue"}, {"answers": [["a"], ["b"]]}, {"answers": [[1]]}):
            answer = server.call("POST", f"{path}/reply", wrong)
            assert (answer.status_code, answer.json()) == (400, {"error": "Invalid question reply"})
        assert server.post(f"{path}/reply", {"answers": [["blue"]]}) is True
        replied = events.until("question.replied", requestID=request["id"])
        assert replied["answers"] == [["blue"]]
        events.idle(session)
        gone = server.call("POST", f"{path}/reply", {"answers": [["red"]]})
        assert gone.status_code == 404 and gone.json()["_tag"] == "QuestionNotFoundError"
    assert "You answered: blue" in server.get(f"/session/{session}/message")[-1]["parts"][0]["text"]


@pytest.mark.proves("GO5")
def test_a_question_can_be_declined(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        request = asked(server, events, session, "ask Which colour?", "question")
        assert server.post(f"/question/{request['id']}/reject") is True
        events.until("question.rejected", requestID=request["id"])
        events.idle(session)
    assert server.call("POST", f"/question/{request['id']}/reject").status_code == 404


@pytest.mark.proves("GO5")
def test_the_rules_that_a_session_is_made_with_answer_its_requests(server: Live) -> None:
    rules = [
        {"permission": "bash", "pattern": "*", "action": "ask"},
        {"permission": "bash", "pattern": "touch *", "action": "allow"},
        {"permission": "question", "pattern": "*", "action": "deny"},
    ]
    session = server.session(permission=rules)
    server.say(session, "run touch ruled.txt")
    assert (server.workspace / "ruled.txt").exists()
    server.call("PATCH", f"/session/{session}", {"permission": [{**rules[1], "action": "deny"}]})
    denied = server.session(permission=[{"permission": "*", "pattern": "*", "action": "deny"}])
    server.say(denied, "run touch denied.txt")
    assert not (server.workspace / "denied.txt").exists()
    for wrong in ("x", [1], [{"permission": "bash", "action": "maybe"}]):
        assert server.call("POST", "/session", {"permission": wrong}).status_code == 400


# What the forms look like

PERMISSIONS = [
    ("readFile", "read", "read"),
    ("writeFile", "edit", "edit"),
    ("applyPatch", "edit", "edit"),
    ("globFiles", "search", "glob"),
    ("grepFiles", "search", "grep"),
    ("executeBash", "execute", "bash"),
    ("webFetch", "fetch", "webfetch"),
    ("myWebSearch", "fetch", "websearch"),
    ("fastsearch", "fetch", "websearch"),
    ("loadSkill", "other", "skill"),
    ("createSubTask", "subagent", "task"),
    ("", "delete", "edit"),
    ("unknown_tool", "other", "unknown_tool"),
    ("", "", "plan"),
]


@pytest.mark.parametrize(("name", "kind", "permission"), PERMISSIONS)
def test_each_tool_asks_for_the_permission_that_clients_know(
    name: str, kind: str, permission: str
) -> None:
    assert words.permission_name(name, kind, "plan") == permission


def test_a_schema_becomes_questions_and_answers_become_its_values() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Name", "description": "Yours"},
            "size": {"type": "string", "enum": ["s", "m"]},
            "sure": {"type": "boolean"},
            "many": {"type": "integer"},
            "ratio": {"type": "number"},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "pick": {"type": "string", "oneOf": [{"const": "x1", "title": "The first"}]},
            "more": {"type": "string"},
        },
    }
    form = asks.form({"question_id": "qst_1", "message": "Tell me.", "schema": schema})
    views = [each.view for each in form.fields]
    assert [view["header"] for view in views][:2] == ["Name", "size"]
    assert views[0]["question"] == "Tell me. Yours" and views[0]["custom"] is True
    assert [o["label"] for o in views[1]["options"]] == ["s", "m"] and not views[1]["custom"]
    assert views[5]["multiple"] is True
    rows = [["Ann"], ["m"], ["Yes"], ["3"], ["0.5"], ["a", "b"], ["The first"], []]
    answers = form.answers(rows)
    assert answers is not None
    assert form.content(answers) == {
        "name": "Ann",
        "size": "m",
        "sure": True,
        "many": 3,
        "ratio": 0.5,
        "tags": ["a", "b"],
        "pick": "x1",
    }
    assert form.content([["x"], ["m"], ["No"], ["many"], ["1"], [], ["y"], ["z"]])["many"] == "many"


def test_options_are_shown_by_name_and_sent_by_id() -> None:
    options = [{"id": "r", "name": "Red", "description": "warm"}, {"id": "b"}]
    form = asks.form(
        {"questions": [{"question": "Which?", "header": "Colour", "options": options}]}
    )
    (field,) = form.fields
    assert field.view["options"][0] == {"label": "Red", "description": "warm"}
    assert field.view["custom"] is False
    assert form.answers([["Red", "b"]]) == [["r", "b"]]


def test_a_page_to_open_is_one_question() -> None:
    form = asks.form({"question_id": "q", "message": "Log in at", "url": "https://example.com"})
    assert form.page and form.fields[0].view["question"] == "Log in at https://example.com"
    assert form.answers([["Done"]]) == [["Done"]]


REPLIES: list[tuple[Json, str]] = [
    ({"decision": "approved", "option_id": "o"}, "once"),
    ({"decision": "approved", "option_id": "a"}, "always"),
    ({"decision": "approved", "rule_id": "rul_1"}, "always"),
    ({"decision": "denied"}, "reject"),
    ({"decision": "cancelled"}, "reject"),
    ({"decision": "expired"}, "reject"),
]


@pytest.mark.parametrize(("resolved", "word"), REPLIES)
def test_what_became_of_a_request_is_one_of_three_words(resolved: Json, word: str) -> None:
    assert asks.replied(resolved, {"o": "allow_once", "a": "allow_always"}) == word
