"""A daemon that dies between any two steps of a conversation of five queued runs keeps its word."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from tests.daemon.harness import Daemon, daemon

pytestmark = pytest.mark.anyio

# Fifteen deaths of a daemon at about a second each; a loaded machine takes some times as long.
CHAIN_S = 300

PROMPTS = (
    "think hm || slow 4 10 || say .one.",
    "plan || run! echo hello || say .two.",
    "read a.txt || slow 3 10 || say .three.",
    "write b.txt words || say .four.",
    "usage || slow 3 10 || say .five.",
)
MARKS = (".one.", ".two.", ".three.", ".four.", ".five.")
CALLS = 1 + len(PROMPTS)
BOUNDARIES = 26
POINTS = [*((call, 0) for call in range(1, CALLS + 1)), *((CALLS, b) for b in range(1, BOUNDARIES))]
"""(calls that were answered, changes of the type of event that were seen) before the kill."""

_FINAL = frozenset(
    {
        v1.RunState.RUN_STATE_COMPLETED,
        v1.RunState.RUN_STATE_FAILED,
        v1.RunState.RUN_STATE_CANCELLED,
        v1.RunState.RUN_STATE_TIMED_OUT,
    }
)


@dataclass
class Told:
    """What a client knew of a session when its daemon died."""

    session: str = ""
    runs: list[str] = field(default_factory=list[str])
    events: list[v1.AgentEvent] = field(default_factory=list[v1.AgentEvent])


async def work(client: AgentCtl, workspace: Path, calls: int, boundaries: int) -> Told:
    """Goes on until so many calls were answered and so many boundaries seen."""
    told = Told()
    session = await client.sessions.create("demo", str(workspace), policy="allow")
    told.session = session.session_id
    for prompt in PROMPTS[: calls - 1]:
        told.runs.append((await client.runs.create(told.session, prompt)).run.run_id)
    if not boundaries:
        return told
    seen, last = 0, None
    ends = 0
    async for event in client.events(sessions=[told.session]):
        told.events.append(event)
        kind = (event.type, event.run_id)
        seen, last = seen + (kind != last), kind
        ends += event.HasField("complete")
        if seen >= boundaries or ends == len(PROMPTS):
            return told
    raise AssertionError("the stream ended by itself")


async def kept(client: AgentCtl, told: Told) -> list[v1.AgentEvent]:
    """All events of the session, after a look at whether what was told is still there."""
    events = [each async for each in client.events(sessions=[told.session], follow=False)]
    seqs = [each.seq for each in events]
    assert seqs == sorted(set(seqs))
    found = {each.seq: each for each in events}
    for each in told.events:
        assert found[each.seq] == each
    return events


async def check(client: AgentCtl, told: Told) -> None:
    """What a client finds after the restart, and after it lets the queue go."""
    before = await kept(client, told)
    states = [(await client.runs.get(run)).state for run in told.runs]
    assert v1.RunState.RUN_STATE_RUNNING not in states
    waiting = [run for run, state in zip(told.runs, states, strict=True) if state not in _FINAL]
    assert told.runs[len(told.runs) - len(waiting) :] == waiting
    broken = [
        run
        for run in told.runs
        if (end := ended(before, run)) and end.outcome != v1.Outcome.OUTCOME_COMPLETED
    ]
    assert len(broken) <= 1
    for run in broken:
        assert (await client.runs.get(run)).error.code == "DAEMON_RESTARTED"
    await client.sessions.resume(told.session, wait_ready=True)
    for run in waiting:
        end = await client.runs.wait(run)
        assert end.status == v1.WaitStatus.WAIT_STATUS_COMPLETED
        assert MARKS[told.runs.index(run)] in end.run.output.text
    events = await kept(client, told)
    assert events[: len(before)] == before
    for run, mark, prompt in zip(told.runs, MARKS, PROMPTS, strict=False):
        mine = [each for each in events if each.run_id == run]
        created, started = (
            [each.run_status for each in mine if each.run_status.status == change]
            for change in (v1.RunChange.RUN_CHANGE_CREATED, v1.RunChange.RUN_CHANGE_STARTED)
        )
        assert [each.prompt.items[0].text for each in created] == [prompt]
        assert len(started) == 1
        assert [each.HasField("complete") for each in mine].count(True) == 1
        assert mine[-1].HasField("complete")
        text = "".join(each.message_chunk.text for each in mine)
        assert text.count(mark) in ((0, 1) if run in broken else (1,))
    assert started_order(events) == told.runs
    progress = (await client.sessions.get(told.session)).progress
    assert progress.runs == len(told.runs)
    await client.sessions.close(told.session)


def ended(events: Sequence[v1.AgentEvent], run: str) -> v1.Complete | None:
    found = [each for each in events if each.run_id == run and each.HasField("complete")]
    return found[0].complete if found else None


def started_order(events: Sequence[v1.AgentEvent]) -> list[str]:
    begun = v1.RunChange.RUN_CHANGE_STARTED
    return [each.run_id for each in events if each.run_status.status == begun]


async def die_and_return(
    served: Daemon, workspace: Path, points: Sequence[tuple[int, int]]
) -> None:
    history: list[Told] = []
    for calls, boundaries in points:
        async with served.client() as client:
            told = await work(client, workspace, calls, boundaries)
            served.kill()
        await served.start()
        async with served.client() as client:
            await check(client, told)
            history.append(told)
    async with served.client() as client:
        for told in history:
            await kept(client, told)
            assert (await client.sessions.get(told.session)).phase in {
                v1.SessionPhase.SESSION_PHASE_COMPLETED,
                v1.SessionPhase.SESSION_PHASE_FAILED,
            }


@pytest.mark.proves("F8", "S6")
@pytest.mark.parametrize("chain", [0, 1])
async def test_a_queued_conversation_survives_a_death_at_any_step(
    tmp_path: Path, chain: int
) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "a.txt").write_text("a", encoding="utf-8")
    with anyio.fail_after(CHAIN_S):
        async with daemon(tmp_path) as served:
            await die_and_return(served, workspace, POINTS[chain::2])


def test_there_are_enough_points() -> None:
    assert len(POINTS) > 25 and len(set(POINTS)) == len(POINTS)
