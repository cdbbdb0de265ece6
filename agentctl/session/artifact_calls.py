"""Owns the calls about artifacts: list, get, open. It refuses to know how they came about.

The trajectory of a run is made of its events when it is asked for: it has no record, and its id is
the run's with another beginning, so that it takes its place among those that have one.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import BinaryIO

from agentctl.core.errors import NotFound
from agentctl.core.state import FINAL_RUN
from agentctl.core.words import ArtifactKind
from agentctl.session.artifacts import SCAN
from agentctl.session.base import Base, page
from agentctl.session.records import ArtifactRecord, RunRecord
from agentctl.session.run_calls import RunCalls
from agentctl.session.session_reads import SessionReads
from agentctl.session.store import load

RUN_ARTIFACTS = 200
"""Artifacts that a run is shown with; Artifacts.List has all."""


class ArtifactCalls(SessionReads, RunCalls, Base):
    async def list_artifacts(
        self,
        *,
        session_id: str = "",
        run_id: str = "",
        kinds: frozenset[ArtifactKind] = frozenset(),
        after: str = "",
        limit: int = 100,
    ) -> tuple[list[ArtifactRecord], str]:
        """Newest first; of a session, of a run, of some kinds.

        Raises:
            NotFound: there is no such session or run.
        """
        if session_id:
            session_id = (await self.get_session(session_id)).id
        if run_id:
            run_id = (await self.get_run(run_id)).id
        found: list[ArtifactRecord] = []
        async with aclosing(self._walk_artifacts(session_id, run_id, kinds, after)) as records:
            async for record in records:
                found.append(record)
                if len(found) > limit:
                    break
        return page(found, limit, lambda record: record.id)

    async def run_artifacts(self, run_id: str) -> list[ArtifactRecord]:
        """What a run is shown with, the newest first."""
        return (await self.list_artifacts(run_id=run_id, limit=RUN_ARTIFACTS))[0]

    async def get_artifact(self, artifact_id: str, *, run_id: str = "") -> ArtifactRecord:
        """One artifact; with `run_id` only when it is of that run.

        Raises:
            NotFound: there is none, or it is of another run.
        """
        store = self.deps.artifacts
        record = await store.get(artifact_id) if store is not None else None
        if record is None:
            run = await self.fetch(RunRecord, "run", _run_of(artifact_id))
            if run is not None and run.state in FINAL_RUN:
                record = trajectory(run)
        if record is None:
            raise NotFound(
                f'there is no artifact "{artifact_id}". See them with: agentctl artifacts ls',
                reason="ARTIFACT_NOT_FOUND",
            )
        if run_id and run_id not in record.runs:
            raise NotFound(
                f"artifact {artifact_id} is not of run {run_id}. What that run made: agentctl "
                f"artifacts ls --run {run_id}",
                reason="ARTIFACT_NOT_FOUND",
            )
        return record

    async def open_artifact(self, record: ArtifactRecord) -> BinaryIO:
        """The bytes of one that has a record, for the caller to close.

        Raises:
            Unsupported: it has no bytes, only a url or a path.
            NotFound: they are gone; the message says why.
        """
        store = self.deps.artifacts
        if store is None:
            raise NotFound("this daemon keeps no artifacts.", reason="ARTIFACT_NOT_FOUND")
        return await store.open(record)

    def redact_for(self, session_id: str) -> Callable[[str], str]:
        """Cleans text of what a session's processes were given, while it is open, and of keys."""
        session = self.sessions.get(session_id)
        secrets = session.gathering.secrets if session is not None else ()
        return self.deps.redactor(sorted(secrets))

    async def _walk_artifacts(
        self, session_id: str, run_id: str, kinds: frozenset[ArtifactKind], after: str
    ) -> AsyncGenerator[ArtifactRecord]:
        """Kept ones and trajectories, each in order of their ids already."""
        store = self.deps.artifacts
        made = (
            _none()
            if store is None
            else store.walk(session_id=session_id, run_id=run_id, kinds=kinds, after=after)
        )
        told = self._trajectories(session_id, run_id, after)
        if kinds and ArtifactKind.TRAJECTORY not in kinds:
            told = _none()
        async with aclosing(made), aclosing(told):
            one, other = await anext(made, None), await anext(told, None)
            while one is not None or other is not None:
                if other is None or (one is not None and one.id > other.id):
                    assert one is not None
                    yield one
                    one = await anext(made, None)
                else:
                    yield other
                    other = await anext(told, None)

    async def _trajectories(
        self, session_id: str, run_id: str, after: str
    ) -> AsyncGenerator[ArtifactRecord]:
        if run_id:
            run = await self.get_run(run_id)
            if run.state in FINAL_RUN and (not after or trajectory(run).id < after):
                yield trajectory(run)
            return
        place = _run_of(after) if after else ""
        while True:
            docs = await self.deps.journal.docs(
                "run",
                session_id=session_id or None,
                open=False,
                after_id=place,
                limit=SCAN,
                newest_first=True,
            )
            for doc in docs:
                yield trajectory(load(RunRecord, doc))
            if len(docs) < SCAN:
                return
            place = docs[-1].id


def trajectory(run: RunRecord) -> ArtifactRecord:
    """The artifact that the events of an ended run are."""
    return ArtifactRecord(
        id=f"art_{run.id.removeprefix('run_')}",
        kind=ArtifactKind.TRAJECTORY,
        session_id=run.session_id,
        runs=[run.id],
        title="Events of the run",
        mime_type="application/x-ndjson",
        created_at=run.ended_at or run.created_at,
    )


def _run_of(artifact_id: str) -> str:
    return f"run_{artifact_id.removeprefix('art_')}"


async def _none() -> AsyncGenerator[ArtifactRecord]:
    for record in ():
        yield record
