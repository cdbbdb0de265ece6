"""Owns where one session works, when that is not simply the directory that was asked for.

Its environment is made before its agent starts, found again later, and left when it closes. It
refuses to know what environments there are and how they work.
"""

import logging
from typing import TYPE_CHECKING

from agentctl.core.errors import AgentctlError
from agentctl.core.events import Event, Log
from agentctl.core.words import LogStream
from agentctl.session.ports import Prepared
from agentctl.session.writes import Writes
from agentctl.workspace.providers import EnvironmentProvider, Environments, Left, Place, Program

if TYPE_CHECKING:
    from agentctl.session.session import Session

logger = logging.getLogger(__name__)


class Placing:
    """One session's environment."""

    def __init__(self, session: "Session", environments: Environments) -> None:
        self._session = session
        self._environments = environments

    @property
    def _provider(self) -> EnvironmentProvider:
        return self._environments.find(self._session.record.spec.environment)

    async def enter(self) -> None:
        """Makes the place, or finds it again.

        Raises:
            AgentctlError: it cannot be made, or it is gone.
        """
        record = self._session.record
        if record.place is None:
            return
        place = await self._provider.make(record.id, record.place)
        if place != record.place:
            record.place = place
            writes = Writes()
            writes.touch(record)
            await self._session.commit(writes)

    async def lost(self) -> bool:
        """Whether the place of a live agent is gone: `enter` then says what to do."""
        record = self._session.record
        if record.place is None or not record.place.made:
            return False
        try:
            await self._provider.make(record.id, record.place)
        except AgentctlError:
            return True
        return False

    def bind(self, prepared: Prepared, *, shared: bool) -> Prepared:
        """The agent's program with what the environment adds to it."""
        place = self._session.record.place
        if place is None:
            return prepared
        program = Program(prepared.argv, prepared.env, prepared.cwd, shared)
        bound = self._provider.bind(place, program)
        return Prepared(bound.argv, bound.env, bound.cwd, prepared.secrets)

    async def leave(self) -> None:
        """The agent is gone: cleans up, or keeps the place and says so.

        Work that is in it stays, whatever becomes of the conversation.
        """
        session = self._session
        record = session.record
        if record.place is None:
            return
        left = await leave(self._provider, record.id, record.place, delete=False)
        record.place = left.place
        writes = Writes(vital=True)
        writes.touch(record)
        if left.note:
            session.ledger.add([Event(Log(LogStream.NOTE, left.note))], writes)
        await session.commit(writes)
        if not left.kept:
            return
        runs = await session.deps.journal.docs(
            "run", session_id=record.id, limit=1, newest_first=True
        )
        for run in runs:
            title = record.place.branch or record.spec.environment
            session.gathering.kept_workspace(run.id, record.place.workspace, title)


async def leave(
    provider: EnvironmentProvider, session_id: str, place: Place, *, delete: bool
) -> Left:
    """Leaves a place; whatever its provider does, a session can be closed and deleted."""
    try:
        return await provider.leave(session_id, place, delete=delete)
    except AgentctlError as error:
        why = error.message
    except Exception as error:
        # A provider may be foreign code; its defect must not keep a session open.
        logger.exception("the environment of session %s could not be left", session_id)
        why = f"a defect ({type(error).__name__})"
    return Left(place, kept=True, note=f"{place.workspace} stays: {why}")
