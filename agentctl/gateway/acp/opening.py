"""Owns the sessions of one client: how they are made, taken up, forked, listed and changed.

A client's session id is the daemon's, with one exception: a session whose agent is changed before its
first prompt is a new one of the daemon, which bears the client's id as a label.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import uuid4

import anyio

from agentctl import v1
from agentctl.client.times import iso
from agentctl.core.errors import AgentctlError, Invalid, NotFound
from agentctl.gateway.acp import params as given
from agentctl.gateway.acp.errors import Json, bad
from agentctl.gateway.acp.facts import Facts
from agentctl.gateway.acp.history import offered
from agentctl.gateway.acp.host import Host
from agentctl.gateway.acp.options import AGENT, MODE, MODEL, Agents, Offers
from agentctl.gateway.acp.session import OpenSession

logger = logging.getLogger(__name__)

LABEL = "acp.session"
"""The label that holds the client's id of a session whose agent was changed."""

PAGE = 50
# The daemon has taken a change and its event is on its way over a local socket.
UPDATED_S = 1.0
# Closing a session that nobody will know ends its process, which takes as long as its stop ladder.
CLOSE_S = 20.0


@dataclass(slots=True)
class _Made:
    """How a session was asked for, to make another with a different agent."""

    mcp_servers: list[v1.McpServer]
    directories: list[str]
    cwd: str


