"""Owns what an open run is and how its end is judged; knows no draft's order and no tool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentctl.core.adapter import ProcessGone, TurnEnded
from agentctl.core.events import Complete
from agentctl.core.ids import NativeTurnId
from agentctl.core.parts import RunError, Usage
from agentctl.core.words import Outcome


@dataclass(slots=True)
class Run:
    """An open run. `turn` is None between `begin` and the agent's prompt."""

    id: str
    turn: NativeTurnId | None
    cancelled: bool = False

    def judge(self, complete: Complete) -> None:
        """After a cancel any end is `cancelled`; a failure has an error, nothing else has one."""
        if self.cancelled and complete.outcome is not Outcome.TIMED_OUT:
            complete.outcome = Outcome.CANCELLED
        if complete.outcome is Outcome.FAILED:
            complete.error = complete.error or RunError(
                "AGENT_FAILED", "The agent ended the turn without a reason; prompt again."
            )
        elif complete.outcome is not Outcome.TIMED_OUT:
            complete.error = None


# A draft that names a turn as old as this is late of the newest run instead.
ENDED_TURNS_KEPT = 64


class EndedTurns(dict[NativeTurnId, str]):
    """Turns that ended and their runs: a draft that names one is late of exactly that run."""

    def __init__(self) -> None:
        super().__init__()
        self._unsent: list[str] = []

    def note(self, run: Run) -> None:
        """Remembers a run that ended, also one whose prompt the agent has not seen yet."""
        if run.turn is None:
            self._unsent.append(run.id)
            return
        self[run.turn] = run.id
        if len(self) > ENDED_TURNS_KEPT:
            del self[next(iter(self))]

    def claim(self, turn: NativeTurnId) -> bool:
        """Whether the turn that starts is of a prompt that was given up before it was written."""
        if not self._unsent:
            return False
        self[turn] = self._unsent.pop(0)
        return True

    def forget(self) -> None:
        self.clear()
        self._unsent.clear()


def told(
    draft: TurnEnded, runs: Sequence[Run] = (), ended: Mapping[NativeTurnId, str] | None = None
) -> Complete:
    """The end as the agent told it; `runs` and `ended` name the run that it was folded into."""
    usage = None if draft.usage == Usage() else draft.usage
    complete = Complete(draft.outcome, draft.stop_reason, usage, draft.cost_usd, draft.error)
    if (into := draft.folded_into) is not None:
        still_open = next((run.id for run in runs if run.turn == into), None)
        complete.folded_into = still_open or (ended or {}).get(into)
    return complete


def death(gone: ProcessGone) -> RunError:
    """Why a run failed whose process ended under it."""
    if gone.signal is not None:
        how = f"was ended by signal {gone.signal}"
    elif gone.exit_code is not None:
        how = f"exited with code {gone.exit_code}"
    else:
        how = "stopped speaking"
    return RunError(
        "AGENT_EXITED",
        f"The agent {how} before its turn was over; prompt again to start it anew.",
        recoverable=True,
        exit_code=gone.exit_code,
        signal=gone.signal,
        stderr_tail=gone.stderr_tail or None,
    )
