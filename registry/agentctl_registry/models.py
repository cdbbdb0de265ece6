"""The shape of agents.json: what each field is, and how it becomes a `core.spec.Entry`.

Owns types, defaults and the words of their mistakes. It knows no file, no layers and no process.
Unknown fields are allowed everywhere and kept by whoever holds the raw object.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import WithJsonSchema

from agentctl.core.parts import Model
from agentctl.core.spec import AutoApprove, Entry, Home, LoginSigns, Sharing

PROTOCOLS = ("acp", "opencode", "claude-code", "codex")
SHARED_BY_DEFAULT = frozenset({"opencode", "codex"})
OS_NAME = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")

Texts = list[str]
Count = Annotated[int, Field(ge=0)]
ProtocolWord = Annotated[
    str, WithJsonSchema({"anyOf": [{"enum": list(PROTOCOLS)}, {"type": "string"}]})
]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=())


class Mount(_Part):
    source: str = ""
    target: str = ""
    read_only: bool = False


class ResourceLimits(_Part):
    """Shown; enforced only with enforce_limits. 0 means no limit."""

    memory_mb: Count = 0
    cpu_cores: Annotated[float, Field(ge=0)] = 0
    timeout_seconds: Count = 0
    enforce_limits: bool = False


class SessionConfig(_Part):
    resume_via_acp: bool = Field(
        default=True, description="Resume by session/load or session/resume."
    )
    resume_flag: str = Field(
        default="", description="Flag that resumes; {session} is the native id."
    )
    can_recover: bool = Field(default=True, description="False: resume is refused as unsupported.")
    session_dir_template: str = Field(default="", description="Where the agent keeps its sessions.")
    session_dir_target: str = Field(default="", description="Where that directory is mounted.")
    reports_status_via_stream: bool = False


class PermissionConfig(_Part):
    permission_flag: str = Field(
        default="", description="Added under ask and deny; with {tool}, once a tool that must ask."
    )
    tools_requiring_permission: Texts = Field(
        default_factory=list[str], description="Tools that must ask under ask and deny."
    )


class AutoApproveSetting(_Part):
    supported: bool = False
    default: bool = Field(
        default=False, description="Offered, never taken: the request's policy decides."
    )
    label: str = ""
    description: str = ""
    apply_method: Literal["", "cli_flag", "env", "acp"] = ""
    cli_flag: str = Field(
        default="", description="Added under allow when apply_method is cli_flag."
    )


class PermissionSettings(_Part):
    auto_approve: AutoApproveSetting = AutoApproveSetting()


class PathsByOs(_Part):
    linux: Texts = Field(default_factory=list[str])
    windows: Texts = Field(default_factory=list[str])
    macos: Texts = Field(default_factory=list[str])


class LoginSetting(_Part):
    file: str
    field: str


class LoginRules(_Part):
    """Signs of a login. Files are looked for, never read; `settings` are not credentials."""

    files: Texts = Field(default_factory=list[str])
    env: Texts = Field(default_factory=list[str])
    settings: list[LoginSetting] = Field(default_factory=list[LoginSetting])
    hint: str = Field(default="", description="What a person does to log in.")


class DiscoveryCapabilities(_Part):
    supports_session_resume: bool = False
    supports_shell: bool = False
    supports_workspace_only: bool = False


class DiscoveryConfig(_Part):
    supports_mcp: bool = False
    mcp_config_path: PathsByOs = PathsByOs()
    installation_path: PathsByOs = Field(
        default=PathsByOs(),
        description="Any that exists, or the binary on PATH, shows it as installed.",
    )
    discovery_capabilities: DiscoveryCapabilities = DiscoveryCapabilities()
    binary: str = Field(
        default="", description="The program to look for when cmd starts it through npx."
    )
    login: LoginRules = LoginRules()


class ModelChoice(_Part):
    id: str
    name: str = ""
    description: str = ""
    provider: str = ""
    context_window: Count = 0
    is_default: bool = False


class ModelSettings(_Part):
    default_model: str = Field(default="", description="Sent when none is asked for.")
    available_models: list[ModelChoice] = Field(
        default_factory=list[ModelChoice], description="Until the agent names its own."
    )


class OverlaySpec(_Part):
    """How a private or overlaid settings directory is made and told to the agent."""

    env: str
    dir: str
    settings_file: str = "settings.json"
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    link: Texts = Field(default_factory=list[str])


class ProtocolConfig(_Part):
    home: Home | None = None
    overlay: OverlaySpec | None = None


class EntryModel(_Part):
    """One agent. In a user or project file only the fields that differ need to stand."""

    id: str = Field(
        description="The name used to start it.", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
    )
    name: str = ""
    display_name: str = ""
    description: str = ""
    enabled: bool = True
    image: str = ""
    tag: str = ""
    cmd: Texts = Field(
        default_factory=list[str],
        description="Program (a bare name or an absolute path) and arguments; never a shell. "
        "{workspace}, {home}, {model} and {python} are filled in.",
    )
    working_dir: str = "{workspace}"
    required_env: Texts = Field(default_factory=list[str])
    env: dict[str, str] = Field(
        default_factory=dict[str, str], description="Values, or references env:NAME, file:PATH."
    )
    mounts: list[Mount] = Field(default_factory=list[Mount])
    resource_limits: ResourceLimits = ResourceLimits()
    capabilities: Texts = Field(default_factory=list[str])
    protocol: ProtocolWord = "acp"
    protocol_config: ProtocolConfig = ProtocolConfig()
    model_flag: str = Field(default="", description="For example --model {model}.")
    workspace_flag: str = Field(default="", description="For example --cwd {workspace}.")
    session_config: SessionConfig = SessionConfig()
    permission_config: PermissionConfig = PermissionConfig()
    permission_settings: PermissionSettings = PermissionSettings()
    discovery: DiscoveryConfig = DiscoveryConfig()
    models: ModelSettings = Field(default=ModelSettings(), alias="model_config")
    url: str = Field(
        default="", description="Use the server that runs here instead of starting one."
    )
    auth: dict[str, str] = Field(
        default_factory=dict[str, str], description="For url: values, or env:NAME, file:PATH."
    )
    strip_env: Texts = Field(
        default_factory=list[str], description="Variables that never pass; NAME* for any ending."
    )
    env_passthrough: Texts = Field(
        default_factory=list[str], description="Further variables that pass; NAME* for any ending."
    )
    install: str = Field(default="", description="The command that installs it, for people.")
    sharing: Sharing | None = Field(default=None, description="May sessions share one process?")
    trust_workspace: bool = True
    home: Home | None = Field(default=None, description="Whose settings the agent sees.")


class RegistryModel(_Part):
    """agents.json"""

    version: Literal[1] = 1
    agents: list[EntryModel]


@cache
def known_protocols() -> frozenset[str]:
    """The four of this product and those that installed adapters add."""
    return frozenset(PROTOCOLS) | {each.name for each in entry_points(group="agentctl.adapters")}


def json_schema() -> dict[str, Any]:
    """The JSON Schema that editors check agents.json with."""
    schema = RegistryModel.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agents.json",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def to_entry(raw: Mapping[str, Any], source: str) -> Entry:
    """Make the entry of a merged, valid object; `source` is the layer that last touched it.

    Raises:
        pydantic.ValidationError: raw was not checked before.
    """
    item = EntryModel.model_validate(raw)
    limits, session, found = item.resource_limits, item.session_config, item.discovery
    auto = item.permission_settings.auto_approve
    protocol = item.protocol or "acp"
    return Entry(
        id=item.id,
        name=item.name,
        display_name=item.display_name,
        description=item.description,
        enabled=item.enabled,
        cmd=tuple(item.cmd),
        working_dir=item.working_dir or "{workspace}",
        required_env=tuple(item.required_env),
        env=dict(item.env),
        env_passthrough=tuple(item.env_passthrough),
        strip_env=tuple(item.strip_env),
        protocol=protocol,
        protocol_config=dict(raw.get("protocol_config", {})),
        model_flag=item.model_flag,
        workspace_flag=item.workspace_flag,
        resume_via_acp=session.resume_via_acp,
        resume_flag=session.resume_flag,
        can_recover=session.can_recover,
        tools_requiring_permission=tuple(item.permission_config.tools_requiring_permission),
        permission_flag=item.permission_config.permission_flag,
        auto_approve=AutoApprove(
            supported=auto.supported,
            default=auto.default,
            apply_method=auto.apply_method,
            cli_flag=auto.cli_flag,
            label=auto.label,
            description=auto.description,
        ),
        default_model=item.models.default_model,
        models=tuple(_model(each) for each in item.models.available_models),
        capabilities=tuple(item.capabilities),
        supports_mcp=found.supports_mcp,
        installation_paths=tuple(getattr(found.installation_path, OS_NAME)),
        mcp_config_paths=tuple(getattr(found.mcp_config_path, OS_NAME)),
        memory_mb=limits.memory_mb or None,
        cpu_cores=limits.cpu_cores or None,
        timeout_seconds=limits.timeout_seconds or None,
        enforce_limits=limits.enforce_limits,
        url=item.url,
        auth=dict(item.auth),
        install=item.install,
        sharing=item.sharing or ("shared" if protocol in SHARED_BY_DEFAULT else "exclusive"),
        trust_workspace=item.trust_workspace,
        home=item.home or item.protocol_config.home or "user",
        binary=found.binary,
        login=LoginSigns(
            files=tuple(found.login.files),
            env=tuple(found.login.env),
            settings=tuple((each.file, each.field) for each in found.login.settings),
            hint=found.login.hint,
        ),
        source=source,
        raw=raw,
    )


def _model(item: ModelChoice) -> Model:
    return Model(
        id=item.id,
        name=item.name or None,
        description=item.description or None,
        provider=item.provider or None,
        context_window=item.context_window or None,
    )
