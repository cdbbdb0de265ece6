"""What the real agents change with their own tools is a patch that applies, and files as they are."""

import subprocess
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import orjson
import pytest

from agentctl import v1
from agentctl.rpc.enums import words
from tests.real.agents import AGENTS
from tests.real.opencode import make_repository
from tests.real.served import Served
from tests.workspace.repos import environment

pytestmark = [pytest.mark.anyio, pytest.mark.real]

EDIT = "READ readme.md || EDIT readme.md hello changed || WRITE made.txt new || SAYTEXT done"


@pytest.fixture(params=list(AGENTS))
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with AGENTS[request.param].serving(tmp_path) as it:
        await anyio.to_thread.run_sync(make_repository, it.home.workspace)
        yield it


def git(home: Path, folder: Path, *args: str, feed: bytes | None = None) -> None:
    done = subprocess.run(
        ["git", *args],
        cwd=folder,
        env=environment(home),
        input=feed,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")


def plain(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = ((str(path.relative_to(folder)), path) for path in paths)
    return {name: path.read_bytes() for name, path in names if not name.startswith(".git/")}


async def clean_checkout(served: Served) -> Path:
    root, clean = served.home.root, served.home.root / "clean"
    source = str(served.home.workspace)
    await anyio.to_thread.run_sync(partial(git, root, root, "clone", "-q", source, str(clean)))
    return clean


async def got(served: Served, artifact: v1.ArtifactSummary) -> bytes:
    pieces = served.client.artifacts.download(artifact.artifact_id)
    return b"".join([piece.data async for piece in pieces])


def kinds(artifacts: Sequence[v1.ArtifactSummary]) -> dict[str, list[v1.ArtifactSummary]]:
    found: dict[str, list[v1.ArtifactSummary]] = {}
    for each in artifacts:
        found.setdefault(words(v1.ArtifactKind.DESCRIPTOR)[each.kind], []).append(each)
    return found


@pytest.mark.proves("AR1", "AR17", "W1")
async def test_the_patch_of_a_real_agents_run_gives_its_workspace(served: Served) -> None:
    clean = await clean_checkout(served)
    session = await served.session(policy="allow")
    turn = await served.ask(session, EDIT)
    assert turn.outcome == "completed"
    workspace = served.home.workspace
    assert (workspace / "made.txt").read_text().strip() == "new"
    assert "changed" in (workspace / "readme.md").read_text()
    assert turn.kinds.index("artifact") > turn.kinds.index("tool_call")

    run = await served.client.runs.get(turn.run_id)
    made = kinds(run.artifacts)
    (patch,) = made["patch"]
    assert patch.title.startswith("2 files, +")
    assert patch.commit and not patch.redacted
    feed = await got(served, patch)
    await anyio.to_thread.run_sync(partial(git, served.home.root, clean, "apply", feed=feed))
    assert await anyio.to_thread.run_sync(plain, clean) == await anyio.to_thread.run_sync(
        plain, workspace
    )

    files = {each.title: await got(served, each) for each in made["file"]}
    assert files == {name: (workspace / name).read_bytes() for name in ("made.txt", "readme.md")}
    (told,) = made["trajectory"]
    lines = [orjson.loads(line) for line in (await got(served, told)).splitlines()]
    assert lines == list(turn.rows)


async def test_a_run_of_a_real_agent_that_changes_nothing_has_no_patch(served: Served) -> None:
    session = await served.session(policy="allow")
    turn = await served.ask(session, "READ readme.md || SAYTEXT done")
    assert turn.outcome == "completed"
    run = await served.client.runs.get(turn.run_id)
    assert list(kinds(run.artifacts)) == ["trajectory"]
