"""Owns the settings: where things lie and every number that a person may change; knows no room.

A TOML file (`agentctl.toml` in the user's configuration directory, or AGENTCTL_CONFIG), then the
environment, then the command line; the later wins.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentctl.core.errors import Invalid

# Linux keeps the path of a Unix socket in 108 bytes, the last one zero; macOS in 104.
MAX_SOCKET_PATH = 103


class Settings(BaseModel):
    """Every setting of the daemon. Times are named by their unit; sizes are bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_dir: Path = Field(
        default_factory=lambda: default_data_dir(), description="Journal, socket and token file."
    )
    listen: list[str] = Field(
        default_factory=list,
        description="Addresses to serve: unix:PATH or HOST:PORT. Empty: the socket in data_dir.",
    )
    token_file: Path | None = Field(
        default=None, description="File with the bearer token that TCP callers must send."
    )
    registry: Path | None = Field(
        default=None, description="Project registry file, laid over the user's agents.json."
    )
    user_registry: Path = Field(
        default_factory=lambda: default_config_dir() / "agents.json",
        description="The user's registry file, laid over the packaged entries.",
    )
    workspace_root: Path | None = Field(
        default=None, description="Where a relative workspace of a client lies; none: refused."
    )
    default_agent: str = Field(default="", description="The entry meant by the name `default`.")
    expose_reasoning: bool = Field(default=True, description="Whether reasoning events are kept.")
    journal_raw: bool = Field(
        default=False, description="Keep each agent message beside its event."
    )
    record_dir: Path | None = Field(
        default=None, description="Write a transcript of each agent process into this directory."
    )
    approval_timeout_seconds: float | None = Field(
        default=None, gt=0, description="Open approvals expire after this; none: they wait."
    )
    stall_seconds: float = Field(
        default=300, gt=0, description="No event for so long in a run: one `error` event."
    )
    stall_tool_seconds: float = Field(default=1800, gt=0, description="The same while a tool runs.")
    cancel_ack_seconds: float = Field(
        default=3, gt=0, description="An agent that says nothing to a cancel for so long is named."
    )
    cancel_end_seconds: float = Field(
        default=10, gt=0, description="So long after that, the end of the run is made by us."
    )
    idle_agent_seconds: float = Field(
        default=900, gt=0, description="A process without an open session stops after this."
    )
    max_sessions: int = Field(default=1000, ge=1, description="Open sessions; more: SESSION_LIMIT.")
    max_queue: int = Field(
        default=100, ge=1, description="Prompts waiting in one session; more: QUEUE_FULL."
    )
    retention_days: float = Field(
        default=90, gt=0, description="Events of ended runs older than this are dropped."
    )
    retention_bytes: int = Field(
        default=4 << 30, ge=1 << 20, description="The oldest events go when the journal is larger."
    )
    artifact_days: float = Field(
        default=90, gt=0, description="The bytes of artifacts older than this are dropped."
    )
    artifact_bytes: int = Field(
        default=4 << 30, ge=1 << 20, description="The oldest artifacts go when all have more bytes."
    )


def default_data_dir() -> Path:
    """$AGENTCTL_DATA_DIR, else the platform's directory for user data."""
    told = os.environ.get("AGENTCTL_DATA_DIR")
    return Path(told) if told else Path(platformdirs.user_data_dir("agentctl", appauthor=False))


def default_config_dir() -> Path:
    return Path(platformdirs.user_config_dir("agentctl", appauthor=False))


def default_config_file() -> Path:
    """$AGENTCTL_CONFIG, else `agentctl.toml` in the configuration directory."""
    told = os.environ.get("AGENTCTL_CONFIG")
    return Path(told) if told else default_config_dir() / "agentctl.toml"


def socket_path(data_dir: Path) -> Path:
    """The daemon's socket: in `run` under the data directory."""
    return data_dir / "run" / "agentctl.sock"


def default_address(data_dir: Path | None = None) -> str:
    """$AGENTCTL_ADDRESS, else the Unix socket of the data directory."""
    if data_dir is None and (told := os.environ.get("AGENTCTL_ADDRESS")):
        return told
    return f"unix:{socket_path(data_dir or default_data_dir())}"


def _environment() -> dict[str, Any]:
    names = {"AGENTCTL_DATA_DIR": "data_dir", "AGENTCTL_REGISTRY": "registry"}
    return {field: os.environ[name] for name, field in names.items() if os.environ.get(name)}


def _explain(error: ValidationError, source: str) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, Settings.model_fields, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        return f'{source}: there is no setting "{name}".{hint}'
    return f"{source}: {name}: {first['msg']}."


def load_settings(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Reads the settings file (absent = defaults), the environment and `overrides`, in this order.

    Raises:
        Invalid: the file is no TOML, or a setting is unknown or out of range.
    """
    path = file or default_config_file()
    told: dict[str, Any] = {}
    if path.is_file():
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"{path}: {error}. Mend the file, or move it away.") from error
    elif file is not None:
        raise Invalid(f"{path}: there is no such settings file.")
    merged = {**told, **_environment(), **dict(overrides or {})}
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise Invalid(_explain(error, str(path))) from error
