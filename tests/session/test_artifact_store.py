"""How long artifacts are kept, and how they are found."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.errors import NotFound
from agentctl.core.events import (
    Complete,
    FileChange,
    Git,
)
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ChangeKind, ContentType
from agentctl.session import artifacts as store_module
from agentctl.session.artifacts import ArtifactRule
from tests.session.fakes import FakeAgent
from tests.session.house import House, house
from tests.session.pictures import FOREVER, Pictures, blobs, content, kept

pytestmark = pytest.mark.anyio

LONG = "".join(f"line {number}\n" for number in range(40_000))
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


def image(data: bytes = PNG) -> ContentBlock:
    return ContentBlock(ContentType.IMAGE, data=data, mime_type="image/png")


async def done(home: House, agent: FakeAgent, run_id: str) -> None:
    await agent.end()
    await home.ended(run_id)


# How long they are kept.


@pytest.mark.proves("AR12")
async def test_artifacts_go_when_their_time_is_up_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = ArtifactRule(age_ms=3_600_000, round_s=0.01)
    pictures = Pictures()
    async with house(tmp_path, keep=rule, snapshots=pictures) as home:
        _, run, agent = await home.running()
        pictures.tree = "1"
        await done(home, agent, run.id)
        (record,) = await kept(home)
        assert record.expires_at == record.created_at + 3_600_000
        later = record.created_at + 3_600_000
        monkeypatch.setattr(store_module, "now_ms", lambda: later)
        while blobs(home):
            await anyio.lowlevel.checkpoint()
        (gone,) = await kept(home, run_id=run.id)
        assert gone.deleted.startswith("it was kept until ") and gone.sha256 == record.sha256
        with pytest.raises(NotFound, match=r"bytes of artifact .* are gone: it was kept") as told:
            await home.manager.open_artifact(gone)
        assert told.value.reason == "ARTIFACT_NOT_FOUND"
    monkeypatch.setattr(store_module, "now_ms", lambda: later + store_module.REMEMBERED_MS + 10**9)
    async with house(tmp_path, keep=rule) as again:
        while await kept(again, run_id=run.id):
            await anyio.lowlevel.checkpoint()
        with pytest.raises(NotFound, match="there is no artifact"):
            await again.manager.get_artifact(record.id)


async def test_the_oldest_artifacts_go_when_all_have_too_many_bytes(tmp_path: Path) -> None:
    rule = ArtifactRule(size=25, round_s=0.01)
    async with house(tmp_path, keep=rule) as home:
        session, run, agent = await home.running()
        for name in "abc":
            (tmp_path / name).write_text(name * 10)
            await agent.say(FileChange(name, ChangeKind.CREATE))
        await done(home, agent, run.id)
        while len(blobs(home)) > 2:
            await anyio.lowlevel.checkpoint()
        assert blobs(home) == [b"b" * 10, b"c" * 10]
        first, *others = await kept(home, session_id=session)
        assert "newer artifacts needed its room" in first.deleted
        assert [other.deleted for other in others] == ["", ""]


@pytest.mark.proves("AR13")
async def test_the_artifacts_of_a_deleted_session_go_with_it_and_shared_bytes_stay(
    tmp_path: Path,
) -> None:
    (tmp_path / "same").write_text("same")
    (tmp_path / "own").write_text("own")
    async with house(tmp_path, keep=FOREVER) as home:
        session, run, agent = await home.running()
        await agent.say(FileChange("same"))
        await agent.say(FileChange("own"))
        await done(home, agent, run.id)
        other, second, agent = await home.running()
        await agent.say(FileChange("same"))
        await done(home, agent, second.id)
        assert blobs(home) == [b"own", b"same"]
        records = await kept(home, session_id=session)
        await home.manager.delete_session(session)
        assert blobs(home) == [b"same"]
        for record in records:
            with pytest.raises(NotFound, match="there is no artifact") as gone:
                await home.manager.get_artifact(record.id)
            assert gone.value.reason == "ARTIFACT_NOT_FOUND"
        (left,) = await kept(home)
        assert left.session_id == other and await content(home, left) == b"same"
        await home.manager.delete_session(other)
        assert blobs(home) == [] and await kept(home) == []


async def test_a_session_deleted_while_its_artifacts_are_made_leaves_nothing(
    tmp_path: Path,
) -> None:
    pictures = Pictures()
    async with house(tmp_path, keep=FOREVER, snapshots=pictures) as home:
        session, run, agent = await home.running()
        pictures.tree, hold = "1", anyio.Event()
        pictures.hold = hold
        await agent.end()
        async with anyio.create_task_group() as group:
            group.start_soon(home.manager.delete_session, session)
            await home.until(lambda: home.of(Complete, run.id))
            hold.set()
        assert await kept(home) == []
        assert blobs(home) == []


# Lists.


@pytest.mark.proves("AR14")
async def test_artifacts_are_listed_by_session_run_and_kind_in_pages_newest_first(
    tmp_path: Path,
) -> None:
    async with house(tmp_path, keep=FOREVER) as home:
        session, first, agent = await home.running()
        for name in "abc":
            (tmp_path / name).write_text(name)
            await agent.say(FileChange(name))
        await agent.say(Git(pull_request_url="https://forge.example/1"))
        await done(home, agent, first.id)
        second = (await home.prompt(session, "again")).run
        await agent.prompted()
        await agent.say(FileChange("b"))
        await done(home, agent, second.id)
        other, third, agent = await home.running()
        await done(home, agent, third.id)

        async def listed(**where: Any) -> list[str]:
            found: list[str] = []
            after = ""
            while True:
                page, after = await home.manager.list_artifacts(**where, after=after, limit=2)
                assert len(page) <= 2
                found += [f"{one.kind}:{one.title}" for one in page]
                if not after:
                    return found

        of_first = ["file:c", "file:b", "file:a", "pull_request:https://forge.example/1"]
        told = "trajectory:Events of the run"
        assert await listed() == [told, told, *of_first, told]
        assert await listed(session_id=session) == [told, *of_first, told]
        assert await listed(run_id=first.id) == [*of_first, told]
        assert await listed(run_id=second.id) == [told, "file:b"]
        assert await listed(session_id=other) == [told]
        assert await listed(run_id=first.id, session_id=other) == [told]
        assert await listed(kinds=frozenset({"file"})) == ["file:c", "file:b", "file:a"]
        assert await listed(kinds=frozenset({"trajectory"})) == [told] * 3
        assert [one.kind for one in await home.manager.run_artifacts(second.id)] == [
            "trajectory",
            "file",
        ]
        with pytest.raises(NotFound):
            await home.manager.list_artifacts(session_id="ses_none")
        with pytest.raises(NotFound):
            await home.manager.list_artifacts(run_id="run_none")


async def test_an_artifact_is_got_by_its_id_and_only_as_one_of_its_run(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    async with house(tmp_path, keep=FOREVER) as home:
        session, run, agent = await home.running()
        await agent.say(FileChange("a"))
        with pytest.raises(NotFound):
            await home.manager.get_artifact(f"art_{run.id.removeprefix('run_')}")
        await done(home, agent, run.id)
        second = (await home.prompt(session, "again")).run
        await agent.prompted()
        await done(home, agent, second.id)
        (record,) = await kept(home)
        assert await home.manager.get_artifact(record.id, run_id=run.id) == record
        told = await home.manager.get_artifact(f"art_{run.id.removeprefix('run_')}")
        assert (told.kind, told.runs, told.size) == ("trajectory", [run.id], None)
        for other in (record.id, told.id):
            with pytest.raises(NotFound, match=f"is not of run {second.id}") as wrong:
                await home.manager.get_artifact(other, run_id=second.id)
            assert wrong.value.reason == "ARTIFACT_NOT_FOUND"
