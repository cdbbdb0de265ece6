"""Owns the command line and the environment of a Claude Code process. Pure.

Whatever is asked of a session must be said at its start: there is one process for each conversation.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agentctl.core.adapter import Launch
from agentctl.core.errors import Invalid
from agentctl.core.spec import McpServer, SessionSpec
from agentctl.core.words import ToolKind
from agentctl_adapters.claude.offers import MODES, mode_of
from agentctl_adapters.common.shapes import Json, as_object, as_words

_STREAM = (
    "-p",
    "--input-format=stream-json",
    "--output-format=stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool=stdio",
)
_SETTINGS = {
    # The CLI must not replace itself under a running session, nor must any other one start.
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
}
# Its own names of the tools of each kind.
_TOOLS: Mapping[ToolKind, Sequence[str]] = {
    ToolKind.EXECUTE: ("Bash",),
    ToolKind.EDIT: ("Edit", "Write", "NotebookEdit"),
    ToolKind.READ: ("Read",),
    ToolKind.SEARCH: ("Glob", "Grep"),
    ToolKind.FETCH: ("WebFetch", "WebSearch"),
}
EFFORTS = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Which conversation a process holds: a new one under that id, an old one, or a fork of one."""

    native: str
    resumes: str = ""

    @property
    def flags(self) -> list[str]:
        if not self.resumes:
            return [f"--session-id={self.native}"]
        if self.resumes == self.native:
            return [f"--resume={self.resumes}"]
        return [f"--resume={self.resumes}", "--fork-session", f"--session-id={self.native}"]


def arguments(launch: Launch, spec: SessionSpec, conversation: Conversation) -> tuple[str, ...]:
    """The whole argv.

    Raises:
        Invalid: an unknown mode or effort, or bypassPermissions where the CLI refuses it.
    """
    argv = [*launch.argv, *_STREAM, *conversation.flags]
    config = launch.entry.protocol_config
    if spec.model and not _names(argv, "--model"):
        argv.append(f"--model={spec.model}")
    mode = checked_mode(launch, spec.mode) if spec.mode else ""
    if mode and not _names(argv, "--permission-mode"):
        argv.append(f"--permission-mode={'manual' if mode == 'default' else mode}")
    if effort := spec.options.get("effort"):
        argv.append(f"--effort={checked_effort(launch, effort)}")
    argv += [f"--add-dir={directory}" for directory in spec.additional_directories]
    if servers := mcp_config(spec.mcp_servers):
        argv.append(f"--mcp-config={orjson.dumps(servers).decode()}")
    if not _names(argv, "--settings"):
        settings = _settings(config, mode, asked_tools(spec))
        argv.append(f"--settings={orjson.dumps(settings).decode()}")
    if not launch.trust_workspace and not _names(argv, "--setting-sources"):
        argv.append("--setting-sources=user")
    return (*argv, *as_words(config.get("flags")))


def environment(launch: Launch, scratch: str) -> dict[str, str]:
    """The whole environment; `scratch` is a directory of this process alone."""
    # What an entry says wins: it may point all of this elsewhere.
    own = {**_SETTINGS, "CLAUDE_CODE_TMPDIR": scratch}
    return {**own, **launch.env, "TMPDIR": launch.entry.env.get("TMPDIR", scratch)}


def checked_mode(launch: Launch, mode: str) -> str:
    """The mode by its own name.

    Raises:
        Invalid: there is no such mode, or root may not use it.
    """
    name = mode_of(mode)
    if name not in MODES:
        known = ", ".join(MODES)
        raise Invalid(f"{launch.entry.id} has no mode {mode!r}; it has: {known}")
    if name == "bypassPermissions" and os.geteuid() == 0 and launch.env.get("IS_SANDBOX") != "1":
        raise Invalid(
            f"{launch.entry.id} refuses the mode bypassPermissions to root: run the daemon as another"
            " user, or set IS_SANDBOX=1 in the entry's env where this is a sandbox"
        )
    return name


def checked_effort(launch: Launch, effort: str) -> str:
    """Raises Invalid when there is no such effort."""
    if effort not in EFFORTS:
        raise Invalid(f"{launch.entry.id} has no effort {effort!r}; it has: {', '.join(EFFORTS)}")
    return effort


def mcp_config(servers: Sequence[McpServer]) -> Json:
    """What --mcp-config takes; {} without servers."""
    if not servers:
        return {}
    return {"mcpServers": {server.name: _server(server) for server in servers}}


def _server(server: McpServer) -> Json:
    if server.transport == "stdio":
        return {
            "type": "stdio",
            "command": server.command,
            "args": list(server.args),
            "env": dict(server.env),
        }
    return {"type": server.transport, "url": server.url, "headers": dict(server.headers)}


def asked_tools(spec: SessionSpec) -> list[str]:
    """The tools for which a rule of ours may say no."""
    return [tool for kind, tools in _TOOLS.items() if kind in spec.guarded for tool in tools]


def _settings(config: Mapping[str, Any], mode: str, asked: Sequence[str]) -> Json:
    """Hooks run programs of the user's without being asked; the classifier denies what it should ask.

    Leave that the user's own settings give for `asked` counts for less than an ask.
    """
    settings: Json = {"disableAllHooks": config.get("hooks") is not True}
    if mode != "auto":
        settings["permissions"] = {"disableAutoMode": "disable"}
    settings |= as_object(config.get("settings"))
    if asked:
        permissions = as_object(settings.get("permissions"))
        already = as_words(permissions.get("ask"))
        settings["permissions"] = {**permissions, "ask": [*already, *asked]}
    return settings


def _names(argv: Sequence[str], flag: str) -> bool:
    return any(item == flag or item.startswith(f"{flag}=") for item in argv)
