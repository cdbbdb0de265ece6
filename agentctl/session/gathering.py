"""Owns what becomes of a session's events beside the journal: the artifacts of its runs.

    begun -> (files, cut fields, images noted as events pass) -> the agent's end of turn is HELD
          -> what is on its way, files, patch -> `artifact` events -> the held drafts go on

The end of a run waits for its artifacts for a bounded time, and not at all when something else ends
it; what is ready later is late. It refuses to know what stands in a store or a snapshot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from agentctl.core.adapter import AnyDraft, ProcessGone, TurnEnded
from agentctl.core.errors import Exhausted
from agentctl.core.events import Error, Event, FileChange, Git, ToolUpdate
from agentctl.core.words import FINAL_TOOL, ArtifactKind, ChangeKind
from agentctl.session.keeping import GatherDeps, Keeping, Key, Made, made_of
from agentctl.session.ports import Snapshots
from agentctl.session.records import RunRecord
from agentctl.session.writes import Writes
from agentctl.workspace.snapshot import Snapshot

if TYPE_CHECKING:
    from agentctl.session.session import Session

# The end of a run is told this much later at most: nobody should wonder whether the agent hangs.
COLLECT_S = 5.0
# A close, or the stop of the daemon, waits this long for what ended runs made.
CLOSE_S = 3.0
# An agent that died or was given up is dead within its stop ladder; its files are read after that.
GONE_S = 10.0
# A snapshot as fresh as this is the start of a turn that the agent begins behind its last one.
FRESH_S = 1.0
MAX_HELD = 10_000
"""Drafts that are held at most: an agent that says more has begun something else."""
MAX_FILES = 100
"""Files of one run that become artifacts; its patch has all of them."""


@dataclass(slots=True)
class _Run:
    """What is known of an open run, or of one that has just ended."""

    before: Snapshot | None = None
    taking: anyio.Event | None = None
    files: dict[str, str | None] = field(default_factory=dict[str, str | None])
    latest: dict[Key, Made] = field(default_factory=dict[Key, Made])
    ended: bool = False
    collecting: bool = False
    read: bool = False
    """Its files and its work tree have been read: the next prompt may change them."""

    @property
    def wanted(self) -> bool:
        """Whether there is anything to collect."""
        pending = self.taking is not None and not self.taking.is_set()
        return bool(self.before or pending or self.files or self.latest)


class Gathering:
    """The artifacts of one session in the making."""

    def __init__(self, session: "Session", deps: GatherDeps | None) -> None:
        self._session = session
        self._deps = deps
        self._kept: Keeping | None = None
        self.secrets: frozenset[str] = frozenset()
        """What its processes were given and nobody may read."""
        self.held: list[AnyDraft] | None = None
        """Drafts of the agent from the end of a turn on, while its artifacts are made."""
        self._runs: dict[str, _Run] = {}
        self._letting_go = False
        self._told_trouble = False
        self._fresh: Snapshot | None = None
        self._scopes: list[anyio.CancelScope] = []
        self._news: anyio.Event | None = None
        self._over = False

    @property
    def busy(self) -> bool:
        """The work tree is being read: the next prompt would change it."""
        return any(run.collecting and not run.read for run in self._runs.values())

    def learn(self, secrets: Sequence[str]) -> None:
        """What a process of the session was given and nobody may read."""
        if not self.secrets.issuperset(secrets):
            self.secrets |= {*secrets}

    def _keeping(self, deps: GatherDeps) -> Keeping:
        """Made when there is something to keep: most sessions that are open do nothing now."""
        if self._kept is None:
            self._kept = Keeping(self._session, deps)
        return self._kept

    # The way of drafts.

    def hold(self, draft: AnyDraft, writes: Writes) -> bool:
        """Whether the draft waits: it ends a turn whose artifacts are not made, or comes behind."""
        if self.held is not None:
            if isinstance(draft, ProcessGone) or len(self.held) >= MAX_HELD:
                self.let_go(writes)
                return False
            self.held.append(draft)
            return True
        if self._letting_go or not isinstance(draft, TurnEnded) or draft.folded_into is not None:
            return False
        run_id = self._session.ledger.turns.run_of(draft.turn) or ""
        if self._deps is None or not run_id:
            return False
        run = self._runs.get(run_id) or _Run()
        working = self._kept is not None and self._kept.working
        if run.collecting or not (run.wanted or working):
            return False
        self._runs[run_id] = run
        self._session.ledger.ends[run_id] = writes.now
        self.held, run.ended = [draft], True
        self._background(partial(self._until_collected, self.held, self._collect(run_id, run)))
        return True

    def has_ended(self, run: RunRecord) -> bool:
        """Whether the agent has ended that run, which waits for its artifacts."""
        found = self._runs.get(run.id)
        return self.held is not None and found is not None and found.ended

    def let_go(self, writes: Writes) -> None:
        """Something else happened to the run: what was held goes on at once."""
        before, self._letting_go = self._letting_go, True
        self._pass(writes)
        self._letting_go = before

    def _pass(self, writes: Writes) -> None:
        held, self.held = self.held or (), None
        for draft in held:
            # One that ends the next turn begins a hold of its own, and the rest joins it.
            self._session.take(draft, writes)

    async def _until_collected(self, held: list[AnyDraft], collected: anyio.Event) -> None:
        with anyio.move_on_after(COLLECT_S):
            await collected.wait()
        if self.held is not held:
            return
        writes = Writes()
        self._pass(writes)
        session = self._session
        try:
            await session.commit(writes)
        except Exhausted:
            await writes.commit_ends(session.deps.journal, session.ledger.runs.keys())

    # The life of runs.

    async def before(self, run_id: str) -> None:
        """Takes the picture that the patch of a prompt begins with."""
        if self._deps is not None and self._deps.snapshots is not None:
            await self._picture(self._runs.setdefault(run_id, _Run()))

    async def _picture(self, run: _Run) -> None:
        if self._deps is None or self._deps.snapshots is None:
            return
        run.taking = anyio.Event()
        try:
            run.before = await self._deps.snapshots.take(self._session.record.spec.workspace)
        finally:
            run.taking.set()
        if run.before is None:
            await self._tell_trouble(self._deps.snapshots)

    async def _tell_trouble(self, snapshots: Snapshots) -> None:
        """Says once that runs go without a patch, when a client can do something about it."""
        workspace = self._session.record.spec.workspace
        why = "" if self._told_trouble else snapshots.trouble(workspace)
        if not why:
            return
        self._told_trouble = True
        message = (
            f"The runs of this session have no patch for now: the work tree of {workspace} is too "
            f"large or too slow to read ({why}). Ignore what is no source in .gitignore, or move "
            "it away; it is tried again later."
        )
        writes = Writes()
        self._session.ledger.add([Event(Error("NO_PATCH", message, recoverable=True))], writes)
        with suppress(Exhausted):
            await self._session.commit(writes)

    def forget(self, run_id: str) -> None:
        """The prompt was not sent after all."""
        self._runs.pop(run_id, None)

    def started(self, run: RunRecord) -> None:
        """A run has begun; one that we did not prompt has no picture yet."""
        if self._deps is None or self._deps.snapshots is None:
            return
        mine = self._runs.setdefault(run.id, _Run())
        if mine.taking is not None or run.id not in self._session.ledger.runs:
            return
        if self._fresh is not None:
            mine.before, mine.taking = self._fresh, anyio.Event()
            mine.taking.set()
        else:
            self._background(partial(self._picture, mine))

    def ended(self, run: RunRecord) -> None:
        """A run has ended; what it made is collected now, if it was not before."""
        mine = self._runs.get(run.id)
        if mine is None or mine.collecting:
            return
        if not mine.wanted or run.folded_into is not None:
            del self._runs[run.id]
        elif not self._session.closing:
            self._collect(run.id, mine)

    def _forget_picture(self, picture: Snapshot) -> None:
        """One that is kept keeps its objects on the disk as well."""
        if self._fresh is picture:
            self._fresh = None

    async def wind_up(
        self, seconds: float = CLOSE_S, *, before_end: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """The session is over and its agent gone: makes what is left, then nothing more.

        `before_end` runs when the work tree has been read, and may still name artifacts.
        """
        with anyio.move_on_after(seconds):
            for run_id, run in list(self._runs.items()):
                if not run.collecting:
                    self._collect(run_id, run)
            while self._runs:
                self._news = anyio.Event()
                await self._news.wait()
            if self._kept is not None:
                await self._kept.idle()
        if before_end is not None:
            await before_end()
        with anyio.move_on_after(seconds):
            if self._kept is not None:
                await self._kept.idle()
        self._over = True
        for scope in list(self._scopes):
            scope.cancel()
        if self._kept is not None:
            await self._kept.stop()

    def _background(self, what: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def work() -> None:
            with anyio.CancelScope() as scope:
                self._scopes.append(scope)
                try:
                    await what()
                finally:
                    self._scopes.remove(scope)

        self._session.deps.background(work)

    def _collect(self, run_id: str, run: _Run) -> anyio.Event:
        run.collecting, done = True, anyio.Event()
        self._background(partial(self._collected, run_id, run, done))
        return done

    async def _collected(self, run_id: str, run: _Run, done: anyio.Event) -> None:
        try:
            await self._collection(run_id, run)
        finally:
            self._runs.pop(run_id, None)
            if self._kept is not None:
                self._kept.ended(run_id)
            done.set()
            if self._news is not None:
                self._news.set()
            self._session.driver.kick()

    async def _collection(self, run_id: str, run: _Run) -> None:
        deps, session = self._deps, self._session
        if deps is None:
            return
        keeping = self._keeping(deps)
        for made in run.latest.values():
            keeping.put(made)
        await keeping.idle()
        if run_id not in session.ledger.turns.open_runs:
            # Nobody said that the turn is over: its process may be at work until it is gone.
            await session.driver.gone(GONE_S)
        await keeping.files(run_id, run.files)
        if run.taking is not None:
            await run.taking.wait()
        if run.before is None or deps.snapshots is None:
            return
        after = await deps.snapshots.take(session.record.spec.workspace)
        run.read = True
        session.driver.kick()
        if after is None:
            await self._tell_trouble(deps.snapshots)
        else:
            self._fresh = after
            asyncio.get_running_loop().call_later(FRESH_S, self._forget_picture, after)
            if (patch := await deps.snapshots.patch(run.before, after)) is not None:
                await keeping.patch(run_id, patch)

    # What events show.

    def made(self, event: Event) -> None:
        """An event that shows, or could not hold, what may become an artifact."""
        wholes, event.whole = event.whole, None
        run_id, deps = event.run_id or event.after_run_id, self._deps
        if deps is None or run_id is None or self._over:
            return
        payload = event.payload
        match payload:
            case FileChange() if event.run_id is not None:
                self._note_file(self._runs.setdefault(run_id, _Run()).files, payload)
            case Git(pull_request_url=str(url)):
                kind = ArtifactKind.PULL_REQUEST
                self._keeping(deps).put(Made(kind, run_id, url, url=url, key=(str(kind), url)))
            case _:
                pass
        for whole in wholes or ():
            tool = getattr(payload, "tool_call_id", None)
            made = made_of(run_id, payload, whole, self._session.ledger.turns.toolbox.card_of(tool))
            if made is None:
                continue
            growing = isinstance(payload, ToolUpdate) and payload.status not in FINAL_TOOL
            if growing and event.run_id is not None and made.kind is ArtifactKind.LOG:
                # Some agents tell all of a growing output each time: the last word is kept.
                self._runs.setdefault(run_id, _Run()).latest[made.key] = made
                continue
            if (run := self._runs.get(run_id)) is not None:
                run.latest.pop(made.key, None)
            self._keeping(deps).put(made)

    def kept_workspace(self, run_id: str, path: str, title: str) -> None:
        """A work tree that stays when its session ends."""
        if self._deps is not None:
            kind = ArtifactKind.WORKSPACE
            self._keeping(self._deps).put(
                Made(kind, run_id, title, path=path, key=(str(kind), path))
            )

    @staticmethod
    def _note_file(files: dict[str, str | None], change: FileChange) -> None:
        if change.change is ChangeKind.DELETE:
            files.pop(change.path, None)
            return
        files.pop(change.old_path or "", None)
        if change.path in files or len(files) < MAX_FILES:
            files[change.path] = change.tool_call_id
