"""Owns what is asked for: registry entries, sessions, prompts; knows no file format and no wire.

`agents.json` is parsed by `agentctl_registry`, requests by `rpc/convert`; both make these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentctl.core.parts import ContentBlock, Model
from agentctl.core.words import Policy, ToolKind

Sharing = Literal["exclusive", "shared"]
Home = Literal["user", "overlay", "private"]


@dataclass(frozen=True, slots=True)
class AutoApprove:
    """How an agent's own auto-approval is switched on; offered, never taken by default."""

    supported: bool = False
    default: bool = False
    apply_method: str = ""
    cli_flag: str = ""
    label: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class LoginSigns:
    """What shows that a person is logged in: files that exist, variables that are set, and
    (file, field) pairs of settings that choose a way to log in. Credentials are never read."""

    files: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One agent of the registry (design section 10); unknown fields stay in `extra`.

    `cmd`, the flags and `working_dir` are templates, filled at launch. `source` is the layer that
    last touched it: packaged, user or project.
    """

    id: str
    name: str = ""
    display_name: str = ""
    description: str = ""
    enabled: bool = True
    cmd: tuple[str, ...] = ()
    working_dir: str = "{workspace}"
    required_env: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    env_passthrough: tuple[str, ...] = ()
    strip_env: tuple[str, ...] = ()
    protocol: str = "acp"
    protocol_config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    model_flag: str = ""
    workspace_flag: str = ""
    resume_via_acp: bool = True
    resume_flag: str = ""
    can_recover: bool = True
    tools_requiring_permission: tuple[str, ...] = ()
    permission_flag: str = ""
    auto_approve: AutoApprove = AutoApprove()
    default_model: str = ""
    models: tuple[Model, ...] = ()
    capabilities: tuple[str, ...] = ()
    supports_mcp: bool = False
    installation_paths: tuple[str, ...] = ()
    mcp_config_paths: tuple[str, ...] = ()
    memory_mb: int | None = None
    cpu_cores: float | None = None
    timeout_seconds: int | None = None
    enforce_limits: bool = False
    url: str = ""
    auth: Mapping[str, str] = field(default_factory=dict[str, str])
    install: str = ""
    sharing: Sharing = "exclusive"
    trust_workspace: bool = True
    home: Home = "user"
    binary: str = ""
    """The program that discovery looks for when `cmd` starts it through a runner such as npx."""
    login: LoginSigns = LoginSigns()
    source: str = "packaged"
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The merged JSON object, unknown fields and order kept: what Registry.Get shows."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server to hand to the agent: `command` for stdio, else `url` with http or sse."""

    name: str
    transport: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Rule:
    """A standing answer; every field that is set must fit ("" and None = any). Times: Unix ms."""

    rule_id: str
    kind: ToolKind | None = None
    command: str = ""
    path: str = ""
    decision: Policy = Policy.ASK
    path_pattern: str = ""
    command_pattern: str = ""
    entry_id: str = ""
    workspace: str = ""
    expires_at: int | None = None
    created_at: int = 0
    note: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """What Sessions.Create asks for. Paths are absolute. `env` stays in memory only."""

    entry_id: str
    workspace: str
    additional_directories: tuple[str, ...] = ()
    model: str | None = None
    mode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    policy: Policy = Policy.ASK
    mcp_servers: tuple[McpServer, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    trust_workspace: bool | None = None
    environment: str = "local"
    environment_options: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    """Attach to the server that already runs here instead of starting the entry's command."""
    auth: Mapping[str, str] = field(default_factory=dict[str, str])
    """How to log in at `url`; in memory only, like `env`."""
    native_created_at: int | None = None
    """When the conversation to be resumed was made, Unix ms; the daemon tells it, no client."""
    guarded: tuple[ToolKind, ...] = ()
    """Kinds of tools that a rule may refuse or have asked: the agent must ask before each of them,
    whatever its mode or its own settings say. The daemon tells it, no client."""


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command of the agent."""

    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """One prompt: content blocks, or a command, review or compaction."""

    blocks: tuple[ContentBlock, ...] = ()
    command: Command | None = None
    review: bool = False
    compact: bool = False
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    output_schema_json: bytes | None = None
