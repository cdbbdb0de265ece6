"""Approvals and questions answered by an app's own functions, beside whatever else reads the run."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from agentctl.client import AgentCtl, Approval, DaemonFailed, Invalid, Question, Refused, Run
from agentctl.testing.fake_daemon import (
    Answer,
    AskApproval,
    AskQuestion,
    FakeDaemon,
    Gate,
    Say,
    ScriptedAgent,
    UseTool,
    Wait,
)

pytestmark = [pytest.mark.anyio, pytest.mark.proves("D3")]

# Longer than a daemon needs to be back.
TEST_S = 30.0
RUNS = 12
SHELL = UseTool("exec", "execute", command="ls", input={"command": "ls"}, ask=True, risk="low")


async def started(daemon: FakeDaemon, client: AgentCtl, prompt: str = "x", **more: str) -> Run:
    return await client.agent("coder").run(prompt, workspace=daemon.workspace, **more)  # pyright: ignore[reportArgumentType]  words of a run


async def test_a_callback_sees_what_is_asked_and_allows_it_once(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL, Say("done"))
    run = await started(daemon, client)
    seen: list[Approval] = []

    async def decide(request: Approval) -> Approval | None:
        seen.append(request)
        if request.kind == "tool" and request.tool_name == "exec":
            return await request.approve_once(reason="allowed by policy")
        return await request.ask_user()

    run.on_approval(decide)
    assert (await run.wait()).text == "done"
    (request,) = seen
    assert (request.run_id, request.session_id) == (run.id, await run.session_id())
    assert (request.command, request.input, request.risk) == ("ls", {"command": "ls"}, "low")
    assert request.decisions == ("approve_once", "approve_always", "deny")
    assert request.reusable and request.expires_at is None
    assert request.options[0].kind == "allow_once"
    assert coder.answers == [Answer("ls", "approved", "once", "allowed by policy")]


async def test_a_call_that_was_not_awaited_is_awaited_for_the_callback(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL)
    run = await started(daemon, client)
    run.on_approval(lambda request: request.deny(reason="not today"))
    await run.wait()
    assert coder.answers == [Answer("ls", "denied", "no", "not today")]


async def test_always_makes_a_rule_that_answers_the_next_time(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL, SHELL)
    run = await started(daemon, client, session_key="k")
    asked: list[str] = []

    def decide(request: Approval) -> object:
        asked.append(request.id)
        return request.approve_always()

    run.on_approval(decide)
    await run.wait()
    assert len(asked) == 1 and len(coder.answers) == 2
    assert len((await client.approvals.list_rules(await run.session_id())).rules) == 1


async def test_what_is_left_to_people_is_answered_by_people(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL, Say("done"))
    run = await started(daemon, client)
    asked = anyio.Event()

    async def leave(request: Approval) -> None:
        await request.ask_user()
        asked.set()

    run.on_approval(leave)
    await asked.wait()
    assert (await run.wait(timeout_ms=1)).status == "accepted"
    (request,) = await client.open_approvals()
    await request.approve_once()
    assert (await run.wait()).status == "completed"


async def test_a_question_is_answered_by_its_callback(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on(
        "",
        AskQuestion("Which port?", ["80", "8080"], header="Port"),
        Say(lambda values: f"port {values[0]}"),
    )
    run = await started(daemon, client)
    seen: list[Question] = []

    async def tell(question: Question) -> None:
        seen.append(question)
        await question.answer("8080")

    run.on_question(tell)
    assert (await run.wait()).text == "port 8080"
    (question,) = seen
    assert question.text == "Which port?" and question.run_id == run.id
    (item,) = question.questions
    assert (item.header, [each.id for each in item.options]) == ("Port", ["80", "8080"])


@pytest.mark.parametrize("reader", ["wait", "events"])
async def test_a_callback_that_raises_leaves_its_request_open_and_is_heard_once(
    daemon: FakeDaemon,
    coder: ScriptedAgent,
    client: AgentCtl,
    reader: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    coder.on("", SHELL, Say("done"))
    run = await started(daemon, client)

    async def fail(request: Approval) -> None:
        raise LookupError("no such policy")

    run.on_approval(fail)
    with pytest.raises(LookupError, match="no such policy"):
        if reader == "wait":
            await run.wait()
        else:
            async for _ in run.events():
                pass
    assert "stays open" in caplog.text
    (request,) = await run.approvals()
    assert (await run.wait(timeout_ms=1)).status == "accepted"
    await request.approve_once()
    assert (await run.wait()).status == "completed"


async def test_the_first_of_two_answers_wins_and_the_second_hears_so(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL)
    run = await started(daemon, client)
    reasons: list[str] = []
    both, heard = anyio.Event(), anyio.Event()

    async def first(request: Approval) -> None:
        await request.approve_once()
        both.set()

    async def second(request: Approval) -> None:
        await both.wait()
        try:
            await request.deny()
        except Refused as error:
            reasons.append(error.reason)
            heard.set()
            raise

    run.on_approval(first)
    run.on_approval(second)
    assert (await run.wait()).status == "completed"
    await heard.wait()
    assert reasons == ["ALREADY_RESOLVED"]
    assert [answer.decision for answer in coder.answers] == ["approved"]


async def test_a_callback_that_takes_its_time_holds_up_neither_events_nor_other_callbacks(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    gate, decide = Gate(), anyio.Event()
    coder.on("", SHELL, AskQuestion("Ready?"), Say("one two", in_words=True), Wait(gate))
    run = await started(daemon, client)

    async def slow(request: Approval) -> None:
        await decide.wait()
        await request.approve_once()

    run.on_approval(slow)
    run.on_question(lambda question: question.answer("yes"))
    text, family = "", ""
    async for event in run.events():
        family = event.family
        if family == "approval.requested":
            decide.set()
        text += event.text
        if text == "one two":
            gate.open()
    assert text == "one two" and family == "run.completed"


async def test_callbacks_of_a_session_serve_all_its_runs(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL)
    session = await client.agent("coder").session(workspace=daemon.workspace)
    session.on_approval(lambda request: request.approve_once())
    for _ in range(2):
        assert (await (await session.send("x")).wait()).status == "completed"
    assert len(coder.answers) == 2


async def test_a_callback_that_comes_late_gets_what_is_open_and_nothing_that_was_answered(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL, AskApproval("Deploy", command="deploy now"), Say("done"))
    run = await started(daemon, client)
    asked = anyio.Event()
    left: list[str] = []

    async def only_shell(request: Approval) -> None:
        if request.command == "ls":
            await request.approve_once()
        else:
            left.append(request.summary)
            asked.set()

    run.on_approval(only_shell)
    await asked.wait()
    late: list[str] = []

    async def rest(request: Approval) -> None:
        late.append(request.summary)
        await request.approve_once()

    run.on_approval(rest)
    other = client.run(run.id)
    other.on_approval(lambda request: late.append(f"again {request.summary}"))
    assert (await run.wait()).text == "done"
    assert left == ["Deploy"] and late[0] == "Deploy" and "again ls" not in late


async def test_a_request_goes_on_after_a_restart_as_a_failed_run(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL)
    run = await started(daemon, client)
    asked = anyio.Event()
    run.on_approval(lambda request: asked.set())
    await asked.wait()
    await daemon.restart()
    result = await run.wait()
    assert result.error and result.error.code == "DAEMON_RESTARTED"


async def test_a_wrong_answer_is_the_callbacks_error(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", AskQuestion("Which?", ["a", "b"]))
    run = await started(daemon, client)
    run.on_question(lambda question: question.answer("c"))
    with pytest.raises(Invalid, match="no answer"):
        await run.wait()
    (question,) = await run.questions()
    await question.reject("never mind")
    assert (await run.wait()).status == "completed"


async def test_a_client_that_is_closed_takes_its_callbacks_with_it(
    daemon: FakeDaemon, coder: ScriptedAgent
) -> None:
    coder.on("", SHELL)
    ended = anyio.Event()
    async with daemon.client() as client:
        run = await started(daemon, client)
        asked = anyio.Event()

        async def wait(request: Approval) -> None:
            asked.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

        run.on_approval(wait)
        await asked.wait()
    assert ended.is_set()
    async with daemon.client() as client:
        assert (await client.run(run.id).wait(timeout_ms=1)).status == "accepted"


async def test_a_daemon_that_stays_away_is_told_to_who_waits_and_to_who_reads(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    gate = Gate()
    coder.on("", Wait(gate))
    run = await started(daemon, client)
    run.on_approval(lambda request: request.ask_user())
    await gate.reached()
    client.patience_s = 0.1
    await daemon.stop()
    with pytest.raises(DaemonFailed):
        await run.wait()
    with pytest.raises(DaemonFailed):
        async for _ in run.events():
            pass
    await daemon.start()
    client.patience_s = TEST_S
    assert (await run.wait()).status == "failed"


async def test_many_runs_with_two_apps_answering_are_each_answered_once(
    daemon: FakeDaemon, coder: ScriptedAgent, client: AgentCtl
) -> None:
    coder.on("", SHELL, AskQuestion("Which?"), SHELL, Say("done"))
    runs = [await started(daemon, client) for _ in range(RUNS)]

    def answering(where: str) -> Callable[[Approval | Question], Awaitable[None]]:
        async def answer(request: Approval | Question) -> None:
            if isinstance(request, Approval):
                await request.approve_once()
            else:
                await request.answer(where)

        return answer

    async with daemon.client() as other:
        for run in runs:
            for app, where in ((client, "here"), (other, "there")):
                object_ = app.run(run.id)
                object_.on_approval(answering(where))
                object_.on_question(answering(where))
        results = [await run.wait() for run in runs]
    assert [result.text for result in results] == ["done"] * RUNS
    assert len(coder.answers) == 3 * RUNS
