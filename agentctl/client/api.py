"""Owns `AgentCtl`: one client with a namespace for each service, and the event stream.

It refuses to know how a call travels; `channel` does.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

from agentctl import v1
from agentctl.client.agents import Agents, Daemon, Models, Registry
from agentctl.client.channel import Connection
from agentctl.client.others import Artifacts, Environments, Stats, Tasks, Tools
from agentctl.client.runs import Approvals, Questions, Runs
from agentctl.client.sessions import Sessions
from agentctl.client.stream import DEFAULT_PATIENCE_S, Subscription
from agentctl.rpc.enums import number


class AgentCtl:
    """A client of one daemon: `async with AgentCtl.connect() as client: ...`.

    It must be made where an event loop runs. Nothing is sent before the first call; a call that
    reaches no daemon raises `Unreachable`. Every call raises AgentctlError with its `reason`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
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
        await self._connection.close()

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
        patience_s: float = DEFAULT_PATIENCE_S,
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
        return Subscription(self._connection, request, patience_s=patience_s)

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
        patience_s: float = DEFAULT_PATIENCE_S,
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
        async for batch in subscription.batches():
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
        patience_s: float = DEFAULT_PATIENCE_S,
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
            patience_s: how long a daemon may be away before its error is raised.
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
        async for batch in subscription.batches():
            if on_gap is not None and batch.HasField("gap"):
                on_gap(batch.gap)
            for event in batch.events:
                yield event
