"""Owns which processes run: starting, sharing (design section 11), stopping and listing them.

It refuses to know what a session does on its process.
"""

import asyncio
import dataclasses
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from agentctl.core.adapter import Connection, Feature, Launch
from agentctl.core.errors import NotFound, Refused, Unsupported
from agentctl.core.spec import Entry, SessionSpec
from agentctl.core.words import AgentState, Policy
from agentctl.session.footprint import Footprint
from agentctl.session.ids import mint, now_ms
from agentctl.session.ports import Entries, JournalPort, Prepared, Recorder, Redactor, Room
from agentctl.session.process import AgentProcess
from agentctl.session.records import AgentRecord

# `ps --all` shows this many processes that have ended.
KEPT_EXITED = 200
# A stop has a ladder of its own that is shorter; a caller who gave up is not held beyond it.
GIVE_UP_S = 30.0

Background = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Runs something that nobody waits for; its failure is logged."""


class Bind(Protocol):
    """What the environment of a session adds to a program before it is started."""

    def __call__(self, prepared: Prepared, *, shared: bool) -> Prepared: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a session needs a process for. `agent_id`: exactly that process; `avoid`: none of these."""

    session_id: str
    spec: SessionSpec
    policy: Policy = Policy.ASK
    rules: bool = False
    agent_id: str = ""
    avoid: frozenset[str] = frozenset()
    bind: Bind | None = None


@dataclass(frozen=True, slots=True)
class PoolDeps:
    """What `daemon.py` gives the pool. `cookie` marks every process of this daemon."""

    entries: Entries
    journal: JournalPort
    background: Background
    on_full: Callable[[], None]
    redactor: Redactor
    recorder: Recorder | None = None
    room: Room | None = None
    cookie: str = "agentctl"
    version: str = ""
    idle_s: float = 900


Key = tuple[object, ...]


