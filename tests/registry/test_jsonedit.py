"""Edits leave alone what they do not mean to change."""

import json
import random
from typing import Any

import pytest

from agentctl_registry.jsonedit import rewrite

TEXT = """{
    "$schema": "x",
    "agents": [
        { "id": "one", "cmd": ["a",   "b"], "mine": {"z": 1, "a": 2} },
        {
            "id": "two",
            "env": {}
        }
    ],
    "version": 1
}
"""


GONE = object()
APPEND = -1


def edited(*path: str | int, value: Any) -> str:
    wanted = json.loads(TEXT)
    inside: Any = wanted
    for step in path[:-1]:
        inside = inside[step]
    if value is GONE:
        del inside[path[-1]]
    elif path[-1] == APPEND:
        inside.append(value)
    else:
        inside[path[-1]] = value
    text = rewrite(TEXT, wanted)
    assert json.loads(text) == wanted
    return text


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("agents", 0, "cmd", 1), "c", '"a",   "b"', '"a",   "c"'),
        (("agents", 0, "enabled"), False, "2} }", '2}, "enabled": false }'),
        (("agents", 0, "cmd", APPEND), "d", '"b"]', '"b", "d"]'),
        (("agents", 0, "mine", "z"), GONE, '{"z": 1, "a": 2}', '{"a": 2}'),
        (("agents", 0, "mine"), GONE, ', "mine": {"z": 1, "a": 2} }', " }"),
        (("agents", 0, "cmd"), [], '["a",   "b"]', "[]"),
        (
            ("agents", 1, "env", "K"),
            "v",
            '"env": {}',
            '"env": {\n                "K": "v"\n            }',
        ),
        (("version",), True, '"version": 1', '"version": true'),
        (("version",), 1.0, '"version": 1', '"version": 1.0'),
        (
            ("agents", APPEND),
            {"id": "three"},
            '"env": {}\n        }',
            '"env": {}\n        },\n        {\n            "id": "three"\n        }',
        ),
    ],
)
def test_an_edit_changes_only_its_own_words(
    path: tuple[str | int, ...], value: Any, old: str, new: str
) -> None:
    assert edited(*path, value=value) == TEXT.replace(old, new)


def test_taking_an_entry_out_leaves_the_others_as_they_stood() -> None:
    text = edited("agents", 0, value=GONE)
    assert '"id": "one"' not in text
    assert '{\n            "id": "two",\n            "env": {}\n        }' in text


def test_no_change_is_no_change() -> None:
    assert edited("version", value=1) == TEXT


def any_value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(7 if depth < 3 else 5)
    if kind == 5:
        return [any_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    if kind == 6:
        return {dice.choice("abcdef"): any_value(dice, depth + 1) for _ in range(dice.randrange(4))}
    return [1, True, None, "ü\n", 1.0][kind]


@pytest.mark.parametrize("seed", range(200))
def test_any_text_can_become_any_other(seed: int) -> None:
    dice = random.Random(seed)
    old, wanted = any_value(dice), any_value(dice)
    indent = dice.choice([None, 2, "\t"])
    text = rewrite(json.dumps(old, indent=indent), wanted)
    assert json.dumps(json.loads(text), sort_keys=True) == json.dumps(wanted, sort_keys=True)
