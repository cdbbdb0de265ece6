"""Overlay and private homes: ours over the user's, and the user's files never written."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import Invalid
from agentctl.core.spec import Entry
from agentctl_registry.catalog import Catalog
from agentctl_registry.models import to_entry
from agentctl_registry.overlay import merge_settings, parse_settings, prepare_home

SETTINGS = """{
  // how I log in
  "security": {"auth": {"selectedType": "oauth-personal"}},
  "general": {"vimMode": true, "maxAttempts": 10,},
  "url": "http://x/*y*/"
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    (path / ".gemini").mkdir(parents=True)
    (path / ".gemini/settings.json").write_text(SETTINGS)
    (path / ".gemini/oauth_creds.json").write_text("secret")
    return path


def gemini(mode: str) -> Entry:
    return to_entry({**Catalog.load().get("gemini").raw, "home": mode}, "user")


def contents(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(each.relative_to(root)): (each.read_text(), each.stat().st_mtime_ns)
        for each in root.rglob("*")
        if each.is_file()
    }


def test_by_default_the_agent_sees_the_users_own_home(tmp_path: Path, home: Path) -> None:
    entry = Catalog.load().get("gemini")
    assert prepare_home(entry, data_dir=tmp_path / "data", home=home, base={}) == {}
    assert not (tmp_path / "data").exists()


def test_an_overlay_merges_settings_and_links_credentials(tmp_path: Path, home: Path) -> None:
    before = contents(home)
    env = prepare_home(gemini("overlay"), data_dir=tmp_path / "data", home=home, base={})
    root = Path(env["GEMINI_CLI_HOME"])
    assert root == tmp_path / "data/homes/gemini-overlay"
    made = root / ".gemini"
    settings: dict[str, Any] = json.loads((made / "settings.json").read_text())
    assert settings["security"] == {"auth": {"selectedType": "oauth-personal"}}
    assert settings["general"]["vimMode"] is True
    assert settings["general"]["maxAttempts"] == 3
    assert settings["general"]["sessionRetention"] == {"enabled": False}
    assert settings["tools"] == {"shell": {"enableInteractiveShell": False}}
    assert settings["url"] == "http://x/*y*/"
    assert (made / "oauth_creds.json").readlink() == home / ".gemini/oauth_creds.json"
    assert not (made / "google_accounts.json").is_symlink()
    assert stat.S_IMODE((made / "settings.json").stat().st_mode) == 0o600
    assert contents(home) == before


def test_an_overlay_follows_the_users_later_changes(tmp_path: Path, home: Path) -> None:
    def prepare() -> Path:
        env = prepare_home(gemini("overlay"), data_dir=tmp_path / "data", home=home, base={})
        return Path(env["GEMINI_CLI_HOME"], ".gemini")

    (prepare() / "tmp").mkdir()
    (home / ".gemini/settings.json").write_text('{"general": {"vimMode": false}}')
    (home / ".gemini/google_accounts.json").write_text("{}")
    made = prepare()
    assert json.loads((made / "settings.json").read_text())["general"]["vimMode"] is False
    assert (made / "google_accounts.json").is_symlink()
    assert (made / "tmp").is_dir()


def test_a_private_home_holds_nothing_of_the_user(tmp_path: Path, home: Path) -> None:
    env = prepare_home(gemini("private"), data_dir=tmp_path / "data", home=home, base={})
    made = Path(env["GEMINI_CLI_HOME"], ".gemini")
    assert [each.name for each in made.iterdir()] == ["settings.json"]
    assert "security" not in json.loads((made / "settings.json").read_text())


def test_a_home_that_the_user_chose_by_variable_is_the_one_laid_under(
    tmp_path: Path, home: Path
) -> None:
    base = {"GEMINI_CLI_HOME": str(home)}
    env = prepare_home(gemini("overlay"), data_dir=tmp_path, home=tmp_path / "other", base=base)
    assert Path(env["GEMINI_CLI_HOME"], ".gemini/oauth_creds.json").is_symlink()


@pytest.mark.parametrize("text", ["[]", "{", "\x00"])
def test_settings_that_cannot_be_read_are_told(tmp_path: Path, home: Path, text: str) -> None:
    path = home / ".gemini/settings.json"
    path.write_text(text)
    with pytest.raises(Invalid, match=r"its settings .*settings\.json cannot be used"):
        prepare_home(gemini("overlay"), data_dir=tmp_path / "data", home=home, base={})
    assert path.read_text() == text


def test_an_overlay_needs_to_be_told_where_settings_lie(tmp_path: Path) -> None:
    entry = to_entry({"id": "x", "cmd": ["x"], "home": "overlay"}, "user")
    with pytest.raises(Invalid, match=r"x: home overlay needs protocol_config\.overlay"):
        prepare_home(entry, data_dir=tmp_path, home=tmp_path, base={})


def test_settings_merge_key_by_key_and_lists_replace() -> None:
    assert merge_settings({"a": {"x": 1, "y": [1]}, "b": 2}, {"a": {"y": [2]}, "c": {"d": 1}}) == {
        "a": {"x": 1, "y": [2]},
        "b": 2,
        "c": {"d": 1},
    }


def test_settings_may_hold_comments_as_agents_allow() -> None:
    assert parse_settings('/* a */ {"k": "// no, /* no */ ,}", "l": [1, /* b */ ], // c\n}') == {
        "k": "// no, /* no */ ,}",
        "l": [1],
    }
