"""A manager, a hub, a catalogue and a journal that do as they are told, for a real gRPC server."""

import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import anyio

from agentctl.client import AgentCtl
from agentctl.config import Settings
from agentctl.core.adapter import HistoryPage, NativeSession, NativeSessionId
from agentctl.core.errors import NotFound
from agentctl.core.events import Message, PermissionRequest, QuestionRequest
from agentctl.core.parts import Choice, McpServerState
from agentctl.core.spec import Entry, PromptSpec, Rule, SessionSpec
from agentctl.core.words import AgentState, McpState, Policy, RunState
from agentctl.rpc.ports import DaemonFacts, Discover
from agentctl.rpc.server import Server
from agentctl.session.api import ManagerApi
from agentctl.session.hub import Batch, Query
from agentctl.session.records import (
    AgentRecord,
    ApprovalRecord,
    Counts,
    QuestionRecord,
    RunCreated,
    RunRecord,
    SessionCounts,
    SessionRecord,
    TallyRecord,
)

SESSION = SessionRecord(
    id="ses_1", spec=SessionSpec(entry_id="demo", workspace="/w"), agent_id="agt_1", created_at=5
)
RUN = RunRecord(id="run_1", session_id="ses_1", prompt=PromptSpec(), state=RunState.RUNNING)
AGENT = AgentRecord(
    id="agt_1", entry_id="demo", state=AgentState.READY, auth_methods=[("key", "API key")]
)
APPROVAL = ApprovalRecord(request=PermissionRequest(approval_id="apr_1"), session_id="ses_1")
QUESTION = QuestionRecord(request=QuestionRequest(question_id="qst_1"), session_id="ses_1")
STANDING = Rule("rul_9", decision=Policy.DENY, path_pattern="/**/.git/**", created_at=7, revision=2)


class FakeManager:
    """Notes each call; answers with `answers[name]`, called when it is a function."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.tallied: list[TallyRecord] = []
        self.answers: dict[str, Any] = {
            "create_session": SESSION,
            "wait_ready": SESSION,
            "resume_session": SESSION,
            "fork_session": SESSION,
            "get_session": SESSION,
            "list_sessions": ([SESSION], "ses_1"),
            "count_sessions": 1,
            "count_by_entry": {"demo": SessionCounts(1, 1)},
            "resolve_session": SESSION,
            "update_session": SESSION,
            "close_session": SESSION,
            "delete_session": None,
            "compact_session": RunCreated(RUN, position=1),
            "messages": (SESSION, HistoryPage((Message("m1"),), before="p2")),
            "revert": SESSION,
            "unrevert": SESSION,
            "mcp_status": [McpServerState("files", McpState.CONNECTED)],
            "create_run": RunCreated(RUN, position=2),
            "get_run": RUN,
            "list_runs": ([RUN], ""),
            "wait_run": (RUN, False),
            "cancel_run": RUN,
            "cancel_session": None,
            "list_approvals": ([APPROVAL], ""),
            "respond": APPROVAL,
            "list_questions": ([QUESTION], ""),
            "put_rule": STANDING,
            "delete_rule": None,
            "answer_question": QUESTION,
            "reject_question": QUESTION,
            "start_agent": AGENT,
            "stop_agent": AGENT,
            "stop_all": [AGENT, AGENT],
            "restart_agent": AGENT,
            "get_agent": AGENT,
            "list_agents": [AGENT],
            "auth_methods": [Choice(id="key")],
            "authenticate": None,
            "list_artifacts": ([], ""),
            "run_artifacts": [],
            "list_native": [NativeSession(NativeSessionId("n1"), cwd="/w", updated_at=4)],
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self.answers:
            raise AttributeError(name)

        async def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, arguments, named))
            answer: Any = self.answers[name]
            if callable(answer):
                made: Any = answer(*arguments, **named)
                return await made
            return answer

        return call

    def counts(self) -> Counts:
        return Counts(agents=1, sessions=3)

    async def tallies(self, session_id: str = "") -> AsyncGenerator[list[TallyRecord], None]:
        yield [each for each in self.tallied if session_id in ("", each.session_id)]

    def redact_for(self, session_id: str) -> Callable[[str], str]:
        return lambda text: text.replace("secret", "[redacted]")

    def standing_rules(self) -> list[Rule]:
        return [STANDING]

    def queue_position(self, run: RunRecord) -> int | None:
        return 1 if run.state is RunState.QUEUED else None


class FakeHub:
    """Serves what `stream` yields; notes the queries and how many streams were closed."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self.closed = 0
        self.stream: Callable[[Query], AsyncGenerator[Batch, None]] = nothing

    def subscribe(self, query: Query) -> AsyncGenerator[Batch, None]:
        self.queries.append(query)
        return self._run(query)

    async def _run(self, query: Query) -> AsyncGenerator[Batch, None]:
        try:
            async for batch in self.stream(query):
                yield batch
        finally:
            self.closed += 1


