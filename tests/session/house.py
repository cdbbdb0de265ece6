"""A manager on a real journal with fake agents, and what a test wants to see of it."""

import copy
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from agentctl.core.adapter import ProtocolAdapter
from agentctl.core.errors import DaemonFailed, Exhausted, NotFound, Refused
from agentctl.core.events import (
    Complete,
    Event,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    RunStatus,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import Entry, PromptSpec, SessionSpec
from agentctl.core.words import (
    FINAL_TOOL,
    ContentType,
    Policy,
    RunChange,
    SessionChange,
)
from agentctl.journal.select import Selection
from agentctl.journal.store import Doc, Journal, Page, Where
from agentctl.rpc.convert import FrameEncoder, decode_block
from agentctl.session.artifacts import ArtifactRule, Artifacts
from agentctl.session.base import ManagerDeps
from agentctl.session.ending import Limits
from agentctl.session.manager import Manager
from agentctl.session.ports import Prepared
from agentctl.session.records import (
    ApprovalRecord,
    CreateRun,
    CreateSession,
    QuestionRecord,
    RunCreated,
    RunRecord,
    SessionRecord,
)
from tests.journal.kit import opened
from tests.session.fakes import Bell, FakeAgent, FakeProtocol

# Far beyond what any test here takes; a hang is a failure with a name.
TEST_S = 20.0
FAST = Limits(cancel_ack_s=0.05, cancel_end_s=0.05)
PATIENT = Limits(cancel_ack_s=60, cancel_end_s=60)


class Spy:
    """The journal, remembering what was committed; it can be full, or dead as after kill -9."""

    def __init__(self, journal: Journal, bell: Bell) -> None:
        self.journal = journal
        self.bell = bell
        self.committed: list[Event] = []
        self.full = False
        self.dead = False

    @property
    def head(self) -> int:
        return self.journal.head

    async def append(
        self, events: Sequence[Event], docs: Sequence[Doc] = (), *, vital: bool = False
    ) -> None:
        if self.dead:
            raise DaemonFailed("killed")
        if self.full and not vital:
            await anyio.lowlevel.checkpoint()
            raise Exhausted("the disk is full", reason="DISK_FULL")
        await self.journal.append(events, docs, vital=vital)
        self.committed += [copy.deepcopy(event) for event in events]
        self.bell.ring()

    async def doc(self, kind: str, id: str) -> Doc | None:  # noqa: A002  (the journal's name)
        return await self.journal.doc(kind, id)

    async def docs(self, kind: str, **options: Any) -> list[Doc]:
        return await self.journal.docs(kind, **options)

    async def briefed(self, kind: str, where: Sequence[Where], **options: Any) -> list[Doc]:
        return await self.journal.briefed(kind, where, **options)

    async def count_briefed(
        self, kind: str, where: Sequence[Where], *, but: Collection[str] = ()
    ) -> int:
        return await self.journal.count_briefed(kind, where, but=but)

    async def count_by(
        self, kind: str, name: str, where: Sequence[Where], *, but: Collection[str] = ()
    ) -> dict[str, int]:
        return await self.journal.count_by(kind, name, where, but=but)

    async def lacking(self, kind: str, other: str, *, limit: int = 1000) -> list[str]:
        return await self.journal.lacking(kind, other, limit=limit)

    async def newest(self, sessions: Collection[str]) -> dict[str, int]:
        return await self.journal.newest(sessions)

    async def page(self, selection: Selection, after: int, upto: int | None = None) -> Page:
        return await self.journal.page(selection, after, upto)

    async def forget_session(self, session_id: str) -> None:
        await self.journal.forget_session(session_id)


@dataclass
class FakeEntries:
    protocol: FakeProtocol
    entries: dict[str, Entry]
    fails: Exception | None = None
    carries: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def get(self, entry_id: str) -> Entry:
        entry = self.entries.get(entry_id)
        if entry is None:
            raise NotFound(f"no {entry_id}", reason="AGENT_NOT_FOUND")
        if not entry.enabled:
            raise Refused(f"{entry_id} is disabled", reason="AGENT_DISABLED")
        return entry

    def prepare(self, entry: Entry, spec: SessionSpec, *, policy: Policy, rules: bool) -> Prepared:
        if self.fails is not None:
            raise self.fails
        return Prepared(("fake", entry.id), dict(spec.env), spec.workspace, self.secrets)

    def attached(self, entry: Entry, spec: SessionSpec) -> Entry:
        return entry

    def carried(self, entry: Entry, workspace: str) -> Sequence[str]:
        return self.carries

    def adapter(self, protocol: str) -> ProtocolAdapter:
        return self.protocol


class Crashable(Manager):
    """Leaving it after `crash` is what kill -9 is: nothing is said, nothing is put to rest."""

    def crash(self) -> None:
        spy = self.deps.journal
        assert isinstance(spy, Spy)
        spy.dead = True

    async def _shut_down(self) -> None:
        spy = self.deps.journal
        if not (isinstance(spy, Spy) and spy.dead):
            await super()._shut_down()


@dataclass
class House:
    manager: Crashable
    protocol: FakeProtocol
    entries: FakeEntries
    spy: Spy
    path: Path
    agents_seen: int = field(default=0)

    @property
    def agent(self) -> FakeAgent:
        """The process that was started last."""
        return self.protocol.agents[-1]

    async def create(self, agent: str = "fake", **options: Any) -> SessionRecord:
        names = {"key", "name", "project", "labels", "rules", "close_when_done", "idempotency_key"}
        outer = {key: options.pop(key) for key in list(options) if key in names}
        workspace = options.pop("workspace", str(self.path))
        spec = SessionSpec(entry_id="", workspace=workspace, **options)
        return await self.manager.create_session(CreateSession(agent, spec, **outer))

    async def start(self, agent: str = "fake", **options: Any) -> str:
        """A session that is ready."""
        record = await self.create(agent, **options)
        await self.manager.wait_ready(record.id, None)
        return record.id

    async def prompt(self, session_id: str, text: str, **options: Any) -> RunCreated:
        return await self.manager.create_run(CreateRun(session_id, words(text), **options))

    async def running(self, text: str = "go", **options: Any) -> tuple[str, RunRecord, FakeAgent]:
        """A session with a run that its agent works on."""
        session_id = await self.start(**options)
        run = (await self.prompt(session_id, text)).run
        agent = self.agent
        assert await agent.prompted() == text
        return session_id, run, agent

    async def ended(self, run_id: str) -> RunRecord:
        run, ended = await self.manager.wait_run(run_id, None)
        assert ended
        return run

    async def approval(self) -> ApprovalRecord:
        """The only open one."""
        (found,), _ = await self.manager.list_approvals()
        return found

    async def open_question(self) -> QuestionRecord:
        (found,), _ = await self.manager.list_questions()
        return found

    async def until(self, holds: Callable[[], object]) -> None:
        """Waits for commits and calls until it holds."""
        await self.protocol.plan.bell.until(holds)

    def of(self, kind: type[Any], run_id: str | None = None) -> list[Any]:
        """Committed payloads of one type."""
        return [
            event.payload
            for event in self.spy.committed
            if isinstance(event.payload, kind) and run_id in (None, event.run_id)
        ]

    def told(self, session_id: str) -> list[SessionChange]:
        return [
            event.payload.status
            for event in self.spy.committed
            if isinstance(event.payload, SessionStatus) and event.session_id == session_id
        ]

    def types(self, run_id: str) -> list[str]:
        """What was said in a run, in order."""
        return [event.type.value for event in self.spy.committed if event.run_id == run_id]

    def session(self, session_id: str) -> Any:
        return self.manager.sessions[session_id]


def words(text: str) -> PromptSpec:
    return PromptSpec((ContentBlock(ContentType.TEXT, text=text),)) if text else PromptSpec()


ENTRIES = {
    "fake": Entry("fake", cmd=("fake",)),
    "shared": Entry("shared", cmd=("fake",), sharing="shared"),
    "off": Entry("off", enabled=False),
    "frail": Entry("frail", can_recover=False),
}


def _kept(secrets: Sequence[str]) -> Callable[[str], str]:
    """A redactor that takes nothing out."""
    return str


@asynccontextmanager
async def house(
    path: Path,
    *,
    limits: Limits = FAST,
    protocol: FakeProtocol | None = None,
    keep: ArtifactRule | None = None,
    **deps: Any,
) -> AsyncGenerator[House]:
    """The manager on the journal in `path`; entering again is a restart of the daemon.

    With `keep` it keeps artifacts, by that rule.
    """
    protocol = protocol or FakeProtocol()
    entries = FakeEntries(protocol, dict(ENTRIES))
    with anyio.fail_after(TEST_S):
        async with opened(path, encode=FrameEncoder("journal")) as journal:
            spy = Spy(journal, protocol.plan.bell)
            made = ManagerDeps(
                journal=spy,
                entries=entries,
                redactor=deps.pop("redactor", _kept),
                artifacts=None if keep is None else Artifacts(path / "blobs", spy, keep),
                decode=decode_block,
                limits=limits,
                **deps,
            )
            async with Crashable(made) as manager:
                yield House(manager, protocol, entries, spy, path)
            assert not protocol.alive
            check_promises(spy.committed, crashed=spy.dead)


def check_promises(events: Sequence[Event], *, crashed: bool = False) -> None:
    """The promises of the event stream, over all that was committed."""
    completes: set[str] = set()
    started: set[str] = set()
    asked: list[str] = []
    resolved: list[str] = []
    tools: dict[str, set[str]] = {}
    for event in events:
        run = event.run_id
        assert run not in completes, f"{event.type} after the complete of {run}"
        match event.payload:
            case Complete():
                assert run is not None
                completes.add(run)
                assert not tools.get(run), f"open tools at the end of {run}"
            case RunStatus(status=RunChange.STARTED):
                assert run is not None and run not in started
                started.add(run)
            case PermissionRequest(approval_id=made) | QuestionRequest(question_id=made):
                asked.append(made)
            case PermissionResolved(approval_id=made) | QuestionResolved(question_id=made):
                resolved.append(made)
            case ToolCall(tool_call_id=tool) if run is not None:
                tools.setdefault(run, set()).add(tool)
            case ToolUpdate(tool_call_id=tool, background=True) if run is not None:
                tools.setdefault(run, set()).discard(tool)
            case ToolUpdate(tool_call_id=tool, status=status) if run and status in FINAL_TOOL:
                tools.setdefault(run, set()).discard(tool)
            case _:
                pass
    assert len(set(resolved)) == len(resolved)
    if not crashed:
        assert set(asked) <= set(resolved)
        assert started <= completes
