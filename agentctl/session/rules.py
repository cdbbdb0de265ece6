"""Owns the standing rules of the daemon, which hold in every session, in memory.

They stand in the order in which they were made; a replaced one keeps its place. It refuses to know
how they are kept, and what of a request fits one (`permissions.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import anyio

from agentctl.core.spec import Rule
from agentctl.core.words import Policy, ToolKind
from agentctl.session.ids import mint
from agentctl.session.permissions import Place, applies, check_rule
from agentctl.session.records import SessionRecord


class StandingRules:
    """One object for all sessions: what is put is in force for the next request of each."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}
        self.writing = anyio.Lock()
        """Held from the look at a rule to its commit, so that no revision is written twice."""

    def get(self, rule_id: str) -> Rule | None:
        return self._rules.get(rule_id)

    def put(self, rule: Rule) -> None:
        known = rule.rule_id in self._rules
        self._rules[rule.rule_id] = rule
        if not known:
            # Ids sort by the time at which they were made.
            self._rules = dict(sorted(self._rules.items()))

    def drop(self, rule_id: str) -> None:
        self._rules.pop(rule_id, None)

    def all(self) -> list[Rule]:
        return list(self._rules.values())

    def behind(self, own: Sequence[Rule]) -> Iterator[Rule]:
        """A session's own rules, then these: the order in which they are tried."""
        yield from own
        yield from self._rules.values()

    def narrows(self, record: SessionRecord, now: int) -> bool:
        """Whether a rule is in force in a session: its agent must then approve nothing by itself."""
        place = place_of(record, now)
        return any(applies(rule, place) for rule in self.behind(record.rules))

    def guarded(self, record: SessionRecord, now: int) -> frozenset[ToolKind]:
        """Kinds of tools for which the policy or a rule in force may say no, or have a person asked."""
        place = place_of(record, now)
        kinds = set(_ANYTHING) if record.policy is Policy.DENY else set[ToolKind]()
        for rule in self.behind(record.rules):
            if rule.decision is not Policy.ALLOW and applies(rule, place):
                kinds |= _kinds(rule)
        return frozenset(kinds)


def place_of(record: SessionRecord, now: int, paths: frozenset[str] = frozenset()) -> Place:
    """What rules can name of a session."""
    source = record.place.source if record.place is not None else ""
    return Place(record.spec.entry_id, record.spec.workspace, now, paths, source)


_CHANGING = frozenset({ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE})
_ANYTHING = _CHANGING | {ToolKind.EXECUTE, ToolKind.FETCH, ToolKind.MCP}


def _kinds(rule: Rule) -> frozenset[ToolKind]:
    """Reading is guarded only where a rule names it: agents read all the time."""
    if rule.kind is not None:
        return frozenset({rule.kind})
    if rule.command or rule.command_pattern:
        return frozenset({ToolKind.EXECUTE})
    return _CHANGING if rule.path or rule.path_pattern else _ANYTHING


def own_rules(asked: Sequence[Rule], now: int) -> list[Rule]:
    """The rules that a session begins with.

    Raises:
        Invalid: one of them can never fit.
    """
    for rule in asked:
        check_rule(rule, now, where="rules")
    return [stamped(rule, None, now) for rule in asked]


def stamped(rule: Rule, old: Rule | None, now: int) -> Rule:
    """The rule as it is kept: what the daemon says of it is not the client's to set."""
    return replace(
        rule,
        rule_id=rule.rule_id or mint("rule"),
        created_at=old.created_at if old else now,
        revision=old.revision + 1 if old else 1,
    )
