"""Owns the Models service: which models agents offer, and whether they are logged in.

An agent's own word, told in a session, goes before the list of its registry entry. Nothing is started.
"""

from collections.abc import Sequence
from contextlib import aclosing

from agentctl import v1
from agentctl.core.errors import Unsupported
from agentctl.core.spec import Entry
from agentctl.core.words import EventType
from agentctl.rpc.calls import Context
from agentctl.rpc.history import read
from agentctl.rpc.ports import CatalogApi, Discover, HubApi
from agentctl.rpc.records import found_message, part
from agentctl.rpc.requests import page_of
from agentctl.session.api import ManagerApi
from agentctl.session.records import SessionFilter, SessionRecord

# The newest sessions tell what an agent offers today; older ones would only cost time.
SESSIONS_ASKED = 100


class ModelsService:
    """The models that agents offer."""

    def __init__(
        self,
        manager: ManagerApi,
        hub: HubApi,
        catalog: CatalogApi,
        discover: Discover | None,
    ) -> None:
        self._manager = manager
        self._hub = hub
        self._catalog = catalog
        self._discover = discover

    async def list(self, request: v1.ListModelsRequest, context: Context) -> v1.ListModelsResponse:
        if request.session_id:
            record = await self._manager.get_session(request.session_id)
            told = await self._told([record])
            entries = [self._catalog.find(record.spec.entry_id) or Entry(id=record.spec.entry_id)]
        else:
            entries = await self._entries(request.agent)
            only = entries[0].id if request.agent else ""
            sessions, _ = await self._manager.list_sessions(
                SessionFilter(entry_id=only), limit=SESSIONS_ASKED
            )
            told = await self._told(sessions)
        offers = [offer for entry in entries for offer in _offers(entry, told.get(entry.id))]
        page, token = page_of(offers, _key, request.page_size, request.page_token)
        return v1.ListModelsResponse(models=page, next_page_token=token)

    async def auth_status(
        self, request: v1.AuthStatusRequest, context: Context
    ) -> v1.AuthStatusResponse:
        if self._discover is None:
            raise Unsupported("this daemon was started without discovery.")
        entries = [self._catalog.get(each) for each in request.entry_ids]
        found = await self._discover(entries or self._catalog.entries())
        messages = (found_message(each, []) for each in found)
        return v1.AuthStatusResponse(
            agents=[
                v1.AuthState(
                    entry_id=each.entry_id,
                    authenticated=each.authenticated if each.HasField("authenticated") else None,
                    detail=each.auth_detail or each.problem or each.install or None,
                )
                for each in messages
            ]
        )

    async def _entries(self, agent: str) -> Sequence[Entry]:
        if not agent:
            return [each for each in self._catalog.entries() if each.enabled]
        if agent.startswith("agt_"):
            agent = (await self._manager.get_agent(agent)).entry_id
        return [self._catalog.get(agent)]

    async def _told(self, sessions: Sequence[SessionRecord]) -> dict[str, v1.SessionOptions]:
        """The options of the newest session of each entry that named models."""
        latest: dict[str, v1.SessionOptions] = {}
        if not sessions:
            return {}
        wanted = frozenset(each.id for each in sessions)
        types = frozenset({EventType.SESSION_OPTIONS})
        async with aclosing(read(self._hub, sessions=wanted, types=types)) as pieces:
            async for piece in pieces:
                for event in piece.events:
                    options = event.session_options
                    merged = latest.setdefault(event.session_id, v1.SessionOptions())
                    if options.HasField("models"):
                        merged.models.CopyFrom(options.models)
                    if options.HasField("model"):
                        merged.model = merged.model or options.model
        told: dict[str, v1.SessionOptions] = {}
        for record in sessions:
            options = latest.get(record.id)
            if options is not None and options.models.items and record.spec.entry_id not in told:
                if record.spec.model:
                    options.ClearField("model")
                told[record.spec.entry_id] = options
        return told


def _offers(entry: Entry, told: v1.SessionOptions | None) -> list[v1.ModelOffer]:
    """The default is the entry's, else what a session had whose client asked for none."""
    default = entry.default_model or (told.model if told is not None else "")
    models: Sequence[v1.Model] = (
        [part(v1.Model, each) for each in entry.models] if told is None else told.models.items
    )
    return [
        v1.ModelOffer(entry_id=entry.id, model=each, is_default=each.id == default)
        for each in models
    ]


def _key(offer: v1.ModelOffer) -> str:
    return f"{offer.entry_id}/{offer.model.id}"
