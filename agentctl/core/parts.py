"""Owns the parts that event payloads are made of; knows no event and no wire format.

`None` means "not told" and never 0 or "". A list that may be cleared is None when not told and []
when cleared.
"""

from dataclasses import dataclass, field

from agentctl.core.words import (
    ContentType,
    McpState,
    OptionKind,
    PlanStatus,
    Priority,
)


@dataclass(slots=True)
class ContentBlock:
    """One piece of content: of a prompt, a message or a tool's output.

    `data` is the decoded bytes of an image, audio or binary resource. `diff` is a unified diff and
    `path` its file. `size` is the full size in bytes where the content itself was cut or left out.
    """

    type: ContentType
    text: str | None = None
    data: bytes | None = None
    mime_type: str | None = None
    uri: str | None = None
    name: str | None = None
    path: str | None = None
    diff: str | None = None
    terminal_id: str | None = None
    size: int | None = None
    truncated: bool | None = None


@dataclass(slots=True)
class Location:
    path: str
    line: int | None = None


@dataclass(slots=True)
class Usage:
    """Tokens. `total` as the agent gave it, else absent."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    total: int | None = None


@dataclass(slots=True)
class RunError:
    """Why a run did not complete. `code` is a reason of design section 8; `message` says what to do."""

    code: str
    message: str
    recoverable: bool = False
    detail_json: bytes | None = None
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: list[str] | None = None


@dataclass(slots=True)
class Choice:
    """A model, a mode or one value of a config option."""

    id: str
    name: str | None = None
    description: str | None = None
    group: str | None = None


@dataclass(slots=True)
class Model:
    id: str
    name: str | None = None
    description: str | None = None
    provider: str | None = None
    context_window: int | None = None


@dataclass(slots=True)
class ConfigOption:
    """A setting that the agent offers. `value` holds "true" / "false" when `boolean`."""

    id: str
    name: str | None = None
    description: str | None = None
    category: str | None = None
    boolean: bool | None = None
    value: str | None = None
    choices: list[Choice] | None = None


@dataclass(slots=True)
class SlashCommand:
    name: str
    description: str | None = None
    hint: str | None = None


@dataclass(slots=True)
class PromptCapabilities:
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


@dataclass(slots=True)
class McpServerState:
    name: str
    state: McpState = McpState.UNKNOWN
    detail: str | None = None


@dataclass(slots=True)
class Setting:
    """One setting in force, as the agent told it; `asked` where that differs from what was asked."""

    name: str
    value: str
    asked: str | None = None


@dataclass(slots=True)
class PlanEntry:
    content: str
    status: PlanStatus = PlanStatus.PENDING
    priority: Priority | None = None


@dataclass(slots=True)
class PermissionOption:
    option_id: str
    name: str
    kind: OptionKind


@dataclass(slots=True)
class PermissionDetails:
    command: str | None = None
    file: str | None = None
    reason: str | None = None
    diff: str | None = None


@dataclass(slots=True)
class Question:
    question: str
    header: str | None = None
    options: list[Choice] = field(default_factory=list[Choice])
    multiple: bool | None = None
    custom: bool | None = None


@dataclass(slots=True)
class Answer:
    """The values given to one question, in its order."""

    values: list[str] = field(default_factory=list[str])
