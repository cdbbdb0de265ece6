"""The patch of a run comes before its end, whatever else happens, and holds nobody for long."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.adapter import TurnEnded, TurnStarted
from agentctl.core.events import Complete, Error, SessionStatus
from agentctl.core.ids import NativeSessionId, NativeTurnId
from agentctl.core.words import Origin, Outcome, RunState, SessionChange
from agentctl.session import gathering
from agentctl.session.ids import now_ms
from tests.session.house import PATIENT, House, house
from tests.session.pictures import FOREVER, Pictures, artifacts, blobs, content, kept

pytestmark = pytest.mark.anyio


def at_home(path: Path, pictures: Pictures, **options: Any) -> Any:
    return house(path, keep=FOREVER, snapshots=pictures, **options)


async def held(home: House, session_id: str) -> None:
    """Waits until the end of a turn is held."""
    while home.session(session_id).gathering.held is None:
        await anyio.lowlevel.checkpoint()


@pytest.mark.proves("AR1")
async def test_the_patch_of_a_run_comes_before_its_end(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        _, run, agent = await home.running()
        await agent.text("done")
        pictures.tree = "1"
        await agent.end()
        await home.ended(run.id)
        assert home.types(run.id)[-3:] == ["message_chunk", "artifact", "complete"]
        (event,) = artifacts(home)
        (patch,) = await kept(home, run_id=run.id)
        assert event.run_id == run.id
        assert event.payload.artifact_id == patch.id
        assert (patch.kind, patch.title, patch.commit) == ("patch", "1 file, +2 -3", "c0ffee")
        assert (patch.size, patch.mime_type, patch.runs) == (4, "text/x-diff", [run.id])
        assert await content(home, patch) == b"0->1"


async def test_a_run_that_changed_nothing_has_no_patch(tmp_path: Path) -> None:
    async with at_home(tmp_path, Pictures()) as home:
        _, run, agent = await home.running()
        await agent.end()
        await home.ended(run.id)
        assert artifacts(home) == []
        assert blobs(home) == []


async def test_without_a_work_tree_the_end_is_told_at_once(tmp_path: Path) -> None:
    class Nothing(Pictures):
        async def take(self, workspace: str) -> None:
            self.taken.append(workspace)

    pictures = Nothing()
    async with at_home(tmp_path, pictures) as home:
        _, run, agent = await home.running()
        await agent.end()
        # The sink has returned: the end is durable, nothing was held.
        assert home.of(Complete, run.id) != []
        assert len(pictures.taken) == 1


@pytest.mark.proves("AR2")
async def test_the_end_of_a_run_is_when_its_agent_ended_it(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        pictures.hold = anyio.Event()
        await agent.end()
        await pictures.bell.until(lambda: len(pictures.taken) == 2)
        await held(home, session)
        told = now_ms()
        while now_ms() == told:
            await anyio.lowlevel.checkpoint()
        # Its time is no longer running, and nobody calls it silent.
        ending = home.session(session).ending
        await ending._time_out(run)
        assert home.of(Error) == [] and home.of(Complete) == []
        pictures.tree = "1"
        pictures.hold.set()
        ended = await home.ended(run.id)
        assert ended.state is RunState.COMPLETED
        assert ended.ended_at is not None and ended.ended_at <= told
        (complete,) = home.of(Complete, run.id)
        assert complete.ended_at == ended.ended_at


async def test_a_slow_picture_delays_the_end_for_a_moment_and_the_next_prompt_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "COLLECT_S", 0.01)
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        queued = (await home.prompt(session, "next")).run
        hold = pictures.hold = anyio.Event()
        await agent.end()
        assert (await home.ended(run.id)).state is RunState.COMPLETED
        assert agent.named("prompt") == ["go"]
        pictures.hold = None
        pictures.tree = "1"
        hold.set()
        assert await agent.prompted() == "next"
        await home.until(lambda: artifacts(home))
        (late,) = artifacts(home)
        assert (late.run_id, late.after_run_id) == (None, run.id)
        assert [record.runs for record in await kept(home)] == [[run.id]]
        await agent.end()
        await home.ended(queued.id)
        assert len(artifacts(home)) == 1


async def test_the_next_prompt_does_not_wait_for_a_patch_that_is_late_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "COLLECT_S", 0.01)
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        queued = (await home.prompt(session, "next")).run
        pictures.tree, patching = "1", anyio.Event()
        pictures.patching = patching
        await agent.end()
        await home.ended(run.id)
        assert await agent.prompted() == "next"
        assert artifacts(home) == []
        patching.set()
        await home.until(lambda: artifacts(home))
        assert artifacts(home)[0].after_run_id == run.id
        await agent.end()
        await home.ended(queued.id)


async def test_a_cancelled_run_has_its_patch_and_the_next_prompt_waits_for_it(
    tmp_path: Path,
) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures, limits=PATIENT) as home:
        session, run, agent = await home.running()
        queued = (await home.prompt(session, "next")).run
        pictures.tree, hold = "1", anyio.Event()
        pictures.hold = hold
        await home.manager.cancel_run(run.id)
        await held(home, session)
        assert agent.named("prompt") == ["go"]
        pictures.hold = None
        hold.set()
        assert (await home.ended(run.id)).state is RunState.CANCELLED
        assert await agent.prompted() == "next"
        assert [event.run_id for event in artifacts(home)] == [run.id]
        await agent.end()
        await home.ended(queued.id)


async def test_a_run_that_took_too_long_has_its_patch_before_its_end(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures, limits=PATIENT) as home:
        session = await home.start()
        run = (await home.prompt(session, "go", timeout_ms=20)).run
        await home.agent.prompted()
        pictures.tree = "1"
        assert (await home.ended(run.id)).state is RunState.TIMED_OUT
        assert [event.run_id for event in artifacts(home)] == [run.id]


async def test_an_agent_that_ends_a_cancelled_turn_has_acknowledged_it(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, _ = await home.running()
        pictures.tree, hold = "1", anyio.Event()
        pictures.hold = hold
        await home.manager.cancel_run(run.id)
        await held(home, session)
        ending = home.session(session).ending
        await ending._climb(run)
        assert home.of(Error) == []
        hold.set()
        assert (await home.ended(run.id)).state is RunState.CANCELLED
        assert [event.run_id for event in artifacts(home)] == [run.id]


async def test_a_cancel_of_a_turn_that_is_over_does_not_wait_for_its_patch(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        pictures.tree, hold = "1", anyio.Event()
        pictures.hold = hold
        await agent.end()
        await held(home, session)
        ended = await home.manager.cancel_run(run.id)
        assert ended.state is RunState.COMPLETED
        assert agent.named("cancel") == []
        hold.set()
        await home.until(lambda: artifacts(home))
        (late,) = artifacts(home)
        assert (late.run_id, late.after_run_id) == (None, run.id)


async def test_an_agent_that_dies_behind_its_turn_leaves_a_run_that_completed(
    tmp_path: Path,
) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        pictures.tree, hold = "1", anyio.Event()
        pictures.hold = hold
        await agent.end()
        await held(home, session)
        await agent.die()
        assert (await home.ended(run.id)).state is RunState.COMPLETED
        hold.set()
        await home.until(lambda: artifacts(home))
        assert artifacts(home)[0].after_run_id == run.id


@pytest.mark.proves("AR3")
async def test_what_an_agent_changed_before_it_died_is_a_late_patch(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        pictures.tree = "1"
        await agent.die()
        assert (await home.ended(run.id)).state is RunState.FAILED
        await home.until(lambda: artifacts(home))
        (late,) = artifacts(home)
        assert (late.run_id, late.after_run_id) == (None, run.id)
        assert [await content(home, record) for record in await kept(home)] == [b"0->1"]
        again = (await home.prompt(session, "again")).run
        await home.protocol.starting(2)
        await home.until(lambda: len(home.protocol.agents) == 2)
        await home.agent.prompted()
        await home.agent.end()
        await home.ended(again.id)


@pytest.mark.parametrize("force", [False, True])
async def test_a_close_makes_the_patch_of_what_it_cut_off(tmp_path: Path, force: bool) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        home.protocol.plan.hears_cancel = False
        session, run, _ = await home.running()
        pictures.tree = "1"
        await home.manager.close_session(session, force=force)
        assert (await home.manager.get_run(run.id)).state is RunState.CANCELLED
        (late,) = artifacts(home, run.id)
        assert late.after_run_id == run.id
        last = home.spy.committed[-1].payload
        assert home.told(session)[-1] is SessionChange.CLOSED
        assert isinstance(last, SessionStatus) or home.agent.gone
        assert len(await kept(home, session_id=session)) == 1


async def test_the_stop_of_the_daemon_calls_a_turn_that_was_over_completed(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        other = await home.start()
        second = (await home.prompt(other, "go")).run
        await home.agent.prompted()
        pictures.tree, hold = "1", anyio.Event()
        pictures.hold = hold
        await agent.end()
        await held(home, session)
        hold.set()
        pictures.hold = None
    async with at_home(tmp_path, Pictures(), protocol=home.protocol) as again:
        assert (await again.manager.get_run(run.id)).state is RunState.COMPLETED
        cut = await again.manager.get_run(second.id)
        assert cut.error is not None and cut.error.code == "DAEMON_RESTARTED"
        assert {record.runs[0] for record in await kept(again)} == {run.id, second.id}


@pytest.mark.proves("AR4")
async def test_a_turn_that_the_agent_begins_behind_its_last_one_has_a_patch_of_its_own(
    tmp_path: Path,
) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        native, hold = agent.native, anyio.Event()
        pictures.tree, pictures.hold = "1", hold
        await agent.end()
        await pictures.bell.until(lambda: len(pictures.taken) == 2)
        await held(home, session)
        own = NativeTurnId("own")
        await agent.emit(TurnStarted(native, own, Origin.AGENT))
        assert home.of(Complete) == []
        pictures.hold = None
        hold.set()
        await home.ended(run.id)
        pictures.tree = "2"
        await agent.emit(TurnEnded(native, own, Outcome.COMPLETED))
        await home.until(lambda: len(home.of(Complete)) == 2)
        first, second = artifacts(home)
        assert first.run_id == run.id and second.run_id not in (None, run.id)
        assert [await content(home, one) for one in await kept(home)] == [b"0->1", b"1->2"]


async def test_turns_that_are_held_together_end_in_order_with_a_patch_each(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        native, hold = agent.native, anyio.Event()
        pictures.tree, pictures.hold = "1", hold
        await agent.end()
        await held(home, session)
        own = NativeTurnId("own")
        await agent.emit(
            TurnStarted(native, own, Origin.AGENT),
            TurnEnded(native, own, Outcome.COMPLETED),
            TurnStarted(native, NativeTurnId("third"), Origin.AGENT),
        )
        hold.set()
        await home.until(lambda: len(home.of(Complete)) == 2)
        ends = [e.run_id for e in home.spy.committed if isinstance(e.payload, Complete)]
        assert ends[0] == run.id
        assert len(home.session(session).ledger.turns.open_runs) == 1


async def test_a_prompt_that_was_folded_into_another_has_no_patch_of_its_own(
    tmp_path: Path,
) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        _, run, agent = await home.running()
        native, turn = agent.native, agent.turns[agent.native]
        pictures.tree = "1"
        other = NativeTurnId("other")
        await agent.emit(
            TurnStarted(native, other),
            TurnEnded(native, turn, Outcome.COMPLETED),
            TurnEnded(native, other, Outcome.COMPLETED, folded_into=turn),
        )
        await home.until(lambda: len(home.of(Complete)) == 2)
        agent.turns.clear()
        assert [event.run_id for event in artifacts(home)] == [run.id]


async def test_two_sessions_of_one_process_do_not_hold_each_other(tmp_path: Path) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        home.protocol.plan.features |= {"many_sessions"}
        session, run, agent = await home.running(agent="shared")
        other = await home.start("shared")
        second = (await home.prompt(other, "go")).run
        await agent.prompted()
        first_native, second_native = list(agent.turns)
        hold = pictures.hold = anyio.Event()
        await agent.emit(
            TurnEnded(
                NativeSessionId(first_native), agent.turns.pop(first_native), Outcome.COMPLETED
            )
        )
        await held(home, session)
        await agent.text("the other goes on")
        assert "message_chunk" in home.types(second.id)
        hold.set()
        pictures.hold = None
        await home.ended(run.id)
        await agent.emit(
            TurnEnded(
                NativeSessionId(second_native), agent.turns.pop(second_native), Outcome.COMPLETED
            )
        )
        await home.ended(second.id)
