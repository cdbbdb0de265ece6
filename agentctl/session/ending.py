"""Owns the ends that do not come by themselves: cancel, time-out, stall, expiry.

    cancel: answer open requests as cancelled -> tell the agent -> 3 s -> say "not acknowledged"
            -> 10 s -> make the end ourselves; that process is not used again by this session.

It refuses to know how a prompt gets to an agent (`driver.py`).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from agentctl.core.events import Error, Event
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import RunError
from agentctl.core.state import FINAL_RUN
from agentctl.core.words import DecidedBy, Decision, Outcome, RunState, SessionChange, SessionState
from agentctl.session.permissions import Verdict, deny
from agentctl.session.records import RunRecord
from agentctl.session.writes import Writes

if TYPE_CHECKING:
    from agentctl.session.session import Session

# However short the limits are, nobody looks for a stall more often than this.
MIN_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Limits:
    """The waits of design section 5, in seconds unless named otherwise."""

    cancel_ack_s: float = 3
    cancel_end_s: float = 10
    stall_s: float = 300
    stall_tool_s: float = 1800
    approval_ms: int | None = None
    max_queue: int = 100


class Ending:
    """The timers of one session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._stalled_at = -1

    @property
    def limits(self) -> Limits:
        return self._session.deps.limits

    @property
    def timers(self) -> int:
        """How many are set."""
        return len(self._timers)

    def _later(
        self, of: str, kind: str, seconds: float, what: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        key = (of, kind)

        def fire() -> None:
            self._timers.pop(key, None)
            self._session.deps.background(what)

        if self._session.closing:
            return
        if (old := self._timers.pop(key, None)) is not None:
            old.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(max(0.0, seconds), fire)

    def forget(self, of: str) -> None:
        """That run or approval is over: no timer of it fires any more."""
        for kind in ("timeout", "stall", "expiry"):
            if (handle := self._timers.pop((of, kind), None)) is not None:
                handle.cancel()

    def forget_all(self) -> None:
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()

    def watch(self, run: RunRecord) -> None:
        """Starts the clocks of a run that has started."""
        if run.state is not RunState.RUNNING:
            return
        if run.timeout_ms is not None:
            self._later(run.id, "timeout", run.timeout_ms / 1000, lambda: self._time_out(run))
        self._later(run.id, "stall", self.limits.stall_s, lambda: self._look(run))

    def watch_approval(self, approval_id: str) -> None:
        approval = self._session.ledger.approvals.get(approval_id)
        if approval is None or approval.request.expires_at is None:
            return
        left = approval.request.expires_at / 1000 - time.time()
        self._later(approval_id, "expiry", left, lambda: self._expire(approval_id))

    async def _time_out(self, run: RunRecord) -> None:
        ledger = self._session.ledger
        if self._session.gathering.has_ended(run):
            return
        if run.state is RunState.RUNNING and run.id not in ledger.cancelling:
            error = RunError("TIMEOUT", f"The run took longer than {run.timeout_ms} ms.", True)
            ledger.verdicts[run.id] = (Outcome.TIMED_OUT, error)
            await self.cancel(run)

    async def _look(self, run: RunRecord) -> None:
        """A stall: no event for too long, and nobody is being asked."""
        if run.state is not RunState.RUNNING:
            return
        ledger = self._session.ledger
        limit = self.limits.stall_tool_s if run.open_tools else self.limits.stall_s
        silent = time.time() - ledger.last_event / 1000
        asked = ledger.turns.open_permissions or ledger.turns.open_questions
        asked = asked or self._session.gathering.has_ended(run)
        if silent >= limit and not asked and self._stalled_at != ledger.last_event:
            writes = self._error(
                run,
                "STALLED",
                f"Nothing was heard of the agent for {int(silent)} s. Wait on, or end the run: "
                f"agentctl cancel {run.id}",
            )
            # The report is an event too: it must not look like the agent's next sign.
            self._stalled_at = ledger.last_event
            await self._session.commit(writes)
        wait = limit - silent if silent < limit else limit
        self._later(run.id, "stall", max(wait, MIN_LOOK_S), lambda: self._look(run))

    async def _expire(self, approval_id: str) -> None:
        session = self._session
        approval = session.ledger.approvals.get(approval_id)
        if approval is None:
            return
        refused = deny(approval.request, DecidedBy.POLICY, "nobody answered in time")
        writes = Writes(vital=True)
        verdict = Verdict(Decision.EXPIRED, refused.option_id, refused.by, refused.reason)
        session.ledger.resolve(approval_id, verdict, writes)
        await session.commit(writes)

    def _error(self, run: RunRecord, code: str, message: str) -> Writes:
        writes = Writes(vital=True)
        self._session.ledger.add([Event(Error(code, message), run_id=run.id)], writes)
        return writes

    async def cancel(
        self, run: RunRecord, *, drop_queue: bool = False, force: bool = False
    ) -> None:
        """Tells the agent to cancel, once, and returns; the ladder goes on behind.

        `force` does not wait for the agent: its process ends now.
        """
        session, ledger = self._session, self._session.ledger
        writes = Writes(vital=True)
        session.gathering.let_go(writes)
        if drop_queue:
            ledger.drop_queue(writes)
        if run.state is not RunState.RUNNING:
            if run.state not in FINAL_RUN:
                ledger.end(run, Outcome.CANCELLED, writes)
                ledger.hold(False, writes)
            await session.commit(writes)
            return
        first = run.id not in ledger.cancelling
        if first:
            ledger.cancelling.update(ledger.turns.open_runs)
            ledger.turns.cancel_sent()
            ledger.cancel_requests(writes)
            # A commit of nothing would overtake the prompt that is being journalled.
            writes.touch(run)
            writes.after.append(self._tell)
        await session.commit(writes)
        if force:
            await self._abandon(run)
        elif first:
            session.deps.background(lambda: self._climb(run))

    def _tell(self) -> None:
        session = self._session
        native = NativeSessionId(session.record.native_session_id)
        if session.agent is not None:
            session.agent.post(lambda connection: connection.cancel(native))

    async def _climb(self, run: RunRecord) -> None:
        session = self._session
        waiter = session.waiter(run.id)
        with anyio.move_on_after(self.limits.cancel_ack_s):
            await waiter.wait()
            return
        if run.state is not RunState.RUNNING or session.gathering.has_ended(run):
            return
        await session.commit(
            self._error(
                run,
                "CANCEL_NOT_ACKNOWLEDGED",
                f"The agent has not answered the cancel for {self.limits.cancel_ack_s:g} s. It is "
                f"given {self.limits.cancel_end_s:g} s more; do not wait: agentctl cancel "
                f"{run.id} --force",
            )
        )
        with anyio.move_on_after(self.limits.cancel_end_s):
            await waiter.wait()
            return
        await self._abandon(run)

    async def _abandon(self, run: RunRecord) -> None:
        """Ends the run ourselves and leaves a process that did not listen."""
        session, ledger = self._session, self._session.ledger
        if run.state is not RunState.RUNNING:
            return
        writes = Writes(vital=True)
        ledger.cancel_requests(writes)
        await session.commit(writes)
        if run.state is not RunState.RUNNING:
            return
        writes = Writes(vital=True)
        session.desert()
        ledger.end_everything(Outcome.CANCELLED, writes)
        if session.record.state is SessionState.IDLE and not session.closing:
            ledger.become(SessionState.ASLEEP, writes)
            reason = "the agent did not acknowledge a cancel"
            ledger.say(SessionChange.ASLEEP, writes, reason=reason)
        await session.commit(writes)

    async def wind_down(self, *, drop_queue: bool = True) -> None:
        """Before a stop: cancels what runs and gives the agent its time to say so."""
        running = self._session.ledger.running
        if running is None or self._session.agent is None:
            return
        waiter = self._session.waiter(running.id)
        await self.cancel(running, drop_queue=drop_queue)
        with anyio.move_on_after(self.limits.cancel_ack_s):
            await waiter.wait()
