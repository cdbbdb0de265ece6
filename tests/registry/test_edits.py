"""Edits by put, set, enable and delete: where they go, what they keep, what refuses them."""

# Small files of the test's own, and nothing else runs on its loop.
# ruff: noqa: ASYNC240

import json
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.errors import AgentctlError, DaemonFailed, Invalid, NotFound, Refused
from agentctl_registry.catalog import Catalog
from agentctl_registry.changes import Change, ChangeKind

from .conftest import Write

pytestmark = pytest.mark.anyio

HAND_MADE = """{
    "note": "mine",
    "agents": [
        { "zzz": [1], "id": "mine",   "cmd": ["/bin/mine"], "aaa": {"k": null} }
    ]
}
"""


@pytest.fixture
def catalog(packaged: Path, user: Path) -> Catalog:
    user.parent.mkdir()
    user.write_text(HAND_MADE)
    return Catalog.load(packaged, user)


async def test_disabling_a_packaged_agent_writes_only_that(packaged: Path, user: Path) -> None:
    catalog = Catalog.load(packaged, user)
    entry = await catalog.enable("alpha", False)
    assert (entry.enabled, entry.cmd) == (False, ("alpha", "--acp"))
    assert json.loads(user.read_text()) == {
        "version": 1,
        "agents": [{"id": "alpha", "enabled": False}],
    }
    assert stat.S_IMODE(user.stat().st_mode) == 0o600
    assert (await catalog.enable("alpha", True)).enabled
    assert json.loads(user.read_text())["agents"] == []


async def test_enabling_keeps_what_else_the_record_says(catalog: Catalog, user: Path) -> None:
    await catalog.put({"id": "alpha", "enabled": False, "name": "A"})
    await catalog.enable("alpha", True)
    assert json.loads(user.read_text())["agents"][1] == {"id": "alpha", "name": "A"}


@pytest.mark.proves("R2")
async def test_an_edit_keeps_unknown_fields_order_and_lay_out(catalog: Catalog, user: Path) -> None:
    await catalog.set_field("mine", "cmd[1]", "--fast")
    assert user.read_text() == HAND_MADE.replace('["/bin/mine"]', '["/bin/mine", "--fast"]')
    await catalog.set_field("mine", "cmd", ["/bin/mine"])
    assert json.loads(user.read_text()) == json.loads(HAND_MADE)
    await catalog.put(json.dumps(catalog.get("mine").raw))
    assert json.loads(user.read_text()) == json.loads(HAND_MADE)


async def test_a_second_edit_keeps_what_the_first_one_wrote(catalog: Catalog) -> None:
    await catalog.put({"id": "mine", "env": {"MODE": "fast"}})
    await catalog.put({"id": "alpha", "name": "A"})
    await catalog.put({"id": "alpha", "description": "B"})
    assert (catalog.get("mine").cmd, catalog.get("mine").env) == (("/bin/mine",), {"MODE": "fast"})
    assert (catalog.get("alpha").name, catalog.get("alpha").description) == ("A", "B")


async def test_edits_go_to_the_project_file_when_there_is_one(
    packaged: Path, user: Path, project: Path
) -> None:
    catalog = Catalog.load(packaged, user, project)
    await catalog.put({"id": "new", "cmd": ["new"]})
    assert (catalog.get("new").source, user.exists()) == ("project", False)
    assert catalog.edited_file == project


async def test_setting_inside_an_object_copies_what_lay_around_it(
    catalog: Catalog, user: Path
) -> None:
    entry = await catalog.set_field("alpha", "env.B", "2")
    assert entry.env == {"A": "1", "B": "2"}
    assert json.loads(user.read_text())["agents"][1] == {
        "id": "alpha",
        "env": {"A": "1", "B": "2"},
    }
    entry = await catalog.set_field("alpha", "resource_limits.memory_mb", 512)
    assert entry.memory_mb == 512


