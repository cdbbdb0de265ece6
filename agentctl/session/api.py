"""Owns the door of the session room: what rpc may ask of it; knows no gRPC and no agent.

Every method may raise an `AgentctlError`. Mutating calls finish even when their caller leaves.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import BinaryIO, Protocol

from agentctl.core.adapter import HistoryPage, NativeSession
from agentctl.core.parts import Choice, McpServerState
from agentctl.core.spec import Rule, SessionSpec
from agentctl.core.words import ArtifactKind, RunState
from agentctl.session.records import (
    AgentRecord,
    AnswerQuestion,
    ApprovalRecord,
    ArtifactRecord,
    Counts,
    CreateRun,
    CreateSession,
    EnvironmentInfo,
    QuestionRecord,
    Respond,
    RunCreated,
    RunRecord,
    SessionCounts,
    SessionFilter,
    SessionRecord,
    SessionUpdate,
    TallyRecord,
)
from agentctl.session.tool_reads import ToolsTold

Page = tuple[Sequence[object], str]


class SessionsApi(Protocol):
    """Pages: `after` is the last id of the page before ("" = first page); newest first."""

    async def create_session(self, request: CreateSession) -> SessionRecord:
        """Returns at once in `starting`; the agent starts behind it."""
        ...

    async def wait_ready(self, session_id: str, timeout_ms: int | None) -> SessionRecord:
        """Waits until the session left `starting`; raises what its start raised."""
        ...

    async def resume_session(
        self,
        session_id: str = "",
        *,
        entry_id: str = "",
        native_session_id: str = "",
        spec: SessionSpec | None = None,
    ) -> SessionRecord: ...

    async def fork_session(self, session_id: str, *, name: str = "") -> SessionRecord: ...

    async def get_session(self, session_id: str) -> SessionRecord:
        """Also takes a unique tail of an id (at least 4 characters)."""
        ...

    async def list_sessions(
        self, where: SessionFilter, *, after: str = "", limit: int = 100
    ) -> tuple[list[SessionRecord], str]: ...

    async def count_sessions(self, where: SessionFilter) -> int: ...

    async def count_by_entry(self, where: SessionFilter) -> dict[str, SessionCounts]: ...

    def tallies(self, session_id: str = "") -> AsyncGenerator[Sequence[TallyRecord]]:
        """What each kept run did, of one session or all, a page at a time; close it when done."""
        ...

    async def resolve_session(self, where: SessionFilter) -> SessionRecord: ...

    async def update_session(self, session_id: str, change: SessionUpdate) -> SessionRecord: ...

    async def close_session(
        self, session_id: str, *, reason: str = "", force: bool = False, save_state: bool = True
    ) -> SessionRecord: ...

    async def delete_session(self, session_id: str, *, native: bool = False) -> None: ...


class RunsApi(Protocol):
    async def create_run(self, request: CreateRun) -> RunCreated: ...

    async def get_run(self, run_id: str) -> RunRecord: ...

    async def list_runs(
        self,
        *,
        session_id: str = "",
        states: frozenset[RunState] = frozenset(),
        after: str = "",
        limit: int = 100,
    ) -> tuple[list[RunRecord], str]: ...

    async def wait_run(self, run_id: str, timeout_ms: int | None) -> tuple[RunRecord, bool]:
        """(record, ended): `ended` False when the time was up first."""
        ...

    async def cancel_run(
        self, run_id: str, *, drop_queue: bool = False, force: bool = False
    ) -> RunRecord: ...

    async def cancel_session(
        self, session_id: str, *, drop_queue: bool = False, force: bool = False
    ) -> RunRecord | None:
        """Cancels what runs in the session; None when nothing did."""
        ...

    def queue_position(self, run: RunRecord) -> int | None: ...


class ApprovalsApi(Protocol):
    async def list_approvals(
        self, *, session_id: str = "", open_only: bool = True, after: str = "", limit: int = 100
    ) -> tuple[list[ApprovalRecord], str]: ...

    async def respond(self, answer: Respond) -> ApprovalRecord: ...

    async def list_questions(
        self, *, session_id: str = "", open_only: bool = True, after: str = "", limit: int = 100
    ) -> tuple[list[QuestionRecord], str]: ...

    async def answer_question(self, answer: AnswerQuestion) -> QuestionRecord: ...

    async def reject_question(self, question_id: str, *, reason: str = "") -> QuestionRecord: ...


class RulesApi(Protocol):
    """`session_id` "" means the rules of all sessions; those of one stand in its record."""

    def standing_rules(self) -> Sequence[Rule]: ...

    async def put_rule(self, session_id: str, rule: Rule) -> Rule:
        """Makes one (its id is "") or replaces one in its place; the daemon sets id and time."""
        ...

    async def delete_rule(self, session_id: str, rule_id: str) -> None: ...


class AgentsApi(Protocol):
    async def start_agent(self, entry_id: str, *, workspace: str = "") -> AgentRecord: ...

    async def stop_agent(self, agent_id: str, *, force: bool = False) -> AgentRecord: ...

    async def stop_all(self, *, force: bool = False) -> list[AgentRecord]: ...

    async def restart_agent(self, agent_id: str) -> AgentRecord: ...

    async def get_agent(self, agent_id: str) -> AgentRecord: ...

    async def list_agents(self, *, include_exited: bool = False) -> list[AgentRecord]: ...

    async def auth_methods(self, agent: str) -> list[Choice]:
        """`agent` is an entry id or an `agt_` id; starts a process when none runs."""
        ...

    async def authenticate(self, agent: str, method: str) -> None: ...

    async def list_native(self, entry_id: str, cwd: str | None) -> list[NativeSession]: ...

    def counts(self) -> Counts: ...


class HistoryApi(Protocol):
    """The conversation as the agent remembers it; UNSUPPORTED where the agent cannot."""

    async def compact_session(self, session_id: str) -> RunCreated: ...

    async def messages(
        self, session_id: str, *, limit: int = 100, before: str = ""
    ) -> tuple[SessionRecord, HistoryPage]: ...

    async def revert(self, session_id: str, message_id: str) -> SessionRecord: ...

    async def unrevert(self, session_id: str) -> SessionRecord: ...

    async def mcp_status(self, session_id: str) -> Sequence[McpServerState]: ...


class ArtifactsApi(Protocol):
    async def list_artifacts(
        self,
        *,
        session_id: str = "",
        run_id: str = "",
        kinds: frozenset[ArtifactKind] = frozenset(),
        after: str = "",
        limit: int = 100,
    ) -> tuple[list[ArtifactRecord], str]: ...

    async def run_artifacts(self, run_id: str) -> list[ArtifactRecord]:
        """What a run is shown with; newest first, bounded."""
        ...

    async def get_artifact(self, artifact_id: str, *, run_id: str = "") -> ArtifactRecord: ...

    def redact_for(self, session_id: str) -> Callable[[str], str]:
        """A cleaner of text: of the session's secrets while it is open, and of what looks like keys."""
        ...

    async def open_artifact(self, record: ArtifactRecord) -> BinaryIO:
        """The bytes of one that is not a trajectory, for the caller to close."""
        ...


class EnvironmentsApi(Protocol):
    def list_environments(self) -> list[EnvironmentInfo]: ...

    def get_environment(self, name: str) -> EnvironmentInfo: ...


class ToolsApi(Protocol):
    async def session_tools(self, session_id: str) -> ToolsTold:
        """What its agent offers and what asks first; starts nothing."""
        ...


class ManagerApi(
    SessionsApi,
    RunsApi,
    HistoryApi,
    ApprovalsApi,
    RulesApi,
    AgentsApi,
    ArtifactsApi,
    EnvironmentsApi,
    ToolsApi,
    Protocol,
):
    """All of it: what `daemon.py` hands to rpc."""
