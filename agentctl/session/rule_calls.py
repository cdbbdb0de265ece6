"""Owns what clients do with rules: list, put and delete, of one session or of all.

It refuses to know when a rule fits a request.
"""

import dataclasses
from collections.abc import Sequence
from contextlib import suppress

from agentctl.core.errors import AgentctlError, Invalid, Refused
from agentctl.core.spec import Rule
from agentctl.journal.store import Doc
from agentctl.session.base import Base, lasting
from agentctl.session.ids import now_ms
from agentctl.session.patterns import absolute
from agentctl.session.permissions import check_rule
from agentctl.session.rules import stamped
from agentctl.session.session import Session
from agentctl.session.store import rule_doc
from agentctl.session.writes import Writes

# Each request is held against all of them, on the loop.
MOST_RULES = 1000


class RuleCalls(Base):
    def standing_rules(self) -> Sequence[Rule]:
        """The rules of all sessions, expired ones too, in the order in which they are tried."""
        return self.standing.all()

    @lasting
    async def put_rule(self, session_id: str, rule: Rule) -> Rule:
        """Approvals.PutRule.

        Raises:
            Invalid: it can never fit, or replaces one that is not there.
            NotFound: no such session, or no such agent.
        """
        session = await self.open_session(session_id) if session_id else None
        check_rule(rule, now_ms())
        if rule.entry_id:
            # A disabled one may be enabled again; the name of none is a slip.
            with suppress(Refused):
                rule = dataclasses.replace(rule, entry_id=self.entry(rule.entry_id).id)
        if rule.workspace:
            rule = dataclasses.replace(rule, workspace=absolute(rule.workspace, "/"))
        if session is None:
            return await self._put_standing(rule)
        known = session.record.rules
        old = _named(known, rule.rule_id) if rule.rule_id else None
        made = stamped(rule, old, now_ms())
        if old is None:
            _refuse_many(known)
            await self._set_rules(session, [*known, made])
        else:
            await self._set_rules(session, [made if each is old else each for each in known])
        return made

    async def _put_standing(self, rule: Rule) -> Rule:
        async with self.standing.writing:
            known = self.standing.all()
            old = _named(known, rule.rule_id) if rule.rule_id else None
            if old is None:
                _refuse_many(known)
            made = stamped(rule, old, now_ms())
            await self.deps.journal.append([], [rule_doc(made)])
            self.standing.put(made)
            return made

    @lasting
    async def delete_rule(self, session_id: str, rule_id: str) -> None:
        """Approvals.DeleteRule.

        Raises:
            Invalid: there is no such rule.
        """
        if session_id:
            session = await self.open_session(session_id)
            gone = _named(session.record.rules, rule_id)
            await self._set_rules(session, [r for r in session.record.rules if r is not gone])
            return
        async with self.standing.writing:
            _named(self.standing.all(), rule_id)
            await self.deps.journal.append([], [Doc("rule", rule_id, None)])
            self.standing.drop(rule_id)

    @staticmethod
    async def _set_rules(session: Session, rules: list[Rule]) -> None:
        """What could not be kept is not in force either."""
        record, writes = session.record, Writes()
        before, record.rules = record.rules, rules
        writes.touch(record)
        try:
            await session.commit(writes)
        except AgentctlError:
            record.rules = before
            raise


def _named(rules: Sequence[Rule], rule_id: str) -> Rule:
    found = next((rule for rule in rules if rule.rule_id == rule_id), None)
    if found is None:
        raise Invalid(
            f'there is no rule "{rule_id}" there. See them with: agentctl rules',
            metadata={"field": "rule_id"},
        )
    return found


def _refuse_many(rules: Sequence[Rule]) -> None:
    if len(rules) >= MOST_RULES:
        raise Invalid(
            f"there are {len(rules)} rules, which is the most. Delete some: agentctl rules",
            metadata={"field": "rule"},
        )
