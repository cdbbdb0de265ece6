"""Owns how much an agent was told to ask when its conversation was opened, and whether that still holds.

Rules and policies change while an agent lives; one that was started with its own approve-all option, or
opened in a mode that asks little, hears of it only when it is opened again. It refuses to know how that
is done (`driver.py`) and what an agent makes of it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import anyio

from agentctl.core.adapter import Feature
from agentctl.core.events import Error, Event
from agentctl.core.words import Policy, ToolKind
from agentctl.session.ids import now_ms
from agentctl.session.process import AgentProcess
from agentctl.session.writes import Writes

if TYPE_CHECKING:
    from agentctl.session.session import Session


@dataclass(frozen=True, slots=True)
class Stance:
    """`free`: it may approve everything by itself. `guarded`: see SessionSpec."""

    free: bool = False
    guarded: frozenset[ToolKind] = frozenset()

    def tighter_than(self, other: "Stance") -> bool:
        return (other.free and not self.free) or not self.guarded <= other.guarded


def stance_of(session: "Session") -> Stance:
    """What policy and rules ask of a session's agent now."""
    record = session.record
    guarded = session.deps.standing.guarded(record, now_ms())
    return Stance(record.policy is Policy.ALLOW and not guarded, guarded)


def mode_in_force(session: "Session", agent: AgentProcess, mode: str) -> str:
    """The mode to work in where `mode` is wanted: one that asks, while a rule may say no.

    `protocol_config.asking_mode` of the entry tells which modes ask nothing, and which to use instead.
    """
    told = agent.launch.entry.protocol_config.get("asking_mode")
    if not isinstance(told, dict) or not stance_of(session).guarded:
        return mode
    asking = cast("dict[str, object]", told)
    silent = asking.get("instead_of")
    if isinstance(silent, list) and mode in cast("list[object]", silent):
        return str(asking.get("mode", mode))
    return mode


async def too_free(session: "Session", agent: AgentProcess) -> bool:
    """Whether its idle agent must be opened again to ask as much as it now should.

    One that cannot be says so in the journal, once.
    """
    before, now = session.stance, stance_of(session)
    if before is None or not now.tighter_than(before) or session.ledger.turns.open_runs:
        return False
    if not await _matters(session, agent, before, now):
        session.stance = now
        return False
    entry = agent.launch.entry
    if not session.record.prompted or (
        entry.can_recover and Feature.RESUME in agent.record.features
    ):
        return True
    session.stance = now
    message = (
        f"{entry.id} was started to act without asking and cannot be resumed, so that it passes the new "
        f"rules by. Close this session and start another: agentctl stop {session.id}"
    )
    writes = Writes()
    session.ledger.add([Event(Error("RULES_PASSED_BY", message))], writes)
    await session.commit(writes)
    return False


async def _matters(session: "Session", agent: AgentProcess, before: Stance, now: Stance) -> bool:
    """Whether the agent would be started or opened in another way by now."""
    if Feature.GUARDED in agent.record.features and not now.guarded <= before.guarded:
        return True
    if not before.free:
        return False
    entries, spec = session.deps.entries, session.spec()
    prepared = await anyio.to_thread.run_sync(
        lambda: entries.prepare(
            agent.launch.entry, spec, policy=spec.policy, rules=bool(now.guarded)
        )
    )
    return prepared.argv != agent.launch.argv
