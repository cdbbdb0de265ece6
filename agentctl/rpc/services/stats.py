"""Owns the Stats service: what the runs used that are kept."""

from contextlib import aclosing
from pathlib import Path

import anyio

from agentctl import v1
from agentctl.rpc.calls import Context
from agentctl.rpc.ports import CatalogApi
from agentctl.rpc.tally import ACTIVE, ByModel, Sums
from agentctl.session.api import ManagerApi
from agentctl.session.records import SessionCounts, SessionFilter

JOURNAL = "journal.db"


class StatsService:
    """What was used."""

    def __init__(self, manager: ManagerApi, catalog: CatalogApi, data_dir: Path) -> None:
        self._manager = manager
        self._catalog = catalog
        self._journal = data_dir / JOURNAL

    async def get(self, request: v1.GetStatsRequest, context: Context) -> v1.GetStatsResponse:
        since = request.since if request.HasField("since") else None
        counts = await self._sessions(request)
        total, by_model, events = Sums(), ByModel(), 0
        entries = {entry_id: Sums() for entry_id in counts}
        async with aclosing(self._manager.tallies(request.session_id)) as pages:
            async for page in pages:
                for run in page:
                    sums = entries.get(run.entry_id)
                    ended = run.outcome is not None and run.ended_at >= (since or 0)
                    if sums is None or (since is not None and not ended):
                        continue
                    events += run.events
                    total.add(run)
                    sums.add(run)
                    by_model.add(run)
        return v1.GetStatsResponse(
            events=events,
            journal_bytes=await _size(self._journal),
            by_model=by_model.stats(),
            total=total.entry(
                "",
                sessions=sum(each.sessions for each in counts.values()),
                active=sum(each.active for each in counts.values()),
            ),
            entries=[
                entries[entry_id].entry(entry_id, sessions=each.sessions, active=each.active)
                for entry_id, each in sorted(counts.items())
            ],
        )

    async def _sessions(self, request: v1.GetStatsRequest) -> dict[str, SessionCounts]:
        """How many sessions of each entry fit."""
        if request.session_id:
            record = await self._manager.get_session(request.session_id)
            entry_id = record.spec.entry_id
            request.session_id = record.id
            wanted = request.entry_id in ("", entry_id)
            return {entry_id: SessionCounts(1, int(record.state in ACTIVE))} if wanted else {}
        found = await self._manager.count_by_entry(SessionFilter(entry_id=request.entry_id))
        if request.entry_id and not found:
            self._catalog.get(request.entry_id)
        return found


async def _size(path: Path) -> int:
    try:
        return (await anyio.Path(path).stat()).st_size
    except OSError:
        return 0
