"""Owns the calls about a conversation as the agent remembers it: messages, revert, MCP, compact.

It refuses to know how an agent keeps its history; what an agent cannot is answered UNSUPPORTED.
"""

from collections.abc import Sequence

from agentctl.core.adapter import HistoryConnection, HistoryPage
from agentctl.core.errors import AgentctlError, AgentFailed, Refused, Unsupported
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import McpServerState
from agentctl.core.spec import PromptSpec
from agentctl.core.words import AgentState
from agentctl.session.records import CreateRun, RunCreated, SessionRecord
from agentctl.session.run_calls import RunCalls
from agentctl.session.session import Session


class HistoryCalls(RunCalls):
    async def compact_session(self, session_id: str) -> RunCreated:
        """Has the agent shorten its context: a run like any other, queued when it is busy."""
        return await self.create_run(CreateRun(session_id, PromptSpec(compact=True)))

    async def messages(
        self, session_id: str, *, limit: int = 100, before: str = ""
    ) -> tuple[SessionRecord, HistoryPage]:
        """The newest `limit` messages, or the page before one that was seen.

        Raises:
            NotFound: there is no such session.
            Unsupported: the agent keeps no history or cannot be asked, or the session is closed.
        """
        try:
            session = await self.open_session(session_id)
        except Refused:
            raise Unsupported(f"session {session_id} is closed: its agent is not asked.") from None
        agent, name = session.agent, session.record.spec.entry_id
        live = agent is not None and agent.record.state is AgentState.READY
        if not live and not self._remembers(session):
            raise Unsupported(f"{name} keeps no history to ask for.")
        try:
            session, history = await self._history(session_id, "show its history")
        except (AgentFailed, Refused) as error:
            raise Unsupported(f"{name} cannot be asked: {error.message}") from error
        native = NativeSessionId(session.record.native_session_id)
        return session.record, await history.messages(native, limit=limit, before=before)

    def _remembers(self, session: Session) -> bool:
        """Whether its agent would have a history to show, without starting one to see."""
        entries = self.deps.entries
        try:
            protocol = entries.get(session.record.spec.entry_id).protocol
            return bool(getattr(entries.adapter(protocol), "keeps_history", False))
        except AgentctlError:
            return False

    async def revert(self, session_id: str, message_id: str) -> SessionRecord:
        """Takes back a message and all after it, files included; refused while a run is on."""
        session, history = await self._history(session_id, "take messages back")
        self._refuse_busy(session)
        await history.revert(NativeSessionId(session.record.native_session_id), message_id)
        return session.record

    async def unrevert(self, session_id: str) -> SessionRecord:
        session, history = await self._history(session_id, "take messages back")
        self._refuse_busy(session)
        await history.unrevert(NativeSessionId(session.record.native_session_id))
        return session.record

    async def mcp_status(self, session_id: str) -> Sequence[McpServerState]:
        """The session's MCP servers: asked for where the agent can be, else what it last told."""
        session = await self.open_session(session_id)
        agent = session.agent
        if agent is not None:
            connection = await agent.ready()
            if isinstance(connection, HistoryConnection):
                native = NativeSessionId(session.record.native_session_id)
                return await connection.mcp_status(native)
        told = session.ledger.options.mcp_servers
        if told is None:
            raise Unsupported(f"{session.record.spec.entry_id} does not tell of its MCP servers.")
        return told

    async def _history(self, session_id: str, what: str) -> tuple[Session, HistoryConnection]:
        """A live connection that keeps history; a session at rest is brought back for it."""
        session = await self.open_session(session_id)
        if session.agent is None:
            session.driver.want()
            await session.driver.wait_settled()
        agent = session.agent
        connection = await agent.ready() if agent is not None else None
        if not isinstance(connection, HistoryConnection):
            raise Unsupported(f"{session.record.spec.entry_id} cannot {what}.")
        return session, connection

    @staticmethod
    def _refuse_busy(session: Session) -> None:
        if session.ledger.running is not None:
            raise Refused(
                f"session {session.id} is busy. Cancel what runs first: agentctl cancel "
                f"{session.id}",
                reason="SESSION_BUSY",
            )
