"""What an agent may see of the daemon's environment, and what a reader may see of a secret."""

from pathlib import Path

import pytest

from agentctl.process.env import redactor, resolve_secret, scrub, which
from agentctl.process.errors import SecretUnavailable

BASE = {
    "PATH": "/bin",
    "HOME": "/h",
    "LC_ALL": "C",
    "XDG_CONFIG_HOME": "/x",
    "https_proxy": "p",
    "HTTPS_PROXY": "p",
    "NO_PROXY": "n",
    "NODE_EXTRA_CA_CERTS": "c",
    "npm_config_proxy": "leak",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "AGENTCTL_TOKEN": "t",
    "OPENAI_API_KEY": "other agent's",
    "GEMINI_API_KEY": "own",
    "GEMINI_MODEL": "m",
    "DISPLAY": ":0",
}


@pytest.mark.proves("P12")
def test_only_listed_variables_pass() -> None:
    env = scrub(BASE, entry_env={}, passthrough=["GEMINI_API_KEY"])
    assert sorted(env) == [
        "GEMINI_API_KEY",
        "HOME",
        "HTTPS_PROXY",
        "LC_ALL",
        "NODE_EXTRA_CA_CERTS",
        "NO_PROXY",
        "PATH",
        "XDG_CONFIG_HOME",
        "https_proxy",
    ]


@pytest.mark.proves("P12")
def test_what_never_passes_does_not_pass_by_name_either() -> None:
    env = scrub(
        BASE, entry_env={}, passthrough=["npm_*", "CLAUDE*", "AGENTCTL_TOKEN", "CLAUDECODE"]
    )
    assert not [name for name in env if name.startswith(("npm_", "CLAUDE", "AGENTCTL_"))]


@pytest.mark.proves("P12")
def test_a_variable_of_claude_code_passes_only_to_the_entry_that_names_it() -> None:
    base = {"CLAUDE_CODE_OAUTH_TOKEN": "t", "CLAUDE_CODE_SSE_PORT": "1"}
    assert scrub(base, entry_env={}, passthrough=["CLAUDE_CODE_*"]) == {}
    named = scrub(base, entry_env={}, passthrough=["CLAUDE_CODE_OAUTH_TOKEN"])
    assert named == {"CLAUDE_CODE_OAUTH_TOKEN": "t"}


def test_the_entry_wins_over_the_base_and_the_start_over_the_entry() -> None:
    env = scrub(
        BASE,
        entry_env={"HOME": "/entry", "A": "entry", "CLAUDE_CODE_X": "set"},
        passthrough=["GEMINI_*"],
        strip=["GEMINI_MODEL", "XDG_*"],
        extra={"A": "start"},
    )
    assert (env["HOME"], env["A"], env["GEMINI_API_KEY"]) == ("/entry", "start", "own")
    assert env["CLAUDE_CODE_X"] == "set"
    assert "GEMINI_MODEL" not in env
    assert "XDG_CONFIG_HOME" not in env


def test_secrets_are_found_by_reference(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("s3cret\n")
    assert resolve_secret("env:MY_KEY", {"MY_KEY": "v"}) == "v"
    assert resolve_secret(f"file:{key}") == "s3cret"
    assert resolve_secret("https://host") == "https://host"
    assert resolve_secret("plain") == "plain"


def test_a_reference_to_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretUnavailable, match="NO_SUCH is not set"):
        resolve_secret("env:NO_SUCH", {})
    with pytest.raises(SecretUnavailable, match="gone"):
        resolve_secret(f"file:{tmp_path}/gone")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretUnavailable, match="UTF-8"):
        resolve_secret(f"file:{tmp_path}/binary")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("my-password-1 and my-password-12", "[redacted] and [redacted]"),
        ("short stays", "short stays"),
        ("key sk-abcdef0123456789 end", "key [redacted] end"),
        ("AIzaSyA1234567890abcdefghij", "[redacted]"),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [redacted]"),
        ("ghp_0123456789abcdefABCDEF", "[redacted]"),
        ("the task-force asked, task-0123456789", "the task-force asked, task-0123456789"),
    ],
)
def test_secrets_are_not_shown(text: str, shown: str) -> None:
    assert redactor(["my-password-1", "my-password-12", "short", ""])(text) == shown


def test_which_looks_on_the_given_path_then_in_extra_places(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "agent").write_text("#!/bin/sh\n")
    (tmp_path / "b" / "agent").chmod(0o755)
    env = {"PATH": str(tmp_path / "a")}
    assert which("agent", env) is None
    assert which("agent", env, [tmp_path / "b"]) == str(tmp_path / "b" / "agent")
    assert which(str(tmp_path / "b" / "agent"), {}) == str(tmp_path / "b" / "agent")
