"""Layers, the seed entries, and what a bad file does to a registry in force."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import Invalid, NotFound, Refused
from agentctl_registry.catalog import Catalog
from agentctl_registry.changes import Change, ChangeKind

from .conftest import Write

SEED = Path(__file__).with_name("seed-entries.json")
SEED_ENTRIES: list[dict[str, Any]] = json.loads(SEED.read_text())["agents"]


def empty(tmp_path: Path) -> Path:
    path = tmp_path / "none.json"
    path.write_text('{"agents": []}')
    return path


def test_the_seed_entries_load_unchanged_as_a_project_file(tmp_path: Path) -> None:
    catalog = Catalog.load(packaged=empty(tmp_path), project=SEED)
    assert catalog.problems == ()
    for given in SEED_ENTRIES:
        shown = catalog.get(given["id"])
        assert json.dumps(shown.raw) == json.dumps(given)
        assert shown.source == "project"


def test_the_seed_entries_win_field_by_field_over_the_packaged_ones() -> None:
    catalog = Catalog.load(project=SEED)
    for given in SEED_ENTRIES:
        shown = catalog.get(given["id"]).raw
        assert {key: shown[key] for key in given} == given
    assert "GEMINI_API_KEY" in catalog.get("gemini").env_passthrough


@pytest.mark.proves("R2")
def test_an_entry_is_laid_over_the_same_id_below_field_by_field(
    packaged: Path, user: Path, project: Path, write: Write
) -> None:
    write(user, {"id": "alpha", "env": {"B": "2"}, "mine": 1}, {"id": "gamma", "cmd": ["gamma"]})
    write(project, {"id": "alpha", "cmd": ["/opt/alpha"]})
    catalog = Catalog.load(packaged, user, project)
    alpha = catalog.get("alpha")
    assert [each.id for each in catalog.entries()] == ["alpha", "beta", "gamma"]
    assert alpha.raw == {
        "id": "alpha",
        "cmd": ["/opt/alpha"],
        "env": {"B": "2"},
        "install": "get alpha",
        "mine": 1,
    }
    assert [catalog.get(each).source for each in ("alpha", "beta", "gamma")] == [
        "project",
        "packaged",
        "user",
    ]


@pytest.mark.parametrize("text", ["{", '{"agents": [{"id": "alpha", "cmd": 1}]}', "\x00", ""])
def test_a_bad_user_file_leaves_the_packaged_entries_and_is_told(
    packaged: Path, user: Path, text: str
) -> None:
    user.parent.mkdir()
    user.write_text(text)
    catalog = Catalog.load(packaged, user)
    assert [each.id for each in catalog.entries()] == ["alpha", "beta"]
    assert [each.file for each in catalog.problems] == [str(user)]


@pytest.mark.proves("R3")
def test_a_file_that_goes_bad_leaves_its_last_good_version_in_force(
    packaged: Path, user: Path, write: Write
) -> None:
    write(user, {"id": "alpha", "name": "good"})
    catalog = Catalog.load(packaged, user)
    user.write_text('{"agents": [')
    told = catalog.reload()
    assert catalog.get("alpha").name == "good"
    assert [each.line for each in catalog.problems] == [1]
    assert told == [Change(ChangeKind.PROBLEM, str(user))]
    write(user, {"id": "alpha", "name": "better"})
    assert Change(ChangeKind.CHANGED, "alpha") in catalog.reload()
    assert (catalog.get("alpha").name, catalog.problems) == ("better", ())


def test_a_file_that_is_none_is_told_in_one_sentence(packaged: Path, user: Path) -> None:
    user.mkdir(parents=True)
    assert [each.short() for each in Catalog.load(packaged, user).problems] == [
        "agents.json: expected a file, found a directory or device"
    ]
    user.rmdir()
    user.write_bytes(b'{"agents": [\n"\xff"]}')
    assert [each.short() for each in Catalog.load(packaged, user).problems] == [
        "agents.json: expected UTF-8 text, found another byte on line 2"
    ]


def test_a_named_pipe_as_registry_does_not_hang_the_start(packaged: Path, user: Path) -> None:
    user.parent.mkdir()
    os.mkfifo(user)
    assert len(Catalog.load(packaged, user).problems) == 1


def test_a_record_whose_base_is_gone_is_told_and_left_out(
    packaged: Path, user: Path, project: Path, write: Write
) -> None:
    write(user, {"id": "gamma", "cmd": ["gamma"]})
    write(project, {"id": "gamma", "name": "G"})
    catalog = Catalog.load(packaged, user, project)
    assert catalog.problems == ()
    write(user)
    catalog.reload()
    assert catalog.find("gamma") is None
    assert [each.short() for each in catalog.problems] == [
        "agents.json: gamma has no cmd and no url, and no entry below it has"
    ]


def test_a_bad_packaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agents.json"
    path.write_text("[]")
    with pytest.raises(Invalid, match="The installation is damaged"):
        Catalog.load(path)


def test_an_unknown_agent_gets_the_nearest_name(packaged: Path) -> None:
    with pytest.raises(NotFound) as caught:
        Catalog.load(packaged).get("alpa")
    assert caught.value.reason == "AGENT_NOT_FOUND"
    assert (
        caught.value.message
        == 'there is no agent "alpa". Did you mean "alpha"? (agentctl registry ls)'
    )


def test_a_disabled_agent_does_not_start(packaged: Path, user: Path, write: Write) -> None:
    write(user, {"id": "alpha", "enabled": False})
    with pytest.raises(Refused) as caught:
        Catalog.load(packaged, user).startable("alpha")
    assert caught.value.reason == "AGENT_DISABLED"
    assert "agentctl registry enable alpha" in caught.value.message


def test_the_packaged_entries_are_good_and_keep_to_their_own_keys() -> None:
    catalog = Catalog.load()
    assert [each.id for each in catalog.entries()] == [
        "demo",
        "gemini",
        "opencode",
        "opencode-acp",
        "claude",
        "claude-acp",
        "codex",
        "codex-acp",
        "qwen",
        "copilot",
        "auggie",
    ]
    gemini = catalog.get("gemini")
    assert gemini.cmd == ("gemini", "--experimental-acp")
    assert gemini.env == {"GEMINI_CLI_NO_RELAUNCH": "1"}
    # It destroys a session that is loaded in the minute that made it.
    assert gemini.protocol_config["min_resume_age_s"]
    codex = catalog.get("codex")
    assert (codex.protocol, codex.sharing) == ("codex", "shared")
    assert not [each for each in codex.env_passthrough if each.startswith(("ANTHROPIC", "GEMINI"))]
    claude = catalog.get("claude")
    assert (claude.protocol, claude.sharing) == ("claude-code", "exclusive")
    assert not [each for each in claude.env_passthrough if each.startswith(("OPENAI", "GEMINI"))]
    foreign = ("ANTHROPIC", "OPENAI", "CODEX", "AUGMENT", "COPILOT", "QWEN", "GH_", "*")
    assert not [each for each in gemini.env_passthrough if each.startswith(foreign)]
