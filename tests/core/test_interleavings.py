"""Whatever is cut, mixed, doubled or broken: each run completes once, each request is answered once."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.invariants import broken
from tests.replaying import ACP, ACP_IDS, Line, lines_of, replayed

ROUNDS = 12


def _promises(lines: Sequence[Line]) -> list[str]:
    return broken(replayed(lines))


def _cuts(lines: Sequence[Line], chance: random.Random) -> Iterator[list[Line]]:
    for _ in range(ROUNDS):
        at = chance.randrange(len(lines))
        yield [*lines[:at]]
        end = {"t": 9, "dir": "note", "msg": {"event": "exit", "code": chance.choice([0, 1, -9])}}
        yield [*lines[:at], end, *lines[at:]]
        cancel: Line = {"t": 9, "dir": "to_agent"}
        cancel["msg"] = {"method": "session/cancel", "params": {"sessionId": _session(lines)}}
        yield [*lines[:at], cancel, *lines[at:]]
        yield [*lines[:at], {"t": 9, "dir": "note", "msg": {"event": "spawn"}}, *lines[at:]]


def _session(lines: Sequence[Line]) -> str:
    for line in lines:
        match line:
            case {"dir": "to_agent", "msg": {"params": {"sessionId": session}}}:
                return str(session)
            case _:
                continue
    return "none"


@pytest.mark.proves("T1", "T5", "T6", "M9")
@pytest.mark.parametrize("path", ACP, ids=ACP_IDS)
def test_an_end_or_a_cancel_at_any_line_keeps_every_promise(path: Path) -> None:
    lines = lines_of(path)
    for mutant in _cuts(lines, random.Random(path.name)):
        assert _promises(mutant) == []


@pytest.mark.proves("T1", "T2", "A1")
@pytest.mark.parametrize("path", ACP, ids=ACP_IDS)
def test_lost_doubled_and_swapped_lines_keep_every_promise(path: Path) -> None:
    lines = lines_of(path)
    chance = random.Random(path.name)
    for _ in range(ROUNDS):
        mutant: list[Line] = []
        for line in lines:
            mutant += [line] * chance.choice([0, 1, 1, 1, 1, 2])
            if len(mutant) > 1 and chance.random() < 0.1:
                mutant[-1], mutant[-2] = mutant[-2], mutant[-1]
        assert _promises(mutant) == []


def _damaged(value: Any, chance: random.Random) -> Any:
    """The value with something in it missing, or of another type."""
    if isinstance(value, dict):
        keys: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]  # any JSON
        if not keys:
            return None
        key = chance.choice(keys)
        copy: dict[Any, Any] = {**value}
        if chance.random() < 0.3:
            del copy[key]
        else:
            copy[key] = _damaged(copy[key], chance)
        return copy
    return chance.choice([None, 7, "x", [], {}, True, [None], {"a": 1}, "\ud800", -1.5])


@pytest.mark.proves("M8")
@pytest.mark.parametrize("path", ACP, ids=ACP_IDS)
def test_messages_of_any_shape_are_never_fatal(path: Path) -> None:
    lines = lines_of(path)
    chance = random.Random(path.name)
    for _ in range(ROUNDS):
        mutant = [
            {**line, "msg": _damaged(line["msg"], chance)}
            if line["dir"] in ("from_agent", "to_agent") and "msg" in line and chance.random() < 0.4
            else line
            for line in lines
        ]
        assert _promises(mutant) == []
