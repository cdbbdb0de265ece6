"""Where runs of OpenCode begin and end: idles, errors, aborts, queues, refusals."""

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import Complete, Error, RateLimit, RunStatus, SessionStatus
from agentctl.core.words import Origin, Outcome, RunChange, SessionChange
from tests.adapters.opencode.scripted import S, Scripted, shown
from tests.replaying import one, payloads

ABORTED = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
BAD = {"name": "APIError", "data": {"message": "no", "statusCode": 500, "isRetryable": False}}


@pytest.mark.proves("T1")
def test_a_run_ends_at_the_first_idle_after_its_own_message_was_seen() -> None:
    server = Scripted()
    server.session()
    server.prompt()
    server.idle()
    assert server.completes() == []
    server.user()
    server.status("busy")
    server.open()
    server.part("prt_1", "text", text="done", time={"end": 1})
    server.done(tokens={"input": 3, "output": 2, "reasoning": 0, "cache": {}, "total": 5}, cost=0.5)
    server.idle()
    (end,) = server.completes()
    assert (end.outcome, end.stop_reason, end.cost_usd) == (Outcome.COMPLETED, "stop", 0.5)
    assert end.usage is not None
    assert end.usage.total == 5


@pytest.mark.proves("T1", "T6")
def test_an_abort_waits_for_the_second_idle_so_that_tools_end_as_the_server_says() -> None:
    server = Scripted()
    server.begin()
    server.tool("c1", "running", input={"command": "sleep 9"}, metadata={"output": "begin\n"})
    server.request("POST", f"/session/{S}/abort")
    server.say("session.error", sessionID=S, error=ABORTED)
    server.idle()
    assert server.completes() == []
    server.tool("c1", "error", input={}, error="Tool execution aborted")
    server.done(error=ABORTED, finish="")
    server.idle()
    (end,) = server.completes()
    assert end.outcome is Outcome.CANCELLED
    assert payloads(server.events, Error) == []


@pytest.mark.proves("T1")
def test_without_a_second_idle_a_deadline_ends_the_run() -> None:
    server = Scripted()
    server.begin()
    server.say("session.error", sessionID=S, error=BAD)
    server.idle()
    server.fire("hold")
    assert [c.outcome for c in server.completes()] == [Outcome.FAILED]
    assert server.idle() == []


@pytest.mark.proves("T1")
def test_an_error_is_no_end_when_the_turn_goes_on_after_compaction() -> None:
    server = Scripted()
    server.begin()
    overflow = {"name": "ContextOverflowError", "data": {"message": "too long"}}
    server.say("session.error", sessionID=S, error=overflow)
    server.done(finish="")
    server.user("msg_c")
    server.part("prt_c", "compaction", "msg_c", auto=True)
    server.open("msg_s", "msg_c", summary=True)
    server.part("prt_s", "text", "msg_s", text="summary", time={"end": 1})
    server.done("msg_s", "msg_c", summary=True)
    server.say("session.compacted", sessionID=S)
    server.idle()
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]
    assert one(server.events, SessionStatus).status is SessionChange.COMPACTED
    assert payloads(server.events, Error)[0].code == "MODEL_ERROR"


@pytest.mark.proves("T9")
def test_a_wrong_key_fails_the_run_as_auth_required() -> None:
    server = Scripted()
    server.begin()
    error = {"name": "APIError", "data": {"message": "no", "statusCode": 401}}
    server.say("session.error", sessionID=S, error=error)
    server.done(error=error, finish="")
    server.idle()
    end = one(server.events, Complete)
    assert (end.outcome, end.error.code) == (Outcome.FAILED, "AUTH_REQUIRED")


@pytest.mark.proves("T9")
def test_a_retry_says_which_attempt_it_is_and_when_the_next_one_comes() -> None:
    server = Scripted()
    server.begin()
    told = {"type": "retry", "attempt": 2, "message": "slow down", "next": 1234}
    server.say("session.status", sessionID=S, status=told)
    server.say("session.status", sessionID=S, status=told)
    limit = one(server.events, RateLimit)
    assert (limit.message, limit.attempt, limit.next_try_at) == ("slow down", 2, 1234)


@pytest.mark.proves("T1")
def test_a_sync_answer_waits_for_its_idle_or_for_a_deadline() -> None:
    server = Scripted()
    server.session()
    request = server.prompt(route="message", message="")
    server.answer(request, {"info": {"id": "msg_a", "role": "assistant", "parentID": "msg_u"}})
    assert server.completes() == []
    server.fire("settle")
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]


def test_an_answered_prompt_ends_at_the_next_one_although_its_idle_is_late() -> None:
    server = Scripted()
    server.session()
    info = {"id": "msg_a", "role": "assistant", "parentID": "msg_u", "finish": "stop"}
    server.answer(server.prompt(route="message", message=""), {"info": info})
    server.prompt("next", message="msg_v")
    assert len(server.completes()) == 1
    server.idle()
    assert len(server.completes()) == 1
    server.user("msg_v")
    server.idle()
    assert len(server.completes()) == 2


