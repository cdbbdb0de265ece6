"""Owns what we say to an app-server: pure builders of params. Knows no pipe and no session state."""

import base64
from collections.abc import Sequence
from typing import Any

import orjson

from agentctl.core.adapter import NativeSession
from agentctl.core.errors import Invalid, Unsupported
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import Entry, McpServer, PromptSpec, SessionSpec
from agentctl.core.words import ContentType, Policy
from agentctl_adapters.codex import modes
from agentctl_adapters.codex.modes import Mode
from agentctl_adapters.common.shapes import Json, as_text, number

# Never used, and some of them large or many.
NOT_WANTED = [
    "thread/readState/changed",
    "remoteControl/status/changed",
    "turn/diff/updated",
    "skills/changed",
    "app/list/updated",
]
CONTAINED = frozenset({"sandbox", "container"})
"""Environments that confine the agent themselves, where its own sandbox mostly cannot work."""
EFFORT_NAMES = frozenset({"reasoning_effort", "effort", "thought_level"})


def initialize(version: str) -> Json:
    return {
        "clientInfo": {"name": "agentctl", "title": "agentctl", "version": version or "0"},
        "capabilities": {"experimentalApi": True, "optOutNotificationMethods": NOT_WANTED},
    }


def mode_of(spec: SessionSpec, entry: Entry, default: str = "") -> Mode | None:
    """The mode that is asked for, else the default; None leaves the user's own settings in force.

    Raises:
        Invalid: no such mode, or one that lifts the sandbox where nothing else confines the agent.
    """
    name = spec.mode
    if not name and entry.tools_requiring_permission and spec.policy is not Policy.ALLOW:
        name = "untrusted"
    if not name and trusts(spec, entry) and spec.environment not in CONTAINED:
        name = default
    return named_mode(name, spec, entry) if name and name != modes.PLAN else None


def approval_of(mode: Mode, spec: SessionSpec) -> str:
    """What is asked for in a mode: all of it, where a rule may say no."""
    return modes.ASKING if spec.guarded else mode.approval


def named_mode(name: str, spec: SessionSpec, entry: Entry) -> Mode:
    """Raises: Invalid, as mode_of."""
    mode, free = modes.find(name), unconfined(spec, entry)
    if mode is None:
        known = ", ".join(choice.id for choice in modes.choices(unconfined=free))
        raise Invalid(f"{entry.id} has no mode {name!r}; it has: {known}")
    if mode.unconfined and not free:
        raise Invalid(
            f"the mode {name!r} lifts the sandbox of {entry.id}: use it in the environment sandbox"
            " or container, or set protocol_config.allow_full_access of the entry to true"
        )
    return mode


def trusts(spec: SessionSpec, entry: Entry) -> bool:
    """Whether the workspace may bring settings of its own."""
    return entry.trust_workspace if spec.trust_workspace is None else spec.trust_workspace


def unconfined(spec: SessionSpec, entry: Entry) -> bool:
    """Whether the agent may go without a sandbox of its own."""
    allowed = entry.protocol_config.get("allow_full_access") is True
    return allowed or spec.environment in CONTAINED


def thread(spec: SessionSpec, entry: Entry, default: str = "", **more: Any) -> Json:
    """Params of thread/start, and with threadId of resume and fork.

    Raises:
        Invalid: see mode_of.
        Unsupported: an MCP transport that Codex does not take.
    """
    params: Json = {**more, "cwd": spec.workspace}
    if spec.model:
        params["model"] = spec.model
    if (mode := mode_of(spec, entry, default)) is not None:
        params["approvalPolicy"], params["sandbox"] = approval_of(mode, spec), mode.sandbox
    elif spec.guarded:
        params["approvalPolicy"] = modes.ASKING
    if config := _config(spec, entry):
        params["config"] = config
    return params


