"""Owns the allowed moves of agents, sessions and runs; knows nobody who makes them.

agent     starting ──> ready ──> stopping ──> exited          any of them ──> lost
             └──────────┴─────────────^ (died)

session   starting ──> idle <──> active <──> awaiting         idle, active, awaiting,
             │          ^ ^         │                          starting, asleep
             v          │ └─────────┼── asleep <── idle           ──> interrupted, closed
           failed ──────┘ interrupted ──> starting (resume)    failed ──> starting, closed

run       created ──> queued ──> running ──> completed | failed | cancelled | timed_out
             └───────────────────────^          (queued may end without running)
"""

from collections.abc import Mapping
from typing import TypeVar

from agentctl.core.words import AgentState, RunState, SessionState

S = TypeVar("S", AgentState, SessionState, RunState)

AGENT_MOVES: Mapping[AgentState, frozenset[AgentState]] = {
    AgentState.STARTING: frozenset(
        {AgentState.READY, AgentState.STOPPING, AgentState.EXITED, AgentState.LOST}
    ),
    AgentState.READY: frozenset({AgentState.STOPPING, AgentState.EXITED, AgentState.LOST}),
    AgentState.STOPPING: frozenset({AgentState.EXITED, AgentState.LOST}),
    AgentState.EXITED: frozenset({AgentState.LOST}),
    AgentState.LOST: frozenset(),
}

_OPEN = frozenset({SessionState.INTERRUPTED, SessionState.CLOSED, SessionState.FAILED})

SESSION_MOVES: Mapping[SessionState, frozenset[SessionState]] = {
    SessionState.STARTING: _OPEN | {SessionState.IDLE},
    SessionState.IDLE: _OPEN
    | {SessionState.ACTIVE, SessionState.AWAITING, SessionState.ASLEEP, SessionState.STARTING},
    SessionState.ACTIVE: _OPEN | {SessionState.IDLE, SessionState.AWAITING},
    SessionState.AWAITING: _OPEN | {SessionState.ACTIVE, SessionState.IDLE},
    SessionState.ASLEEP: _OPEN | {SessionState.STARTING},
    SessionState.INTERRUPTED: frozenset(
        {SessionState.STARTING, SessionState.CLOSED, SessionState.FAILED}
    ),
    SessionState.FAILED: frozenset({SessionState.STARTING, SessionState.CLOSED}),
    SessionState.CLOSED: frozenset({SessionState.STARTING}),
}

_ENDS = frozenset({RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED, RunState.TIMED_OUT})

RUN_MOVES: Mapping[RunState, frozenset[RunState]] = {
    RunState.CREATED: _ENDS | {RunState.QUEUED, RunState.RUNNING},
    RunState.QUEUED: _ENDS | {RunState.RUNNING},
    RunState.RUNNING: _ENDS,
    RunState.COMPLETED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
    RunState.TIMED_OUT: frozenset(),
}

FINAL_RUN = _ENDS


class IllegalMove(AssertionError):
    """A move that the table does not allow: a defect of ours, never of a caller."""


def move(table: Mapping[S, frozenset[S]], old: S, new: S) -> S:
    """Returns `new` when the table allows old -> new (or they are equal).

    Raises:
        IllegalMove: when it does not.
    """
    if new != old and new not in table[old]:
        raise IllegalMove(f"{type(old).__name__}: {old} -> {new}")
    return new
