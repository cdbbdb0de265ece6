"""Approvals and questions: policy, rules, one winner, and what the agent is told."""

import time
from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import PermissionAnswer
from agentctl.core.errors import AgentctlError, Invalid, NotFound, Refused
from agentctl.core.events import PermissionRequest, PermissionResolved, QuestionResolved, RunStatus
from agentctl.core.parts import Answer, Choice, Question
from agentctl.core.spec import Rule
from agentctl.core.words import (
    DecidedBy,
    Decision,
    Policy,
    QuestionOutcome,
    SessionState,
    ToolKind,
)
from agentctl.session.ending import Limits
from agentctl.session.permissions import DENIED
from agentctl.session.records import AnswerQuestion, Respond
from tests.session.fakes import ALWAYS, REJECT, FakeAgent
from tests.session.house import House, house

pytestmark = pytest.mark.anyio


async def answer_of(home: House, agent: FakeAgent, number: int = 1) -> PermissionAnswer:
    await home.until(lambda: len(agent.named("answer_permission")) >= number)
    answer = agent.named("answer_permission")[number - 1]
    assert isinstance(answer, PermissionAnswer)
    return answer


@pytest.mark.proves("A7")
@pytest.mark.parametrize(
    ("policy", "decision", "option"),
    [(Policy.ALLOW, Decision.APPROVED, "yes"), (Policy.DENY, Decision.DENIED, "no")],
)
async def test_a_policy_answers_visibly(
    tmp_path: Path, policy: Policy, decision: Decision, option: str
) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running(policy=policy)
        await agent.ask()
        assert (await answer_of(home, agent)).option_id == option
        assert home.of(PermissionRequest, run.id)
        (resolved,) = home.of(PermissionResolved, run.id)
        assert (resolved.decision, resolved.by) == (decision, DecidedBy.POLICY)
        await agent.end()