async def nothing(query: Query) -> AsyncGenerator[Batch, None]:
    yield Batch(b"", 0, "abc123:0", caught_up=True)
    if query.follow:
        await anyio.sleep_forever()


@dataclass
class FakeProblem:
    file: str = "agents.json"
    message: str = "expected a list"
    field: str = "agents[0].cmd"
    line: int = 3


@dataclass
class FakeFound:
    entry_id: str = "demo"
    installed: bool = True
    path: str = "/bin/demo"
    version: str = "1.0"
    login: str = "yes"
    via: str = "DEMO_KEY"
    install: str = ""
    note: str = ""


class FakeChanges:
    def __init__(self) -> None:
        self.send, self.receive = anyio.create_memory_object_stream[object](10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.send.close()
        self.receive.close()

    def __aiter__(self) -> AsyncIterator[object]:
        return self.receive.__aiter__()


@dataclass
class FakeCatalog:
    known: dict[str, Entry] = field(default_factory=dict[str, Entry])
    problems: Sequence[FakeProblem] = ()
    validated: list[str] = field(default_factory=list[str])
    news: list[FakeChanges] = field(default_factory=list[FakeChanges])
    refreshed: int = 0

    def entries(self) -> Sequence[Entry]:
        return tuple(self.known.values())

    def find(self, entry_id: str) -> Entry | None:
        return self.known.get(entry_id)

    def get(self, entry_id: str) -> Entry:
        if entry_id not in self.known:
            raise NotFound("no such agent", reason="AGENT_NOT_FOUND")
        return self.known[entry_id]

    def validate(self, text: str, file: str = "agents.json") -> Sequence[FakeProblem]:
        self.validated.append(text)
        return [FakeProblem()] if "bad" in text else []

    async def refresh(self) -> None:
        self.refreshed += 1

    def subscribe(self) -> Any:
        self.news.append(FakeChanges())
        return self.news[-1]

    async def put(self, raw: Mapping[str, Any] | str | bytes) -> Entry:
        entry = Entry(id="new", raw={"id": "new", "given": str(raw)})
        self.known["new"] = entry
        return entry

    async def enable(self, entry_id: str, on: bool) -> Entry:
        return Entry(id=self.get(entry_id).id, enabled=on)

    async def delete(self, entry_id: str) -> None:
        del self.known[self.get(entry_id).id]


@dataclass
class FakeJournal:
    id: str = "abc123"
    head: int = 41
    full: bool = False


@dataclass
class House:
    """A served API, its rooms and a client of it."""

    manager: FakeManager
    hub: FakeHub
    catalog: FakeCatalog
    server: Server
    client: AgentCtl
    path: Path


def entry(entry_id: str, **fields: Any) -> Entry:
    return Entry(id=entry_id, raw={"id": entry_id, "future": {"n": 1}}, **fields)


async def found(entries: Sequence[Entry]) -> Sequence[FakeFound]:
    return [FakeFound(entry_id=each.id) for each in entries]


def make_server(
    addresses: Sequence[str],
    *,
    manager: FakeManager | None = None,
    hub: FakeHub | None = None,
    catalog: FakeCatalog | None = None,
    token_file: Path | None = None,
    discover: Discover | None = found,
) -> Server:
    settings = Settings(data_dir=Path("/data"), token_file=token_file)
    return Server(
        cast(ManagerApi, manager or FakeManager()),
        hub or FakeHub(),
        catalog or FakeCatalog(),
        FakeJournal(),
        DaemonFacts(settings=settings, version="9.9"),
        addresses=addresses,
        discover=discover,
    )


@asynccontextmanager
async def house(**fields: Any) -> AsyncGenerator[House]:
    """A server on a Unix socket of its own."""
    manager, hub, catalog = FakeManager(), FakeHub(), FakeCatalog({"demo": entry("demo")})
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        path = Path(directory) / "run" / "a.sock"
        server = make_server([f"unix:{path}"], manager=manager, hub=hub, catalog=catalog, **fields)
        async with server, AgentCtl.connect(f"unix:{path}") as client:
            yield House(manager, hub, catalog, server, client, path)