@pytest.mark.proves("T1")
@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, {"error": "No message content"}, "INVALID_PARAMETERS"),
        (401, {"error": "Unauthorized"}, "AUTH_REQUIRED"),
        (404, {"name": "NotFoundError", "data": {"message": "no"}}, "INVALID_PARAMETERS"),
        (500, {"name": "UnknownError", "data": {"message": "oops"}}, "AGENT_FAILED"),
        (0, "ConnectError", "AGENT_FAILED"),
    ],
)
def test_a_refused_prompt_is_a_run_that_failed_at_the_answer(
    status: int, body: object, code: str
) -> None:
    server = Scripted()
    server.session()
    request = server.request("POST", f"/session/{S}/message", {"parts": []})
    server.answer(request, body, status=status)
    (end,) = server.completes()
    assert end.outcome is Outcome.FAILED
    assert end.error is not None
    assert end.error.code == code


def test_a_web_page_instead_of_an_answer_is_a_refusal() -> None:
    server = Scripted()
    server.session()
    request = server.request("POST", f"/session/{S}/message", {"parts": []})
    server.answer(request, "<!doctype html>", ctype="text/html")
    assert [c.outcome for c in server.completes()] == [Outcome.FAILED]


def test_an_unknown_agent_is_told_by_errors_alone_and_fails_the_run() -> None:
    server = Scripted()
    server.session()
    server.prompt()
    error = {"name": "UnknownError", "data": {"message": 'Agent not found: "nope"'}}
    trace = {"name": "UnknownError", "data": {"message": "UnknownError: UnknownError\n    at x"}}
    for told in (error, error, trace):
        server.say("session.error", sessionID=S, error=told)
    assert len(payloads(server.events, Error)) == 1
    server.fire("refused")
    end = one(server.events, Complete)
    assert "Agent not found" in end.error.message


@pytest.mark.proves("M4")
def test_a_message_without_reply_opens_nothing() -> None:
    server = Scripted()
    server.session()
    body = {"noReply": True, "parts": [{"type": "text", "text": "context"}]}
    request = server.request("POST", f"/session/{S}/message", body)
    server.user("msg_c")
    server.part("prt_c", "text", "msg_c", text="context")
    server.answer(request, {"info": {"id": "msg_c", "role": "user"}})
    assert payloads(server.events, RunStatus) == []
    server.prompt(message="")
    server.user("msg_u")
    server.open()
    server.done()
    server.idle()
    assert len(server.completes()) == 1


@pytest.mark.parametrize(
    ("route", "body", "prompt"),
    [
        ("command", {"command": "hello", "arguments": "a b"}, "/hello a b"),
        ("shell", {"agent": "build", "command": "ls"}, "!ls"),
        ("summarize", {"providerID": "p", "modelID": "m"}, "/compact"),
        ("init", {"messageID": "msg_u"}, "/init"),
    ],
)
def test_commands_shell_and_compaction_are_runs(
    route: str, body: dict[str, str], prompt: str
) -> None:
    server = Scripted()
    server.session()
    request = server.request("POST", f"/session/{S}/{route}", body)
    server.user()
    server.open()
    server.answer(request, True)
    server.done()
    server.idle()
    created = payloads(server.events, RunStatus)[0]
    assert [block.text for block in created.prompt] == [prompt]
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]


@pytest.mark.proves("T8")
def test_prompts_that_the_server_took_into_one_turn_end_together() -> None:
    server = Scripted()
    server.begin()
    server.prompt("and this", message="msg_v")
    server.user("msg_v")
    server.part("prt_1", "text", text="first ")
    server.done(finish="tool-calls")
    server.open("msg_b", "msg_v")
    server.part("prt_2", "text", "msg_b", text="second")
    server.done("msg_b", "msg_v")
    server.idle()
    first, second = server.completes()
    assert (first.folded_into, second.folded_into) == (None, "run_1")
    assert {e.run_id for e in server.events if e.type == "message_chunk"} == {"run_1"}
    assert shown(server.events) == "first second"


def test_a_prompt_that_came_as_the_turn_ended_gets_a_turn_of_its_own() -> None:
    server = Scripted()
    server.begin()
    server.prompt("late", message="msg_v")
    server.user("msg_v")
    server.done()
    server.idle()
    assert len(server.completes()) == 1
    server.status("busy")
    server.open("msg_b", "msg_v")
    server.part("prt_2", "text", "msg_b", text="mine")
    server.done("msg_b", "msg_v")
    server.idle()
    assert [c.folded_into for c in server.completes()] == [None, None]
    assert [e.run_id for e in server.events if e.type == "message_chunk"] == ["run_2"]


