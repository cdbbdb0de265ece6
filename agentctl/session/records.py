"""Owns what is remembered of sessions, runs, approvals and questions between restarts.

Each record is one document of the journal, written in the transaction of the events that made it
so. It refuses to know SQL, the wire and what the agents are.
"""

from dataclasses import dataclass, field
from typing import Literal

from agentctl.core.events import PermissionRequest, QuestionRequest
from agentctl.core.parts import Answer, ContentBlock, RunError, Usage
from agentctl.core.spec import PromptSpec, Rule, SessionSpec
from agentctl.core.words import (
    AgentState,
    ArtifactKind,
    DecidedBy,
    Decision,
    Origin,
    Outcome,
    Policy,
    QuestionOutcome,
    RunState,
    SessionPhase,
    SessionState,
    ToolKind,
)
from agentctl.workspace.providers import Place

IfBusy = Literal["queue", "reject", "interrupt", "steer"]


@dataclass(slots=True)
class Progress:
    """What was done in a session; each field means what it does in SessionProgress of the wire."""

    message_count: int = 0
    runs: int = 0
    files_open: int = 0
    files_changed: int = 0
    files_created: int = 0
    commands_run: int = 0
    last_command: str | None = None
    tests_passed: int | None = None
    tests_failed: int | None = None
    current_task: str | None = None
    percent: float | None = None
    last_message: str | None = None


@dataclass(slots=True)
class SessionRecord:
    """A session. Times are Unix ms. `spec.env` is never stored: it lives in memory only."""

    id: str
    spec: SessionSpec
    key: str = ""
    name: str = ""
    project: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    rules: list[Rule] = field(default_factory=list[Rule])
    close_when_done: bool = False
    state: SessionState = SessionState.STARTING
    reason: str = ""
    title: str = ""
    native_session_id: str = ""
    native_created_at: int | None = None
    model: str = ""
    mode: str = ""
    policy: Policy = Policy.ASK
    agent_id: str = ""
    forked_from: str = ""
    place: Place | None = None
    """Where its environment is; None when it works in the directory that was asked for."""
    fork_of: str = ""
    """The agent's conversation that this one is a fork of; forked anew until it was prompted."""
    queue_held: bool = False
    prompted: bool = False
    created_at: int = 0
    updated_at: int = 0
    closed_at: int | None = None
    last_active_at: int = 0
    progress: Progress = field(default_factory=Progress)
    usage: Usage | None = None
    cost_usd: float | None = None
    last_outcome: Outcome | None = None
    """How its last run ended."""
    state_saved: bool | None = None


@dataclass(slots=True)
class SeenTool:
    """A tool that has not ended. Of a long `output` only the end is kept: `whole` is False then."""

    kind: ToolKind
    run_id: str | None = None
    command: str = ""
    paths: list[str] = field(default_factory=list[str])
    output: list[str] = field(default_factory=list[str])
    size: int = 0
    whole: bool = True


@dataclass(slots=True)
class SeenRecord:
    """What the progress of a session is continued from: as it was at one place of the journal.

    Paths are absolute. `waiting` has the prompts of runs that have not started, by run; `said` the
    messages that were counted in runs that go on (`run id`, a space, the message id), `speaking` the
    one of them that last_message is of, `silent` while it has no text; `before` is what it follows.
    """

    session_id: str
    progress: Progress = field(default_factory=Progress)
    usage: Usage | None = None
    cost_usd: float | None = None
    last_outcome: Outcome | None = None
    opened: set[str] = field(default_factory=set[str])
    changed: set[str] = field(default_factory=set[str])
    created: set[str] = field(default_factory=set[str])
    waiting: dict[str, str] = field(default_factory=dict[str, str])
    said: set[str] = field(default_factory=set[str])
    speaking: str = ""
    silent: bool = False
    before: str | None = None
    tools: dict[str, SeenTool] = field(default_factory=dict[str, SeenTool])
    """Those that go on, by the agent's id."""
    open: bool = True
    """Whether the session was."""


@dataclass(slots=True)
class TallyRecord:
    """What one run did and used, apart from its prompt. `outcome` is None while it goes on.

    `model` is the one in force at its end; `files` are the paths that it changed, as they were told;
    `events` counts those that tell of all this.
    """

    run_id: str
    session_id: str
    entry_id: str = ""
    started: bool = False
    outcome: Outcome | None = None
    started_at: int | None = None
    ended_at: int = 0
    model: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    tools: int = 0
    tools_failed: int = 0
    commands: int = 0
    files: list[str] = field(default_factory=list[str])
    events: int = 0


