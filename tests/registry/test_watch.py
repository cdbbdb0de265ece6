"""Edits by hand are seen within a second, however the editor writes."""

# Small files of the test's own, and nothing else runs on its loop.
# ruff: noqa: ASYNC240

import json
import shutil
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from agentctl_registry.catalog import Catalog
from agentctl_registry.changes import Change, ChangeKind

from .conftest import Write

pytestmark = pytest.mark.anyio

# The promise of the registry's documentation.
SEEN_WITHIN_S = 1.0


@asynccontextmanager
async def watching(catalog: Catalog):  # the generator's type is plain to see
    async with anyio.create_task_group() as group:
        group.start_soon(catalog.watch)
        try:
            with catalog.subscribe() as changes:
                yield changes
        finally:
            group.cancel_scope.cancel()


def in_place(path: Path, text: str) -> None:
    path.write_text(text)


def renamed_over(path: Path, text: str) -> None:
    other = path.with_suffix(".tmp")
    other.write_text(text)
    other.replace(path)


def removed_and_made(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)


@pytest.mark.proves("R3")
@pytest.mark.parametrize("how", [in_place, renamed_over, removed_and_made])
async def test_an_edit_by_hand_is_in_force_within_a_second(
    packaged: Path, user: Path, write: Write, how: Callable[[Path, str], None]
) -> None:
    write(user, {"id": "alpha", "name": "old"})
    catalog = Catalog.load(packaged, user)
    running = catalog.get("alpha")
    async with watching(catalog) as changes:
        for name in ("one", "two"):
            how(user, json.dumps({"agents": [{"id": "alpha", "name": name}]}))
            with anyio.fail_after(SEEN_WITHIN_S):
                while catalog.get("alpha").name != name:
                    assert await anext(changes)
    assert running.name == "old"


async def test_a_file_made_in_a_directory_made_later_is_seen(
    packaged: Path, user: Path, write: Write
) -> None:
    catalog = Catalog.load(packaged, user)
    async with watching(catalog) as changes:
        with anyio.fail_after(5):
            write(user, {"id": "new", "cmd": ["new"]})
            assert await anext(changes) == Change(ChangeKind.ADDED, "new")
            shutil.rmtree(user.parent)
            assert await anext(changes) == Change(ChangeKind.REMOVED, "new")
            write(user, {"id": "again", "cmd": ["new"]})
            assert await anext(changes) == Change(ChangeKind.ADDED, "again")


async def test_a_bad_edit_by_hand_is_told_and_a_good_one_mends_it(
    packaged: Path, user: Path, write: Write
) -> None:
    write(user, {"id": "alpha", "name": "good"})
    catalog = Catalog.load(packaged, user)
    async with watching(catalog) as changes:
        with anyio.fail_after(5):
            user.write_text("{")
            assert await anext(changes) == Change(ChangeKind.PROBLEM, str(user))
            assert (catalog.get("alpha").name, len(catalog.problems)) == ("good", 1)
            write(user, {"id": "alpha", "name": "good"})
            assert await anext(changes) == Change(ChangeKind.PROBLEM, str(user))
            assert catalog.problems == ()
