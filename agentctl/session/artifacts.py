"""Owns what is kept of artifacts: records as documents of the journal, their bytes as blobs, both for
as long as retention says. It refuses to know where artifacts come from (`gathering.py`).

Beside each record stand documents without content: `artifact_run`, by which those of a run are found,
and `blob`, by which it is known that a blob is still needed.
"""

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import anyio

from agentctl.core.errors import AgentctlError, NotFound, Unsupported
from agentctl.core.words import ArtifactKind
from agentctl.journal.blobs import Blob, Blobs
from agentctl.journal.store import Doc
from agentctl.session.ids import now_ms
from agentctl.session.ports import JournalPort
from agentctl.session.records import ArtifactRecord
from agentctl.session.store import load
from agentctl.session.writes import Writes

logger = logging.getLogger(__name__)

DAY_MS = 86_400_000
# The record of an artifact whose bytes are gone says why for this long; then it is unknown.
REMEMBERED_MS = 30 * DAY_MS
# Retention is of days and gigabytes: a minute more or less is nothing to anybody.
ROUND_S = 60.0
# Bytes on their way to the disk, of all sessions: beyond it the pipes of agents wait.
PENDING_BYTES = 64 << 20
# Who looks for an artifact of last month does not mind an hour.
FORGET_S = 3600.0
SCAN = 500
"""A walk over records reads this many at a time."""


@dataclass(frozen=True, slots=True)
class ArtifactRule:
    """How long the bytes of artifacts are kept, and how many; None is without limit."""

    age_ms: int | None = None
    size: int | None = None
    round_s: float = ROUND_S


