"""Owns the Stats service: what the runs used that are kept."""

from contextlib import aclosing
from pathlib import Path

import anyio

from agentctl import v1
from agentctl.rpc.calls import Context
from agentctl.rpc.history import read
from agentctl.rpc.ports import CatalogApi, HubApi
from agentctl.rpc.requests import MAX_PAGE
from agentctl.rpc.tally import ACTIVE, TYPES, Tally, entry_stats, model_stats
from agentctl.session.api import ManagerApi
from agentctl.session.records import SessionFilter, SessionRecord

JOURNAL = "journal.db"


async def sessions_of(manager: ManagerApi, where: SessionFilter) -> list[SessionRecord]:
    """All sessions that fit, newest first."""
    found: list[SessionRecord] = []
    token = ""
    while True:
        page, token = await manager.list_sessions(where, after=token, limit=MAX_PAGE)
        found += page
        if not token:
            return found


async def models_asked(manager: ManagerApi, session_id: str = "") -> dict[str, str]:
    """The model of each run that asked for one of its own."""
    found: dict[str, str] = {}
    token = ""
    while True:
        page, token = await manager.list_runs(session_id=session_id, after=token, limit=MAX_PAGE)
        found |= {run.id: run.prompt.model for run in page if run.prompt.model}
        if not token:
            return found


class StatsService:
    """What was used."""

    def __init__(
        self, manager: ManagerApi, hub: HubApi, catalog: CatalogApi, data_dir: Path
    ) -> None:
        self._manager = manager
        self._hub = hub
        self._catalog = catalog
        self._journal = data_dir / JOURNAL

    async def get(self, request: v1.GetStatsRequest, context: Context) -> v1.GetStatsResponse:
        since = request.since if request.HasField("since") else None
        sessions = await self._sessions(request)
        tally = Tally(
            models={each.id: each.spec.model or each.model for each in sessions},
            asked=await models_asked(
                self._manager, sessions[0].id if request.session_id and sessions else ""
            ),
        )
        if sessions:
            narrow = frozenset({sessions[0].id}) if request.session_id else frozenset[str]()
            async with aclosing(read(self._hub, sessions=narrow, types=TYPES)) as pieces:
                async for piece in pieces:
                    for event in piece.events:
                        tally.feed(event)
        entry_of = {each.id: each.spec.entry_id for each in sessions}
        runs = [run for run in tally.ended(since=since) if run.session_id in entry_of]
        response = v1.GetStatsResponse(
            events=tally.events,
            journal_bytes=await _size(self._journal),
            by_model=model_stats(runs),
        )
        for entry_id in ["", *sorted(set(entry_of.values()))]:
            of_entry = [each for each in sessions if entry_id in ("", each.spec.entry_id)]
            stats = entry_stats(
                entry_id,
                (run for run in runs if entry_id in ("", entry_of[run.session_id])),
                sessions=len(of_entry),
                active=sum(each.state in ACTIVE for each in of_entry),
            )
            if entry_id:
                response.entries.append(stats)
            else:
                response.total.CopyFrom(stats)
        return response

    async def _sessions(self, request: v1.GetStatsRequest) -> list[SessionRecord]:
        if request.session_id:
            record = await self._manager.get_session(request.session_id)
            wanted = request.entry_id in ("", record.spec.entry_id)
            return [record] if wanted else []
        found = await sessions_of(self._manager, SessionFilter(entry_id=request.entry_id))
        if request.entry_id and not found:
            self._catalog.get(request.entry_id)
        return found


async def _size(path: Path) -> int:
    try:
        return (await anyio.Path(path).stat()).st_size
    except OSError:
        return 0