@dataclass(slots=True)
class RunRecord:
    """A run. `order` sorts the queue of its session (lower runs first)."""

    id: str
    session_id: str
    prompt: PromptSpec
    state: RunState = RunState.CREATED
    origin: Origin = Origin.CLIENT
    order: float = 0
    timeout_ms: int | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    idempotency_key: str = ""
    created_at: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    error: RunError | None = None
    folded_into: str | None = None
    open_tools: list[str] = field(default_factory=list[str])
    """Tools without a final status: a restarted daemon closes them before the run's end."""
    session_key: str = ""


@dataclass(slots=True)
class ApprovalRecord:
    request: PermissionRequest
    session_id: str
    run_id: str | None = None
    agent_id: str = ""
    parent_tool_call_id: str | None = None
    created_at: int = 0
    resolved_at: int | None = None
    decision: Decision | None = None
    option_id: str | None = None
    by: DecidedBy | None = None
    reason: str | None = None
    rule_id: str | None = None


@dataclass(slots=True)
class QuestionRecord:
    request: QuestionRequest
    session_id: str
    run_id: str | None = None
    agent_id: str = ""
    created_at: int = 0
    resolved_at: int | None = None
    outcome: QuestionOutcome | None = None
    answers: list[Answer] | None = None
    content_json: bytes | None = None
    by: DecidedBy | None = None


@dataclass(slots=True)
class ArtifactRecord:
    """Something that a run made. Times are Unix ms; `path` and `url` are None when there is none.

    `runs` are the runs that made or changed it, the last one at the end; `deleted` says in words why
    its bytes are gone, "" while they are there or never were.
    """

    id: str
    kind: ArtifactKind
    session_id: str
    runs: list[str] = field(default_factory=list[str])
    title: str = ""
    mime_type: str = ""
    size: int | None = None
    sha256: str = ""
    path: str | None = None
    url: str | None = None
    tool_call_id: str | None = None
    commit: str | None = None
    redacted: bool = False
    created_at: int = 0
    updated_at: int = 0
    expires_at: int | None = None
    deleted: str = ""
    deleted_at: int | None = None


@dataclass(slots=True)
class AgentRecord:
    """A running process of an entry, as Agents.List shows it; never stored."""

    id: str
    entry_id: str
    state: AgentState
    pid: int | None = None
    name: str = ""
    version: str = ""
    session_ids: list[str] = field(default_factory=list[str])
    started_at: int = 0
    ended_at: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: list[str] = field(default_factory=list[str])
    features: list[str] = field(default_factory=list[str])
    auth_methods: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    cpu_percent: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CreateSession:
    """The arguments of Sessions.Create beside the spec. `agent` is an entry id or an `agt_` id."""

    agent: str
    spec: SessionSpec
    key: str = ""
    name: str = ""
    project: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    rules: tuple[Rule, ...] = ()
    close_when_done: bool = False
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class CreateRun:
    """The arguments of Runs.Create. `timeout_ms` None means no limit."""

    session_id: str
    prompt: PromptSpec
    if_busy: IfBusy = "queue"
    timeout_ms: int | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True)
class RunCreated:
    """`steered`: no run was made, `run` is the one that runs. `position` counts from 1."""

    run: RunRecord
    position: int | None = None
    steered: bool = False


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """What Sessions.Update changes; None leaves it."""

    title: str | None = None
    name: str | None = None
    model: str | None = None
    mode: str | None = None
    options: dict[str, str] | None = None
    policy: Policy | None = None
    labels: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Respond:
    """An answer to an approval: a decision, or exactly one offered option."""

    approval_id: str
    decision: Literal["approve", "deny"] | None = None
    option_id: str | None = None
    reason: str | None = None
    updated_input_json: bytes | None = None
    always: bool = False


@dataclass(frozen=True, slots=True)
class AnswerQuestion:
    question_id: str
    answers: tuple[Answer, ...] = ()
    content_json: bytes | None = None


def places(record: SessionRecord) -> list[str]:
    """The directories that a session is found by."""
    found = [record.spec.workspace]
    if record.place is not None and record.place.source:
        found.append(record.place.source)
    return found


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Empty means any. `workspace` is one that they work in, or that theirs was made from."""

    states: frozenset[SessionState] = frozenset()
    phases: frozenset[SessionPhase] = frozenset()
    entry_id: str = ""
    project: str = ""
    workspace: str = ""
    key: str = ""
    name: str = ""
    native_session_id: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    include_closed: bool = True


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """An environment as Environments.List shows it. `sessions` counts open ones."""

    name: str
    available: bool
    detail: str
    capabilities: tuple[str, ...]
    options: dict[str, str]
    sessions: int


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Sessions; `active` are those with an agent at work or ready for it."""

    sessions: int = 0
    active: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """For Daemon.GetInfo and status."""

    agents: int = 0
    sessions_open: int = 0
    sessions: int = 0
    runs_running: int = 0
    runs_queued: int = 0
    approvals_open: int = 0
    questions_open: int = 0


PromptBlocks = list[ContentBlock]
