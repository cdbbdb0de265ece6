"""Thousands of random steps of clients and agents: the promises hold, whatever comes when."""

import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import Feature
from agentctl.core.errors import AgentctlError, AgentFailed
from agentctl.core.events import Complete, RunStatus
from agentctl.core.state import FINAL_RUN
from agentctl.core.words import Outcome, RunChange, RunState
from agentctl.session.ending import Limits
from agentctl.session.records import AnswerQuestion, IfBusy, Respond
from tests.session.fakes import FakeAgent
from tests.session.house import House, check_promises, house

pytestmark = pytest.mark.anyio

STEPS = 120
# A step gives an agent so long to get to work; whether it does makes no difference to the promises.
MOMENT_S = 0.02
IF_BUSY: tuple[IfBusy, ...] = ("queue", "queue", "queue", "reject", "interrupt", "steer")
QUICK = Limits(
    cancel_ack_s=0.002, cancel_end_s=0.002, stall_s=0.01, stall_tool_s=0.02, approval_ms=30
)


class Chaos:
    """One random history."""

    def __init__(self, home: House, seed: int) -> None:
        self.home = home
        self.random = random.Random(seed)
        self.runs: list[str] = []
        self.ordered: dict[str, list[str]] = {}

    def pick_session(self) -> str | None:
        return self.random.choice(sorted(self.home.manager.sessions) or [None])

    def pick_agent(self) -> FakeAgent | None:
        return self.random.choice(self.working() or [None])

    def working(self) -> list[FakeAgent]:
        protocol = self.home.protocol
        return [a for a in protocol.agents if a in protocol.alive and not a.gone and a.turns]

    async def clients(self) -> None:
        """Three at once."""

        async def client() -> None:
            for _ in range(STEPS // 3):
                await self.step()

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client)

    async def step(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[object]]]] = [
            (6, self.prompt),
            (12, self.speak),
            (2, self.create),
            (3, self.cancel),
            (4, self.respond),
            (1, self.close),
            (1, self.resume),
            (1, self.restart),
            (1, self.change_plan),
            (1, self.kill),
            (1, self.fill_disk),
        ]
        weights = [weight for weight, _ in actions]
        (_, action) = self.random.choices(actions, weights)[0]
        # Refusals are answers; what must not happen shows in the promises.
        with contextlib.suppress(AgentctlError):
            await action()

    async def prompt(self) -> None:
        if (session := self.pick_session()) is None:
            return
        if_busy = self.random.choice(IF_BUSY)
        timeout = self.random.choice([None, None, None, 5])
        text = f"p{len(self.runs)}"
        made = await self.home.prompt(session, text, if_busy=if_busy, timeout_ms=timeout)
        if not made.steered:
            self.runs.append(made.run.id)
            if if_busy != "interrupt":
                self.ordered.setdefault(session, []).append(made.run.id)

    async def speak(self) -> None:
        with anyio.move_on_after(MOMENT_S):
            await self.home.until(self.working)
        agent = self.pick_agent()
        if agent is None:
            return
        number = self.random.randrange(1_000_000)
        match self.random.randrange(7):
            case 0:
                await agent.text("words")
            case 1:
                await agent.tool(f"t{number}")
            case 2:
                await agent.ask(f"r{number}")
            case 3:
                await agent.question(request=f"q{number}")
            case 4:
                await agent.tool(f"t{number}")
                if agent.turns:
                    await agent.tool_done(f"t{number}")
            case _:
                await agent.end(self.random.choice([Outcome.COMPLETED, Outcome.FAILED]))

    async def create(self) -> None:
        if len(self.home.manager.sessions) < 4:
            done = self.random.random() < 0.3
            entry = self.random.choice(["fake", "shared", "shared"])
            await self.home.create(entry, close_when_done=done)

    async def cancel(self) -> None:
        drop, force = self.random.random() < 0.2, self.random.random() < 0.2
        if self.runs and self.random.random() < 0.5:
            run = self.random.choice(self.runs)
            await self.home.manager.cancel_run(run, drop_queue=drop, force=force)
        elif (session := self.pick_session()) is not None:
            await self.home.manager.cancel_session(session, drop_queue=drop, force=force)

    async def respond(self) -> None:
        approvals, _ = await self.home.manager.list_approvals()
        questions, _ = await self.home.manager.list_questions()
        if approvals:
            id_ = self.random.choice(approvals).request.approval_id
            how = self.random.choice(["approve", "deny"])
            answer = Respond(id_, "approve" if how == "approve" else "deny")
            await self.home.manager.respond(answer)
        if questions:
            id_ = self.random.choice(questions).request.question_id
            await self.home.manager.answer_question(AnswerQuestion(id_, content_json=b"{}"))

    async def close(self) -> None:
        if (session := self.pick_session()) is not None:
            await self.home.manager.close_session(session, force=self.random.random() < 0.5)

    async def resume(self) -> None:
        if (session := self.pick_session()) is not None:
            await self.home.manager.resume_session(session)

    async def restart(self) -> None:
        if agents := await self.home.manager.list_agents():
            await self.home.manager.restart_agent(self.random.choice(agents).id)

    async def change_plan(self) -> None:
        plan = self.home.protocol.plan
        plan.hears_cancel = self.random.random() < 0.7
        plan.steers = self.random.random() < 0.5
        plan.fails.clear()
        for method in ("start", "new_session", "resume_session", "prompt", "cancel"):
            if self.random.random() < 0.1:
                plan.fails[method] = AgentFailed(f"fake: no {method}")

    async def fill_disk(self) -> None:
        self.home.spy.full = True
        with anyio.move_on_after(MOMENT_S / 4):
            await self.speak()
        self.home.spy.full = False

    async def kill(self) -> None:
        if (agent := self.pick_agent()) is not None:
            await agent.die(self.random.choice([None, 0, 7]))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.proves("T1", "T8", "T10", "A1", "M9")
