"""Measures what a journal that grew old costs: lists, an export, statistics, and who waits meanwhile.

The journal is written before the daemon starts, by the daemon's own parts. Each figure stands beside the
time that bare SQLite takes for the same rows. Times in seconds unless named; memory in bytes.
"""

import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from agentctl.client import AgentCtl
from agentctl.core.events import (
    Complete,
    Event,
    FileChange,
    MessageChunk,
    Payload,
    RunStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock, Usage
from agentctl.core.spec import PromptSpec, SessionSpec
from agentctl.core.words import (
    ContentType,
    Origin,
    Outcome,
    RunChange,
    RunState,
    SessionState,
    ToolKind,
    ToolStatus,
)
from agentctl.journal.store import Journal, open_journal
from agentctl.rpc.convert import FrameEncoder
from agentctl.session.ids import mint
from agentctl.session.progress import Facts
from agentctl.session.records import RunRecord, SessionRecord
from agentctl.session.store import doc_of
from bench.served import Place, Served, daemon
from bench.stats import Spread, percentile

RUN_EVENTS = 1_000
PAGE = 1_000
# How often somebody else asks while a large answer is made.
ASK_EVERY_S = 0.005


@dataclass(frozen=True, slots=True)
class Cost:
    """One thing that was measured: `ours` and `base` in seconds, `grown` is the peak above before."""

    name: str
    ours: Spread
    base: Spread
    grown: float

    @property
    def ratio(self) -> float:
        return self.ours.middle / self.base.middle


@dataclass(frozen=True, slots=True)
class Scale:
    """`meanwhile`: how long other calls took while the export ran (p50, p99, max), in ms."""

    costs: Sequence[Cost]
    meanwhile: tuple[float, float, float]


async def scale(place: Place, sessions: int, events: int, stats_events: int, rounds: int) -> Scale:
    costs: list[Cost] = []
    data = place.fresh("scale")
    async with _journal(data) as journal:
        await _sessions(journal, place, sessions)
        large = await _worked(journal, place, events)
    async with daemon(place, data) as served, AgentCtl.connect(served.address) as client:
        ask = _Ask(served, data / "journal.db", rounds)
        many, much = f"{sessions:,} sessions", f"{events:,} events"
        costs.append(await ask.cost(f"list of {many}, first page", lambda: _page(client), _FIRST))
        costs.append(await ask.cost(f"list of {many}, all pages", lambda: _walk(client), _ALL))
        export = await ask.cost(f"export of {much}", lambda: _export(client, large), _BLOCKS, large)
        costs.append(export)
        meanwhile = await _meanwhile(client, large)
    data = place.fresh("scale")
    async with _journal(data) as journal:
        for _ in range(10):
            await _worked(journal, place, stats_events // 10)
    async with daemon(place, data) as served, AgentCtl.connect(served.address) as client:
        ask = _Ask(served, data / "journal.db", rounds)
        name = f"statistics over {stats_events:,} events"
        costs.append(await ask.cost(name, lambda: _stats(client), _TALLIES))
    return Scale(costs, meanwhile)


_FIRST = "SELECT body FROM doc WHERE kind = 'session' ORDER BY id DESC LIMIT 100"
_ALL = "SELECT body FROM doc WHERE kind = 'session' ORDER BY id DESC"
_TALLIES = "SELECT body FROM doc WHERE kind = 'tally' ORDER BY id"
_BLOCKS = (
    "SELECT data FROM block WHERE session_no = (SELECT no FROM name WHERE id = ?)"
    " ORDER BY first_seq"
)


@dataclass(frozen=True, slots=True)
class _Ask:
    served: Served
    database: Path
    rounds: int

    async def cost(
        self, name: str, call: Callable[[], Awaitable[None]], bare: str, *values: str
    ) -> Cost:
        await call()
        before = _reset_peak(self.served.pid)
        ours: list[float] = []
        base: list[float] = []
        for _ in range(self.rounds):
            start = time.perf_counter()
            await call()
            ours.append(time.perf_counter() - start)
            base.append(await anyio.to_thread.run_sync(self._bare, bare, values))
        return Cost(name, Spread.of(ours), Spread.of(base), _peak(self.served.pid) - before)

    def _bare(self, text: str, values: Sequence[str]) -> float:
        conn = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            start = time.perf_counter()
            for _ in conn.execute(text, tuple(values)):
                pass
            return time.perf_counter() - start
        finally:
            conn.close()


async def _page(client: AgentCtl) -> None:
    page = await client.sessions.list()
    assert page.next_page_token and page.total


async def _walk(client: AgentCtl) -> None:
    token, seen = "", 0
    while True:
        page = await client.sessions.list(page_size=PAGE, page_token=token)
        seen += len(page.sessions)
        token = page.next_page_token
        if not token:
            assert seen == page.total
            return


async def _export(client: AgentCtl, session: str) -> None:
    async for piece in client.sessions.export(session):
        assert piece.data


async def _stats(client: AgentCtl) -> None:
    assert (await client.stats.get()).total.runs


async def _meanwhile(client: AgentCtl, session: str) -> tuple[float, float, float]:
    """How long a small call takes while the export goes on, in ms."""
    waits: list[float] = []
    async with AgentCtl.connect(client.address) as other, anyio.create_task_group() as group:

        async def ask() -> None:
            while True:
                start = time.perf_counter()
                await other.daemon.get_info()
                waits.append((time.perf_counter() - start) * 1e3)
                await anyio.sleep(ASK_EVERY_S)

        await other.daemon.get_info()
        group.start_soon(ask)
        await _export(client, session)
        group.cancel_scope.cancel()
    return percentile(waits, 0.5), percentile(waits, 0.99), max(waits)


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(name)


def _reset_peak(pid: int) -> int:
    """Forgets the peak of its memory so far; returns what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _status(pid, "VmRSS")


def _peak(pid: int) -> int:
    return _status(pid, "VmHWM")


@asynccontextmanager
async def _journal(data: Path) -> AsyncGenerator[Journal]:
    encode = FrameEncoder()
    async with open_journal(data / "journal.db", encode=encode) as journal:
        encode.journal_id = journal.id
        yield journal


def _record(place: Place, number: int) -> SessionRecord:
    spec = SessionSpec("demo", str(place.workspace), model="provider/model")
    record = SessionRecord(
        mint("session"), spec, name=f"session {number}", project=f"p{number % 9}"
    )
    record.state, record.state_saved = SessionState.CLOSED, True
    record.labels = {"team": f"t{number % 5}"}
    record.native_session_id, record.title = f"native-{number}", f"Fix number {number}"
    record.created_at = record.updated_at = record.closed_at = record.last_active_at = 1
    record.progress.last_message = "It works now; the tests pass. " * 8
    record.progress.last_command, record.progress.tests_passed = "npm test", 12
    record.usage, record.cost_usd = Usage(input=8_500, output=4_200), 0.084
    return record


async def _sessions(journal: Journal, place: Place, count: int) -> None:
    for start in range(0, count, PAGE):
        records = [_record(place, n) for n in range(start, min(count, start + PAGE))]
        await journal.append([], [doc_of(each) for each in records])


async def _worked(journal: Journal, place: Place, events: int) -> str:
    """A session with so many events; its id."""
    record = _record(place, 0)
    facts = Facts(record)
    for _ in range(events // RUN_EVENTS):
        run = RunRecord(mint("run"), record.id, PromptSpec(), RunState.COMPLETED, ended_at=2)
        made = [Event(each, run.id, session_id=record.id, ts=1) for each in _run()]
        for event in made:
            facts.feed(event)
        kept = [*facts.changed.values(), run]
        facts.changed.clear()
        await journal.append(made, [doc_of(each) for each in kept])
    facts.seen.open = False
    await journal.append([], [doc_of(record), doc_of(facts.seen)])
    return record.id


def _run() -> list[Payload]:
    """A thousand events: a prompt, twenty commands and edits between much text, an end."""
    prompt = [ContentBlock(ContentType.TEXT, text="Fix it.")]
    made: list[Payload] = [
        RunStatus(RunChange.CREATED, origin=Origin.CLIENT, prompt=prompt),
        RunStatus(RunChange.STARTED, origin=Origin.CLIENT),
    ]
    for number in range(20):
        tool, path = f"t{number}", f"src/file{number}.py"
        kind = ToolKind.EXECUTE if number % 2 else ToolKind.EDIT
        made.append(ToolCall(tool, title=path, kind=kind, command="npm test", paths=[path]))
        made += [ToolUpdate(tool, output_delta="a line of output\n") for _ in range(5)]
        made.append(ToolUpdate(tool, ToolStatus.COMPLETED))
        made.append(FileChange(path, additions=3, deletions=1, diff="-old\n+new\n"))
        made += [MessageChunk(f"m{number}", text="some words of an answer ") for _ in range(41)]
    made += [MessageChunk("last", text="word ") for _ in range(RUN_EVENTS - len(made) - 1)]
    usage = Usage(input=100, output=50)
    return [*made, Complete(Outcome.COMPLETED, usage=usage, started_at=1, ended_at=2)]
