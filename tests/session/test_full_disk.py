"""A full disk: what runs ends and says so, nothing new starts, and all is well again after."""

from pathlib import Path

import anyio
import pytest

from agentctl.core.errors import Exhausted
from agentctl.core.events import Complete, MessageChunk, PermissionResolved, ToolUpdate
from agentctl.core.words import Decision, Outcome, RunState, ToolStatus
from tests.session.house import PATIENT, house

pytestmark = pytest.mark.anyio


async def test_a_full_disk_fails_what_runs_and_refuses_what_is_new(tmp_path: Path) -> None:
    async with house(tmp_path, limits=PATIENT) as home:
        session, run, agent = await home.running()
        await agent.tool()
        await agent.ask()
        home.spy.full = True
        await agent.text("lost")
        ended = await home.ended(run.id)
        assert ended.state is RunState.FAILED and ended.error is not None
        assert ended.error.code == "DISK_FULL"
        assert agent.named("cancel") == ["native-1-1"]
        assert home.of(MessageChunk, run.id) == []
        assert home.of(PermissionResolved, run.id)[0].decision is Decision.CANCELLED
        assert home.of(ToolUpdate, run.id)[-1].status is ToolStatus.CANCELLED
        (complete,) = home.of(Complete, run.id)
        assert complete.outcome is Outcome.FAILED
        for refused in (home.prompt(session, "p1"), home.create()):
            with pytest.raises(Exhausted) as full:
                await refused
            assert full.value.reason == "DISK_FULL"
        assert list(home.manager.sessions) == [session]
        assert (await home.manager.get_run(run.id)).state is RunState.FAILED
        home.spy.full = False
        again = (await home.prompt(session, "p1")).run
        assert await agent.prompted() == "p1"
        await agent.end()
        assert (await home.ended(again.id)).state is RunState.COMPLETED


async def test_a_run_whose_last_words_found_no_room_did_not_complete(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        home.spy.full = True
        async with anyio.create_task_group() as group:
            group.start_soon(agent.text, "lost")
            group.start_soon(agent.end)
        ended = await home.ended(run.id)
        assert ended.error is not None and ended.error.code == "DISK_FULL"
        assert (await home.manager.get_run(run.id)).state is RunState.FAILED
        home.spy.full = False


async def test_an_end_is_kept_when_only_ends_can_be_kept(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        _, run, agent = await home.running()
        home.spy.full = True
        await agent.end()
        assert (await home.ended(run.id)).state is RunState.COMPLETED
        home.spy.full = False


async def test_a_prompt_that_cannot_be_journalled_is_never_sent(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session, first, agent = await home.running()
        queued = (await home.prompt(session, "p1")).run
        home.spy.full = True
        await agent.end()
        await home.ended(first.id)
        ended = await home.ended(queued.id)
        assert ended.error is not None and ended.error.code == "DISK_FULL"
        assert agent.named("prompt") == ["go"]
        home.spy.full = False
