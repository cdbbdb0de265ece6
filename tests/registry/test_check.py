"""Every kind of bad agents.json: the exact words, the field and the line."""

import json

import pytest

from agentctl_registry.check import check

OK = '{"id": "ok", "cmd": ["ok"]}'


def one(entry: str) -> str:
    return '{"agents": [\n' + OK + ",\n" + entry + "\n]}"


SYNTAX = [
    ("", "a/agents.json:1:1: expected an object, found an empty file"),
    (
        "{",
        "a/agents.json:1:2: expected a key in double quotes, found the end of the file ({ on line 1 is not closed)",
    ),
    (
        one('{"id": "x", "cmd": ["x"],}'),
        "a/agents.json:3:25: agents[1]: expected nothing more or another item, found a comma before }",
    ),
    (
        one('{"id": "x", "id": "y"}'),
        'a/agents.json:3:13: agents[1].id: expected each key once, found "id" again (first on line 3)',
    ),
]
TOP = [
    ("[]", 'a/agents.json:1:1: expected an object {"agents": […]}, found a list'),
    ("7", 'a/agents.json:1:1: expected an object {"agents": […]}, found 7'),
    ("{}", "a/agents.json:1:1: agents: expected a list of agents, found nothing"),
    ('{"agents": {}}', "a/agents.json:1:12: agents: expected a list of agents, found an object"),
    ('{"version": 2, "agents": []}', "a/agents.json:1:13: version: expected 1, found 2"),
    ('{"agents": [3]}', "a/agents.json:1:13: agents[0]: expected an object, found 3"),
]
ENTRY = [
    ('{"cmd": ["x"]}', "id: expected a value, found nothing"),
    ('{"id": 3, "cmd": ["x"]}', "id: expected text, found 3"),
    ('{"id": "a b", "cmd": ["x"]}', 'id: expected an id of letters, digits, - _ and . (64 at most), found "a b"'),
    ('{"id": "agt_1", "cmd": ["x"]}', "id: expected an id that does not begin with agt_, found agt_1"),
    ('{"id": "ok", "cmd": ["x"]}', 'id: expected each id once, found "ok" again (first in agents[0])'),
    ('{"id": "x"}', "expected cmd (or url), found neither"),
    ('{"id": "x", "cmd": []}', "expected cmd (or url), found neither"),
    ('{"id": "x", "cmd": "gemini"}', 'cmd: expected a list, found "gemini"'),
    ('{"id": "x", "cmd": ["gemini", 3]}', "cmd[1]: expected text, found 3"),
    ('{"id": "x", "cmd": [null]}', "cmd[0]: expected text, found null"),
    ('{"id": "x", "cmd": [""]}', 'cmd[0]: expected a bare name or an absolute path, found ""'),
    ('{"id": "x", "cmd": ["./x"]}', 'cmd[0]: expected a bare name or an absolute path, found "./x"'),
    ('{"id": "x", "cmd": ["bin/x"]}', 'cmd[0]: expected a bare name or an absolute path, found "bin/x"'),
    ('{"id": "x", "cmd": ["~/x"]}', 'cmd[0]: expected a bare name or an absolute path, found "~/x"'),
    ('{"id": "x", "cmd": ["x", "\\u0000"]}', "cmd[1]: expected text without NUL, found one"),
    ('{"id": "x", "cmd": ["x"], "enabled": "yes"}', 'enabled: expected true or false, found "yes"'),
    ('{"id": "x", "cmd": ["x"], "enabled": 1}', "enabled: expected true or false, found 1"),
    ('{"id": "x", "cmd": ["x"], "protocol": "rest"}', 'protocol: expected one of acp, claude-code, codex, opencode, found "rest"'),
    ('{"id": "x", "cmd": ["x"], "env": {"A": 1}}', "env.A: expected text, found 1"),
    ('{"id": "x", "cmd": ["x"], "env": {"A=B": "1"}}', 'env["A=B"]: expected a variable name without =, found "A=B"'),
    ('{"id": "x", "cmd": ["x"], "env": []}', "env: expected an object, found a list"),
    ('{"id": "x", "cmd": ["x"], "resource_limits": {"memory_mb": 1.5}}', "resource_limits.memory_mb: expected a whole number, found 1.5"),
    ('{"id": "x", "cmd": ["x"], "resource_limits": {"memory_mb": -1}}', "resource_limits.memory_mb: expected 0 or more, found -1"),
    ('{"id": "x", "cmd": ["x"], "resource_limits": {"cpu_cores": true}}', "resource_limits.cpu_cores: expected a number, found true"),
    ('{"id": "x", "cmd": ["x"], "discovery": 1}', "discovery: expected an object, found 1"),
    ('{"id": "x", "cmd": ["x"], "model_config": {"available_models": [{}]}}', "model_config.available_models[0].id: expected a value, found nothing"),
    ('{"id": "x", "cmd": ["x"], "sharing": "maybe"}', 'sharing: expected exclusive or shared, found "maybe"'),
    ('{"id": "x", "cmd": ["x"], "home": "mine"}', 'home: expected user, overlay or private, found "mine"'),
    ('{"id": "x", "cmd": ["x"], "model_flag": "--model \'{model}"}', 'model_flag: expected text with its quotes closed, found "--model \'{model}"'),
    ('{"id": "x", "url": "localhost:4096"}', 'url: expected an http:// or https:// address, found "localhost:4096"'),
    (
        '{"id": "x", "cmd": ["x"], "protocol_config": {"overlay": {"env": "H", "dir": "../.x"}}}',
        'protocol_config.overlay.dir: expected a path inside the home directory, found "../.x"',
    ),
]  # fmt: skip


@pytest.mark.proves("R1")
@pytest.mark.parametrize(("text", "shown"), SYNTAX + TOP)
def test_a_bad_file_is_told_with_line_column_and_field(text: str, shown: str) -> None:
    _, problems = check(text, "a/agents.json")
    assert [str(each) for each in problems] == [shown]


@pytest.mark.parametrize(("entry", "message"), ENTRY)
def test_a_bad_entry_is_told_with_what_was_expected_and_found(entry: str, message: str) -> None:
    _, problems = check(one(entry), "a/agents.json")
    assert [(each.line, each.short()) for each in problems] == [
        (3, f"agents.json: agents[1]{'.' if ': ' in message else ''}{message}")
        if not message.startswith("expected")
        else (3, f"agents.json: agents[1]: {message}")
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file() -> None:
    text = '{"agents": [\n{"id": "x",\n"cmd": [1],\n"env": 2},\n{"id": 3}]}'
    _, problems = check(text, "f")
    assert [(each.line, each.field) for each in problems] == [
        (3, "agents[0].cmd[0]"),
        (4, "agents[0].env"),
        (5, "agents[1].id"),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "x", "cmd": ["/opt/x"]},
        {"id": "x", "cmd": ["{home}/bin/x"]},
        {"id": "x", "cmd": ["{python}", "-m", "x"]},
        {"id": "x", "cmd": ["x"], "protocol": "codex", "mine": [1, {"deep": None}]},
        {"id": "x", "url": "http://127.0.0.1:4096", "auth": {"password": "env:PW"}},
        {"id": "x", "enabled": False},
        {"id": "below", "model_flag": "-m {model}"},
        {"id": "x", "cmd": ["x"], "resource_limits": {"cpu_cores": 2}},
    ],
)
def test_what_is_allowed_is_not_refused(entry: dict[str, object]) -> None:
    document, problems = check(json.dumps({"agents": [entry]}), "f", below={"below"})
    assert problems == []
    assert document is not None