def _config(spec: SessionSpec, entry: Entry) -> Json:
    config: Json = {}
    if spec.mcp_servers:
        config["mcp_servers"] = {server.name: _server(server) for server in spec.mcp_servers}
    if spec.additional_directories:
        roots = list(spec.additional_directories)
        config["sandbox_workspace_write"] = {"writable_roots": roots}
    if not trusts(spec, entry):
        config["projects"] = {spec.workspace: {"trust_level": "untrusted"}}
    summary = entry.protocol_config.get("reasoning_summary")
    if isinstance(summary, str) and summary:
        config["model_reasoning_summary"] = summary
    for name, value in spec.options.items():
        if name in EFFORT_NAMES:
            config["model_reasoning_effort"] = value
    return config


def _server(server: McpServer) -> Json:
    match server.transport:
        case "stdio":
            told: Json = {"command": server.command, "args": list(server.args)}
            return {**told, "env": dict(server.env)} if server.env else told
        case "http":
            told = {"url": server.url}
            return {**told, "http_headers": dict(server.headers)} if server.headers else told
        case "sse":
            raise Unsupported(
                f"codex takes no MCP servers over sse: leave {server.name} out, or reach it over"
                " http",
                metadata={"mcp_server": server.name},
            )


def turn(native: str, prompt: PromptSpec) -> Json:
    """Params of turn/start.

    Raises:
        Unsupported: content that Codex does not take.
        Invalid: a block without content, or nothing to say at all.
    """
    params: Json = {"threadId": native, "input": user_input(prompt.blocks)}
    if prompt.model:
        params["model"] = prompt.model
    if prompt.effort:
        params["effort"] = prompt.effort
    if prompt.output_schema_json is not None:
        params["outputSchema"] = orjson.loads(prompt.output_schema_json)
    return params


def review_target(prompt: PromptSpec) -> Json:
    """What to review: the uncommitted changes, or what the prompt says."""
    words = " ".join(block.text for block in prompt.blocks if block.text).strip()
    if prompt.command is not None:
        words = prompt.command.arguments.strip()
    return {"type": "custom", "instructions": words} if words else {"type": "uncommittedChanges"}


def user_input(blocks: Sequence[ContentBlock]) -> list[Json]:
    """Raises: as turn()."""
    told = [_input(block) for block in blocks]
    if not any(item.get("type") != "text" or item.get("text") for item in told):
        raise Invalid("the prompt is empty: say something")
    return told


def _input(block: ContentBlock) -> Json:
    match block.type:
        case ContentType.TEXT:
            return _text(block.text or "")
        case ContentType.DIFF:
            return _text(block.diff or block.text or "")
        case ContentType.IMAGE:
            return _image(block)
        case ContentType.FILE | ContentType.RESOURCE | ContentType.RESOURCE_LINK:
            return _file(block)
        case ContentType.AUDIO | ContentType.TERMINAL:
            raise Unsupported(f"codex takes no {block.type.value}: describe it in words")


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _image(block: ContentBlock) -> Json:
    if block.data is not None:
        data = base64.b64encode(block.data).decode()
        return {"type": "image", "url": f"data:{block.mime_type or 'image/png'};base64,{data}"}
    if block.path:
        return {"type": "localImage", "path": block.path}
    if block.uri:
        return {"type": "image", "url": block.uri}
    raise Invalid(f"the image {block.name or ''} has no data, path or address")


def _file(block: ContentBlock) -> Json:
    if block.data is not None and (block.mime_type or "").startswith("image/"):
        return _image(block)
    path = block.path or (block.uri or "").removeprefix("file://")
    if block.text is not None:
        return _text(f"{path or block.name or 'file'}:\n{block.text}")
    if path.startswith("/"):
        return {"type": "mention", "name": block.name or path.rpartition("/")[2], "path": path}
    if path:
        return _text(path)
    if block.data is not None:
        raise Unsupported("codex takes no embedded files: give a path")
    raise Invalid("a file needs a path, a URI or its content")


def native_session(row: Json) -> NativeSession:
    """One row of thread/list; its times are Unix seconds."""
    updated = number(row.get("updatedAt"))
    return NativeSession(
        NativeSessionId(as_text(row.get("id"))),
        as_text(row.get("cwd")),
        as_text(row.get("name")) or as_text(row.get("preview"))[:200],
        updated * 1000 if updated is not None else None,
    )
