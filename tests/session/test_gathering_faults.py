"""A full disk and a crash while the artifacts of a run are made."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.events import Error
from agentctl.core.words import RunState, SessionState
from agentctl.journal import blobs as blob_files
from tests.session.house import House, house
from tests.session.pictures import FOREVER, Pictures, artifacts, blobs, kept

pytestmark = pytest.mark.anyio


def at_home(path: Path, pictures: Pictures, **options: Any) -> Any:
    return house(path, keep=FOREVER, snapshots=pictures, **options)


async def held(home: House, session_id: str) -> None:
    """Waits until the end of a turn is held."""
    while home.session(session_id).gathering.held is None:
        await anyio.lowlevel.checkpoint()


@pytest.mark.proves("AR5")
async def test_a_full_disk_costs_the_artifact_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(blob_files, "_create", full)
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        _, run, agent = await home.running()
        pictures.tree = "1"
        await agent.end()
        assert (await home.ended(run.id)).state is RunState.COMPLETED
        assert home.types(run.id)[-2:] == ["error", "complete"]
        (error,) = home.of(Error, run.id)
        assert (error.code, error.recoverable) == ("DISK_FULL", True)
        assert "patch artifact (1 file, +2 -3) was not kept" in error.message
        assert artifacts(home) == [] and await kept(home) == []
        assert blobs(home) == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_work_tree_that_is_too_large_for_a_patch_is_told_once_with_what_to_do(
    tmp_path: Path, when: str
) -> None:
    class Large(Pictures):
        async def take(self, workspace: str) -> Any:
            taken = await super().take(workspace)
            return None if when == "before" or len(self.taken) > 1 else taken

    pictures = Large()
    pictures.why = "more than 256 MiB are new or changed in it"
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        await agent.end()
        assert (await home.ended(run.id)).state is RunState.COMPLETED
        again = (await home.prompt(session, "again")).run
        await agent.prompted()
        await agent.end()
        assert (await home.ended(again.id)).state is RunState.COMPLETED
        (told,) = [each.payload for each in home.spy.committed if isinstance(each.payload, Error)]
        assert (told.code, told.recoverable) == ("NO_PATCH", True)
        assert pictures.why in told.message and ".gitignore" in told.message


@pytest.mark.proves("AR6")
async def test_a_crash_while_artifacts_are_made_leaves_no_blob_that_nobody_needs(
    tmp_path: Path,
) -> None:
    pictures = Pictures()
    async with at_home(tmp_path, pictures) as home:
        session, run, agent = await home.running()
        pictures.tree = "1"
        hold = pictures.hold = anyio.Event()
        await agent.end()
        await held(home, session)
        home.manager.crash()
        hold.set()
        store = home.manager.deps.artifacts
        assert store is not None
        orphan = await store.put(b"stored, and then the daemon was killed")
        (home.path / "blobs" / f"{blob_files.NEW}1").write_bytes(b"half")
    async with at_home(tmp_path, Pictures(), protocol=home.protocol) as again:
        ended = await again.manager.get_run(run.id)
        assert ended.error is not None and ended.error.code == "DAEMON_RESTARTED"
        store = again.manager.deps.artifacts
        assert store is not None
        while store.blobs.path(orphan.sha256).exists() or blobs(again):
            await anyio.lowlevel.checkpoint()
        assert await kept(again) == []
        assert again.session(session).record.state is SessionState.INTERRUPTED
        resumed = (await again.prompt(session, "again")).run
        await again.until(lambda: len(again.protocol.agents) == 2)
        await again.agent.prompted()
        await again.agent.end()
        assert (await again.ended(resumed.id)).state is RunState.COMPLETED