async def test_a_set_that_does_not_fit_is_refused_in_one_sentence(
    catalog: Catalog, user: Path
) -> None:
    with pytest.raises(Invalid) as caught:
        await catalog.set_field("beta", "cmd", ["beta", 3])
    error = caught.value
    assert (
        error.message
        == "agents.json: agents[1].cmd[1]: expected text, found 3. Nothing was changed."
    )
    assert error.reason == "REGISTRY_INVALID"
    assert error.metadata == {"file": str(user), "line": "9", "field": "agents[1].cmd[1]"}
    assert user.read_text() == HAND_MADE


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"cmd": ["x"]}, "agents.json: agents[1].id: expected a value, found nothing."),
        ({"id": "x", "cmd": ["./x"]}, "agents.json: agents[1].cmd[0]: expected a bare name"),
        ({"id": "x", "cmd": ["x"], "n": float("nan")}, "agents.json: expected JSON values"),
        ("{'id': 1}", "entry: agents[0]: expected a key in double quotes"),
        ("[]", "entry: expected one entry (an object), found a list."),
        ('{"id": "a"}, {"id": "b"}', "entry: expected one entry (an object), found 2 values."),
    ],
)
async def test_a_bad_entry_is_not_put(catalog: Catalog, user: Path, raw: Any, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        await catalog.put(raw)
    assert caught.value.message.startswith(message)
    assert caught.value.message.endswith("Nothing was changed.")
    assert user.read_text() == HAND_MADE


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("", '"" names no field'),
        ("cmd[", '"cmd[" names no field'),
        ("[0]", '"[0]" names no field'),
        ("id", "an entry's id cannot be changed"),
        ("cmd[5]", "cmd has 2 items; the next one is [2]"),
        ("cmd.x", "cmd is not an object, so it has no x"),
        ("name.x", "name is not an object, so it has no x"),
        ("env[0]", "env is not a list, so it has no [0]"),
    ],
)
async def test_a_field_that_leads_nowhere_is_told(
    catalog: Catalog, field: str, message: str
) -> None:
    await catalog.set_field("alpha", "name", "A")
    with pytest.raises(Invalid) as caught:
        await catalog.set_field("alpha", field, 1)
    assert caught.value.message.startswith(message)


async def test_a_packaged_entry_is_disabled_and_not_deleted(catalog: Catalog) -> None:
    with pytest.raises(Refused, match="disable it instead: agentctl registry disable alpha"):
        await catalog.delete("alpha")


async def test_deleting_an_own_entry_or_override(catalog: Catalog) -> None:
    await catalog.set_field("alpha", "name", "Mine")
    await catalog.delete("mine")
    await catalog.delete("alpha")
    assert catalog.find("mine") is None
    assert catalog.get("alpha").name == ""


async def test_an_unknown_agent_is_told_on_every_edit(catalog: Catalog) -> None:
    for call in (
        catalog.delete("nope"),
        catalog.enable("nope", True),
        catalog.set_field("nope", "name", "x"),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_file_that_is_already_wrong_is_not_edited(catalog: Catalog, user: Path) -> None:
    user.write_text('{"agents": [}')
    with pytest.raises(Invalid) as caught:
        await catalog.enable("alpha", False)
    assert caught.value.message == (
        "agents.json: agents[0]: expected a value, found }. Mend the file first. "
        "Nothing was changed."
    )
    assert user.read_text() == '{"agents": [}'


async def test_mode_and_symbolic_link_stay(catalog: Catalog, user: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    user.rename(real)
    real.chmod(0o640)
    user.symlink_to(real)
    await catalog.enable("beta", False)
    assert user.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert "beta" in real.read_text()
    assert sorted(each.name for each in tmp_path.glob(".*")) == []


async def test_a_failed_write_changes_nothing(
    catalog: Catalog, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("agentctl_registry.files.os.fsync", full)
    with pytest.raises(DaemonFailed, match=r"cannot be written: No space left.* Nothing was"):
        await catalog.enable("alpha", False)
    assert catalog.get("alpha").enabled
    assert user.read_text() == HAND_MADE
    assert [each.name for each in user.parent.iterdir()] == ["agents.json"]


async def test_without_a_file_to_edit_the_edit_is_refused(packaged: Path) -> None:
    with pytest.raises(AgentctlError, match="--registry FILE"):
        await Catalog.load(packaged).enable("alpha", False)


async def test_edits_at_once_all_arrive(catalog: Catalog, user: Path) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(catalog.put, {"id": f"n{number}", "cmd": ["n"]})
    assert len(json.loads(user.read_text())["agents"]) == 21


async def test_an_edit_is_told_to_subscribers(catalog: Catalog) -> None:
    with catalog.subscribe() as changes, anyio.fail_after(10):
        await catalog.put({"id": "new", "cmd": ["new"]})
        await catalog.set_field("new", "name", "N")
        await catalog.enable("alpha", False)
        assert [await anext(changes) for _ in range(2)] == [
            Change(ChangeKind.ADDED, "new"),
            Change(ChangeKind.CHANGED, "alpha"),
        ]


async def test_validate_says_what_would_be_wrong(packaged: Path, user: Path, write: Write) -> None:
    catalog = Catalog.load(packaged, user)
    assert catalog.validate('{"agents": [{"id": "alpha", "name": "x"}]}') == []
    assert [str(each) for each in catalog.validate('{"agents": [{"id": "other"}]}')] == [
        "agents.json:1:13: agents[0]: expected cmd (or url), found neither"
    ]
