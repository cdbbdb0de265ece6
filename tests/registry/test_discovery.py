"""Which agents are here, found without starting a turn and without reading a credential."""

# Small files of the test's own, and nothing else runs on its loop.
# ruff: noqa: ASYNC240

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.spec import Entry
from agentctl_registry import discovery
from agentctl_registry.catalog import Catalog
from agentctl_registry.discovery import Discovery, Found, Login, login_of, program_of
from agentctl_registry.models import to_entry

pytestmark = pytest.mark.anyio

Program = Callable[..., Path]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


def touch(path: Path, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def look(given: Entry, home: Path, **base: str) -> Found:
    with anyio.fail_after(20):
        base = {"PATH": "/nowhere", **base}
        return (await Discovery(python="/nowhere/python").discover([given], base=base, home=home))[
            0
        ]


def gemini() -> Entry:
    return Catalog.load().get("gemini")


@pytest.mark.proves("KG1")
async def test_gemini_appears_as_installed_when_its_credentials_exist(home: Path) -> None:
    creds = touch(home / ".gemini/oauth_creds.json", "never read")
    creds.chmod(0)
    seen = await look(gemini(), home)
    assert (seen.installed, seen.login, seen.via) == (True, Login.YES, "~/.gemini/oauth_creds.json")
    assert seen.note == f"{creds} exists, but gemini is not on PATH"
    assert seen.install == "npm install -g @google/gemini-cli"
    assert seen.mcp_config_paths == (str(home / ".gemini/settings.json"),)


async def test_nothing_here_is_not_installed_and_not_logged_in(home: Path) -> None:
    seen = await look(gemini(), home)
    assert (seen.installed, seen.path, seen.login) == (False, "", Login.NO)


async def test_a_binary_on_path_is_installed_and_tells_its_version(
    home: Path, program: Program
) -> None:
    path = program("gemini", '[ "$1" = --version ] && echo "gemini-cli v0.61.0 (x)"')
    seen = await look(gemini(), home, PATH=f"{path.parent}:/bin", GEMINI_API_KEY="k")
    assert (seen.path, seen.version) == (str(path), "0.61.0")
    assert (seen.login, seen.via) == (Login.YES, "GEMINI_API_KEY")


async def test_an_npm_package_tells_its_version_without_being_started(
    home: Path, program: Program
) -> None:
    started = home / "started"
    script = program("node_modules/@s/tool/bin/tool.js", f"touch {started}; echo 9.9.9")
    touch(script.parent.parent / "package.json", '{"name": "@s/tool", "version": "1.4.0-rc.1"}')
    link = script.parents[4] / "tool"
    link.symlink_to(script)
    seen = await look(to_entry({"id": "x", "cmd": [str(link)]}, "user"), home)
    assert (seen.version, started.exists()) == ("1.4.0-rc.1", False)


async def test_asking_for_a_version_writes_nothing_to_the_users_home(
    home: Path, program: Program
) -> None:
    path = program("x", 'touch "$HOME/left" "$XDG_CONFIG_HOME/left" left; echo 1.2.3')
    given = to_entry({"id": "x", "cmd": [str(path)]}, "user")
    seen = await look(given, home, PATH="/usr/bin:/bin", HOME=str(home), XDG_CONFIG_HOME=str(home))
    assert seen.version == "1.2.3"
    assert list(home.iterdir()) == []


async def test_the_demo_agent_is_found_beside_our_python(home: Path) -> None:
    with anyio.fail_after(20):
        found = await Discovery().discover(
            [Catalog.load().get("demo")], base={"PATH": "/nowhere"}, home=home
        )
    assert (found[0].installed, Path(found[0].path).name) == (True, "agentctl-demo")
    assert found[0].version


async def test_npx_means_runnable_and_is_never_asked_for_a_version(
    home: Path, program: Program
) -> None:
    asked = home / "asked"
    path = program("npx", f"touch {asked}; echo 9.9.9")
    given = to_entry({"id": "x", "cmd": ["npx", "-y", "@s/pkg@1.0", "--acp"]}, "user")
    seen = await look(given, home, PATH=f"{path.parent}:/usr/bin:/bin")
    assert (seen.installed, seen.path, seen.version) == (True, str(path), "")
    assert seen.note == "runs through npx, which downloads it at the first start"
    assert not await anyio.Path(asked).exists()


async def test_a_program_that_hangs_or_fails_costs_its_version_only(
    home: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "VERSION_TIMEOUT_S", 0.3)
    hangs = program("hangs", "sleep 60 & sleep 60")
    loud = program("loud", "head -c 1000000 /dev/zero; echo 1.2.3")
    for path in (hangs, loud):
        given = to_entry({"id": "x", "cmd": [str(path)]}, "user")
        seen = await look(given, home, PATH="/usr/bin:/bin")
        assert (seen.installed, seen.version) == (True, "")


async def test_a_known_version_costs_no_second_process(home: Path, program: Program) -> None:
    count = home / "count"
    path = program("x", f"echo run >> {count}; echo 1.2.3")
    given, finder = to_entry({"id": "x", "cmd": [str(path)]}, "user"), Discovery()
    for _ in range(2):
        with anyio.fail_after(20):
            found = await finder.discover([given], base={"PATH": "/bin"}, home=home)
        assert found[0].version == "1.2.3"
    assert await anyio.Path(count).read_text() == "run\n"


async def test_a_server_that_already_runs_needs_no_program(home: Path) -> None:
    url = "http://me:secret@127.0.0.1:4096"
    seen = await look(to_entry({"id": "x", "url": url}, "user"), home)
    assert (seen.installed, seen.note) == (True, "a server at http://127.0.0.1:4096")


async def test_all_packaged_agents_are_looked_for_at_once(home: Path) -> None:
    entries = Catalog.load().entries()
    with anyio.fail_after(30):
        found = await Discovery().discover(entries, base={"PATH": "/nowhere"}, home=home)
    assert [each.entry_id for each in found] == [each.id for each in entries]
    assert [each.entry_id for each in found if each.installed] == ["demo"]


@pytest.mark.parametrize(
    ("entry_id", "file", "env", "state"),
    [
        ("gemini", "", "GOOGLE_API_KEY", Login.YES),
        ("claude-acp", ".claude/.credentials.json", "", Login.YES),
        ("claude-acp", "", "ANTHROPIC_API_KEY", Login.YES),
        ("claude-acp", "", "OPENAI_API_KEY", Login.NO),
        ("codex-acp", ".codex/auth.json", "", Login.YES),
        ("codex-acp", "", "OPENAI_API_KEY", Login.YES),
        ("opencode-acp", ".local/share/opencode/auth.json", "", Login.YES),
        ("qwen", ".qwen/oauth_creds.json", "", Login.YES),
        ("copilot", "", "GH_TOKEN", Login.YES),
        ("auggie", ".augment/session.json", "", Login.YES),
        ("demo", "", "", Login.UNKNOWN),
    ],
)
def test_a_login_is_seen_by_what_exists(
    home: Path, entry_id: str, file: str, env: str, state: Login
) -> None:
    if file:
        touch(home / file).chmod(0)
    base = {env: "k"} if env else {}
    assert login_of(Catalog.load().get(entry_id), base, home)[0] is state


@pytest.mark.parametrize("text", ["not json", "[]", '{"security": 1}', ""])
def test_settings_that_say_nothing_show_no_login(home: Path, text: str) -> None:
    touch(home / ".gemini/settings.json", text)
    assert login_of(gemini(), {}, home) == (Login.NO, "")


def test_a_chosen_way_to_log_in_is_no_proof_of_a_login(home: Path) -> None:
    chosen = {"security": {"auth": {"selectedType": "vertex-ai"}}}
    touch(home / ".gemini/settings.json", "// mine\n" + json.dumps(chosen))
    assert login_of(gemini(), {}, home) == (
        Login.UNKNOWN,
        "security.auth.selectedType vertex-ai in ~/.gemini/settings.json",
    )


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"cmd": ["gemini", "--acp"]}, "gemini"),
        ({"cmd": ["npx", "-y", "@google/gemini-cli@0.23.0", "--acp"]}, "gemini-cli"),
        ({"cmd": ["npx", "-y", "opencode-ai@1.1.25"], "discovery": {"binary": "opencode"}}, "opencode"),
        ({"cmd": ["{home}/bin/x"]}, "/h/bin/x"),
    ],
)  # fmt: skip
def test_the_program_looked_for_is_the_agents_own(fields: dict[str, Any], name: str) -> None:
    assert program_of(to_entry({"id": "x", **fields}, "user"), Path("/h")) == name
