"""Owns the scenarios as data: what `scenarios.toml` says, checked. Knows no agent and no daemon."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

SHORT: Mapping[str, tuple[str, ...]] = {
    "$SESSION": ("session_status:created",),
    "$BEGIN": ("run_status:created", "run_status:started"),
}
"""Short forms of `expect`."""

PROMPTS = frozenset({"say", "usage", "run", "ask", "stream", "recall"})
"""Steps that begin a run; what the agent is told, its script says."""

ACTS = frozenset({"approve", "deny", "answer", "cancel", "close", "resume"})
CHECKS = frozenset({"until", "end", "text", "tells", "recalls", "exists", "missing"})


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the user does or sees: a verb and the rest of the line."""

    verb: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story of one session, and the normalised sequence of events that it must give."""

    name: str
    title: str
    steps: tuple[Step, ...]
    expect: tuple[str, ...]


def load(text: str | None = None) -> Sequence[Scenario]:
    """The scenarios of a TOML document; without one, those of the kit.

    Raises:
        ValueError: it is no such document; the message names the scenario and the step.
    """
    if text is None:
        text = (
            files("agentctl.testing.conformance")
            .joinpath("scenarios.toml")
            .read_text(encoding="utf-8")
        )
    found = [_scenario(table) for table in tomllib.loads(text).get("scenario", [])]
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise ValueError(f"two scenarios have one name: {names}")
    return found


def _scenario(table: Mapping[str, Any]) -> Scenario:
    try:
        name, title = str(table["name"]), str(table["title"])
        steps = tuple(_step(name, str(line)) for line in table["steps"])
        words = [str(word) for word in table["expect"]]
    except KeyError as missing:
        raise ValueError(f"a scenario has no {missing}: {dict(table)}") from None
    expect = tuple(word for short in words for word in SHORT.get(short, (short,)))
    return Scenario(name, title, steps, expect)


def _step(name: str, line: str) -> Step:
    verb, _, rest = line.partition(" ")
    # `usage` alone is a prompt, `usage told` looks at the end of its run.
    if verb not in PROMPTS | ACTS | CHECKS:
        raise ValueError(f"{name}: there is no step {verb!r}")
    return Step("told", rest) if (verb, rest) == ("usage", "told") else Step(verb, rest)
