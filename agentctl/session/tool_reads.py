"""Owns what the session room knows of a session's tools: its agent's own list, and what asks first.

Nothing is started or changed for it. Which tools were called is read from the journal by others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentctl.core.errors import AgentctlError, NotFound
from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import Entry
from agentctl.core.toolspace import Stand, ToolOffer, ToolsConnection
from agentctl.core.words import AgentState, SessionState
from agentctl.session.base import logger
from agentctl.session.ids import now_ms
from agentctl.session.permissions import Place, applies
from agentctl.session.session import Session
from agentctl.session.session_reads import SessionReads


@dataclass(frozen=True, slots=True)
class ToolsTold:
    """`offers` None: the agent tells none, cannot be asked, or has not said so far."""

    session_id: str
    stand: Stand
    offers: Sequence[ToolOffer] | None = None


class ToolReads(SessionReads):
    async def session_tools(self, session_id: str) -> ToolsTold:
        """Of an open or closed session; one that starts is waited for.

        Raises:
            NotFound: there is no such session.
        """
        record = await self.get_session(session_id)
        session = self.sessions.get(record.id)
        if session is not None and record.state is SessionState.STARTING:
            await session.driver.wait_settled()
        now = now_ms()
        place = Place(record.spec.entry_id, record.spec.workspace, now)
        rules = [rule for rule in self.standing.behind(record.rules) if applies(rule, place)]
        stand = Stand(
            self._entry_of(record.spec.entry_id),
            record.policy,
            record.mode,
            self.standing.guarded(record, now),
            rules,
        )
        offers = None if session is None else await self._offers(session)
        return ToolsTold(record.id, stand, offers)

    def _entry_of(self, entry_id: str) -> Entry:
        try:
            return self.deps.entries.get(entry_id)
        except AgentctlError:
            # It was removed or switched off since: its sessions can still be looked at.
            return Entry(entry_id)

    async def _offers(self, session: Session) -> Sequence[ToolOffer] | None:
        agent = session.agent
        if agent is None or agent.record.state is not AgentState.READY:
            return None
        try:
            connection = await agent.ready()
            if not isinstance(connection, ToolsConnection):
                return None
            return await connection.tools(NativeSessionId(session.record.native_session_id))
        except NotFound:
            return None
        except AgentctlError as error:
            logger.info("%s did not tell its tools: %s", session.record.spec.entry_id, error)
            return None
