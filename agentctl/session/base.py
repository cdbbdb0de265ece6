"""Owns what all calls of the manager share: open sessions, their journal, work in the background.

It refuses to know what any single call does.
"""

import functools
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup

from agentctl.core.errors import AgentctlError, DaemonFailed, Exhausted, NotFound, Refused
from agentctl.core.spec import Entry
from agentctl.core.words import Outcome, SessionState
from agentctl.session.artifacts import Artifacts
from agentctl.session.ending import Limits
from agentctl.session.keeping import GatherDeps
from agentctl.session.pool import Pool, PoolDeps
from agentctl.session.ports import Decode, Entries, JournalPort, Recorder, Redactor, Snapshots
from agentctl.session.progress import Facts
from agentctl.session.records import (
    ApprovalRecord,
    ArtifactRecord,
    QuestionRecord,
    RunRecord,
    SessionRecord,
)
from agentctl.session.rules import StandingRules
from agentctl.session.session import Session, SessionDeps
from agentctl.session.store import load
from agentctl.session.writes import DISK_FULL
from agentctl.workspace.git import Git
from agentctl.workspace.providers import Environments
from agentctl.workspace.watch import Watchers

logger = logging.getLogger(__name__)

R = TypeVar("R", SessionRecord, RunRecord, ApprovalRecord, QuestionRecord, ArtifactRecord)
B = TypeVar("B", bound="Base")
P = ParamSpec("P")
T = TypeVar("T")

# With the disk full new work is refused until what ran has ended; a defect must not keep it so.
FULL_S = 60.0
# A Protocol's `async def` is of this type, which cannot be subscripted at run time in Python 3.11.
Lasting: TypeAlias = "Callable[Concatenate[B, P], CoroutineType[Any, Any, T]]"


