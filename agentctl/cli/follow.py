"""Owns following one run to its end: the stream to a view, keys to answers, Ctrl-C to a cancel.

It refuses to know how anything looks. A run belongs to the daemon: leaving here ends nothing.
"""

import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from agentctl.cli import errors, keyboard
from agentctl.cli.asks import Asks
from agentctl.cli.cards import hint
from agentctl.cli.compose import Compose
from agentctl.cli.render import TerminalView
from agentctl.cli.runview import RunView
from agentctl.core.errors import AgentctlError
from agentctl.rpc.jsonview import to_dict

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

Json = dict[str, Any]

# A spinner should turn, not flicker.
TICK_S = 0.15

# A daemon that restarts is back in seconds; a person should not look at a still screen for longer.
PATIENCE_S = 30.0

# The stop ladder of an agent that ignores everything takes 20 s; after that the daemon is to blame.
CLOSE_S = 40.0

# A session that failed or closed may still bring the run's own end, which says more.
LATE_END_S = 2.0

CODES = {
    "completed": 0,
    "failed": errors.FAILED,
    "cancelled": errors.CANCELLED,
    "timed_out": errors.TIMED_OUT,
}


@dataclass(slots=True)
class What:
    """Which run to follow, and how.

    `after` is a cursor from before the run was made. `closes` says that the session ends with the
    run, and that its end is to be waited for. `on_ask` is wait, deny or fail. `entry_id` is the
    entry that is being started for it, if one is: its progress is shown.
    """

    session_id: str
    run_id: str
    after: str
    closes: bool = False
    on_ask: str = "wait"
    header: bool = True
    entry_id: str = ""
    begun: bool = False
    asked: Sequence[tuple[str, Json, bool]] = ()
    """What is open already, of a run that began before: (id, request, whether it is a question)."""


