"""Snapshots that take as long as a test wants, and what a test wants to see of artifacts."""

import contextlib
from pathlib import Path
from typing import Any, cast

import anyio

from agentctl.core.events import Artifact
from agentctl.session.artifacts import ArtifactRule
from agentctl.session.records import ArtifactRecord
from agentctl.workspace.snapshot import Patch, Snapshot
from tests.session.fakes import Bell
from tests.session.house import House

FOREVER = ArtifactRule()


class Pictures:
    """A work tree whose content is `tree`; the patch between two is their names."""

    def __init__(self) -> None:
        self.tree = "0"
        self.taken: list[str] = []
        self.why = ""
        self.bell = Bell()
        self.hold: anyio.Event | None = None
        """What the next ones wait for."""
        self.patching: anyio.Event | None = None
        """What the next patches wait for."""

    async def take(self, workspace: str) -> Snapshot | None:
        self.taken.append(self.tree)
        self.bell.ring()
        if self.hold is not None:
            await self.hold.wait()
        return cast(Snapshot, Picture(self.tree))

    def trouble(self, workspace: str) -> str:
        return self.why

    async def patch(self, before: Snapshot, after: Snapshot) -> Patch | None:
        if self.patching is not None:
            await self.patching.wait()
        if before.tree == after.tree:
            return None
        return Patch(f"{before.tree}->{after.tree}".encode(), 1, 2, 3, "c0ffee")


class Picture:
    def __init__(self, tree: str) -> None:
        self.tree = tree


def artifacts(home: House, run_id: str | None = None) -> list[Any]:
    """The artifact events, of a run or late of it."""
    return [
        event
        for event in home.spy.committed
        if isinstance(event.payload, Artifact)
        and run_id in (None, event.run_id, event.after_run_id)
    ]


async def kept(home: House, **where: Any) -> list[ArtifactRecord]:
    """The artifacts but the trajectories, oldest first."""
    found, token = await home.manager.list_artifacts(**where)
    assert not token
    return [record for record in reversed(found) if record.kind != "trajectory"]


async def content(home: House, record: ArtifactRecord) -> bytes:
    with await home.manager.open_artifact(record) as file:
        return file.read()


def blobs(home: House) -> list[bytes]:
    """The bytes of every file in the store, half ones too."""
    root: Path = home.path / "blobs"
    found: list[bytes] = []
    for path in root.rglob("*"):
        # One may go while we look.
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            found.append(path.read_bytes())
    return sorted(found)
