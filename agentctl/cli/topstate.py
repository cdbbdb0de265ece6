"""Owns what `agentctl top` knows: the newest lists, which of them events made old, tokens a minute.

Pure: events and messages in their JSON form in. It refuses to know calls, clocks and screens.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

MINUTE_MS = 60_000
AGENTS, SESSIONS, RUNS, APPROVALS, QUESTIONS, INFO = (
    "agents",
    "sessions",
    "runs",
    "approvals",
    "questions",
    "info",
)
LISTS = (AGENTS, SESSIONS, RUNS, APPROVALS, QUESTIONS, INFO)

_WORK = frozenset({SESSIONS, RUNS, INFO})
_TOUCHED: Mapping[str, frozenset[str]] = {
    "agent_status": frozenset({AGENTS, SESSIONS, INFO}),
    "session_status": frozenset({AGENTS, SESSIONS, INFO}),
    "run_status": _WORK,
    "complete": _WORK,
    "plan": frozenset({SESSIONS}),
    "tool_call": frozenset({SESSIONS}),
    "context_window": frozenset({SESSIONS}),
    "permission_request": frozenset({APPROVALS, SESSIONS, INFO}),
    "permission_resolved": frozenset({APPROVALS, SESSIONS, INFO}),
    "question_request": frozenset({QUESTIONS, SESSIONS, INFO}),
    "question_resolved": frozenset({QUESTIONS, SESSIONS, INFO}),
}
TYPES: Sequence[str] = tuple(_TOUCHED)
"""The events to subscribe to; text and output are none of them."""


def total(usage: Json) -> int:
    """Tokens of a usage."""
    return int(usage.get("total", usage.get("input", 0) + usage.get("output", 0)))


@dataclass(slots=True)
class Overview:
    """`stale` are the lists to ask for again. `away` says why the daemon does not answer."""

    info: Json = field(default_factory=dict[str, Any])
    agents: list[Json] = field(default_factory=list[Json])
    sessions: list[Json] = field(default_factory=list[Json])
    runs: list[Json] = field(default_factory=list[Json])
    approvals: list[Json] = field(default_factory=list[Json])
    questions: list[Json] = field(default_factory=list[Json])
    stale: set[str] = field(default_factory=lambda: set(LISTS))
    away: str = ""
    _spent: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    _counted: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, event: Json) -> None:
        """Notes what an event makes old, and the tokens that it tells."""
        kind, data = event["type"], event["data"]
        self.stale |= _TOUCHED.get(kind, frozenset())
        usage = data.get("usage")
        run = event.get("run_id", "")
        if kind == "context_window" and usage:
            self.spend(total(usage), event["ts"])
            if run:
                self._counted[run] = self._counted.get(run, 0) + total(usage)
        elif kind == "complete":
            # What its requests have told already is not counted twice.
            counted = self._counted.pop(run, 0)
            if usage and total(usage) > counted:
                self.spend(total(usage) - counted, event["ts"])

    def spend(self, tokens: int, ts: int) -> None:
        self._spent.append((ts, tokens))

    def tokens_per_minute(self, now: int) -> int:
        """Tokens that were told in the last minute."""
        while self._spent and self._spent[0][0] <= now - MINUTE_MS:
            self._spent.popleft()
        return sum(tokens for _, tokens in self._spent)

    def running_since(self, session_id: str) -> int | None:
        """Unix ms of the start of its run; None when nothing runs there."""
        for run in self.runs:
            if run.get("session_id") == session_id and run.get("started_at"):
                return int(run["started_at"])
        return None

    def as_json(self, now: int) -> Json:
        """One object of `top --json`."""
        return {
            "ts": now,
            "tokens_per_minute": self.tokens_per_minute(now),
            "counts": self.info.get("counts", {}),
            "agents": self.agents,
            "sessions": self.sessions,
            "runs": self.runs,
            "approvals": self.approvals,
            "questions": self.questions,
        }
