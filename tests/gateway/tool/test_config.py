"""gateway.yaml: what it may say, and how a mistake in it is told."""

from pathlib import Path

import pytest

from agentctl.core.errors import Invalid
from agentctl.gateway.tool.config import Defaults, Features, ToolConfig, config_file, load

PUBLISHED = """
tools:
  opencode:
    enabled: true
    instances:
      - name: local
        url: http://localhost:3333
        default: true
        auto_connect: true
      - name: vps-heavy
        url: http://build-server.example.com:3333
        auth_token_env: OPENCODE_VPS_TOKEN
        auto_connect: false
    defaults:
      model: anthropic/claude-sonnet-4
      agent: default
      timeout_ms: 30000
    features:
      streaming: true
      permission_approval: true
      auto_reconnect: true
      state_persistence: true
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".openclaw" / "config" / "gateway.yaml"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.proves("TL6")
def test_the_published_file_is_read_from_its_published_place(file: Path) -> None:
    file.write_text(PUBLISHED)
    assert config_file() == file
    told = load()
    local, heavy = told.instances
    assert (local.name, local.url) == ("local", "http://localhost:3333")
    assert (local.default, local.auto_connect, local.auth_token_env) == (True, True, None)
    assert (heavy.default, heavy.auto_connect) == (False, False)
    assert heavy.auth_token_env == "OPENCODE_VPS_TOKEN"
    assert told.defaults == Defaults(model="anthropic/claude-sonnet-4")
    assert told.features == Features()
    assert told.enabled


@pytest.mark.proves("TL6")
@pytest.mark.parametrize("text", [None, "", "tools:\n", "tools:\n  opencode:\n", "other: [1]\n"])
def test_what_is_absent_is_all_defaults(file: Path, text: str | None) -> None:
    if text is not None:
        file.write_text(text)
    assert load() == ToolConfig()
    assert load().defaults.timeout_ms == 30000
    assert load().defaults.agent == "default"


def test_keys_of_other_programs_are_let_be(file: Path) -> None:
    file.write_text(PUBLISHED.replace("enabled: true", "enabled: true\n    later: {a: 1}"))
    assert len(load().instances) == 2


def instance(text: str) -> str:
    return "tools:\n  opencode:\n    instances:\n" + text


@pytest.mark.proves("TL6")
@pytest.mark.parametrize(
    ("text", "field", "word"),
    [
        ("- 1\n", "", "dictionary"),
        ("tools: 5\n", "tools", "dictionary"),
        ("tools:\n  opencode:\n    enabled: 'yes'\n", "tools.opencode.enabled", "boolean"),
        ("tools:\n  opencode:\n    enabled: 1\n", "tools.opencode.enabled", "boolean"),
        ("tools:\n  opencode:\n    instances: local\n", "tools.opencode.instances", "tuple"),
        (instance("      - url: http://h\n"), "tools.opencode.instances[0].name", "required"),
        (instance("      - name: a\n"), "tools.opencode.instances[0].url", "required"),
        (
            instance("      - {name: a, url: 'ftp://h'}\n"),
            "tools.opencode.instances[0].url",
            "http://HOST:PORT",
        ),
        (
            instance("      - {name: a, url: 'http://u:p@h'}\n"),
            "tools.opencode.instances[0].url",
            "auth_token",
        ),
        (
            instance("      - {name: a, url: 'http://h', auto_connect: 'no'}\n"),
            "tools.opencode.instances[0].auto_connect",
            "boolean",
        ),
        (
            instance("      - {name: a, url: 'http://h'}\n      - {name: a, url: 'http://i'}\n"),
            "tools.opencode",
            "two instances are named 'a'",
        ),
        (
            instance(
                "      - {name: a, url: 'http://h', default: true}\n"
                "      - {name: b, url: 'http://i', default: true}\n"
            ),
            "tools.opencode",
            "only one instance",
        ),
        (
            "tools:\n  opencode:\n    defaults: {timeout_ms: 1.5}\n",
            "tools.opencode.defaults.timeout_ms",
            "integer",
        ),
        (
            "tools:\n  opencode:\n    defaults: {timeout_ms: 0}\n",
            "tools.opencode.defaults.timeout_ms",
            "greater than 0",
        ),
        (
            "tools:\n  opencode:\n    defaults: {model: 5}\n",
            "tools.opencode.defaults.model",
            "string",
        ),
        (
            "tools:\n  opencode:\n    features: {streaming: off it}\n",
            "tools.opencode.features.streaming",
            "boolean",
        ),
        ("tools: [\n", "", "line 2"),
    ],
)
def test_a_mistake_is_told_with_file_and_field(
    file: Path, text: str, field: str, word: str
) -> None:
    file.write_text(text)
    with pytest.raises(Invalid) as caught:
        load()
    assert caught.value.metadata == {"file": str(file), "field": field}
    assert str(file) in caught.value.message and word in caught.value.message
    assert field in caught.value.message


def test_a_file_that_holds_itself_is_told(file: Path) -> None:
    file.write_text("tools: &tools [*tools]")
    with pytest.raises(Invalid, match="holds itself"):
        load()


def test_a_file_that_is_no_text_is_told(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match=r"gateway\.yaml"):
        load()


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("http://localhost:3333/", "http://localhost:3333"),
        ("https://h/base", "https://h/base"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
        ("grpc://host:7777", "host:7777"),
        ("host:7777", "host:7777"),
        ("[::1]:7777", "[::1]:7777"),
    ],
)
def test_a_server_is_an_opencode_url_or_a_daemon(file: Path, url: str, read: str) -> None:
    file.write_text(instance(f"      - {{name: a, url: '{url}'}}\n"))
    assert load().instances[0].url == read
