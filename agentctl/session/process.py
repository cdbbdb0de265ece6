"""Owns one live agent of the pool: its task, its outbox, and the way of drafts to their sessions.

It refuses to know what sessions make of drafts, and how processes are shared (`pool.py`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

import anyio

from agentctl.core.adapter import (
    AnyDraft,
    Connection,
    Draft,
    Feature,
    Launch,
    PermissionAnswer,
    ProcessGone,
    ProcessStarted,
    ProtocolAdapter,
    QuestionAnswer,
    StartTimer,
)
from agentctl.core.errors import AgentctlError, AgentFailed, Exhausted
from agentctl.core.events import AgentStatus, Event, PermissionRequest, QuestionRequest
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.state import AGENT_MOVES, move
from agentctl.core.words import AgentState, Decision, QuestionOutcome
from agentctl.session.ids import now_ms
from agentctl.session.ports import JournalPort, Room
from agentctl.session.records import AgentRecord
from agentctl.session.writes import Writes

logger = logging.getLogger(__name__)

# Answers on their way to an agent that stops get this long: it is a courtesy, the tree dies anyway.
FLUSH_S = 1.0
# Updates can overtake the answer that names their session; more than this is not an overtaking.
MAX_EARLY_DRAFTS = 10_000
# Conversations that nobody here opened (an agent's own subagents) are not kept for ever.
MAX_EARLY_SESSIONS = 64

Action = Callable[[Connection], Awaitable[None]]


class Member(Protocol):
    """A session as its process sees it."""

    id: str

    def take(self, draft: AnyDraft, writes: Writes) -> None: ...

    def open_runs(self) -> Collection[str]: ...


class AgentProcess:
    """One process. `run()` is its whole life and returns when nothing of it is left."""

    def __init__(
        self,
        record: AgentRecord,
        adapter: ProtocolAdapter,
        launch: Launch,
        journal: JournalPort,
        on_full: Callable[[], None],
    ) -> None:
        self.record = record
        self.launch = launch
        self.members: set[str] = set()
        self.secrets: Sequence[str] = ()
        """What it was given and nobody may read."""
        self.room: Room | None = None
        self.failure: AgentctlError | None = None
        self.done = anyio.Event()
        self._adapter = adapter
        self._journal = journal
        self._on_full = on_full
        self._bound: dict[NativeSessionId, Member] = {}
        self._early: dict[NativeSessionId, list[AnyDraft]] = {}
        self._left: set[NativeSessionId] = set()
        self._holder = ""
        self._starting: anyio.CancelScope | None = None
        self._gone = self._begun = False
        self._ready = anyio.Event()
        self._stop = anyio.Event()
        self._connection: Connection | None = None
        self._outbox: list[Action] = []
        self._outbox_filled = asyncio.Event()
        self._outbox_idle = asyncio.Event()
        self._outbox_idle.set()
        self._notes: list[str] = []

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def alive(self) -> bool:
        """Whether a session can be used on it."""
        ready = self.record.state is AgentState.READY and not self._stop.is_set()
        return ready and self._connection is not None

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    async def ready(self) -> Connection:
        """Waits for the handshake.

        Raises:
            AgentctlError: what the start raised, or AgentFailed when it is gone already.
        """
        await self._ready.wait()
        if self._connection is None or not self.alive:
            raise self.failure or AgentFailed(
                f"{self.record.entry_id}: the agent has stopped. Prompt again to start a fresh one."
            )
        return self._connection

    async def run(self) -> None:
        """Starts the agent, serves it, and stops it; never raises."""
        self._begun = True
        try:
            with anyio.CancelScope() as self._starting:
                if not self._stop.is_set():
                    await self._live()
        except AgentctlError as error:
            self.failure = error
        except Exception as error:
            # The adapter is foreign code: whatever it raises ends this agent and nothing else.
            logger.exception("agent %s (%s) ended by a defect", self.id, self.record.entry_id)
            self.failure = AgentFailed(
                f"{self.record.entry_id}: its adapter failed ({type(error).__name__}). "
                "See the daemon's log."
            )
        finally:
            with anyio.CancelScope(shield=True):
                self._connection = self._starting = None
                await self._end()

    async def _live(self) -> None:
        await self._tell(AgentStatus(AgentState.STARTING))
        connect = self._adapter.connect(self.launch, self._sink, self._progress)
        async with connect as connection:
            # From here on a stop goes by the ladder, no longer by giving up.
            self._starting = None
            self._connection = connection
            self._adopt(connection)
            await self._tell(AgentStatus(AgentState.READY, version=self.record.version or None))
            self._ready.set()
            async with anyio.create_task_group() as group:
                group.start_soon(self._drain_outbox, connection)
                await self._stop.wait()
                if self.record.state is AgentState.READY:
                    await self._tell(AgentStatus(AgentState.STOPPING))
                if not self._gone:
                    with anyio.move_on_after(FLUSH_S):
                        await self._outbox_idle.wait()
                group.cancel_scope.cancel()

    async def stop(self) -> None:
        """Returns when nothing of the process is left."""
        self.request_stop()
        await self.done.wait()

    def request_stop(self) -> None:
        self._stop.set()
        if self._starting is not None:
            self._starting.cancel()
        if not self._begun:
            # A task that is cancelled before its first step never runs: nobody else would say so.
            self._ready.set()
            self.done.set()

    def admit(self, session_id: str) -> bool:
        """Whether a ready process takes this session: some hold only one at a time."""
        if Feature.MANY_SESSIONS in self.record.features or self._holder not in self.members:
            self._holder = self._holder if self._holder in self.members else session_id
            return True
        return self._holder == session_id

    def bind(self, native: NativeSessionId, member: Member) -> Sequence[AnyDraft]:
        """Sends the drafts of `native` to `member` from now on; returns those that came before."""
        self._bound[native] = member
        self._left.discard(native)
        if self._connection is not None:
            # Some agents start only now: their pid and version are known from here on.
            self._adopt(self._connection)
        return self._early.pop(native, [])

    def unbind(self, member: Member) -> None:
        for native in [key for key, value in self._bound.items() if value is member]:
            del self._bound[native]
            self._left.add(native)

    def post(self, action: Action) -> None:
        """Has `action` done in order, without waiting: a reader must never wait on a write."""
        self._outbox.append(action)
        self._outbox_idle.clear()
        self._outbox_filled.set()

    async def _drain_outbox(self, connection: Connection) -> None:
        while True:
            await self._outbox_filled.wait()
            self._outbox_filled.clear()
            while self._outbox:
                action = self._outbox.pop(0)
                try:
                    await action(connection)
                except AgentctlError as error:
                    logger.warning("agent %s did not take an answer: %s", self.id, error)
            self._outbox_idle.set()

    def _adopt(self, connection: Connection) -> None:
        info = connection.info
        self.record.name = info.name
        self.record.version = info.version
        self.record.pid = info.pid
        self.record.features = sorted(info.features)
        self.record.auth_methods = [(m.id, m.name or m.id) for m in info.auth_methods]

    def _progress(self, text: str) -> None:
        """Called from where nothing can be awaited."""
        task = asyncio.get_running_loop().create_task(self._tell_progress(text))
        task.add_done_callback(_log_failure)

    async def _tell_progress(self, text: str) -> None:
        # A session that is resumed may have to wait on an agent that is ready.
        if self.record.state in (AgentState.STARTING, AgentState.READY):
            await self._tell(AgentStatus(self.record.state, detail=text))

    async def _tell(self, status: AgentStatus) -> None:
        self.record.state = move(AGENT_MOVES, self.record.state, status.state)
        status.entry_id = self.record.entry_id
        status.pid = self.record.pid
        writes = Writes(vital=True)
        writes.events.append(Event(status, agent_id=self.id, ts=writes.now))
        await writes.commit(self._journal)

    async def _sink(self, drafts: Sequence[AnyDraft]) -> None:
        writes = Writes()
        for draft in drafts:
            native = getattr(draft, "session", None)
            if native is not None:
                self._route(native, draft, writes)
            else:
                self._process_wide(draft, writes)
        try:
            await writes.commit(self._journal)
        except Exhausted:
            self._on_full()
            open_runs = {run for member in self._members() for run in member.open_runs()}
            await writes.commit_ends(self._journal, open_runs)
        if self.room is not None and self.room.crowded:
            await self.room.room()

    def _route(self, native: NativeSessionId, draft: AnyDraft, writes: Writes) -> None:
        member = self._bound.get(native)
        if member is not None:
            member.take(draft, writes)
        elif native in self._left or self._gone:
            self._turn_down(draft)
        elif native in self._early or len(self._early) < MAX_EARLY_SESSIONS:
            early = self._early.setdefault(native, [])
            if len(early) < MAX_EARLY_DRAFTS:
                early.append(draft)

    def _turn_down(self, draft: AnyDraft) -> None:
        """Nobody is there any more to answer what the agent asks, and it must not wait for ever."""
        if not isinstance(draft, Draft) or draft.request is None:
            return
        request: NativeRequestId = draft.request
        if isinstance(draft.payload, PermissionRequest):
            no = PermissionAnswer(Decision.CANCELLED)
            self.post(lambda connection: connection.answer_permission(request, no))
        elif isinstance(draft.payload, QuestionRequest):
            none = QuestionAnswer(QuestionOutcome.CANCELLED)
            self.post(lambda connection: connection.answer_question(request, none))

    def _members(self) -> list[Member]:
        return list(dict.fromkeys(self._bound.values()))

    def _process_wide(self, draft: AnyDraft, writes: Writes) -> None:
        match draft:
            case ProcessGone():
                self._lose(draft, writes)
            case ProcessStarted() | StartTimer():
                pass
            case Draft(payload=PermissionRequest() | QuestionRequest()):
                # It names no session: whoever uses the process is asked.
                if members := self._members():
                    members[0].take(draft, writes)
                else:
                    self._turn_down(draft)
            case Draft():
                event = Event(draft.payload, agent_id=self.id, ts=writes.now)
                writes.events.append(event)
            case _:
                for member in self._members():
                    member.take(draft, writes)

    def _lose(self, gone: ProcessGone, writes: Writes) -> None:
        """Tells each session once; a process that is gone has nothing more to say to it."""
        record = self.record
        record.exit_code = gone.exit_code if gone.exit_code is not None else record.exit_code
        record.signal = gone.signal if gone.signal is not None else record.signal
        record.stderr_tail = gone.stderr_tail or record.stderr_tail
        for member in self._members():
            member.take(gone, writes)
        self._bound.clear()
        self._early.clear()
        self._gone = True
        self._stop.set()

    async def _end(self) -> None:
        record = self.record
        record.ended_at = now_ms()
        writes = Writes(vital=True)
        self._lose(ProcessGone(record.exit_code, record.signal, record.stderr_tail), writes)
        status = AgentStatus(
            AgentState.EXITED,
            detail=self.failure.message if self.failure else None,
            exit_code=record.exit_code,
            signal=record.signal,
            stderr_tail=record.stderr_tail or None,
        )
        try:
            await writes.commit(self._journal)
            await self._tell(status)
        except AgentctlError:
            logger.exception("the end of agent %s could not be journalled", self.id)
        finally:
            self._ready.set()
            self._outbox.clear()
            self.done.set()


def _log_failure(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()):
        logger.error("a status could not be journalled", exc_info=error)
