"""Owns the calls about running agents: start, stop, restart, list, log in.

It refuses to know how processes are started and shared (`pool.py`).
"""

import dataclasses

import anyio

from agentctl.core.adapter import NativeSession
from agentctl.core.errors import NotFound, Unsupported
from agentctl.core.parts import Choice
from agentctl.core.spec import SessionSpec
from agentctl.core.words import RunState
from agentctl.session.base import Base, lasting
from agentctl.session.pool import Pool
from agentctl.session.process import AgentProcess
from agentctl.session.records import AgentRecord, Counts
from agentctl.session.session import Session


class AgentCalls(Base):
    async def start_agent(self, entry_id: str, *, workspace: str = "") -> AgentRecord:
        """A process without a session; it stops by itself when it stays without one."""
        self.refuse_when_full()
        entry = self.entry(entry_id)
        agent = await self.pool.start(SessionSpec(entry.id, workspace or "/"))
        return Pool.record_of(agent)

    def _on(self, agent: AgentProcess) -> list[Session]:
        return [self.sessions[key] for key in agent.members if key in self.sessions]

    @lasting
    async def stop_agent(self, agent_id: str, *, force: bool = False) -> AgentRecord:
        """Closes its sessions and returns when nothing of it is left."""
        ended = self.pool.ended(agent_id)
        if ended is not None:
            return ended
        agent = self.pool.get(agent_id)
        async with anyio.create_task_group() as group:
            for session in self._on(agent):
                group.start_soon(
                    lambda s: s.close(reason="its agent was stopped", force=force), session
                )
        await agent.stop()
        return dataclasses.replace(agent.record, session_ids=[])

    @lasting
    async def stop_all(self, *, force: bool = False) -> list[AgentRecord]:
        """Stops every agent and closes every session that has one."""
        running = await self.pool.records(include_exited=False)
        async with anyio.create_task_group() as group:
            for record in running:
                group.start_soon(lambda r: self.stop_agent(r.id, force=force), record)
        return running

    @lasting
    async def restart_agent(self, agent_id: str) -> AgentRecord:
        """A fresh process for the same sessions; what runs is cancelled, queues stay."""
        agent = self.pool.get(agent_id)
        sessions = self._on(agent)
        try:
            async with anyio.create_task_group() as group:
                for session in sessions:
                    session.pausing = "its agent is restarted"
                    group.start_soon(lambda s: s.ending.wind_down(drop_queue=False), session)
            await agent.stop()
        finally:
            for session in sessions:
                session.pausing = ""
                session.driver.kick()
        for session in sessions:
            session.driver.want()
        for session in sessions:
            await session.driver.wait_settled()
        fresh = next((s.agent for s in sessions if s.agent is not None), None)
        if fresh is None:
            return await self.start_agent(agent.record.entry_id, workspace=agent.launch.cwd)
        return Pool.record_of(fresh)

    async def get_agent(self, agent_id: str) -> AgentRecord:
        ended = self.pool.ended(agent_id)
        return ended or Pool.record_of(self.pool.get(agent_id))

    async def list_agents(self, *, include_exited: bool = False) -> list[AgentRecord]:
        return await self.pool.records(include_exited=include_exited)

    async def _any(self, agent: str) -> AgentProcess:
        """The named process, or a ready one of the named entry, started when none is."""
        if agent.startswith("agt_"):
            return self.pool.get(agent)
        entry = self.entry(agent)
        return self.pool.running(entry.id) or await self.pool.start(SessionSpec(entry.id, "/"))

    async def auth_methods(self, agent: str) -> list[Choice]:
        connection = await (await self._any(agent)).ready()
        return list(connection.info.auth_methods)

    async def authenticate(self, agent: str, method: str) -> None:
        """Logs in by one of the agent's own methods.

        Raises:
            NotFound: the agent names no such method.
        """
        connection = await (await self._any(agent)).ready()
        known = [choice.id for choice in connection.info.auth_methods]
        if method not in known:
            raise NotFound(
                f'{agent} has no login method "{method}". It has: {", ".join(known) or "none"}.',
                reason="INVALID_PARAMETERS",
            )
        await connection.authenticate(method)

    async def list_native(self, entry_id: str, cwd: str | None) -> list[NativeSession]:
        """The conversations that the agent itself keeps."""
        connection = await (await self._any(entry_id)).ready()
        try:
            return list(await connection.list_sessions(cwd))
        except Unsupported as error:
            raise Unsupported(f"{entry_id} does not list its conversations.") from error

    def counts(self) -> Counts:
        runs = [run for s in self.sessions.values() for run in s.ledger.runs.values()]
        running = sum(run.state is RunState.RUNNING for run in runs)
        return Counts(
            agents=self.pool.count,
            sessions_open=len(self.sessions),
            sessions=len(self.sessions) + self.closed_sessions,
            runs_running=running,
            runs_queued=len(runs) - running,
            approvals_open=sum(len(s.ledger.approvals) for s in self.sessions.values()),
            questions_open=sum(len(s.ledger.questions) for s in self.sessions.values()),
        )
