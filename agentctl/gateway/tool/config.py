"""Owns the gateway's configuration file: its shape, its defaults, and what is wrong with it.

It refuses to know how an instance is reached; only what the word of a person may be.
"""

import os
import re
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agentctl.core.errors import Invalid

DEFAULT_TIMEOUT_MS = 30_000
LOCAL = "local"

_LOOKS_LIKE_AN_ADDRESS = re.compile(r"(unix:.+|(grpc://)?[^/\s]+:\d{1,5})")


class _Part(BaseModel):
    """Unknown keys are another program's business; a wrong type is a mistake."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class InstanceConfig(_Part):
    """One server that sessions can be made on."""

    name: str = Field(min_length=1, description="What requests call it.")
    url: str = Field(description="An OpenCode URL, or a daemon: unix:PATH or HOST:PORT.")
    default: bool = Field(default=False, description="Meant when a request names none.")
    auto_connect: bool = Field(default=True, description="Connect without being asked.")
    auth_token_env: str | None = Field(
        default=None, description="The environment variable that holds its token."
    )

    @field_validator("url")
    @classmethod
    def _reachable(cls, url: str) -> str:
        return check_url(url)


class Defaults(_Part):
    """What holds when a request does not say it."""

    model: str | None = Field(default=None, description="The model of new sessions.")
    agent: str = Field(default="default", min_length=1, description="The agent of new sessions.")
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, gt=0, description="How long a call waits.")


class Features(_Part):
    """What may be switched off."""

    streaming: bool = Field(default=True, description="Events, in every way in.")
    permission_approval: bool = Field(
        default=True, description="Requests are shown and answered; off: they are denied at once."
    )
    auto_reconnect: bool = Field(
        default=True, description="A lost connection is made again without `connect`."
    )
    state_persistence: bool = Field(
        default=True, description="Connections and whose session is whose outlive the process."
    )


class ToolConfig(_Part):
    """The part `tools.opencode` of the file."""

    enabled: bool = Field(default=True, description="False: every call is refused.")
    instances: tuple[InstanceConfig, ...] = Field(
        default=(), strict=False, description="The servers; none: the local daemon as `local`."
    )
    defaults: Defaults = Field(default_factory=Defaults)
    features: Features = Field(default_factory=Features)

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        names = [each.name for each in self.instances]
        double = next((name for name in names if names.count(name) > 1), None)
        if double is not None:
            raise ValueError(f"two instances are named {double!r}")
        if sum(each.default for each in self.instances) > 1:
            raise ValueError("only one instance can be the default")
        return self


class _Tools(_Part):
    opencode: ToolConfig = Field(default_factory=ToolConfig)


class _File(_Part):
    tools: _Tools = Field(default_factory=_Tools)


def check_url(url: str) -> str:
    """Returns the URL of an instance without what does not matter.

    Raises:
        ValueError: it is neither an HTTP URL nor an address of a daemon.
    """
    text = url.strip().rstrip("/")
    if text.startswith(("http://", "https://")):
        try:
            parts = urlsplit(text)
            known_port = parts.port is None or parts.port > 0
            if parts.hostname and known_port and "@" not in parts.netloc:
                return text
        except ValueError:
            pass
        if "@" in text:
            raise ValueError("a URL holds no password: give it as auth_token")
    elif _LOOKS_LIKE_AN_ADDRESS.fullmatch(text):
        return text.removeprefix("grpc://")
    raise ValueError(f"{url!r} is no server: write http://HOST:PORT, unix:PATH or HOST:PORT")


def is_http(url: str) -> bool:
    """Whether an instance is an OpenCode server rather than a daemon."""
    return url.startswith(("http://", "https://"))


def config_file() -> Path:
    """Where the file is: ~/.openclaw/config/gateway.yaml."""
    home = os.environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".openclaw" / "config" / "gateway.yaml"


def load(path: Path | None = None) -> ToolConfig:
    """Reads the file; an absent one is all defaults. Blocking.

    Raises:
        Invalid: it cannot be read, is no YAML, or a field has a wrong type; names file and field.
    """
    path = path or config_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ToolConfig()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, "", f"it cannot be read ({error})") from error
    import yaml  # of the extra `gateway`: only where the file is there does anybody need it

    try:
        told = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise _wrong(path, "", f"{where}it is no YAML") from error
    try:
        return _File.model_validate(_without_nulls({} if told is None else told)).tools.opencode
    except RecursionError as error:
        raise _wrong(path, "", "it holds itself, or is nested too deeply") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _wrong(path, _field(first["loc"]), _said(cast(Any, first))) from error


def _without_nulls(value: Any) -> Any:
    """A key without a value is an absent key, as in `auth_token_env:` left empty."""
    if isinstance(value, dict):
        named = cast(dict[Any, Any], value)
        return {key: _without_nulls(each) for key, each in named.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in cast(list[Any], value)]
    return value


def _field(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in loc).lstrip(".")


def _said(first: dict[str, Any]) -> str:
    message = str(first["msg"]).removeprefix("Value error, ")
    given = first.get("input")
    simple = isinstance(given, str | int | float | bool)
    return f"{message}, not {given!r}" if simple and "should" in message else message


def _wrong(path: Path, field: str, what: str) -> Invalid:
    place = f"{path}: {field}: " if field else f"{path}: "
    return Invalid(
        f"{place}{what}. Mend the file, or move it away.",
        metadata={"file": str(path), "field": field},
    )
