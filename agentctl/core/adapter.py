"""Owns the seam between the daemon and a protocol: frames in, drafts out, and the live connection.

A protocol is a package with an entry point in the group `agentctl.adapters`. It has two halves:
`Translator`, pure (no clock, no ids, no I/O), and `Connection`, the I/O. The live connection and
`agentctl replay` feed the same translator. It refuses to know what becomes of a draft: `core/turns`
makes events and runs of them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, Protocol, runtime_checkable

from agentctl.core.events import Payload
from agentctl.core.ids import NativeRequestId, NativeSessionId, NativeTurnId
from agentctl.core.parts import (
    Answer,
    Choice,
    ContentBlock,
    McpServerState,
    RunError,
    Usage,
)
from agentctl.core.spec import Entry, PromptSpec, SessionSpec
from agentctl.core.words import DecidedBy, Decision, Origin, Outcome, QuestionOutcome

Direction = Literal[
    "to_agent",
    "from_agent",
    "stderr",
    "http_request",
    "http_response",
    "sse",
    "spawn",
    "stdout_end",
    "exit",
    "timer",
]
TimerKey = NewType("TimerKey", str)


@dataclass(slots=True)
class Frame:
    """One thing that passed between us and the agent, in order.

    `msg` is the parsed JSON object. `raw` stands instead for a line that was none. A stderr frame
    has its text in `raw`; an exit frame has msg {"code": int|None, "signal": int|None}; a timer
    frame has its key in `raw`; spawn and stdout_end have neither.
    """

    dir: Direction
    msg: Any = None
    raw: str | None = None


@dataclass(slots=True)
class Draft:
    """A payload with the agent's own ids. Without `session` it concerns the whole process.

    `turn` is the turn that caused it, where the protocol tells. `late` marks what belongs to a turn
    that has ended. Empty message, approval and question ids are filled in by turns.
    """

    payload: Payload
    session: NativeSessionId | None = None
    turn: NativeTurnId | None = None
    request: NativeRequestId | None = None
    parent_tool_call_id: str | None = None
    raw: Any = None


@dataclass(slots=True)
class TurnStarted:
    """A prompt went out (origin client) or the agent began a turn of its own."""

    session: NativeSessionId
    turn: NativeTurnId
    origin: Origin = Origin.CLIENT
    prompt: list[ContentBlock] | None = None


@dataclass(slots=True)
class TurnEnded:
    """The agent's word that a turn is over. After a cancel any outcome counts as cancelled.

    `soft_error`: the agent called it a good end but said an error in its text. `folded_into`: the turn
    into which the agent took this prompt; text and tools are that one's.
    """

    session: NativeSessionId
    turn: NativeTurnId
    outcome: Outcome
    stop_reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    error: RunError | None = None
    folded_into: NativeTurnId | None = None


@dataclass(slots=True)
class CancelSent:
    """We told the agent to cancel what runs in the session."""

    session: NativeSessionId


@dataclass(slots=True)
class PermissionAnswered:
    """An answer to a permission request went to the agent, or the agent took it back."""

    request: NativeRequestId
    decision: Decision
    session: NativeSessionId | None = None
    option_id: str | None = None
    by: DecidedBy = DecidedBy.CLIENT
    reason: str | None = None


@dataclass(slots=True)
class QuestionAnswered:
    """An answer to a question went to the agent, or the agent took it back."""

    request: NativeRequestId
    outcome: QuestionOutcome
    session: NativeSessionId | None = None
    answers: list[Answer] | None = None
    content_json: bytes | None = None
    by: DecidedBy = DecidedBy.CLIENT


@dataclass(slots=True)
class ProcessStarted:
    """A (new) process speaks from here on: nothing of an earlier one is open any more."""


@dataclass(slots=True)
class ProcessGone:
    """The agent's stdout ended or it exited: everything open ends. May come twice."""

    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: list[str] | None = None


@dataclass(slots=True)
class StartTimer:
    """The translator wants a `timer(key)` frame after `ms`; replay never fires one."""

    key: TimerKey
    ms: int


AnyDraft = (
    Draft
    | TurnStarted
    | TurnEnded
    | CancelSent
    | PermissionAnswered
    | QuestionAnswered
    | ProcessStarted
    | ProcessGone
    | StartTimer
)


class Translator(Protocol):
    """Frames of one process (or of one recording with several) to drafts. Pure."""

    def feed(self, frame: Frame) -> Sequence[AnyDraft]:
        """Takes one frame in order. Never raises, whatever the agent said."""
        ...

    def flush(self) -> Sequence[AnyDraft]:
        """The end of the recording or process: what was held back comes out."""
        ...


