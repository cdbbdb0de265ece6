"""Owns the making of one session's artifacts: one after the other, bytes first, then the record and its
event in one transaction. It refuses to know when they are due (`gathering.py`) and how blobs are kept.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from agentctl.core.errors import AgentctlError
from agentctl.core.events import (
    Artifact,
    Error,
    Event,
    FileChange,
    Message,
    Payload,
    Plan,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.whole import Whole
from agentctl.core.words import ArtifactAction, ArtifactKind
from agentctl.journal.blobs import Blob
from agentctl.session.artifacts import Artifacts
from agentctl.session.ids import mint
from agentctl.session.kept_files import (
    absolute,
    cleaned,
    counted,
    mime_of,
    read_inside,
    short_path,
    shows_screen,
    without_secrets,
)
from agentctl.session.ports import Redactor, Snapshots
from agentctl.session.records import ArtifactRecord
from agentctl.session.writes import Writes
from agentctl.workspace.snapshot import Patch

if TYPE_CHECKING:
    from agentctl.session.session import Session

RUN_FILE_BYTES = 64 << 20
"""Bytes of the files of one run that become artifacts; its patch has all of them."""
TITLE_CHARS = 120
RUNS_KNOWN = 64
"""Runs of which it is known what was made of them: what is late of an older one is new."""
# The transaction of an artifact takes milliseconds; a session that closes waits for that one alone.
STOP_S = 2.0

Key = tuple[str, ...]
"""The same for what replaces an artifact as for what it was."""

# There is one of these for a path or an url in a session; a later run updates it.
_OF_SESSION = frozenset({ArtifactKind.FILE, ArtifactKind.PULL_REQUEST, ArtifactKind.WORKSPACE})
# Redacted like an event; in what must stay what it is only the very values of secrets are.
_TEXTS = frozenset({ArtifactKind.LOG, ArtifactKind.DIFF})
_EXACT = frozenset({ArtifactKind.FILE, ArtifactKind.PATCH})


@dataclass(frozen=True, slots=True)
class GatherDeps:
    """Where artifacts go and snapshots come from; without snapshots there are no patches."""

    store: Artifacts
    redactor: Redactor
    snapshots: Snapshots | None = None


@dataclass(slots=True)
class Made:
    """Something that is to become an artifact."""

    kind: ArtifactKind
    run_id: str
    title: str
    value: str | bytes | None = None
    mime_type: str = ""
    path: str | None = None
    url: str | None = None
    tool_call_id: str | None = None
    commit: str | None = None
    key: Key = ()

    @property
    def size(self) -> int:
        return len(self.value or "")


def made_of(run_id: str, payload: Payload, whole: Whole, card: ToolCall | None) -> Made | None:
    """What becomes of something that an event could not hold; None: nothing."""
    tool: str | None = getattr(payload, "tool_call_id", None)
    name = (card.command or card.title or card.name if card is not None else None) or ""
    match payload:
        case FileChange(path=path) if whole.field == "diff":
            made = Made(
                ArtifactKind.DIFF, run_id, f"Diff of {path}", whole.value, "text/x-diff", path
            )
            made.key = ("diff", path, tool or "")
        case _ if whole.field == "data":
            shot = card is not None and shows_screen(card.name, card.title)
            kind = ArtifactKind.SCREENSHOT if shot else ArtifactKind.MEDIA
            mime = whole.mime_type or "application/octet-stream"
            made = Made(kind, run_id, name or mime, whole.value, mime)
        case Message() | Plan() | ToolCall() | ToolUpdate():
            what = {"text": "output"}.get(whole.field, whole.field)
            of = tool or ""
            if isinstance(payload, Message):
                what, of = "message", payload.message_id
            title = f"{what.capitalize()} of {name}" if name else what.capitalize()
            if whole.size:
                title = f"The end of {title[0].lower()}{title[1:]}"
            mime = whole.mime_type or "text/plain"
            made = Made(ArtifactKind.LOG, run_id, title, whole.value, mime, key=("log", of, what))
        case _:
            return None
    made.tool_call_id = tool
    made.title = " ".join(made.title.split())[:TITLE_CHARS]
    return made


class Keeping:
    """Makes artifacts in the order in which they were put."""

    def __init__(self, session: "Session", deps: GatherDeps) -> None:
        self._session = session
        self._deps = deps
        self.working = False
        self._queue: deque[Made] = deque()
        self._idle = anyio.Event()
        self._over = False
        self._turn = anyio.Lock()
        self._known: dict[Key, str] | None = None
        self._of_run: dict[str, dict[Key, str]] = {}
        self._told: tuple[str, str] = ("", "")

    def put(self, made: Made) -> None:
        """Makes an artifact in its turn; of two with one key the later one is enough."""
        if self._over:
            return
        store = self._deps.store
        for index, other in enumerate(self._queue):
            if made.key and other.key == made.key and other.run_id == made.run_id:
                store.coming(made.size - other.size)
                self._queue[index] = made
                return
        self._queue.append(made)
        store.coming(made.size)
        if not self.working:
            self.working, self._idle = True, anyio.Event()
            self._session.deps.background(self._work)

    async def idle(self) -> None:
        """Returns when nothing is on its way."""
        while self.working:
            await self._idle.wait()

    async def stop(self) -> None:
        """Makes nothing more; returns when what was being made is whole or left no trace."""
        self._over = True
        for made in self._queue:
            self._deps.store.coming(-made.size)
        self._queue.clear()
        with anyio.move_on_after(STOP_S):
            await self.idle()

    async def _work(self) -> None:
        try:
            while self._queue:
                made = self._queue.popleft()
                try:
                    await self.make(made)
                finally:
                    self._deps.store.coming(-made.size)
        finally:
            self.working = False
            self._idle.set()

    async def patch(self, run_id: str, patch: Patch) -> None:
        """The patch of a run."""
        title = counted(patch.files, patch.additions, patch.deletions)
        made = Made(ArtifactKind.PATCH, run_id, title, patch.data, "text/x-diff")
        made.commit = patch.commit
        await self.make(made)

    async def files(self, run_id: str, paths: Mapping[str, str | None]) -> None:
        """The files that tools of a run made or changed, as they are now."""
        spec, room = self._session.record.spec, RUN_FILE_BYTES
        roots = (spec.workspace, *spec.additional_directories)
        for path, tool in paths.items():
            place = absolute(path, spec.workspace)
            data = await anyio.to_thread.run_sync(partial(read_inside, place, roots))
            if data is None or len(data) > room:
                continue
            room -= len(data)
            made = Made(ArtifactKind.FILE, run_id, short_path(place, spec.workspace), data)
            made.mime_type, made.path, made.tool_call_id = mime_of(place, data), path, tool
            made.key = (str(made.kind), place)
            await self.make(made)

    def ended(self, run_id: str) -> None:
        """Nothing more is made of this run."""
        self._of_run.pop(run_id, None)

    async def make(self, made: Made) -> None:
        """Makes one artifact now; one that cannot be kept is an `error` event, once a run."""
        async with self._turn:
            if self._over:
                return
            try:
                await self._make(made)
            except AgentctlError as error:
                await self._tell(made, error)

    async def _make(self, made: Made) -> None:
        store = self._deps.store
        data, redacted = await anyio.to_thread.run_sync(self._clean, made)
        blob = await store.put(data) if data is not None else None
        before = ""
        try:
            async with store.changing:
                writes = Writes()
                record = await self._record(made, blob)
                if record is None or self._over:
                    return
                action = ArtifactAction.UPDATED if record.created_at else ArtifactAction.CREATED
                _fill(record, made, redacted)
                before = store.add(record, blob, made.run_id, writes)
                self._say(made.run_id, _event(record, action), writes)
                await self._session.commit(writes)
                self._remember(made, record)
        finally:
            with anyio.CancelScope(shield=True):
                await store.settled(blob, before)

    def _clean(self, made: Made) -> tuple[bytes | None, bool]:
        value = made.value
        if made.kind in _TEXTS and value is not None:
            text = value if isinstance(value, str) else value.decode("utf-8", "replace")
            secrets = self._session.gathering.secrets
            return cleaned(text, self._deps.redactor(sorted(secrets)), secrets)
        if isinstance(value, str):
            value = value.encode("utf-8", "replace")
        if made.kind in _EXACT and value is not None:
            return without_secrets(value, self._session.gathering.secrets)
        return value, False

    async def _record(self, made: Made, blob: Blob | None) -> ArtifactRecord | None:
        """The record to write: a new one, or the one that this replaces; None: it is there already."""
        while len(self._of_run) > RUNS_KNOWN:
            del self._of_run[next(iter(self._of_run))]
        key, of_run = made.key, self._of_run.setdefault(made.run_id, {})
        if not key and blob is not None and made.kind is not ArtifactKind.PATCH:
            key = made.key = (str(made.kind), blob.sha256)
            if key in of_run:
                return None
        known = await self._of_session() if made.kind in _OF_SESSION else of_run
        if key and (id_ := known.get(key)) is not None:
            record = await self._deps.store.get(id_)
            if record is not None and blob is None and made.run_id in record.runs:
                return None
            if record is not None:
                return record
        return ArtifactRecord(mint("artifact"), made.kind, self._session.id)

    def _remember(self, made: Made, record: ArtifactRecord) -> None:
        if made.kind in _OF_SESSION and self._known is not None:
            self._known[made.key] = record.id
        elif made.key:
            self._of_run.setdefault(made.run_id, {})[made.key] = record.id

    async def _of_session(self) -> dict[Key, str]:
        if self._known is None:
            known: dict[Key, str] = {}
            workspace = self._session.record.spec.workspace
            async for record in self._deps.store.walk(
                session_id=self._session.id, kinds=_OF_SESSION
            ):
                place = record.url or absolute(record.path or "", workspace)
                known.setdefault((str(record.kind), place), record.id)
            self._known = known
        return self._known

    def _say(self, run_id: str, payload: Payload, writes: Writes) -> None:
        ledger = self._session.ledger
        is_open = run_id in ledger.turns.open_runs
        event = Event(payload, run_id if is_open else None, None if is_open else run_id)
        ledger.add([event], writes)

    async def _tell(self, made: Made, error: AgentctlError) -> None:
        if self._told == (made.run_id, error.reason):
            return
        self._told = (made.run_id, error.reason)
        writes = Writes(vital=True)
        message = f"The {made.kind} artifact ({made.title}) was not kept: {error.message}"
        self._say(made.run_id, Error(error.reason, message, recoverable=True), writes)
        await self._session.commit(writes)


def _fill(record: ArtifactRecord, made: Made, redacted: bool) -> None:
    record.title = made.title
    if redacted and made.kind is ArtifactKind.PATCH:
        record.title += " (secrets taken out: it does not apply)"
    record.mime_type, record.path, record.url = made.mime_type, made.path, made.url
    record.tool_call_id, record.commit, record.redacted = made.tool_call_id, made.commit, redacted


def _event(record: ArtifactRecord, action: ArtifactAction) -> Artifact:
    return Artifact(
        record.id,
        action,
        record.kind,
        title=record.title or None,
        mime_type=record.mime_type or None,
        size=record.size,
        created_at=record.created_at,
        expires_at=record.expires_at,
        url=record.url,
        path=record.path,
    )