class Artifacts:
    """The artifacts of one daemon."""

    def __init__(self, root: Path, journal: JournalPort, rule: ArtifactRule) -> None:
        self.blobs = Blobs(root)
        self._journal = journal
        self._rule = rule
        self._pending = 0
        self._room = anyio.Event()
        self.changing = anyio.Lock()
        """Held from the reading of a record to the commit of its change."""

    # What is on its way.

    @property
    def crowded(self) -> bool:
        return self._pending > PENDING_BYTES

    async def room(self) -> None:
        """Waits while too much is on its way to the disk."""
        while self.crowded:
            await self._room.wait()

    def coming(self, size: int) -> None:
        """Bytes are on their way from now on; negative: they have arrived."""
        self._pending += size
        if size < 0:
            self._room.set()
            self._room = anyio.Event()

    # Keeping.

    async def put(self, data: bytes) -> Blob:
        """Keeps bytes and pins them until `settled`.

        Raises:
            Exhausted: the disk is full; nothing of them is kept.
            DaemonFailed: they cannot be written.
        """
        return await anyio.to_thread.run_sync(self.blobs.put, data)

    def add(self, record: ArtifactRecord, blob: Blob | None, run_id: str, writes: Writes) -> str:
        """Puts a record into a transaction, and its bytes in place of those it had.

        Returns the blob that it had before, "" for none: `drop` that once this is committed.
        """
        before = record.sha256
        if blob is not None:
            record.sha256, record.size = blob.sha256, blob.size
            record.deleted, record.deleted_at = "", None
        if record.runs[-1:] != [run_id]:
            record.runs = [run for run in record.runs if run != run_id] + [run_id]
        record.updated_at = writes.now
        record.created_at = record.created_at or writes.now
        if record.sha256 and self._rule.age_ms is not None:
            record.expires_at = writes.now + self._rule.age_ms
        if before == record.sha256:
            before = ""
        writes.touch(record)
        writes.docs.append(_of_run(run_id, record))
        if before:
            writes.docs.append(_of_blob(before, record, gone=True))
        if record.sha256:
            writes.docs.append(_of_blob(record.sha256, record))
        return before

    async def settled(self, blob: Blob | None, before: str) -> None:
        """The transaction of `add` is over, or there was none: what nothing refers to goes."""
        if blob is not None:
            self.blobs.unpin(blob.sha256)
        await self.drop([each for each in (blob.sha256 if blob else "", before) if each])

    async def drop(self, hashes: Iterable[str]) -> None:
        """Removes those of these blobs that no record refers to."""
        for sha256 in hashes:
            self.blobs.doom(sha256)
            if await self._referred(sha256):
                self.blobs.spare(sha256)
            else:
                await anyio.to_thread.run_sync(self.blobs.drop, sha256)

    async def _referred(self, sha256: str) -> bool:
        docs = await self._journal.docs("blob", after_id=f"{sha256}/", limit=1)
        return bool(docs) and docs[0].id.startswith(f"{sha256}/")

    # Reading.

    async def get(self, artifact_id: str) -> ArtifactRecord | None:
        doc = await self._journal.doc("artifact", artifact_id)
        return self._load(doc) if doc is not None else None

    def _load(self, doc: Doc) -> ArtifactRecord:
        """The record, with its end as the rule of today has it."""
        record = load(ArtifactRecord, doc)
        if record.sha256 and not record.deleted:
            age = self._rule.age_ms
            record.expires_at = None if age is None else record.updated_at + age
        return record

    async def walk(
        self,
        *,
        session_id: str = "",
        run_id: str = "",
        kinds: frozenset[ArtifactKind] = frozenset(),
        after: str = "",
    ) -> AsyncGenerator[ArtifactRecord]:
        """Those that fit, newest first, beyond the id `after`."""
        pages = self._of_run(run_id, after) if run_id else self._all(session_id, after)
        async for record in pages:
            if (not kinds or record.kind in kinds) and session_id in ("", record.session_id):
                yield record

    async def _all(self, session_id: str, after: str) -> AsyncGenerator[ArtifactRecord]:
        while True:
            docs = await self._journal.docs(
                "artifact",
                session_id=session_id or None,
                after_id=after,
                limit=SCAN,
                newest_first=True,
            )
            for doc in docs:
                yield self._load(doc)
            if len(docs) < SCAN:
                return
            after = docs[-1].id

    async def _of_run(self, run_id: str, after: str) -> AsyncGenerator[ArtifactRecord]:
        # "0" follows "/": this is behind all that begin with the run.
        place = f"{run_id}/{after}" if after else f"{run_id}0"
        while True:
            docs = await self._journal.docs(
                "artifact_run", after_id=place, limit=SCAN, newest_first=True
            )
            for doc in docs:
                if not doc.id.startswith(f"{run_id}/"):
                    return
                if (record := await self.get(doc.id.partition("/")[2])) is not None:
                    yield record
            if len(docs) < SCAN:
                return
            place = docs[-1].id

    async def open(self, record: ArtifactRecord) -> BinaryIO:
        """The bytes of an artifact, for the caller to close.

        Raises:
            Unsupported: it has none, only a url or a path.
            NotFound: they are gone; the message says why.
        """
        if record.deleted:
            raise gone(record, record.deleted)
        if not record.sha256:
            where = record.url or record.path or record.title
            raise Unsupported(
                f"{record.id} is a {record.kind} and has no bytes of its own. Look at: {where}",
                metadata={"artifact_id": record.id, "url": record.url or ""},
            )
        try:
            file = await anyio.to_thread.run_sync(self.blobs.open, record.sha256)
        except OSError:
            raise gone(record, "its file was removed from the data directory") from None
        return file

    # Letting go.

    async def forget(self, session_id: str) -> None:
        """Erases a session from the journal, and the blobs that nobody else needs."""
        async with self.changing:
            walk = self.walk(session_id=session_id)
            hashes = [one.sha256 async for one in walk if one.sha256 and not one.deleted]
            await self._journal.forget_session(session_id)
        await self.drop(hashes)

    async def run(self) -> None:
        """Tidies up after a crash, then keeps to the rule until cancelled."""
        await self._tidy(self._sweep)
        forget = 0.0
        while True:
            await self._tidy(self._expire)
            if time.monotonic() >= forget:
                forget = time.monotonic() + FORGET_S
                await self._tidy(self._forget)
            await anyio.sleep(self._rule.round_s)

    async def _tidy(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (AgentctlError, OSError):
            # The next round tries again; nothing else depends on it.
            logger.exception("artifacts could not be tidied up")

    async def _sweep(self) -> None:
        """Removes what a crash left: half blobs, and blobs without a record."""
        await anyio.to_thread.run_sync(self.blobs.recount)
        names = await anyio.to_thread.run_sync(self.blobs.all)
        needed: set[str] = set()
        after = ""
        while names:
            docs = await self._journal.docs("blob", after_id=after, limit=SCAN)
            needed.update(doc.id.partition("/")[0] for doc in docs)
            if len(docs) < SCAN:
                break
            after = docs[-1].id
        await self.drop(name for name in names if name not in needed)

    async def _expire(self) -> None:
        """Lets go what is too old, then the oldest for as long as there is too much."""
        now, rule, after = now_ms(), self._rule, ""
        while rule.age_ms is not None or rule.size is not None:
            docs = await self._journal.docs("artifact", open=True, after_id=after, limit=SCAN)
            for doc in docs:
                record = self._load(doc)
                if record.expires_at is not None and record.expires_at <= now:
                    await self._let_go(record.id, f"it was kept until {_day(record.expires_at)}")
                elif rule.size is not None and self.blobs.total > rule.size:
                    await self._let_go(
                        record.id, "newer artifacts needed its room (artifact_bytes)"
                    )
                elif rule.age_ms is None or record.created_at > now - rule.age_ms:
                    return
            if len(docs) < SCAN:
                return
            after = docs[-1].id

    async def _let_go(self, artifact_id: str, why: str) -> None:
        async with self.changing:
            record = await self.get(artifact_id)
            if record is None or record.deleted or not record.sha256:
                return
            writes = Writes()
            record.deleted, record.deleted_at = why, writes.now
            writes.touch(record)
            writes.docs.append(_of_blob(record.sha256, record, gone=True))
            await writes.commit(self._journal)
        await self.drop([record.sha256])

    async def _forget(self) -> None:
        """Drops the records whose bytes are gone for long."""
        after, until = "", now_ms() - REMEMBERED_MS
        while True:
            docs = await self._journal.docs("artifact", open=False, after_id=after, limit=SCAN)
            for doc in docs:
                record = load(ArtifactRecord, doc)
                if record.deleted_at is None or record.deleted_at > until:
                    continue
                writes = Writes()
                writes.docs.append(Doc("artifact", record.id, None))
                writes.docs += [Doc("artifact_run", f"{r}/{record.id}", None) for r in record.runs]
                await writes.commit(self._journal)
            if len(docs) < SCAN:
                return
            after = docs[-1].id


def gone(record: ArtifactRecord, why: str) -> NotFound:
    """The error of a download whose bytes are no longer there."""
    return NotFound(
        f"the bytes of artifact {record.id} are gone: {why}. What there is: agentctl artifacts ls",
        reason="ARTIFACT_NOT_FOUND",
    )


def _day(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(ms / 1000))


def _of_run(run_id: str, record: ArtifactRecord) -> Doc:
    return Doc("artifact_run", f"{run_id}/{record.id}", b"{}", record.session_id)


def _of_blob(sha256: str, record: ArtifactRecord, *, gone: bool = False) -> Doc:
    body = None if gone else b"{}"
    return Doc("blob", f"{sha256}/{record.id}", body, record.session_id)