def lasting(call: "Lasting[B, P, T]") -> "Lasting[B, P, T]":
    """A call that goes on to its end when its caller leaves: what it changes is never half done."""

    @functools.wraps(call)
    async def run(self: B, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.see_through(lambda: call(self, *args, **kwargs))

    return run


@dataclass(frozen=True, slots=True)
class ManagerDeps:
    """What `daemon.py` gives the session room."""

    journal: JournalPort
    entries: Entries
    redactor: Redactor
    decode: Decode
    recorder: Recorder | None = None
    limits: Limits = field(default_factory=Limits)
    cookie: str = "agentctl"
    version: str = ""
    workspace_root: Path | None = None
    default_agent: str = ""
    max_sessions: int = 1000
    idle_agent_s: float = 900
    expose_reasoning: bool = True
    keep_raw: bool = False
    artifacts: Artifacts | None = None
    """Where what runs make is kept; without it no artifacts are made."""
    snapshots: Snapshots | None = None
    git: Git | None = None
    """Looks at the repositories of sessions; without it there are no `git` events."""
    environments: Environments = field(default_factory=Environments)


class Base:
    """State and helpers of the manager."""

    def __init__(self, deps: ManagerDeps) -> None:
        self.deps = deps
        self.sessions: dict[str, Session] = {}
        self.standing = StandingRules()
        self.closed_sessions: int = 0
        self.full = False
        self._group: TaskGroup | None = None
        self._creating = anyio.Lock()
        self._keys: dict[str, anyio.Lock] = {}
        self.watchers = Watchers(deps.git, self.background) if deps.git else None
        self.pool = Pool(
            PoolDeps(
                entries=deps.entries,
                journal=deps.journal,
                background=self.background,
                on_full=self.disk_full,
                redactor=deps.redactor,
                recorder=deps.recorder,
                room=deps.artifacts,
                cookie=deps.cookie,
                version=deps.version,
                idle_s=deps.idle_agent_s,
            )
        )

    def background(self, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `what` beside everything; a failure is logged and ends nothing else.

        Once the daemon has stopped nothing is begun any more.
        """
        if self._group is not None:
            self._group.start_soon(self._guarded, what)

    async def see_through(self, what: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs `what` in a task of the manager and waits for it; only the wait can be cancelled.

        Raises:
            DaemonFailed: the daemon stopped first.
        """
        if self._group is None:
            raise _stopping()
        results: list[T] = []
        errors: list[Exception] = []
        done = anyio.Event()

        async def work() -> None:
            try:
                results.append(await what())
            except Exception as error:  # noqa: BLE001  (it is the caller's, who raises it below)
                errors.append(error)
            finally:
                done.set()

        self._group.start_soon(work)
        await done.wait()
        if errors:
            raise errors[0]
        if not results:
            raise _stopping()
        return results[0]

    async def _guarded(self, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await what()
        except AgentctlError as error:
            logger.error("work in the background failed: %s", error)
        except Exception:
            # The edge of a background task: one session's defect must not stop the others.
            logger.exception("work in the background failed")

    def disk_full(self) -> None:
        """Ends every run: what agents say can no longer be kept. Reads and ends go on."""
        if not self.full:
            self.full = True
            self.background(self._end_for_full_disk)

    async def _end_for_full_disk(self) -> None:
        waiters: list[anyio.Event] = []
        try:
            for session in list(self.sessions.values()):
                ledger = session.ledger
                for run_id in ledger.turns.open_runs:
                    ledger.verdicts[run_id] = (Outcome.FAILED, DISK_FULL)
                    waiters.append(session.waiter(run_id))
                if ledger.running is not None:
                    await session.ending.cancel(ledger.running)
            with anyio.move_on_after(FULL_S):
                for waiter in waiters:
                    await waiter.wait()
        finally:
            self.full = False

    def session_deps(self) -> SessionDeps:
        deps = self.deps
        gather = None
        if deps.artifacts is not None:
            gather = GatherDeps(deps.artifacts, deps.redactor, deps.snapshots)
        return SessionDeps(
            journal=deps.journal,
            pool=self.pool,
            entries=deps.entries,
            background=self.background,
            limits=deps.limits,
            on_closed=self._closed,
            standing=self.standing,
            expose_reasoning=deps.expose_reasoning,
            keep_raw=deps.keep_raw,
            gather=gather,
            watchers=self.watchers,
            environments=deps.environments,
        )

    def adopt(self, record: SessionRecord, facts: Facts | None = None) -> Session:
        """An open session, in memory from now on."""
        session = Session(record, self.session_deps())
        if facts is not None:
            session.ledger.facts = facts
        self.sessions[record.id] = session
        return session

    def _closed(self, session_id: str) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.ending.forget_all()
            self.closed_sessions += 1

    async def fetch(self, kind: type[R], name: str, id_: str) -> R | None:
        """A record from the journal by its exact id."""
        doc = await self.deps.journal.doc(name, id_)
        return load(kind, doc) if doc is not None else None

    async def open_session(self, session_id: str) -> Session:
        """The open session of that id (or unique tail of one).

        Raises:
            NotFound: there is none.
            Refused: it is closed.
        """
        session = self.sessions.get(session_id) or self._by_tail(session_id)
        if session is None:
            record = await self.fetch(SessionRecord, "session", session_id)
            if record is None:
                raise NotFound(
                    f'there is no session "{session_id}". See them with: agentctl session ls',
                    reason="SESSION_NOT_FOUND",
                )
            raise closed(record)
        if session.closing:
            raise Refused(f"session {session.id} is closing.", reason="SESSION_CLOSED")
        return session

    def _by_tail(self, tail: str) -> Session | None:
        if len(tail) < 4:
            return None
        found = [s for key, s in self.sessions.items() if key.endswith(tail)]
        return found[0] if len(found) == 1 else None

    def entry(self, entry_id: str) -> Entry:
        """The entry, after the name `default`.

        Raises:
            NotFound, Refused: unknown or disabled.
        """
        if entry_id == "default" and self.deps.default_agent:
            entry_id = self.deps.default_agent
        return self.deps.entries.get(entry_id)

    def refuse_when_full(self) -> None:
        if self.full:
            raise Exhausted(
                "the disk is full, so that nothing new is started. Free some space and try again.",
                reason="DISK_FULL",
            )


def closed(record: SessionRecord) -> Refused:
    """Why nothing can be done in a session that is closed, and what can be done instead."""
    if record.state_saved is False:
        return Refused(
            f"session {record.id} was closed without saving its state, so that it cannot be taken "
            f"up again. Start a new one: agentctl start {record.spec.entry_id}",
            reason="SESSION_CLOSED",
        )
    return Refused(
        f"session {record.id} is closed. Start a new one, or bring it back: agentctl "
        f"session resume {record.id}",
        reason="SESSION_CLOSED",
    )


def _stopping() -> DaemonFailed:
    return DaemonFailed("the daemon is stopping. Start it again, then repeat the call.")


def page(items: list[R], limit: int, id_of: Callable[[R], str]) -> tuple[list[R], str]:
    """Cuts a list that was read one longer than `limit`; the second is the next `after`."""
    if len(items) <= limit:
        return items, ""
    return items[:limit], id_of(items[limit - 1])


OPEN_STATES = frozenset(SessionState) - {SessionState.CLOSED}
