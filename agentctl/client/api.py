"""Owns `AgentCtl`: one client with a namespace for each service, the event stream, and the objects.

A namespace is thin: its calls are the API's, with the API's messages. `agent()`, `session()`, `run()`
and the like give objects with plain data. It refuses to know how a call travels; `channel` does.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentctl import v1
from agentctl.client.agents import Agents, Daemon, Models, Registry
from agentctl.client.channel import Connection
from agentctl.client.others import Artifacts, Environments, Stats, Tasks, Tools
from agentctl.client.runs import Approvals, Questions, Runs
from agentctl.client.sessions import Sessions
from agentctl.client.stream import DEFAULT_PATIENCE_S, Subscription
from agentctl.rpc.enums import number

if TYPE_CHECKING:
    from agentctl.client.agent import Agent
    from agentctl.client.artifact import Artifact
    from agentctl.client.asking import Approval, Question
    from agentctl.client.environment import Environment, Task
    from agentctl.client.results import AgentInfo, EnvironmentInfo
    from agentctl.client.run import Run
    from agentctl.client.session import Session

MOST = 1000

# A callback that does not hear its cancellation must not keep a program from ending.
CALLBACKS_END_S = 2.0


class AgentCtl:
    """A client of one daemon: `async with AgentCtl.connect() as client: ...`.

    It must be made where an event loop runs. Nothing is sent before the first call; a call that
    reaches no daemon raises `Unreachable`. Every call raises AgentctlError with its `reason`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.patience_s: float = DEFAULT_PATIENCE_S
        """How long a daemon may be away before who reads events or waits for a run is told."""
        self._background: set[asyncio.Task[None]] = set()
        self.daemon = Daemon(connection)
        self.agents = Agents(connection)
        self.sessions = Sessions(connection)
        self.runs = Runs(connection)
        self.approvals = Approvals(connection)
        self.questions = Questions(connection)
        self.artifacts = Artifacts(connection)
        self.registry = Registry(connection)
        self.models = Models(connection)
        self.tools = Tools(connection)
        self.environments = Environments(connection)
        self.stats = Stats(connection)
        self.tasks = Tasks(connection)

    @classmethod
    def connect(cls, address: str | None = None, token: str | None = None) -> Self:
        """Makes a client of the daemon at `unix:PATH` or `HOST:PORT`.

        Args:
            address: absent: $AGENTCTL_ADDRESS, else the socket of the default data directory.
            token: the bearer token for TCP; absent: $AGENTCTL_TOKEN. A Unix socket needs none.
        """
        if address is None:
            from agentctl.config import default_address  # its model costs a start-up 0.1 s

            address = default_address()
        return cls(Connection(address, token or os.environ.get("AGENTCTL_TOKEN")))

    @property
    def address(self) -> str:
        return self._connection.address

    async def close(self) -> None:
        """Ends the connection and what callbacks it has; runs go on."""
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CALLBACKS_END_S)
        await self._connection.close()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs what serves callbacks, until it ends or the client is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def agent(self, agent_id: str) -> "Agent":
        """An entry of the registry, to be prompted; nothing is asked before its first call."""
        from agentctl.client.agent import Agent

        return Agent(self, agent_id)

    def session(self, session_id: str) -> "Session":
        from agentctl.client.session import Session

        return Session(self, session_id)

    def run(self, run_id: str) -> "Run":
        from agentctl.client.run import Run

        return Run(self, run_id)

    def environment(self, name: str) -> "Environment":
        from agentctl.client.environment import Environment

        return Environment(self, name)

    def task(self, task_id: str) -> "Task":
        from agentctl.client.environment import Task

        return Task(self, task_id)

    async def artifact(self, artifact_id: str, *, run_id: str = "") -> "Artifact":
        """An artifact by its id; with `run_id` only when it is of this run."""
        from agentctl.client.artifact import Artifact
        from agentctl.client.results import artifact_summary

        told = await self.artifacts.get(artifact_id, run_id=run_id)
        return Artifact(self, artifact_summary(told))

    async def all_agents(self, *, enabled_only: bool = True) -> "list[AgentInfo]":
        """What the registry knows, in its order."""
        from agentctl.client.results import agent_info

        told = await self.registry.list(enabled_only=enabled_only, page_size=MOST)
        return [agent_info(each) for each in told.entries]

    async def all_environments(self) -> "list[EnvironmentInfo]":
        """Where agents can run."""
        from agentctl.client.results import environment_info

        told = await self.environments.list(page_size=MOST)
        return [environment_info(each) for each in told.environments]

    async def open_sessions(self, *, key: str = "", agent: str = "") -> "list[Session]":
        """Open sessions, the newest first; of one key or of one agent."""
        from agentctl.client.session import Session

        told = await self.sessions.list(open_only=True, key=key, entry_id=agent, page_size=MOST)
        return [Session(self, each.session_id) for each in told.sessions]

    async def open_approvals(self) -> "list[Approval]":
        """What waits for an answer, in all sessions, the oldest first."""
        from agentctl.client.asking import approval

        told = await self.approvals.list(page_size=MOST)
        return [approval(self, each) for each in told.approvals]

    async def open_questions(self) -> "list[Question]":
        from agentctl.client.asking import question

        told = await self.questions.list(page_size=MOST)
        return [question(self, each) for each in told.questions]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def subscribe(
        self,
        after: str = "",
        *,
        sessions: Sequence[str] = (),
        runs: Sequence[str] = (),
        agents: Sequence[str] = (),
        types: Sequence[str] = (),
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
        patience_s: float | None = None,
    ) -> Subscription:
        """A reader of the stream that knows its cursor. Arguments as of `events`."""
        request = v1.SubscribeRequest(
            after=after,
            sessions=sessions,
            runs=runs,
            agents=agents,
            types=[number(v1.EventType, word, field="types") for word in types],
            follow=follow,
            include_raw=include_raw,
            include_log=include_log,
        )
        patience = self.patience_s if patience_s is None else patience_s
        return Subscription(self._connection, request, patience_s=patience)

    async def batches(
        self,
        after: str = "",
        *,
        sessions: Sequence[str] = (),
        runs: Sequence[str] = (),
        agents: Sequence[str] = (),
        types: Sequence[str] = (),
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
        patience_s: float | None = None,
    ) -> AsyncIterator[v1.EventBatch]:
        """The stream as it travels: with cursors, gaps and empty batches. Arguments as of `events`."""
        subscription = self.subscribe(
            after,
            sessions=sessions,
            runs=runs,
            agents=agents,
            types=types,
            follow=follow,
            include_raw=include_raw,
            include_log=include_log,
            patience_s=patience_s,
        )
        async with aclosing(subscription.batches()) as batches:
            async for batch in batches:
                yield batch

    async def events(
        self,
        after: str = "",
        *,
        sessions: Sequence[str] = (),
        runs: Sequence[str] = (),
        agents: Sequence[str] = (),
        types: Sequence[str] = (),
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
        on_gap: Callable[[v1.Gap], None] | None = None,
        patience_s: float | None = None,
    ) -> AsyncIterator[v1.AgentEvent]:
        """Yields events in journal order, each once, across reconnects.

        Args:
            after: a cursor; "" begins with the oldest kept event, "now" with new ones.
            sessions: session ids; with the other lists: any within one, all between.
            runs: run ids; the stream ends after their last `complete`.
            agents: agent ids.
            types: words of EventType.
            follow: False ends the stream at the journal's head.
            include_raw: with the agent's own messages, where they are journalled.
            include_log: with events of type log.
            on_gap: told when events between the cursor and the next event are gone.
            patience_s: how long a daemon may be away before its error is raised; absent: the
                client's own `patience_s`.
        """
        subscription = self.subscribe(
            after,
            sessions=sessions,
            runs=runs,
            agents=agents,
            types=types,
            follow=follow,
            include_raw=include_raw,
            include_log=include_log,
            patience_s=patience_s,
        )
        async with aclosing(subscription.batches()) as batches:
            async for batch in batches:
                if on_gap is not None and batch.HasField("gap"):
                    on_gap(batch.gap)
                for event in batch.events:
                    yield event
