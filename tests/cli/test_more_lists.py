"""Sessions, questions, rules, the registry and what the daemon serves later: tables and calls."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from tests.cli.conftest import Cli
from tests.cli.fake_daemon import AGENT, RUN, SESSION, FakeDaemon

QUESTION = "qst_01m8pk21d0aaaaaaaaaaaa77ab"


def a_question(**fields: Any) -> v1.QuestionRecord:
    request = v1.QuestionRequest(question_id=QUESTION, **fields)
    return v1.QuestionRecord(question_id=QUESTION, session_id=SESSION, request=request)


@pytest.fixture
def asked(daemon: FakeDaemon) -> FakeDaemon:
    port = v1.Question(
        question="Which port?",
        options=[v1.Choice(id="a", name="Eighty", description="the usual"), v1.Choice(id="b")],
    )
    record = a_question(message="Before I start", questions=[port])
    daemon.answers |= {
        "Questions/List": lambda request: v1.ListQuestionsResponse(questions=[record]),
        "Questions/Answer": lambda request: record,
        "Questions/Reject": lambda request: record,
    }
    return daemon


def test_questions_shows_what_is_asked_and_how_to_answer(
    with_daemon: Cli, asked: FakeDaemon
) -> None:
    text = with_daemon("questions").out
    assert "? Before I start\n  Which port?\n  [1] Eighty · the usual\n  [2] b\n" in text
    assert f"agentctl answer {QUESTION}" in text
    assert json.loads(with_daemon("questions", "--json").out)["question_id"] == QUESTION


@pytest.mark.parametrize(
    ("text", "value"), [("2", "b"), ("eighty", "a"), ("b", "b"), ("8080", "8080")]
)
def test_an_answer_names_an_option_or_says_its_own(
    with_daemon: Cli, asked: FakeDaemon, text: str, value: str
) -> None:
    assert with_daemon("answer", "77ab", text).out == "answered\n"
    sent = asked.called("Questions/Answer")[0]
    assert sent == v1.AnswerQuestionRequest(
        question_id=QUESTION, answers=[v1.Answer(values=[value])]
    )


def test_an_answer_to_a_schema_is_json(with_daemon: Cli, asked: FakeDaemon) -> None:
    schema = b'{"type":"object","properties":{"port":{"type":"string"}},"required":["port"]}'
    record = a_question(schema_json=schema)
    page = v1.ListQuestionsResponse(questions=[record])
    asked.answers["Questions/List"] = lambda request: page
    assert with_daemon("answer", "77ab", "8080").code == 0
    assert with_daemon("answer", "77ab", "--content", '{"port": 1}').code == 0
    first, second = asked.called("Questions/Answer")
    assert json.loads(first.content_json) == {"port": "8080"}
    assert json.loads(second.content_json) == {"port": 1}


def test_a_question_can_be_declined_with_a_reason(with_daemon: Cli, asked: FakeDaemon) -> None:
    assert with_daemon("reject", "77ab", "--reason", "later").out == "declined\n"
    assert asked.called("Questions/Reject")[0].reason == "later"


def test_nothing_to_answer_is_said_in_words(with_daemon: Cli, daemon: FakeDaemon) -> None:
    daemon.answers |= {
        "Questions/List": lambda request: v1.ListQuestionsResponse(),
        "Approvals/List": lambda request: v1.ListApprovalsResponse(),
        "Sessions/List": lambda request: v1.ListSessionsResponse(),
        "Runs/List": lambda request: v1.ListRunsResponse(),
        "Agents/List": lambda request: v1.ListAgentsResponse(),
        "Models/List": lambda request: v1.ListModelsResponse(),
        "Artifacts/List": lambda request: v1.ListArtifactsResponse(),
        "Approvals/ListRules": lambda request: v1.ListRulesResponse(),
    }
    for words in (
        ("questions",),
        ("approvals",),
        ("session", "ls"),
        ("runs", "ls"),
        ("ps",),
        ("models",),
        ("artifacts",),
        ("rules", SESSION),
    ):
        done = with_daemon(*words)
        assert (done.code, done.err) == (0, "") and done.out.count("\n") == 1


def test_rules_are_listed_and_deleted(with_daemon: Cli, daemon: FakeDaemon) -> None:
    rule = v1.Rule(
        rule_id="rul_01m8pk21d0aaaaaaaaaaaa55cc",
        kind=v1.ToolKind.TOOL_KIND_EXECUTE,
        command="pytest -q",
        decision=v1.Policy.POLICY_ALLOW,
    )
    daemon.answers |= {
        "Approvals/ListRules": lambda request: v1.ListRulesResponse(
            rules=[rule] if request.session_id else []
        ),
        "Approvals/DeleteRule": lambda request: v1.DeleteRuleResponse(),
    }
    _, row = with_daemon("rules", SESSION, "--delete", "55cc").out.splitlines()
    assert row.split() == [rule.rule_id, "allow", "execute", SESSION, "-", "pytest", "-q"]
    (deleted,) = daemon.called("Approvals/DeleteRule")
    assert (deleted.session_id, deleted.rule_id) == (SESSION, rule.rule_id)


def test_sessions_are_listed_over_all_pages(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def page(request: v1.ListSessionsRequest) -> v1.ListSessionsResponse:
        number = 2 if request.page_token else 1
        one = v1.Session(session_id=f"ses_{number}", entry_id="demo", title=f"title {number}")
        token = "" if request.page_token else "more"
        return v1.ListSessionsResponse(sessions=[one], next_page_token=token)

    daemon.answers["Sessions/List"] = page
    told = [json.loads(line) for line in with_daemon("session", "ls", "--json").out.splitlines()]
    assert [row["session_id"] for row in told] == ["ses_1", "ses_2"]
    assert "title 2" in with_daemon("session", "ls", "--all").out
    assert [each.open_only for each in daemon.called("Sessions/List")] == [True, True, False, False]


def test_a_session_is_shown_resumed_forked_closed_and_deleted(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    session = v1.Session(session_id=SESSION, entry_id="demo", created_at=1_764_500_000_000)
    daemon.answers |= {
        "Sessions/Resume": lambda request: session,
        "Sessions/Fork": lambda request: session,
        "Sessions/Delete": lambda request: v1.DeleteSessionResponse(),
    }
    name = SESSION[-5:]
    assert SESSION in with_daemon("session", "show", name).out
    assert json.loads(with_daemon("session", "resume", name, "--json").out)["entry_id"] == "demo"
    assert with_daemon("session", "resume", name, "--fork").code == 0
    assert with_daemon("session", "fork", name, "--name", "copy").code == 0
    assert with_daemon("session", "close", name, "--reason", "done").out == f"closed {SESSION}\n"
    assert with_daemon("session", "delete", name, "--native").out == f"deleted {SESSION}\n"
    assert daemon.called("Sessions/Resume")[0].session_id == SESSION
    assert [each.name for each in daemon.called("Sessions/Fork")] == ["", "copy"]
    assert daemon.called("Sessions/Close")[0].reason == "done"
    assert daemon.called("Sessions/Delete")[0].native


def test_a_conversation_is_read_and_written_out(with_daemon: Cli, daemon: FakeDaemon) -> None:
    message = v1.Message(
        message_id="m", role=v1.Role.ROLE_USER, content=[v1.ContentBlock(text="hello")]
    )
    event = v1.AgentEvent(type=v1.EventType.EVENT_TYPE_MESSAGE, version=1, message=message)
    daemon.answers |= {
        "Sessions/Messages": lambda request: v1.MessagesResponse(events=[event]),
        "Sessions/Export": lambda request: v1.ExportChunk(data=b"# hello\n"),
    }
    assert with_daemon("session", "messages", SESSION).out == "user\nhello\n\n"
    assert with_daemon("session", "export", SESSION, "--markdown").out == "# hello\n"
    sent = daemon.called("Sessions/Export")[0]
    assert sent.format == v1.ExportFormat.EXPORT_FORMAT_MARKDOWN


def test_the_registry_is_listed_shown_and_searched(with_daemon: Cli, daemon: FakeDaemon) -> None:
    entry = v1.Entry(
        entry_id="demo",
        enabled=True,
        protocol="acp",
        source="user",
        description="A demo",
        entry_json=b'{"id":"demo","cmd":["x"]}',
    )
    found = v1.Discovered(entry_id="demo", installed=True, binary="/bin/demo", authenticated=False)
    daemon.answers |= {
        "Registry/List": lambda request: v1.ListEntriesResponse(entries=[entry]),
        "Registry/Get": lambda request: entry,
        "Registry/Enable": lambda request: entry,
        "Registry/Put": lambda request: entry,
        "Registry/Delete": lambda request: v1.DeleteEntryResponse(entry=entry),
        "Registry/Discover": lambda request: v1.DiscoverResponse(agents=[found]),
        "Registry/Validate": lambda request: v1.ValidateResponse(valid=True),
    }
    assert "demo   on  acp       user  –      A demo" in with_daemon("registry", "ls").out  # noqa: RUF001  the sign that is shown
    assert json.loads(with_daemon("registry", "show", "demo").out) == {"id": "demo", "cmd": ["x"]}
    assert "not logged in  /bin/demo" in with_daemon("registry", "discover", "demo").out
    assert with_daemon("registry", "validate").out == "nothing is wrong\n"
    assert with_daemon("registry", "disable", "demo").out == "disabled demo\n"
    assert "as the user file has it" in with_daemon("registry", "rm", "demo").out
    assert not daemon.called("Registry/Enable")[0].enabled
    assert list(daemon.called("Registry/Discover")[0].entry_ids) == ["demo"]


def test_an_entry_is_added_from_a_file(
    with_daemon: Cli, daemon: FakeDaemon, quiet_home: Path
) -> None:
    daemon.answers["Registry/Put"] = lambda request: v1.Entry(entry_id="mine")
    file = quiet_home / "mine.json"
    file.write_text('{"id": "mine", "cmd": ["x"]}')
    assert with_daemon("registry", "add", str(file)).out == "added mine\n"
    sent = daemon.called("Registry/Put")[0]
    assert sent.create_only and json.loads(sent.entry_json)["cmd"] == ["x"]


def test_models_and_statistics_are_tables(with_daemon: Cli, daemon: FakeDaemon) -> None:
    model = v1.ModelOffer(entry_id="demo", model=v1.Model(id="m1"), is_default=True)
    stats = v1.GetStatsResponse(entries=[v1.EntryStats(entry_id="demo", runs=3)])
    daemon.answers |= {
        "Models/List": lambda request: v1.ListModelsResponse(models=[model]),
        "Stats/Get": lambda request: stats,
    }
    assert "demo   m1     default" in with_daemon("models", "demo").out
    assert "demo" in with_daemon("stats", "--entry", "demo").out


def test_auth_lists_logins_and_uses_one(with_daemon: Cli, daemon: FakeDaemon) -> None:
    login = v1.Choice(id="oauth", name="In the browser")
    daemon.answers |= {
        "Agents/AuthMethods": lambda request: v1.AuthMethodsResponse(methods=[login]),
        "Agents/Authenticate": lambda request: v1.AuthenticateResponse(),
    }
    assert "agentctl auth demo oauth" in with_daemon("auth", "demo").out
    assert with_daemon("auth", "demo", "oauth").out == "demo is logged in (oauth)\n"
    assert daemon.called("Agents/Authenticate")[0].method == "oauth"


def test_cancel_takes_a_run_or_a_session(with_daemon: Cli, daemon: FakeDaemon) -> None:
    run = v1.Run(run_id=RUN, session_id=SESSION)
    daemon.answers |= {
        "Runs/Cancel": lambda request: v1.CancelRunResponse(run=run),
        "Runs/List": lambda request: v1.ListRunsResponse(runs=[run]),
    }
    assert with_daemon("cancel", RUN[-5:], "--drop-queue").out == f"cancelling {RUN}\n"
    assert with_daemon("cancel", SESSION, "--force").code == 0
    first, second = daemon.called("Runs/Cancel")
    assert (first.run_id, first.drop_queue) == (RUN, True)
    assert (second.session_id, second.run_id, second.force) == (SESSION, "", True)


def test_an_agent_that_runs_already_may_be_named_by_the_end_of_its_id(
    with_daemon: Cli, daemon: FakeDaemon
) -> None:
    agents = v1.ListAgentsResponse(agents=[v1.Agent(agent_id=AGENT)])
    daemon.answers["Agents/List"] = lambda request: agents
    daemon.play(lambda fake: fake.end())
    assert with_daemon("run", f"agt_{AGENT[-4:]}", "x").code == 0
    assert daemon.called("Sessions/Create")[0].agent == AGENT