async def test_the_promises_hold_in_a_random_history(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with house(tmp_path, limits=QUICK) as home:
        home.protocol.plan.features |= {Feature.MANY_SESSIONS, Feature.STEER}
        chaos = Chaos(home, seed)
        await chaos.create()

        await chaos.clients()
        await home.until(lambda: not forgotten(home))
        home.protocol.plan.fails.clear()
        home.protocol.plan.hears_cancel = True
        await drain(home)
        for run in chaos.runs:
            assert (await home.manager.get_run(run)).state in FINAL_RUN
            assert len(home.of(Complete, run)) == 1
            assert len([s for s in home.of(RunStatus, run) if s.prompt is not None]) == 1
        started = [
            event.run_id
            for event in home.spy.committed
            if isinstance(event.payload, RunStatus) and event.payload.status is RunChange.STARTED
        ]
        for ordered in chaos.ordered.values():
            ran = [run for run in ordered if run in started]
            assert ran == sorted(ran, key=started.index)
        for session in home.manager.sessions.values():
            assert session._waiters == {} and session.ending.timers == 0
            assert session.ledger.ending == session.ledger.verdicts == {}
            assert session.ledger.cancelling == set()
    bad = ("defect", "Illegal", "background failed", "Traceback")
    assert [r.message for r in caplog.records if any(word in r.getMessage() for word in bad)] == []


@pytest.mark.parametrize("seed", range(100, 106))
@pytest.mark.proves("S6", "T10")
async def test_a_daemon_killed_at_any_moment_ends_what_ran_and_keeps_what_waited(
    tmp_path: Path, seed: int
) -> None:
    async with house(tmp_path, limits=QUICK) as home:
        home.protocol.plan.features |= {Feature.MANY_SESSIONS, Feature.STEER}
        chaos = Chaos(home, seed)
        await chaos.create()
        with anyio.move_on_after(chaos.random.uniform(0.02, 0.3)):
            await chaos.clients()
        await anyio.wait_all_tasks_blocked()
        await home.until(lambda: not forgotten(home))
        home.manager.crash()
    before = home.spy.committed
    async with house(tmp_path) as home:
        events = before + home.spy.committed
        check_promises(events)
        created = {
            event.run_id
            for event in events
            if isinstance(event.payload, RunStatus) and event.payload.status is RunChange.CREATED
        }
        for run in created:
            record = await home.manager.get_run(run or "")
            ends = [e for e in events if e.run_id == run and isinstance(e.payload, Complete)]
            waits = record.state in {RunState.CREATED, RunState.QUEUED}
            assert len(ends) == (0 if waits else 1)
            if waits:
                assert home.session(record.session_id).record.queue_held


def forgotten(home: House) -> list[str]:
    """Sessions with a prompt that could be sent now and that nobody sends."""
    return [
        session.id
        for session in home.manager.sessions.values()
        if session.driver.next_run() is not None and session.driver._scope is None
    ]


async def drain(home: House) -> None:
    """Lets every session come to rest."""
    for session in list(home.manager.sessions.values()):
        while session.ledger.runs and not session.closing:
            # What ends by itself meanwhile cannot be cancelled.
            with contextlib.suppress(AgentctlError):
                await home.manager.cancel_session(session.id, drop_queue=True, force=True)
