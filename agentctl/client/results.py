"""Owns what a call gives an app, as frozen data: the end of a run, messages, artifacts, entries.

It refuses to know calls. What was not told is None, as everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, cast

from google.protobuf.message import Message as Wire

from agentctl import v1
from agentctl.client.times import iso
from agentctl.client.views import camel_name
from agentctl.rpc.jsonview import to_dict

Json = dict[str, Any]
RunStatus = Literal["accepted", "completed", "failed", "cancelled", "timed_out"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost (USD) of a run, as far as its agent tells them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message; `content` are its blocks as plain data."""

    message_id: str
    role: str
    text: str
    content: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """What the assistant said: `text` is its last message, `messages` are all of them."""

    text: str | None = None
    messages: tuple[Message, ...] = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run did not complete. `code` is a reason word such as AGENT_EXITED."""

    code: str
    message: str
    recoverable: bool = False
    detail: Any = None

    @property
    def reason(self) -> str:
        return self.code


@dataclass(frozen=True, slots=True)
class ArtifactSummary:
    """Something that a run made. `created_at` and `expires_at` are ISO 8601 in UTC."""

    id: str
    type: str
    created_at: str
    run_id: str | None = None
    session_id: str | None = None
    title: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None
    expires_at: str | None = None
    url: str | None = None
    sha256: str | None = None
    path: str | None = None
    tool_call_id: str | None = None
    redacted: bool = False
    deleted: bool = False
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run stands. `accepted`: it has not ended yet, which is not `timed_out`.

    `started_at` and `ended_at` are Unix ms.
    """

    run_id: str
    status: RunStatus
    session_id: str | None = None
    session_key: str | None = None
    task_id: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    output: Output | None = None
    usage: Usage | None = None
    artifacts: tuple[ArtifactSummary, ...] = ()
    error: RunFailure | None = None

    @property
    def text(self) -> str:
        """The assistant's last words; "" when it said nothing."""
        return (self.output.text if self.output else None) or ""

    def as_app_sdk(self) -> Json:
        """The result with the names of the App SDK; what was not told is left out."""
        return cast(Json, _camel(self))


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as it is at this moment. Times are Unix ms."""

    session_id: str
    entry_id: str
    state: str
    workspace: str
    phase: str | None = None
    agent_id: str | None = None
    key: str | None = None
    name: str | None = None
    project: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    policy: str | None = None
    environment: str | None = None
    branch: str | None = None
    source_workspace: str | None = None
    created_at: int = 0
    updated_at: int = 0
    last_active_at: int | None = None
    closed_at: int | None = None
    progress: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An entry of the registry. `definition` is all of it, as `agents.json` has it."""

    id: str
    display_name: str = ""
    description: str = ""
    enabled: bool = True
    protocol: str = ""
    capabilities: tuple[str, ...] = ()
    default_model: str | None = None
    models: tuple[str, ...] = ()
    definition: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """A place where agents run. `options` is what a session takes for it, with its meaning."""

    id: str
    available: bool
    detail: str | None = None
    capabilities: tuple[str, ...] = ()
    sessions: int | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])


def run_result(answer: v1.WaitRunResponse) -> RunResult:
    """The result of a wait."""
    status = to_dict(answer).get("status", "accepted")
    return _result(to_dict(answer.run), status)


def run_as_it_is(run: v1.Run) -> RunResult:
    """The same of a run that was only looked at."""
    told = to_dict(run)
    state = told.get("state", "")
    ended = state in ("completed", "failed", "cancelled", "timed_out")
    return _result(told, state if ended else "accepted")


def _result(run: Json, status: RunStatus) -> RunResult:
    return RunResult(
        run["run_id"],
        status,
        session_id=run.get("session_id") or None,
        session_key=run.get("session_key"),
        started_at=run.get("started_at"),
        ended_at=run.get("ended_at"),
        output=_output(run.get("output")),
        usage=_usage(run),
        artifacts=tuple(_artifact(each) for each in run.get("artifacts", ())),
        error=_failure(run.get("error")),
    )


def _output(told: Json | None) -> Output | None:
    if told is None:
        return None
    messages = tuple(_message(each) for each in told.get("messages", ()))
    return Output(told.get("text"), messages, bool(told.get("truncated")))


def _usage(run: Json) -> Usage | None:
    told: Json | None = run.get("usage")
    cost = run.get("cost_usd")
    if told is None and cost is None:
        return None
    told = told or {}
    return Usage(told.get("input"), told.get("output"), total_of(told), cost)


def total_of(told: Mapping[str, Any]) -> int | None:
    """The total as the agent gave it, else the sum of what went in and came out."""
    if "total" in told:
        return told["total"]
    both = (told.get("input"), told.get("output"))
    return None if None in both else sum(cast("tuple[int, int]", both))


def _failure(told: Json | None) -> RunFailure | None:
    if told is None:
        return None
    recoverable = bool(told.get("recoverable"))
    return RunFailure(
        told.get("code", ""), told.get("message", ""), recoverable, told.get("detail")
    )


def message(told: v1.Message) -> Message:
    return _message(to_dict(told))


def _message(told: Json) -> Message:
    content: tuple[Json, ...] = tuple(told.get("content", ()))
    text = "".join(block.get("text", "") for block in content)
    return Message(told["message_id"], told.get("role", "assistant"), text, content)


def artifact_summary(told: v1.ArtifactSummary) -> ArtifactSummary:
    return _artifact(to_dict(told))


def _artifact(told: Json) -> ArtifactSummary:
    known = {each.name for each in fields(ArtifactSummary)}
    plain = {name: told[name] for name in known & told.keys()}
    plain["session_id"] = told.get("session_id") or None
    plain["created_at"] = iso(told.get("created_at", 0))
    if "expires_at" in told:
        plain["expires_at"] = iso(told["expires_at"])
    return ArtifactSummary(
        id=told["artifact_id"], type=told.get("kind", ""), size_bytes=told.get("size"), **plain
    )


def session_info(told: v1.Session) -> SessionInfo:
    return _known(SessionInfo, told)


def agent_info(told: v1.Entry) -> AgentInfo:
    plain = to_dict(told)
    return AgentInfo(
        told.entry_id,
        told.display_name,
        told.description,
        told.enabled,
        told.protocol,
        tuple(told.capabilities),
        plain.get("default_model"),
        tuple(each.id for each in told.models),
        plain.get("entry", {}),
    )


def environment_info(told: v1.Environment) -> EnvironmentInfo:
    plain = to_dict(told)
    return EnvironmentInfo(
        told.name,
        told.available,
        plain.get("detail"),
        tuple(told.capabilities),
        plain.get("sessions"),
        plain.get("options", {}),
    )


def _known(kind: Any, told: Wire) -> Any:
    plain = to_dict(told)
    return kind(**{each.name: plain[each.name] for each in fields(kind) if each.name in plain})


def _camel(value: Any) -> Any:
    if is_dataclass(value):
        told = {each.name: getattr(value, each.name) for each in fields(value)}
        return {camel_name(key): _camel(each) for key, each in told.items() if each is not None}
    if isinstance(value, tuple):
        return [_camel(each) for each in cast("tuple[Any, ...]", value)]
    return value