@dataclass(frozen=True, slots=True)
class Launch:
    """How to bring up one process (or reach one server) of an entry.

    `argv` and `env` are complete; `cookie` marks the process tree for the sweep. `redact` cleans
    text before it leaves the adapter. `tap` sees every frame (recordings).
    """

    entry: Entry
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    cookie: str
    client_version: str = ""
    trust_workspace: bool = True
    redact: Callable[[str], str] = str
    tap: Callable[[Frame], None] | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What the handshake told. `features` are words of `Feature` that this agent can."""

    name: str = ""
    version: str = ""
    features: frozenset[str] = frozenset()
    auth_methods: tuple[Choice, ...] = ()
    pid: int | None = None


class Feature:
    """Words for `AgentInfo.features`; what is not listed is answered UNSUPPORTED."""

    RESUME = "resume"
    FORK = "fork"
    LIST = "list"
    CLOSE = "close"
    DELETE = "delete"
    STEER = "steer"
    IMAGE = "image"
    AUDIO = "audio"
    EMBEDDED_CONTEXT = "embedded_context"
    MCP_HTTP = "mcp_http"
    MCP_SSE = "mcp_sse"
    ADDITIONAL_DIRECTORIES = "additional_directories"
    MANY_SESSIONS = "many_sessions"
    """One process may hold several sessions at once."""
    LIVE_RESUME = "live_resume"
    """A session may be resumed in a process that already serves others."""
    GUARDED = "guarded"
    """What it asks for is settled when a conversation is opened: it heeds SessionSpec.guarded."""


@dataclass(frozen=True, slots=True)
class NativeSession:
    """One row of the agent's own list of conversations. `updated_at` is Unix ms."""

    native_session_id: NativeSessionId
    cwd: str = ""
    title: str = ""
    updated_at: int | None = None


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """`option_id` None means the outcome "cancelled". `reason` reaches the agent where it can."""

    decision: Decision
    option_id: str | None = None
    reason: str | None = None
    updated_input_json: bytes | None = None


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    outcome: QuestionOutcome
    answers: tuple[Answer, ...] = ()
    content_json: bytes | None = None


@dataclass(frozen=True, slots=True)
class ForeignRpcError:
    """Kept for adapters that attach an agent's own error to an AgentctlError's metadata."""

    code: int
    message: str


Sink = Callable[[Sequence[AnyDraft]], Awaitable[None]]
"""Takes drafts in receive order; returning slowly is the back-pressure on the agent's pipe."""

Progress = Callable[[str], None]
"""Told what a long start is doing, in words for a person."""


@runtime_checkable
class Connection(Protocol):
    """A live agent. Every method may raise AgentFailed (it died), TimedOut, AuthRequired as
    Refused("AUTH_REQUIRED") or Unsupported. What the agent says comes through the sink only."""

    @property
    def info(self) -> AgentInfo: ...

    async def new_session(self, spec: SessionSpec) -> NativeSessionId: ...

    async def resume_session(
        self, native: NativeSessionId, spec: SessionSpec
    ) -> NativeSessionId: ...

    async def fork_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId: ...

    async def list_sessions(self, cwd: str | None) -> Sequence[NativeSession]: ...

    async def close_session(self, native: NativeSessionId) -> None: ...

    async def delete_session(self, native: NativeSessionId) -> None: ...

    async def prompt(self, native: NativeSessionId, prompt: PromptSpec) -> None:
        """Returns once it is written; TurnStarted and TurnEnded come through the sink."""
        ...

    async def steer(self, native: NativeSessionId, prompt: PromptSpec) -> bool:
        """Adds to the running turn; False when the turn had ended meanwhile."""
        ...

    async def cancel(self, native: NativeSessionId) -> None: ...

    async def answer_permission(
        self, request: NativeRequestId, answer: PermissionAnswer
    ) -> None: ...

    async def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None: ...

    async def set_model(self, native: NativeSessionId, model: str) -> None: ...

    async def set_mode(self, native: NativeSessionId, mode: str) -> None: ...

    async def set_option(self, native: NativeSessionId, option: str, value: str) -> None: ...

    async def authenticate(self, method: str) -> None: ...

    async def goodbye(self) -> None:
        """The protocol's own way to say that we stop; bounded, never raises."""
        ...


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of what the agent remembers of a conversation, in the order it was said.

    `payloads`: Message, Reasoning, ToolCall and ToolUpdate only. `before` asks for the page before
    this one; "" when there is none.
    """

    payloads: tuple[Payload, ...] = ()
    before: str = ""


@runtime_checkable
class HistoryConnection(Protocol):
    """What some connections can besides: whoever wants it asks isinstance(), else UNSUPPORTED.

    Each method may still raise Unsupported: a server of another make lacks the route.
    """

    async def messages(
        self, native: NativeSessionId, *, limit: int = 100, before: str = ""
    ) -> HistoryPage:
        """The newest `limit` messages, or those before a page that was seen."""
        ...

    async def revert(self, native: NativeSessionId, message_id: str) -> None:
        """Takes back this message (an id of our events) and all after it, files included."""
        ...

    async def unrevert(self, native: NativeSessionId) -> None: ...

    async def mcp_status(self, native: NativeSessionId) -> Sequence[McpServerState]: ...


class ProtocolAdapter(Protocol):
    """What an entry point of the group `agentctl.adapters` is."""

    name: str

    def translator(self, *, live: bool = False) -> Translator: ...

    def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AbstractAsyncContextManager[Connection]:
        """Starts the agent and shakes hands. Leaving the context means that nothing is left of it.

        A process that dies later is told by a ProcessGone draft. Entering raises AgentFailed with
        argv, version, exit code and stderr tail when the start failed or the deadline passed.
        """
        ...