class Follow:
    """Follows one run. `run()` returns the exit code."""

    def __init__(
        self,
        client: "AgentCtl",
        what: What,
        view: RunView,
        asks: Asks | None = None,
        compose: Compose | None = None,
    ) -> None:
        self._client = client
        self._what = what
        self._view = view
        self._asks = asks
        self._compose = compose
        self._complete: Json | None = None
        self._decision = ""
        self._hints: dict[str, str] = {}
        self._fallback: Json | None = None
        self._began = False
        self._ended = False
        self._closed = False
        self._close_s = CLOSE_S
        self._interrupts = 0
        self._detached = False

    async def run(self) -> int:
        with ExitStack() as stack:
            if self._asks is not None:
                stack.enter_context(keyboard.keys_alone(sys.stdin.fileno()))
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._signals, group)
                    group.start_soon(self._tick)
                    if self._what.entry_id and self._view.shows_starts:
                        group.start_soon(self._hear_start)
                    if self._asks is not None:
                        group.start_soon(self._keys, self._asks)
                    if self._what.begun:
                        await self._header()
                    for identifier, data, question in self._what.asked:
                        await self._asked(identifier, data, group, question=question)
                    await self._read(group)
                    group.cancel_scope.cancel()
            finally:
                self._end()
        return self.code()

    def _end(self) -> None:
        """Shows the end, once: as soon as it is known, else what is known when we leave."""
        if not self._ended:
            self._ended = True
            self._complete = self._complete or self._fallback
            self._view.end(self._complete)

    def code(self) -> int:
        """The exit code of design section 9."""
        if self._detached:
            return errors.CANCELLED
        outcome = "failed" if self._complete is None else self._complete["outcome"]
        if outcome == "completed":
            return 0
        if self._decision == "denied" and not self._interrupts:
            return errors.DENIED
        return CODES[outcome]

    async def _read(self, group: TaskGroup) -> None:
        what = self._what
        scope = anyio.CancelScope()
        with scope:
            async for batch in self._client.batches(
                what.after, sessions=[what.session_id], patience_s=PATIENCE_S
            ):
                if batch.HasField("gap"):
                    self._view.gap(to_dict(batch.gap))
                for event in batch.events:
                    await self._event(to_dict(event), group, scope)
                    if self._over():
                        return
                self._draw()

    def _over(self) -> bool:
        return self._complete is not None and (self._closed or not self._what.closes)

    async def _event(self, event: Json, group: TaskGroup, scope: anyio.CancelScope) -> None:
        if event.get("run_id", self._what.run_id) != self._what.run_id:
            return
        data: Json = event["data"]
        match event["type"]:
            case "run_status" if data["status"] == "started":
                await self._header()
            case "permission_request":
                await self._asked(data["approval_id"], data, group, question=False)
            case "question_request":
                await self._asked(data["question_id"], data, group, question=True)
            case "permission_resolved":
                self._decision = data.get("decision", "")
                self._resolved(data["approval_id"], self._decision)
            case "question_resolved":
                self._resolved(data["question_id"], data.get("outcome", ""))
            case "session_status" if data.get("status") in ("closed", "failed"):
                self._session_ended(event, data, scope)
            case "session_status" if data.get("status") == "interrupted":
                # Its process is gone already; after a restart nothing more may come.
                self._close_s = LATE_END_S
                if self._complete is not None:
                    scope.deadline = anyio.current_time() + LATE_END_S
            case _:
                pass
        self._view.event(event)
        if event["type"] == "complete" and event.get("run_id") == self._what.run_id:
            self._complete = data
            self._end()
            if self._what.closes:
                scope.deadline = anyio.current_time() + self._close_s

    def _session_ended(self, event: Json, data: Json, scope: anyio.CancelScope) -> None:
        self._closed = True
        if self._complete is not None:
            return
        scope.deadline = anyio.current_time() + LATE_END_S
        reason = data.get("reason") or f"the session {data['status']} before the run ended"
        error = {"code": "AGENT_FAILED", "message": reason}
        self._fallback = {"outcome": "failed", "error": error, "ended_at": event["ts"]}

    async def _header(self) -> None:
        self._began = True
        if not self._what.header:
            return
        try:
            session = to_dict(await self._client.sessions.get(self._what.session_id))
            agent_id = session.get("agent_id")
            agent = to_dict(await self._client.agents.get(agent_id)) if agent_id else None
        except AgentctlError:
            return
        self._view.header(session, agent)

    async def _asked(
        self, identifier: str, data: Json, group: TaskGroup, *, question: bool
    ) -> None:
        if self._what.on_ask != "wait":
            group.start_soon(self._refuse, identifier, question)
        elif self._asks is not None:
            self._asks.add(identifier, data, question=question)
        else:
            self._hints[identifier] = hint(data, question=question)

    async def _refuse(self, identifier: str, question: bool) -> None:
        try:
            if question:
                await self._client.questions.reject(identifier)
            else:
                await self._client.approvals.respond(identifier, "deny")
            if self._what.on_ask == "fail":
                await self._client.runs.cancel(self._what.run_id)
        except AgentctlError as error:
            if error.reason not in ("ALREADY_RESOLVED", "RUN_FINISHED"):
                self._view.note(error.message)

    def _resolved(self, identifier: str, how: str) -> None:
        self._hints.pop(identifier, None)
        if self._asks is not None:
            self._asks.resolved(identifier, how)

    def _draw(self) -> None:
        """Shows the next card, or says who can answer, once a batch has told what is still open."""
        while self._hints:
            self._view.note(self._hints.pop(next(iter(self._hints))))
        typing = self._compose is not None and self._compose.busy
        if self._asks is not None:
            if not typing:
                # A card under the fingers of somebody who types would take a letter for an answer.
                self._asks.show()
            if isinstance(self._view, TerminalView):
                self._view.quiet = self._asks.busy or typing

    async def _keys(self, asks: Asks) -> None:
        async for key in keyboard.read_keys(sys.stdin.fileno()):
            typing = self._compose is not None and self._compose.busy
            if asks.busy:
                await asks.key(key)
                self._draw()
            elif key == "o" and not typing and isinstance(self._view, TerminalView):
                self._view.open_output()
            elif self._compose is not None:
                await self._compose.key(key)
                self._draw()

    async def _hear_start(self) -> None:
        """What a process says of itself before it serves any session is in no session's stream."""
        what = self._what
        async for event in self._client.events(what.after, types=["agent_status"]):
            if self._began:
                return
            told = to_dict(event)
            if told["data"].get("entry_id") == what.entry_id and not event.session_id:
                self._view.event(told)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK_S)
            self._view.tick()

    async def _signals(self, group: TaskGroup) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            async for _ in received:
                self._interrupts += 1
                if self._interrupts > 1 or self._complete is not None:
                    self._detached = self._complete is None
                    if self._detached:
                        run = self._what.run_id
                        self._view.note(f"left it: agentctl events --run {run} --follow shows it")
                    group.cancel_scope.cancel()
                    return
                self._view.note("cancelling … (Ctrl-C again leaves it to the daemon)")
                group.start_soon(self._cancel)

    async def _cancel(self) -> None:
        try:
            await self._client.runs.cancel(self._what.run_id)
        except AgentctlError as error:
            if error.reason != "RUN_FINISHED":
                self._view.note(error.message)
