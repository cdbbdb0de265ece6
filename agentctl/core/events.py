"""Owns the AgentEvent: its envelope and its typed payloads (design section 4); knows no wire format.

Field names equal the protobuf's. `None` means "not told" and never 0 or "". A list that may be cleared
is None when not told and [] when cleared. Not frozen: one owner after the other fills an event in
(turns, session, journal); nobody writes to one after the journal took it.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from agentctl.core.parts import (
    Answer,
    Choice,
    ConfigOption,
    ContentBlock,
    Location,
    McpServerState,
    Model,
    PermissionDetails,
    PermissionOption,
    PlanEntry,
    PromptCapabilities,
    Question,
    RunError,
    Setting,
    SlashCommand,
    Usage,
)
from agentctl.core.whole import Whole
from agentctl.core.words import (
    AgentState,
    ArtifactAction,
    ArtifactKind,
    ChangeKind,
    DecidedBy,
    Decision,
    EventType,
    LogStream,
    Origin,
    Outcome,
    PermissionKind,
    QuestionOutcome,
    Risk,
    Role,
    RunChange,
    SessionChange,
    TaskKind,
    TaskStatus,
    ToolKind,
    ToolStatus,
)


@dataclass(slots=True)
class AgentStatus:
    TYPE: ClassVar = EventType.AGENT_STATUS
    state: AgentState
    entry_id: str | None = None
    detail: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: list[str] | None = None
    version: str | None = None
    pid: int | None = None


@dataclass(slots=True)
class SessionStatus:
    TYPE: ClassVar = EventType.SESSION_STATUS
    status: SessionChange
    reason: str | None = None
    title: str | None = None
    native_session_id: str | None = None
    model: str | None = None
    mode: str | None = None
    queue_held: bool | None = None


@dataclass(slots=True)
class SessionOptions:
    """What may be chosen in a session and what is in force; each list replaces its last one."""

    TYPE: ClassVar = EventType.SESSION_OPTIONS
    models: list[Model] | None = None
    model: str | None = None
    modes: list[Choice] | None = None
    mode: str | None = None
    config_options: list[ConfigOption] | None = None
    commands: list[SlashCommand] | None = None
    prompt_capabilities: PromptCapabilities | None = None
    mcp_servers: list[McpServerState] | None = None
    settings: list[Setting] | None = None


@dataclass(slots=True)
class RunStatus:
    """`prompt` stands in `created` only; `position` counts from 1 within the queue."""

    TYPE: ClassVar = EventType.RUN_STATUS
    status: RunChange
    position: int | None = None
    origin: Origin | None = None
    prompt: list[ContentBlock] | None = None


@dataclass(slots=True)
class MessageChunk:
    """Appends `text`, or one `content` block, to the message."""

    TYPE: ClassVar = EventType.MESSAGE_CHUNK
    message_id: str
    role: Role = Role.ASSISTANT
    text: str | None = None
    content: ContentBlock | None = None


@dataclass(slots=True)
class Message:
    """The whole message; replaces its chunks. `retracted`: it never was."""

    TYPE: ClassVar = EventType.MESSAGE
    message_id: str
    role: Role = Role.ASSISTANT
    content: list[ContentBlock] = field(default_factory=list[ContentBlock])
    retracted: bool | None = None


@dataclass(slots=True)
class Reasoning:
    """Appends `text`; with `whole` it replaces what came before; `retracted`: it never was."""

    TYPE: ClassVar = EventType.REASONING
    message_id: str
    text: str | None = None
    whole: bool | None = None
    retracted: bool | None = None


@dataclass(slots=True)
class ToolCall:
    TYPE: ClassVar = EventType.TOOL_CALL
    tool_call_id: str
    name: str | None = None
    title: str | None = None
    kind: ToolKind = ToolKind.OTHER
    status: ToolStatus = ToolStatus.PENDING
    input_json: bytes | None = None
    locations: list[Location] = field(default_factory=list[Location])
    command: str | None = None
    paths: list[str] = field(default_factory=list[str])
    truncated: bool | None = None


@dataclass(slots=True)
class ToolUpdate:
    """What came later of a tool: only the fields that are told change anything.

    `content` replaces; `output_delta` appends to the output, `output_replace` replaces it.
    """

    TYPE: ClassVar = EventType.TOOL_UPDATE
    tool_call_id: str
    status: ToolStatus | None = None
    name: str | None = None
    title: str | None = None
    kind: ToolKind | None = None
    input_json: bytes | None = None
    locations: list[Location] | None = None
    command: str | None = None
    paths: list[str] | None = None
    content: list[ContentBlock] | None = None
    output_delta: str | None = None
    output_replace: str | None = None
    output_size: int | None = None
    exit_code: int | None = None
    error: str | None = None
    truncated: bool | None = None
    background: bool | None = None


@dataclass(slots=True)
class FileChange:
    TYPE: ClassVar = EventType.FILE_CHANGE
    path: str
    change: ChangeKind = ChangeKind.MODIFY
    old_path: str | None = None
    additions: int | None = None
    deletions: int | None = None
    diff: str | None = None
    tool_call_id: str | None = None
    truncated: bool | None = None


@dataclass(slots=True)
class Plan:
    TYPE: ClassVar = EventType.PLAN
    entries: list[PlanEntry] = field(default_factory=list[PlanEntry])
    document: str | None = None


@dataclass(slots=True)
class Task:
    TYPE: ClassVar = EventType.TASK
    task_id: str
    tool_call_id: str | None = None
    kind: TaskKind | None = None
    title: str | None = None
    status: TaskStatus | None = None


@dataclass(slots=True)
class PermissionRequest:
    """The agent asks for leave. `approval_id` is ours; translators leave it empty.
    `expires_at` is Unix ms, absent when it waits without limit. `reusable`: an own rule can be made.
    """

    TYPE: ClassVar = EventType.PERMISSION_REQUEST
    approval_id: str
    kind: PermissionKind = PermissionKind.TOOL
    tool_call_id: str | None = None
    title: str | None = None
    tool_name: str | None = None
    tool_kind: ToolKind | None = None
    action: str | None = None
    input_json: bytes | None = None
    patterns: list[str] = field(default_factory=list[str])
    details: PermissionDetails | None = None
    risk: Risk | None = None
    options: list[PermissionOption] = field(default_factory=list[PermissionOption])
    expires_at: int | None = None
    reusable: bool | None = None
    native_request_id: str | None = None
    document: str | None = None
    truncated: bool | None = None


@dataclass(slots=True)
class PermissionResolved:
    TYPE: ClassVar = EventType.PERMISSION_RESOLVED
    approval_id: str
    decision: Decision
    option_id: str | None = None
    by: DecidedBy | None = None
    reason: str | None = None
    rule_id: str | None = None


@dataclass(slots=True)
class QuestionRequest:
    """The agent asks for information: questions, or a JSON schema to fill, or a page to open."""

    TYPE: ClassVar = EventType.QUESTION_REQUEST
    question_id: str
    message: str | None = None
    questions: list[Question] = field(default_factory=list[Question])
    schema_json: bytes | None = None
    url: str | None = None
    tool_call_id: str | None = None
    expires_at: int | None = None
    native_request_id: str | None = None


@dataclass(slots=True)
class QuestionResolved:
    TYPE: ClassVar = EventType.QUESTION_RESOLVED
    question_id: str
    outcome: QuestionOutcome
    answers: list[Answer] | None = None
    content_json: bytes | None = None
    by: DecidedBy | None = None
    reason: str | None = None


@dataclass(slots=True)
class ContextWindow:
    TYPE: ClassVar = EventType.CONTEXT_WINDOW
    used: int | None = None
    size: int | None = None
    remaining: int | None = None
    usage: Usage | None = None
    cost_usd: float | None = None


@dataclass(slots=True)
class Artifact:
    TYPE: ClassVar = EventType.ARTIFACT
    artifact_id: str
    action: ArtifactAction
    kind: ArtifactKind
    title: str | None = None
    mime_type: str | None = None
    size: int | None = None
    created_at: int | None = None
    expires_at: int | None = None
    url: str | None = None
    path: str | None = None


@dataclass(slots=True)
class Git:
    TYPE: ClassVar = EventType.GIT
    branch: str | None = None
    head: str | None = None
    dirty: bool | None = None
    pull_request_url: str | None = None
    files: int | None = None
    additions: int | None = None
    deletions: int | None = None


@dataclass(slots=True)
class RateLimit:
    TYPE: ClassVar = EventType.RATE_LIMIT
    message: str | None = None
    resets_at: int | None = None
    attempt: int | None = None
    next_try_at: int | None = None


@dataclass(slots=True)
class Error:
    """Something went wrong; never ends a run by itself."""

    TYPE: ClassVar = EventType.ERROR
    code: str
    message: str
    recoverable: bool = True
    detail_json: bytes | None = None


@dataclass(slots=True)
class Log:
    TYPE: ClassVar = EventType.LOG
    stream: LogStream
    text: str
    dropped: int | None = None


@dataclass(slots=True)
class Complete:
    """The end of a run. Times are Unix ms."""

    TYPE: ClassVar = EventType.COMPLETE
    outcome: Outcome
    stop_reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    error: RunError | None = None
    started_at: int | None = None
    ended_at: int | None = None
    folded_into: str | None = None


Payload = (
    AgentStatus
    | SessionStatus
    | SessionOptions
    | RunStatus
    | MessageChunk
    | Message
    | Reasoning
    | ToolCall
    | ToolUpdate
    | FileChange
    | Plan
    | Task
    | PermissionRequest
    | PermissionResolved
    | QuestionRequest
    | QuestionResolved
    | ContextWindow
    | Artifact
    | Git
    | RateLimit
    | Error
    | Log
    | Complete
)


@dataclass(slots=True)
class Event:
    """One AgentEvent. Turns set run ids, the session stamps its ids and `ts`, the journal `seq`."""

    payload: Payload
    run_id: str | None = None
    after_run_id: str | None = None
    parent_tool_call_id: str | None = None
    task_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    ts: int = 0
    seq: int = 0
    raw: bytes | None = None
    whole: list[Whole] | None = field(default=None, compare=False, repr=False)

    @property
    def type(self) -> EventType:
        return self.payload.TYPE
