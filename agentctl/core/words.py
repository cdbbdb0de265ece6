"""Owns the closed vocabularies of the event model; refuses to know who uses them.

Each value is the lower-case word that JSON shows. The protobuf enum constant is the enum's name in
capitals, an underscore and the word in capitals: `ToolStatus.RUNNING` is TOOL_STATUS_RUNNING.
"""

from enum import StrEnum


class EventType(StrEnum):
    """The kind of an event; the order is the protobuf number, from 1."""

    AGENT_STATUS = "agent_status"
    SESSION_STATUS = "session_status"
    SESSION_OPTIONS = "session_options"
    RUN_STATUS = "run_status"
    MESSAGE_CHUNK = "message_chunk"
    MESSAGE = "message"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    TOOL_UPDATE = "tool_update"
    FILE_CHANGE = "file_change"
    PLAN = "plan"
    TASK = "task"
    PERMISSION_REQUEST = "permission_request"
    PERMISSION_RESOLVED = "permission_resolved"
    QUESTION_REQUEST = "question_request"
    QUESTION_RESOLVED = "question_resolved"
    CONTEXT_WINDOW = "context_window"
    ARTIFACT = "artifact"
    GIT = "git"
    RATE_LIMIT = "rate_limit"
    ERROR = "error"
    LOG = "log"
    COMPLETE = "complete"


class AgentState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    EXITED = "exited"
    LOST = "lost"


class SessionState(StrEnum):
    """Where a session is (Sessions.Get); `SessionChange` is what just happened to it."""

    STARTING = "starting"
    ACTIVE = "active"
    IDLE = "idle"
    AWAITING = "awaiting"
    ASLEEP = "asleep"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    CLOSED = "closed"


class SessionChange(StrEnum):
    STARTING = "starting"
    CREATED = "created"
    RESUMED = "resumed"
    FORKED = "forked"
    UPDATED = "updated"
    COMPACTED = "compacted"
    INTERRUPTED = "interrupted"
    ASLEEP = "asleep"
    FAILED = "failed"
    CLOSED = "closed"


class SessionPhase(StrEnum):
    """Where a session is, in four words."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


class RunState(StrEnum):
    """Where a run is (Runs.Get)."""

    CREATED = "created"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class RunChange(StrEnum):
    CREATED = "created"
    QUEUED = "queued"
    STARTED = "started"


class Outcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class Origin(StrEnum):
    CLIENT = "client"
    AGENT = "agent"


class Role(StrEnum):
    ASSISTANT = "assistant"
    USER = "user"
    SYSTEM = "system"


class ToolKind(StrEnum):
    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SUBAGENT = "subagent"
    TODO = "todo"
    MCP = "mcp"
    OTHER = "other"


class ToolStatus(StrEnum):
    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_TOOL = frozenset({ToolStatus.COMPLETED, ToolStatus.FAILED, ToolStatus.CANCELLED})


class ChangeKind(StrEnum):
    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"
    RENAME = "rename"


class ContentType(StrEnum):
    TEXT = "text"
    IMAGE = "image"
    AUDIO = "audio"
    FILE = "file"
    RESOURCE = "resource"
    RESOURCE_LINK = "resource_link"
    DIFF = "diff"
    TERMINAL = "terminal"


class PlanStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Priority(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class TaskKind(StrEnum):
    SUBAGENT = "subagent"
    SHELL = "shell"
    MONITOR = "monitor"


class TaskStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PermissionKind(StrEnum):
    TOOL = "tool"
    PLAN = "plan"
    MODE = "mode"
    MCP = "mcp"
    ENVIRONMENT = "environment"
    OTHER = "other"


class OptionKind(StrEnum):
    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"
    OTHER = "other"
    """A kind that this version does not know; it is never picked by a policy."""


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Decision(StrEnum):
    APPROVED = "approved"
    DENIED = "denied"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class DecidedBy(StrEnum):
    CLIENT = "client"
    POLICY = "policy"
    RULE = "rule"
    AGENT = "agent"
    ELSEWHERE = "elsewhere"


class QuestionOutcome(StrEnum):
    ANSWERED = "answered"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class ArtifactKind(StrEnum):
    FILE = "file"
    PATCH = "patch"
    DIFF = "diff"
    LOG = "log"
    MEDIA = "media"
    SCREENSHOT = "screenshot"
    TRAJECTORY = "trajectory"
    PULL_REQUEST = "pull_request"
    WORKSPACE = "workspace"


class ArtifactAction(StrEnum):
    CREATED = "created"
    UPDATED = "updated"


class LogStream(StrEnum):
    STDERR = "stderr"
    STDOUT = "stdout"
    NOTE = "note"


class McpState(StrEnum):
    UNKNOWN = "unknown"
    CONNECTED = "connected"
    CONNECTING = "connecting"
    DISABLED = "disabled"
    NEEDS_AUTH = "needs_auth"
    FAILED = "failed"


class Policy(StrEnum):
    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


class ToolSource(StrEnum):
    """Where a tool comes from."""

    AGENTCTL = "agentctl"
    MCP = "mcp"
    PLUGIN = "plugin"
    CHANNEL = "channel"
    RUNTIME = "runtime"
    APP = "app"


class ToolAccess(StrEnum):
    """The most that a tool can do."""

    READ_ONLY = "read_only"
    WRITE = "write"
    HOST = "host"
