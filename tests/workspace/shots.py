"""Snapshots around what a test does, and what becomes of their patch in a clean checkout."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from agentctl.workspace.git import Git
from agentctl.workspace.snapshot import Patch, Snapshots
from tests.workspace.repos import Repo, environment

# Git on a loaded machine may take its time; a test that waits longer has found a hang.
TEST_S = 60.0


def snapshots(root: Path, **env: str) -> Snapshots:
    return Snapshots(root / "data", Git({**environment(root / "home"), **env}))


@asynccontextmanager
async def watched(
    repo: Repo, root: Path, workspace: Path | None = None
) -> AsyncGenerator[list[Patch | None]]:
    """The patch of what the body does."""
    shots = snapshots(root)
    where = str(workspace or repo.path)
    made: list[Patch | None] = []
    with anyio.fail_after(TEST_S):
        before = await shots.take(where)
        assert before is not None
        yield made
        after = await shots.take(where)
        assert after is not None
        made.append(await shots.patch(before, after))


def applied(repo: Repo, patch: Patch | None, root: Path) -> Repo:
    """A clean checkout of the commit that the patch names, with the patch applied."""
    assert patch is not None and patch.commit
    other = repo.clone(root / "clean", patch.commit)
    other.git("apply", feed=patch.data)
    return other
