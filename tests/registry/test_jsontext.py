"""Strict JSON with places: what is refused, where, and in which words."""

import json

import pytest

from agentctl_registry.jsontext import JsonSyntaxError, line_starts, locate, parse, show_path

BAD = [
    ("", "expected an object, found an empty file", (1, 1)),
    ("  \n ", "expected an object, found an empty file", (1, 1)),
    ('{"a": 1,}', "expected nothing more or another item, found a comma before }", (1, 8)),
    ("[1,\n 2,\n]", "expected nothing more or another item, found a comma before ]", (2, 3)),
    ('{"a": 1 "b": 2}', "expected a comma or }, found text", (1, 9)),
    ("[1 2]", "expected a comma or ], found 2", (1, 4)),
    ("{a: 1}", "expected a key in double quotes, found a", (1, 2)),
    ('{"a" 1}', "expected a colon after the key, found 1", (1, 6)),
    (
        "{'a': 1}",
        "expected a key in double quotes, found 'a' (JSON text stands in double quotes)",
        (1, 2),
    ),
    ('{"a": // why\n1}', "expected a value, found a comment (JSON has none)", (1, 7)),
    ('{"a": /* x */ 1}', "expected a value, found a comment (JSON has none)", (1, 7)),
    ('{"a": "x\ny"}', 'expected " at the end of the text, found none', (1, 7)),
    ('{"a": "\\q"}', 'expected valid \\ escapes, found "\\q"', (1, 7)),
    ('{"a": "\\ud800"}', 'expected valid \\ escapes, found "\\ud800"', (1, 7)),
    ("[01]", "expected a value, found 01", (1, 2)),
    ("[1e999]", "expected a number in range, found more", (1, 2)),
    ("[" + "9" * 5000 + "]", "expected a number in range, found more", (1, 2)),
    ("[NaN]", "expected a value, found NaN", (1, 2)),
    ("[True]", "expected a value, found True", (1, 2)),
    ("{} x", "expected the end of the file, found x", (1, 4)),
    (
        '{"a": [\n1',
        "expected a comma or ], found the end of the file ([ on line 1 is not closed)",
        (2, 2),
    ),
    (
        '{"a": 1',
        "expected a comma or }, found the end of the file ({ on line 1 is not closed)",
        (1, 8),
    ),
    ('{"a": 1,\n "a": 2}', 'expected each key once, found "a" again (first on line 1)', (2, 2)),
]


@pytest.mark.parametrize(("text", "message", "place"), BAD)
def test_a_mistake_is_named_with_its_place(text: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(JsonSyntaxError) as caught:
        parse(text)
    assert caught.value.message == message
    assert locate(line_starts(text), caught.value.offset) == place


def test_nesting_without_end_is_refused_and_not_a_crash() -> None:
    with pytest.raises(JsonSyntaxError, match="at most 100 levels"):
        parse("[" * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, -2.5e3, true, false, null, "\\u00e9\\n\\"x"], "b": {}, "": []}',
        "[]",
        '"text"',
        " 7 ",
        '["' + "long " * 10_000 + '"]',
        '{"ü": "\u2028"}',
    ],
)
def test_what_is_json_means_what_json_says(text: str) -> None:
    assert parse(text).value == json.loads(text)


def test_a_value_is_found_by_its_path() -> None:
    document = parse('{\n  "agents": [\n    {"id": "x",\n     "cmd": ["a", 3]}\n  ]\n}')
    assert document.position(("agents", 0, "cmd", 1)) == (4, 19)
    assert document.position(("agents", 0, "env", "X")) == (3, 5)
    assert document.position(()) == (1, 1)


def test_a_path_reads_like_code() -> None:
    assert show_path(("agents", 1, "cmd", 0)) == "agents[1].cmd[0]"
    assert show_path(("env", "MY KEY")) == 'env["MY KEY"]'