class Pool:
    """The processes of this daemon."""

    def __init__(self, deps: PoolDeps) -> None:
        self._deps = deps
        self._agents: dict[str, AgentProcess] = {}
        self._keys: dict[str, Key] = {}
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._exited: deque[AgentRecord] = deque(maxlen=KEPT_EXITED)
        self._footprint = Footprint()

    @property
    def count(self) -> int:
        return len(self._agents)

    async def acquire(
        self, wanted: Wanted, found: Callable[[AgentProcess], Awaitable[None]]
    ) -> tuple[AgentProcess, Connection]:
        """A ready process for a session: the named one, a shared one, or a new one.

        `found` is told of it before it is ready. A caller that gives up while it starts leaves none
        behind.

        Raises:
            AgentctlError: the entry, its command or its handshake failed.
        """
        while True:
            agent = await self._find(wanted)
            agent.members.add(wanted.session_id)
            try:
                await found(agent)
                connection = await agent.ready()
            except BaseException:
                await self.give_up(agent, wanted.session_id)
                raise
            if agent.admit(wanted.session_id):
                return agent, connection
            agent.members.discard(wanted.session_id)
            if wanted.agent_id:
                raise Unsupported(
                    f"{wanted.agent_id} holds one session at a time, and has one. Name the entry "
                    f"instead: {wanted.spec.entry_id}"
                )

    async def give_up(self, agent: AgentProcess, session_id: str) -> None:
        """Releases on the way out of an error or a cancel: nothing may be left of the process."""
        with anyio.move_on_after(GIVE_UP_S, shield=True):
            await self.release(agent, session_id)

    async def _find(self, wanted: Wanted) -> AgentProcess:
        if wanted.agent_id:
            agent = self.get(wanted.agent_id)
            if agent.record.entry_id != wanted.spec.entry_id:
                raise Refused(
                    f"{wanted.agent_id} runs {agent.record.entry_id}, not {wanted.spec.entry_id}. "
                    "Name the entry instead, or another process (agentctl ps).",
                    reason="INSTANCE_NOT_CONNECTED",
                )
            return agent
        entries = self._deps.entries
        entry = entries.attached(entries.get(wanted.spec.entry_id), wanted.spec)
        prepared = await anyio.to_thread.run_sync(
            lambda: self._deps.entries.prepare(
                entry, wanted.spec, policy=wanted.policy, rules=wanted.rules
            )
        )
        if wanted.bind is not None:
            prepared = wanted.bind(prepared, shared=entry.sharing == "shared")
        key = self._key(entry, prepared, wanted)
        if entry.sharing == "shared":
            for agent_id, other in self._keys.items():
                shared = self._agents[agent_id]
                if other == key and agent_id not in wanted.avoid and _may_share(shared):
                    return shared
        return self._start(entry, prepared, key, wanted)

    @staticmethod
    def _key(entry: Entry, prepared: Prepared, wanted: Wanted) -> Key:
        trust = wanted.spec.trust_workspace
        return (
            entry.id,
            prepared.argv,
            tuple(sorted(prepared.env.items())),
            entry.url,
            tuple(sorted(entry.auth.items())),
            entry.trust_workspace if trust is None else trust,
            wanted.spec.environment,
        )

    def _start(self, entry: Entry, prepared: Prepared, key: Key, wanted: Wanted) -> AgentProcess:
        deps = self._deps
        adapter = deps.entries.adapter(entry.protocol)
        record = AgentRecord(mint("agent"), entry.id, AgentState.STARTING, started_at=now_ms())
        trust = wanted.spec.trust_workspace
        launch = Launch(
            entry=entry,
            argv=prepared.argv,
            env=prepared.env,
            cwd=prepared.cwd,
            cookie=f"{deps.cookie}.{record.id}",
            client_version=deps.version,
            trust_workspace=entry.trust_workspace if trust is None else trust,
            redact=deps.redactor(prepared.secrets),
            tap=deps.recorder(entry.id, record.id, prepared) if deps.recorder else None,
        )
        agent = AgentProcess(record, adapter, launch, deps.journal, deps.on_full)
        agent.secrets, agent.room = prepared.secrets, deps.room
        self._agents[agent.id] = agent
        self._keys[agent.id] = key
        deps.background(lambda: self._live(agent))
        return agent

    async def _live(self, agent: AgentProcess) -> None:
        try:
            await agent.run()
        finally:
            self._agents.pop(agent.id, None)
            self._keys.pop(agent.id, None)
            if (idle := self._idle.pop(agent.id, None)) is not None:
                idle.cancel()
            self._exited.append(agent.record)

    async def start(self, spec: SessionSpec) -> AgentProcess:
        """A process of its own without a session (Agents.Start)."""
        agent = await self._find(Wanted("", spec))
        try:
            await agent.ready()
        except BaseException:
            await self.give_up(agent, "")
            raise
        self._stop_when_idle(agent)
        return agent

    async def release(self, agent: AgentProcess, session_id: str) -> None:
        """The session leaves; returns when a process that nobody needs is gone."""
        agent.members.discard(session_id)
        if not agent.members:
            await agent.stop()

    def _stop_when_idle(self, agent: AgentProcess) -> None:
        def check() -> None:
            if not agent.members:
                agent.request_stop()

        if (old := self._idle.pop(agent.id, None)) is not None:
            old.cancel()
        self._idle[agent.id] = asyncio.get_running_loop().call_later(self._deps.idle_s, check)

    def get(self, agent_id: str) -> AgentProcess:
        """By id or unique tail of one (at least 4 characters).

        Raises:
            NotFound: no process of that id runs.
        """
        if agent_id in self._agents:
            return self._agents[agent_id]
        tail = [
            a for key, a in self._agents.items() if len(agent_id) > 3 and key.endswith(agent_id)
        ]
        if len(tail) == 1:
            return tail[0]
        raise NotFound(
            f'no agent "{agent_id}" is running. See what runs with: agentctl ps',
            reason="AGENT_NOT_FOUND",
        )

    def running(self, entry_id: str) -> AgentProcess | None:
        """Some ready process of the entry."""
        found = (a for a in self._agents.values() if a.record.entry_id == entry_id and a.alive)
        return next(found, None)

    def ended(self, agent_id: str) -> AgentRecord | None:
        return next((r for r in self._exited if r.id == agent_id), None)

    async def records(self, *, include_exited: bool) -> list[AgentRecord]:
        """What runs, with CPU and memory of each tree, oldest first."""
        live = [self.record_of(agent) for agent in self._agents.values()]
        await anyio.to_thread.run_sync(lambda: self._footprint.measure(live))
        return ([*self._exited] if include_exited else []) + live

    @staticmethod
    def record_of(agent: AgentProcess) -> AgentRecord:
        return dataclasses.replace(agent.record, session_ids=sorted(filter(None, agent.members)))

    async def stop_all(self) -> None:
        """Stops every process at once and returns when nothing is left."""
        async with anyio.create_task_group() as group:
            for agent in list(self._agents.values()):
                group.start_soon(agent.stop)


def _may_share(agent: AgentProcess) -> bool:
    """A process that still shakes hands is shared on trust; `MANY_SESSIONS` is checked when known."""
    if agent.stopping:
        return False
    return not agent.alive or Feature.MANY_SESSIONS in agent.record.features