@pytest.mark.proves("T6")
def test_the_idle_of_an_aborted_turn_does_not_end_the_prompt_right_behind_it() -> None:
    server = Scripted()
    server.begin()
    server.request("POST", f"/session/{S}/abort")
    server.prompt("again", message="msg_v")
    server.say("session.error", sessionID=S, error=ABORTED)
    server.idle()
    server.done(error=ABORTED, finish="")
    server.idle()
    assert [c.outcome for c in server.completes()] == [Outcome.CANCELLED]
    server.user("msg_v")
    server.open("msg_b", "msg_v")
    server.done("msg_b", "msg_v")
    server.idle()
    assert [c.outcome for c in server.completes()] == [Outcome.CANCELLED, Outcome.COMPLETED]


@pytest.mark.proves("T3")
def test_a_prompt_of_another_client_is_a_run_that_the_agent_began() -> None:
    server = Scripted()
    server.session()
    server.user("msg_x")
    server.part("prt_x", "text", "msg_x", text="from elsewhere")
    server.status("busy")
    server.open("msg_a", "msg_x")
    server.part("prt_1", "text", text="ok")
    server.done("msg_a", "msg_x")
    server.idle()
    created = payloads(server.events, RunStatus)[0]
    assert (created.status, created.origin) == (RunChange.CREATED, Origin.AGENT)
    assert [block.text for block in created.prompt] == ["from elsewhere"]
    assert len(server.completes()) == 1


@pytest.mark.proves("T2")
def test_what_comes_after_the_end_is_late_and_opens_no_run() -> None:
    server = Scripted()
    server.begin()
    server.part("prt_1", "text", text="a")
    server.done()
    server.idle()
    (event,) = server.part("prt_1", "text", text="a b", time={"end": 1})
    assert (event.run_id, event.after_run_id) == (None, "run_1")
    server.status("busy")
    server.user(summary={"diffs": []})
    server.idle()
    assert len(payloads(server.events, RunStatus)) == 2


@pytest.mark.proves("T5")
def test_a_dead_server_fails_what_ran_and_completes_what_only_waited_for_its_idle() -> None:
    server = Scripted()
    server.begin()
    server.session("ses_2")
    request = server.prompt(message="", session="ses_2", route="message")
    server.answer(request, {"info": {"id": "msg_z", "role": "assistant", "parentID": "msg_y"}})
    server.frame(Frame("stderr", raw="out of memory"))
    server.frame(Frame("exit", {"code": None, "signal": 9}))
    outcomes = {e.run_id: e.payload for e in server.events if isinstance(e.payload, Complete)}
    assert outcomes["run_2"].outcome is Outcome.COMPLETED
    error = outcomes["run_1"].error
    assert error is not None
    assert (error.code, error.signal, error.stderr_tail) == ("AGENT_EXITED", 9, ["out of memory"])
    assert server.finish() == []


def test_a_repeated_message_id_opens_nothing_while_it_waits_for_its_answer() -> None:
    server = Scripted()
    server.begin()
    server.prompt()
    assert len(payloads(server.events, RunStatus)) == 2
    server.done()
    server.idle()
    assert len(server.completes()) == 1


def test_a_prompt_that_is_never_begun_fails_at_its_deadline() -> None:
    server = Scripted()
    server.session()
    server.prompt()
    server.fire("accept")
    end = one(server.events, Complete)
    assert (end.outcome, end.error.recoverable) == (Outcome.FAILED, True)


def test_a_deadline_that_was_overtaken_changes_nothing() -> None:
    server = Scripted()
    server.begin()
    server.fire("accept")
    server.done()
    server.idle()
    assert [c.outcome for c in server.completes()] == [Outcome.COMPLETED]


@pytest.mark.proves("T1", "T8")
def test_two_sync_calls_at_once_get_the_same_answer_and_end_once_each() -> None:
    server = Scripted()
    server.session()
    first = server.prompt("a", message="", route="message")
    server.user("msg_u")
    server.open("msg_a", "msg_u")
    second = server.prompt("b", message="", route="message")
    server.user("msg_v")
    server.done("msg_a", "msg_u")
    server.open("msg_b", "msg_v")
    info = {"id": "msg_b", "role": "assistant", "parentID": "msg_v", "finish": "stop"}
    server.answer(first, {"info": info})
    server.answer(second, {"info": info})
    server.done("msg_b", "msg_v")
    server.idle()
    assert [c.folded_into for c in server.completes()] == [None, "run_1"]


def test_a_server_that_is_disposed_ends_what_waited_for_a_second_idle() -> None:
    server = Scripted()
    server.begin()
    server.say("session.error", sessionID=S, error=ABORTED)
    server.idle()
    server.say("server.instance.disposed", directory="/elsewhere")
    assert server.completes() == []
    server.say("server.instance.disposed", directory="/code")
    assert [c.outcome for c in server.completes()] == [Outcome.CANCELLED]
