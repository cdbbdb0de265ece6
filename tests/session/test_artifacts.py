"""What becomes an artifact, and what becomes of it."""

import os
from pathlib import Path

import pytest

from agentctl.core.errors import Unsupported
from agentctl.core.events import (
    Artifact,
    FileChange,
    Git,
    Message,
    MessageChunk,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.ids import NativeTurnId
from agentctl.core.limits import EVENT_BYTES
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ChangeKind, ContentType, Role, ToolKind, ToolStatus
from agentctl.process.env import redactor
from agentctl.session import artifacts as store_module
from agentctl.session import gathering, keeping
from tests.session.fakes import FakeAgent
from tests.session.house import House, house
from tests.session.pictures import FOREVER, Pictures, artifacts, blobs, content, kept

pytestmark = pytest.mark.anyio

LONG = "".join(f"line {number}\n" for number in range(40_000))
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100


def image(data: bytes = PNG) -> ContentBlock:
    return ContentBlock(ContentType.IMAGE, data=data, mime_type="image/png")


async def done(home: House, agent: FakeAgent, run_id: str) -> None:
    await agent.end()
    await home.ended(run_id)


# Files.


@pytest.mark.proves("AR7")
async def test_a_file_that_a_tool_made_is_kept_as_it_is_at_the_end(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    async with house(tmp_path, keep=FOREVER) as home:
        session, run, agent = await home.running(workspace=str(workspace))
        made = workspace / "made.py"
        made.write_text("first")
        await agent.say(FileChange(str(made), ChangeKind.CREATE, tool_call_id="t1"))
        await agent.say(FileChange("gone.txt", ChangeKind.CREATE))
        await agent.say(FileChange("gone.txt", ChangeKind.DELETE))
        await agent.say(FileChange("never.txt", ChangeKind.CREATE))
        await agent.say(FileChange("moved.txt", ChangeKind.RENAME, old_path="before.txt"))
        (workspace / "moved.txt").write_text("moved")
        made.write_text("second")
        await done(home, agent, run.id)
        first, second = await kept(home, run_id=run.id)
        assert (first.kind, first.title, first.path) == ("file", "made.py", str(made))
        assert (first.tool_call_id, first.mime_type) == ("t1", "text/x-python")
        assert await content(home, first) == b"second"
        assert (second.title, second.path) == ("moved.txt", "moved.txt")
        assert home.types(run.id)[-3:] == ["artifact", "artifact", "complete"]
        # A later run that changes it updates the same artifact.
        again = (await home.prompt(session, "again")).run
        await agent.prompted()
        made.write_text("third")
        await agent.say(FileChange("made.py", ChangeKind.MODIFY))
        await done(home, agent, again.id)
        (updated,) = await kept(home, run_id=again.id)
        assert (updated.id, updated.runs) == (first.id, [run.id, again.id])
        assert [event.payload.action for event in artifacts(home)] == [
            "created", "created", "updated",
        ]  # fmt: skip
        assert await content(home, updated) == b"third"
        assert blobs(home) == [b"moved", b"third"]


async def test_a_file_updated_after_a_restart_is_the_same_artifact(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    async with house(tmp_path, keep=FOREVER) as home:
        session, run, agent = await home.running()
        await agent.say(FileChange("a"))
        await done(home, agent, run.id)
        (first,) = await kept(home)
    async with house(tmp_path, keep=FOREVER, protocol=home.protocol) as again:
        run = (await again.prompt(session, "more")).run
        await again.until(lambda: len(again.protocol.agents) == 2)
        await again.agent.prompted()
        (tmp_path / "a").write_text("2")
        await again.agent.say(FileChange(str(tmp_path / "a")))
        await done(again, again.agent, run.id)
        (second,) = await kept(again)
        assert second.id == first.id and await content(again, second) == b"2"


@pytest.mark.proves("AR8")
async def test_no_path_of_an_agent_leads_out_of_its_directories(tmp_path: Path) -> None:
    workspace, other, secret = tmp_path / "work", tmp_path / "other", tmp_path / "secret"
    for folder in (workspace, other, secret):
        folder.mkdir()
    (secret / "key").write_text("hidden")
    (workspace / "link").symlink_to(secret / "key")
    (workspace / "folder").symlink_to(secret)
    os.mkfifo(workspace / "pipe")
    (other / "fine").write_text("fine")
    (workspace / "large").write_bytes(b"x" * 17_000_000)
    async with house(tmp_path, keep=FOREVER) as home:
        options = {"workspace": str(workspace), "additional_directories": (str(other),)}
        _, run, agent = await home.running(**options)  # pyright: ignore[reportArgumentType]
        for path in ("link", "folder/key", "../secret/key", str(secret / "key"), "pipe", "large"):
            await agent.say(FileChange(path, ChangeKind.CREATE))
        await agent.say(FileChange(str(other / "fine"), ChangeKind.CREATE))
        await agent.say(FileChange("bad\0name", ChangeKind.CREATE))
        await done(home, agent, run.id)
        assert blobs(home) == [b"fine"]
        (record,) = await kept(home)
        assert record.path == record.title == str(other / "fine")


async def test_a_run_has_so_many_files_and_bytes_of_them_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MAX_FILES", 3)
    monkeypatch.setattr(keeping, "RUN_FILE_BYTES", 25)
    for name in "abcd":
        (tmp_path / name).write_text(name * 10)
    async with house(tmp_path, keep=FOREVER) as home:
        _, run, agent = await home.running()
        for name in "abcd":
            await agent.say(FileChange(name, ChangeKind.CREATE))
        await done(home, agent, run.id)
        assert [record.title for record in await kept(home)] == ["a", "b"]


# What an event cannot hold.


@pytest.mark.proves("AR9")
async def test_output_that_is_too_long_for_its_events_is_kept_whole(tmp_path: Path) -> None:
    async with house(tmp_path, keep=FOREVER) as home:
        _, run, agent = await home.running()
        for tool in ("pieces", "whole", "short"):
            await agent.say(ToolCall(tool, kind=ToolKind.EXECUTE, command=f"make {tool}"))
        for start in range(0, len(LONG), 50_000):
            await agent.say(ToolUpdate("pieces", output_delta=LONG[start : start + 50_000]))
        for end in (10_000, 200_000, len(LONG)):
            await agent.say(ToolUpdate("whole", output_replace="W" + LONG[:end]))
        await agent.say(ToolUpdate("short", ToolStatus.COMPLETED, output_replace="short"))
        await agent.say(ToolUpdate("pieces", ToolStatus.COMPLETED))
        # This one is never ended by its agent.
        await done(home, agent, run.id)
        # What nobody ended is known only with the end of the run.
        await home.until(lambda: len(artifacts(home)) == 2)
        assert [event.after_run_id for event in artifacts(home)] == [None, run.id]
        logs = await kept(home, run_id=run.id)
        assert [(log.kind, log.title, log.tool_call_id) for log in logs] == [
            ("log", "Output of make pieces", "pieces"),
            ("log", "Output of make whole", "whole"),
        ]
        assert [await content(home, log) for log in logs] == [LONG.encode(), b"W" + LONG.encode()]
        cut = [update for update in home.of(ToolUpdate, run.id) if update.truncated]
        assert [update.output_size for update in cut] == [len(LONG), len(LONG) + 1]


async def test_a_growing_text_is_kept_once_with_its_last_word(tmp_path: Path) -> None:
    async with house(tmp_path, keep=FOREVER) as home:
        _, run, agent = await home.running()
        await agent.say(ToolCall("t", kind=ToolKind.READ, title="Read it"))
        for number in range(5):
            block = ContentBlock(ContentType.TEXT, text=f"{number}{LONG}")
            await agent.say(ToolUpdate("t", content=[block]))
        assert artifacts(home) == []
        await done(home, agent, run.id)
        (log,) = await kept(home)
        assert (await content(home, log))[:7] == b"4line 0"
        assert len(blobs(home)) == 1


async def test_a_message_an_input_and_a_diff_that_were_cut_are_kept_whole(tmp_path: Path) -> None:
    async with house(tmp_path, keep=FOREVER) as home:
        _, run, agent = await home.running()
        await agent.say(ToolCall("t", title="Call", input_json=b'{"text":"%s"}' % (b"x" * 300_000)))
        await agent.say(FileChange("a.txt", diff="+" + LONG, tool_call_id="t"))
        await agent.say(FileChange("b.txt", diff="+small"))
        await agent.say(Message("m", Role.ASSISTANT, [ContentBlock(ContentType.TEXT, text=LONG)]))
        await agent.say(Message("u", Role.USER, [image()]))
        await done(home, agent, run.id)
        assert [(one.kind, one.title, one.mime_type) for one in await kept(home)] == [
            ("log", "Input of Call", "application/json"),
            ("diff", "Diff of a.txt", "text/x-diff"),
            ("log", "Message", "text/plain"),
        ]
        one, diff, _ = await kept(home)
        assert len(await content(home, one)) > EVENT_BYTES
        assert (diff.path, diff.tool_call_id) == ("a.txt", "t")
        assert await content(home, diff) == b"+" + LONG.encode()
        (change, _) = home.of(FileChange, run.id)
        assert change.truncated


@pytest.mark.proves("AR10")
async def test_images_of_the_agent_are_media_and_those_of_a_browser_screenshots(
    tmp_path: Path,
) -> None:
    big = PNG + b"\1" * 400_000
    async with house(tmp_path, keep=FOREVER) as home:
        _, run, agent = await home.running()
        await agent.say(MessageChunk("m", Role.ASSISTANT, content=image()))
        await agent.say(Message("m", Role.ASSISTANT, [image()]))
        await agent.say(ToolCall("t", name="mcp__browser__take_screenshot", title="Look"))
        for _ in range(3):
            await agent.say(ToolUpdate("t", content=[image(big)]))
        sound = ContentBlock(ContentType.AUDIO, data=b"beep", mime_type="audio/wav")
        await agent.say(ToolUpdate("t", ToolStatus.COMPLETED, content=[image(big), sound]))
        await done(home, agent, run.id)
        found = await kept(home)
        assert [(one.kind, one.title, one.mime_type) for one in found] == [
            ("media", "image/png", "image/png"),
            ("screenshot", "Look", "image/png"),
            ("screenshot", "Look", "audio/wav"),
        ]
        assert await content(home, found[1]) == big
        shown = [update.content for update in home.of(ToolUpdate, run.id) if update.content]
        assert all(block.data is None and block.truncated for block in shown[0])


async def test_a_pull_request_is_an_artifact_without_bytes(tmp_path: Path) -> None:
    url = "https://forge.example/pulls/7"
    async with house(tmp_path, keep=FOREVER) as home:
        session, run, agent = await home.running()
        for _ in range(2):
            await agent.say(Git(pull_request_url=url))
        await done(home, agent, run.id)
        (record,) = await kept(home)
        assert (record.kind, record.url, record.size) == ("pull_request", url, None)
        (event,) = artifacts(home)
        assert isinstance(event.payload, Artifact) and event.payload.url == url
        with pytest.raises(Unsupported, match=url):
            await home.manager.open_artifact(record)
        again = (await home.prompt(session, "again")).run
        await agent.prompted()
        await agent.say(Git(pull_request_url=url))
        await done(home, agent, again.id)
        assert [one.runs for one in await kept(home)] == [[run.id, again.id]]


async def test_a_work_tree_that_stays_is_an_artifact_with_its_path(tmp_path: Path) -> None:
    async with house(tmp_path, keep=FOREVER) as home:
        session, run, agent = await home.running()
        home.session(session).gathering.kept_workspace(run.id, "/trees/one", "agent/one")
        await done(home, agent, run.id)
        (record,) = await kept(home)
        assert (record.kind, record.path, record.title) == ("workspace", "/trees/one", "agent/one")
        with pytest.raises(Unsupported, match="/trees/one"):
            await home.manager.open_artifact(record)


async def test_what_is_ready_after_the_end_is_late(tmp_path: Path) -> None:
    async with house(tmp_path, keep=FOREVER) as home:
        _, run, agent = await home.running()
        native = agent.native
        await done(home, agent, run.id)
        agent.turns[native] = NativeTurnId("gone")
        await agent.say(ToolUpdate("t", ToolStatus.COMPLETED, output_replace=LONG))
        await home.until(lambda: artifacts(home))
        assert artifacts(home)[0].after_run_id == run.id
        agent.turns.clear()


# Secrets.


@pytest.mark.proves("AR11")
async def test_secrets_are_taken_out_and_it_is_said(tmp_path: Path) -> None:
    secret = "correct-horse-battery"
    (tmp_path / "a").write_text(f"password={secret}, key=sk-looks-like-a-key-123")
    pictures = Pictures()
    async with house(tmp_path, keep=FOREVER, redactor=redactor, snapshots=pictures) as home:
        home.entries.secrets = (secret, "short")
        _, run, agent = await home.running()
        await agent.say(FileChange("a"))
        await agent.say(ToolCall("t", command="env"))
        told = f"{secret} sk-looks-like-a-key-123 short\n{LONG}"
        await agent.say(ToolUpdate("t", ToolStatus.COMPLETED, output_replace=told))
        pictures.tree = secret
        await done(home, agent, run.id)
        log, file, patch = await kept(home)
        assert log.redacted and file.redacted and patch.redacted
        assert (await content(home, log)).startswith(b"[redacted] [redacted] short\nline 0")
        # A file and a patch stay what they are, but for the very values.
        assert await content(home, file) == b"password=[redacted], key=sk-looks-like-a-key-123"
        assert await content(home, patch) == b"0->[redacted]"
        assert patch.title.endswith("(secrets taken out: it does not apply)")


async def test_a_pipe_waits_while_too_much_is_on_its_way_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "PENDING_BYTES", 1000)
    async with house(tmp_path, keep=FOREVER) as home:
        _, run, agent = await home.running()
        store = home.manager.deps.artifacts
        assert store is not None
        most = 0
        for number in range(10):
            await agent.say(Message(f"m{number}", Role.ASSISTANT, [image(PNG + bytes([number]))]))
            large = ContentBlock(ContentType.TEXT, text=f"{number}{LONG}")
            await agent.say(Message(f"n{number}", Role.ASSISTANT, [large]))
            most += store.crowded
        assert most == 0
        await done(home, agent, run.id)
        assert len(await kept(home)) == 20