class Opening:
    """The open sessions by the client's ids."""

    def __init__(self, host: Host, facts: Facts) -> None:
        self.sessions: dict[str, OpenSession] = {}
        self._host = host
        self._facts = facts
        self._made: dict[str, _Made] = {}

    async def new(self, params: Json) -> OpenSession:
        """session/new."""
        made = _Made(
            given.mcp_servers(params, needed=True),
            given.directories(params),
            given.directory(params),
        )
        chosen = given.chosen_agent(params)
        agent = self._host.choices.agent or chosen or await self._facts.entry_id()
        session = await self._create(agent, made, "")
        if not self._host.choices.agent:
            await self._offer_agents(session)
            self._made[session.acp_id] = made
        return session

    async def _offer_agents(self, session: OpenSession) -> None:
        choices = await self._facts.choices()
        session.offers.agents = Agents(session.entry_id, choices)

    async def _create(self, agent: str, made: _Made, acp_id: str) -> OpenSession:
        """A session that is ready; one whose start is given up is closed: nobody knows its id."""
        host, key = self._host, uuid4().hex
        cursor = (await host.client.daemon.get_info()).head_cursor
        env = await host.choices.env(host.client, agent)

        async def create(*, wait: bool) -> v1.Session:
            return await host.client.sessions.create(
                agent,
                made.cwd,
                additional_directories=made.directories,
                mcp_servers=made.mcp_servers,
                policy=host.choices.policy,
                labels={LABEL: acp_id} if acp_id else None,
                env=env,
                idempotency_key=key,
                wait_ready=wait,
            )

        try:
            session = await host.lasting(lambda: create(wait=True))
        except (AgentctlError, anyio.get_cancelled_exc_class()):
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._give_up(create)
            raise
        opened = await self._open(acp_id or session.session_id, session, cursor)
        opened.made_here = opened.is_new = True
        return opened

    async def _give_up(self, create: Callable[..., Awaitable[v1.Session]]) -> None:
        """Closes what a failed or forgotten start may have left; that there is nothing is fine."""
        try:
            session = await create(wait=False)
            await self._host.client.sessions.close(session.session_id, force=True)
        except AgentctlError as error:
            logger.debug("nothing to close: %s", error)

    async def _open(self, acp_id: str, session: v1.Session, cursor: str) -> OpenSession:
        offers = Offers(booleans=self._host.booleans)
        await offered(self._host.client, session.session_id, offers)
        opened = OpenSession(self._host, acp_id, session, offers, cursor)
        if (old := self.sessions.get(acp_id)) is not None:
            old.stop()
            opened.made_here = old.made_here
        self.sessions[acp_id] = opened
        return opened

    async def load(self, params: Json, *, history: bool) -> OpenSession:
        """session/load, and session/resume, which tells no history."""
        own = given.text(params, "sessionId")
        given.directory(params)
        given.mcp_servers(params, needed=history)
        known = self.sessions.get(own)
        if known is not None and known.prompts:
            raise bad(
                f"session {own} is open and busy here: its turn is told as it goes.", "sessionId"
            )
        client = self._host.client
        found = await self._find(own)
        cursor = (await client.daemon.get_info()).head_cursor
        env = await self._host.choices.env(client, found.entry_id)
        create = v1.CreateSessionRequest(agent=found.entry_id, env=env) if env else None
        session = await client.sessions.resume(found.session_id, create=create, wait_ready=True)
        opened = await self._open(own, session, cursor)
        if history:
            await opened.tell_history(session)
        return opened

    async def _find(self, own: str) -> v1.Session:
        client = self._host.client
        try:
            found = await client.sessions.get(own)
            if found.session_id == own:
                return found
        except (NotFound, Invalid):
            pass
        renamed = (await client.sessions.list(labels={LABEL: own}, page_size=1)).sessions
        if not renamed:
            raise NotFound(f"There is no session {own:.100}.", reason="SESSION_NOT_FOUND")
        return renamed[0]

    async def fork(self, params: Json) -> OpenSession:
        """session/fork: the copy works where its origin does."""
        given.directory(params)
        found = await self._find(given.text(params, "sessionId"))
        client = self._host.client
        cursor = (await client.daemon.get_info()).head_cursor
        session = await client.sessions.fork(found.session_id, wait_ready=True)
        opened = await self._open(session.session_id, session, cursor)
        opened.made_here = opened.is_new = True
        await offered(client, found.session_id, opened.offers)
        return opened

    async def listed(self, params: Json) -> Json:
        """session/list: those of this agent, newest first; with `cwd` those of that directory."""
        cwd = given.directory(params) if params.get("cwd") is not None else ""
        page = await self._host.client.sessions.list(
            entry_id=self._host.choices.agent,
            workspace=cwd,
            page_size=PAGE,
            page_token=given.as_text(params.get("cursor")),
        )
        # One that was closed for good cannot be loaded.
        kept = [each for each in page.sessions if each.state_saved or not each.closed_at]
        rows = [_row(each) for each in kept]
        more = {"nextCursor": page.next_page_token} if page.next_page_token else {}
        return {"sessions": rows, **more}

    async def delete(self, own: str) -> None:
        """session/delete: one that is not there is deleted already."""
        try:
            found = await self._find(own)
        except NotFound:
            return
        if (known := self.sessions.get(own)) is not None:
            await self.forget(known)
        await self._host.client.sessions.delete(found.session_id)

    async def forget(self, session: OpenSession) -> None:
        """It is not this client's business any more."""
        for prompt in list(session.prompts):
            await prompt.done.wait()
        session.stop()
        self.sessions.pop(session.acp_id, None)
        self._made.pop(session.acp_id, None)

    def prompted(self, session: OpenSession) -> None:
        """Its agent is not to be changed any more."""
        self._made.pop(session.acp_id, None)
        session.offers.agents = None

    async def choose(self, session: OpenSession, name: str, value: str) -> OpenSession:
        """session/set_config_option; the session that is open under this id afterwards."""
        if name == AGENT and session.offers.agents is not None:
            return await self._change_agent(session, value)
        offers, update = session.offers, self._host.client.sessions.update
        changes = session.changes
        if offers.is_own(name):
            await update(session.session_id, options={name: value})
        elif name == MODEL:
            await update(session.session_id, model=value)
        elif name == MODE:
            await update(session.session_id, mode=value)
        else:
            raise bad(
                f"there is no option {name!r:.100}; there are {', '.join(offers.names())}.",
                "configId",
            )
        await session.changed_since(changes, UPDATED_S)
        offers.choose(name, value)
        return session

    async def _change_agent(self, session: OpenSession, entry: str) -> OpenSession:
        if entry == session.entry_id:
            return session
        made = self._made.get(session.acp_id)
        if made is None or session.prompts:
            raise bad("the agent can be chosen before the first prompt only.", "value")
        if all(each.id != entry for each in await self._facts.choices()):
            raise bad(f"there is no agent {entry!r:.100}.", "value")
        fresh = await self._create(entry, made, session.acp_id)
        await self._offer_agents(fresh)
        fresh.start()
        await self._host.client.sessions.delete(session.session_id)
        return fresh


def _row(session: v1.Session) -> Json:
    row: Json = {
        "sessionId": session.labels.get(LABEL) or session.session_id,
        "cwd": session.source_workspace or session.workspace,
        "updatedAt": iso(session.updated_at),
        "_meta": {"agentctl": {"agent": session.entry_id}},
    }
    if title := session.title or session.name:
        row["title"] = title
    if session.additional_directories:
        row["additionalDirectories"] = list(session.additional_directories)
    return row