@pytest.mark.proves("A4")
async def test_a_policy_never_picks_an_always_option(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running(policy=Policy.ALLOW)
        await agent.ask(options=[ALWAYS, REJECT])
        approval = await home.approval()
        assert home.of(PermissionResolved, run.id) == []
        id_ = approval.request.approval_id
        with pytest.raises(Invalid) as refused:
            await home.manager.respond(Respond(id_, "approve"))
        assert refused.value.reason == "OPTION_NOT_OFFERED"
        await home.manager.respond(Respond(id_, option_id="always"))
        assert (await answer_of(home, agent)).option_id == "always"


@pytest.mark.proves("A4")
async def test_a_request_outside_any_run_is_never_allowed_by_itself(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        rules = (Rule("rul_1", None, "ls", "", Policy.ALLOW),)
        session = await home.start(policy=Policy.ALLOW, rules=rules)
        await home.agent.ask_outside(home.session(session).record.native_session_id)
        approval = await home.approval()
        assert approval.run_id is None
        assert home.session(session).record.state is SessionState.AWAITING
        await home.manager.respond(Respond(approval.request.approval_id, "deny"))
        assert (await answer_of(home, home.agent)).option_id == "no"
        assert home.session(session).record.state is SessionState.IDLE


@pytest.mark.proves("A4")
async def test_always_makes_a_rule_of_exactly_this_command_and_sends_allow_once(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session, run, agent = await home.running()
        await agent.ask("r1", command="make test")
        first = await home.approval()
        await home.manager.respond(Respond(first.request.approval_id, "approve", always=True))
        assert (await answer_of(home, agent)).option_id == "yes"
        (rule,) = home.session(session).record.rules
        assert (rule.kind, rule.command, rule.path) == (ToolKind.EXECUTE, "make test", "")
        await agent.ask("r2", command="make test")
        assert (await answer_of(home, agent, 2)).option_id == "yes"
        assert home.of(PermissionResolved, run.id)[-1].by is DecidedBy.RULE
        assert home.of(PermissionResolved, run.id)[-1].rule_id == rule.rule_id
        await agent.ask("r3", command="make test && rm -rf /")
        details = (await home.approval()).request.details
        assert details is not None and details.command == "make test && rm -rf /"
        other, _, stranger = await home.running("other")
        await stranger.ask("r4", command="make test")
        assert len((await home.manager.list_approvals(session_id=other))[0]) == 1
        await agent.end()


async def test_always_without_a_command_or_file_makes_no_rule(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running()
        await agent.ask(command="")
        id_ = (await home.approval()).request.approval_id
        for wrong in (
            Respond(id_, "approve", always=True),
            Respond(id_, "deny", always=True),
            Respond(id_, option_id="yes", always=True),
            Respond(id_),
            Respond(id_, option_id="maybe"),
        ):
            with pytest.raises(Invalid):
                await home.manager.respond(wrong)
        assert home.session(session).record.rules == []
        assert (await home.approval()).decision is None


async def test_rules_outlive_the_daemon_and_a_denying_rule_denies(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        rules = (Rule("rul_1", ToolKind.EXECUTE, "", "/etc/passwd", Policy.DENY),)
        session = await home.start(policy=Policy.ALLOW, rules=rules)
    async with house(tmp_path) as home:
        run = (await home.prompt(session, "go")).run
        await home.until(lambda: home.protocol.agents)
        await home.agent.prompted()
        await home.agent.ask(command="", file="/etc/passwd")
        answer = await answer_of(home, home.agent)
        assert (answer.option_id, answer.reason) == ("no", DENIED)
        (resolved,) = home.of(PermissionResolved, run.id)
        assert (resolved.by, resolved.rule_id) == (DecidedBy.RULE, "rul_1")


@pytest.mark.proves("A1")
async def test_one_answer_wins_and_the_others_are_told(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        await agent.ask()
        id_ = (await home.approval()).request.approval_id
        outcomes: list[str] = []

        async def respond(decision: str) -> None:
            try:
                await home.manager.respond(
                    Respond(id_, "approve" if decision == "approve" else "deny")
                )
                outcomes.append(decision)
            except AgentctlError as error:
                outcomes.append(error.reason)

        async with anyio.create_task_group() as group:
            for decision in ("approve", "deny", "approve"):
                group.start_soon(respond, decision)
        assert sorted(outcomes)[:2] == ["ALREADY_RESOLVED"] * 2
        await answer_of(home, agent)
        assert len(home.of(PermissionResolved, run.id)) == 1
        assert len(agent.named("answer_permission")) == 1
        with pytest.raises(Refused, match="by client"):
            await home.manager.respond(Respond(id_, "deny"))
        with pytest.raises(NotFound):
            await home.manager.respond(Respond("apr_unknown", "deny"))
        await agent.end()


@pytest.mark.proves("A1", "A2")
async def test_who_connects_late_sees_what_is_open_and_answers_in_any_order(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        session, _, agent = await home.running()
        for request in ("r1", "r2", "r3"):
            await agent.ask(request)
        found, _ = await home.manager.list_approvals(session_id=session)
        assert [a.request.tool_call_id for a in found] == ["tool-r1", "tool-r2", "tool-r3"]
        first, after = await home.manager.list_approvals(limit=2)
        rest, _ = await home.manager.list_approvals(limit=2, after=after)
        assert [a.request for a in first + rest] == [a.request for a in found]
        for approval in reversed(found):
            await home.manager.respond(Respond(approval.request.approval_id[-6:], "approve"))
        assert home.session(session).record.state is SessionState.ACTIVE
        await agent.end()


@pytest.mark.proves("A6")
async def test_a_denial_carries_its_reason_or_the_usual_sentence(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, _, agent = await home.running()
        for number, reason in enumerate([None, "not on a Friday"], 1):
            await agent.ask(f"r{number}")
            id_ = (await home.approval()).request.approval_id
            await home.manager.respond(Respond(id_, "deny", reason=reason))
            answer = await answer_of(home, agent, number)
            assert answer == PermissionAnswer(Decision.DENIED, "no", reason or DENIED)
        await agent.ask("r3", options=[ALWAYS])
        id_ = (await home.approval()).request.approval_id
        await home.manager.respond(Respond(id_, "deny"))
        assert (await answer_of(home, agent, 3)).option_id is None
        await agent.end()


@pytest.mark.proves("A5", "A6")
async def test_an_expired_approval_is_told_as_expired_and_answered_as_a_reject(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, limits=Limits(approval_ms=20)) as home:
        session, run, agent = await home.running()
        await agent.ask()
        answer = await answer_of(home, agent)
        assert (answer.decision, answer.option_id) == (Decision.EXPIRED, "no")
        (resolved,) = home.of(PermissionResolved, run.id)
        assert resolved.decision is Decision.EXPIRED
        (request,) = home.of(PermissionRequest, run.id)
        assert request.expires_at - time.time() * 1000 < 1000
        await agent.end()
        assert home.session(session).ending.timers == 0


@pytest.mark.proves("A5")
async def test_what_is_open_when_the_turn_ends_is_answered_to_the_agent_too(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        await agent.ask()
        await agent.question()
        await agent.end()
        await home.ended(run.id)
        assert (await answer_of(home, agent)).decision is Decision.CANCELLED
        await home.until(lambda: agent.named("answer_question"))
        (resolved,) = home.of(PermissionResolved, run.id)
        assert resolved.decision is Decision.CANCELLED


@pytest.mark.proves("E7")
async def test_what_an_agent_is_told_was_durable_before(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        seen: list[str] = []

        def check(agent: FakeAgent, method: str, argument: object) -> None:
            match method:
                case "prompt":
                    assert home.of(RunStatus)[-1].status == "started"
                case "answer_permission":
                    assert len(home.of(PermissionResolved)) == 1
                case "answer_question":
                    assert len(home.of(QuestionResolved)) == 1
                case _:
                    return
            seen.append(method)

        home.protocol.plan.on_call = check
        _, run, agent = await home.running()
        await agent.ask()
        await home.manager.respond(Respond((await home.approval()).request.approval_id, "approve"))
        await agent.question()
        asked = (await home.open_question()).request.question_id
        await home.manager.reject_question(asked, reason="no idea")
        await agent.end()
        await home.ended(run.id)
        await home.until(lambda: len(seen) == 3)
        assert seen == ["prompt", "answer_permission", "answer_question"]


@pytest.mark.proves("A5")
async def test_an_answer_reaches_the_agent_when_its_caller_leaves(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, _, agent = await home.running()
        await agent.ask()
        id_ = (await home.approval()).request.approval_id
        with anyio.CancelScope() as scope:
            scope.cancel()
            await home.manager.respond(Respond(id_, "approve"))
        assert (await answer_of(home, agent)).option_id == "yes"
        await agent.end()


@pytest.mark.proves("A8")
async def test_questions_take_one_answer_each_of_those_offered(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        offered = [Choice("a", "Alpha"), Choice("b")]
        await agent.question(
            Question("Which?", options=offered),
            Question("Which ones?", options=offered, multiple=True),
            Question("Else?", options=offered, custom=True),
        )
        id_ = (await home.open_question()).request.question_id
        good = (Answer(["Alpha"]), Answer(["a", "b"]), Answer(["anything"]))
        for wrong in (
            good[:2],
            (Answer(["z"]), *good[1:]),
            (Answer(["a", "b"]), *good[1:]),
        ):
            with pytest.raises(Invalid):
                await home.manager.answer_question(AnswerQuestion(id_, wrong))
        answered = await home.manager.answer_question(AnswerQuestion(id_, good))
        assert answered.outcome is QuestionOutcome.ANSWERED
        await home.until(lambda: agent.named("answer_question"))
        (resolved,) = home.of(QuestionResolved, run.id)
        assert resolved.answers == list(good) and resolved.by is DecidedBy.CLIENT
        with pytest.raises(Refused) as late:
            await home.manager.reject_question(id_)
        assert late.value.reason == "ALREADY_RESOLVED"
        with pytest.raises(NotFound):
            await home.manager.reject_question("qst_unknown")
        await agent.end()
