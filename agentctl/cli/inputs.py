"""Owns what a person hands in: the prompt, attached files, MCP servers, variables for the agent.

It reads files and the environment; it refuses to call the daemon except to ask what an entry needs.
"""

import json
import mimetypes
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentctl.cli.errors import usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentctl import v1
    from agentctl.client import AgentCtl

MAX_FILE = 3 << 20
"""Bytes of an attached file that travels by value: a call to the daemon may hold 4 MiB."""


def read_prompt(text: str) -> str:
    """The prompt itself, or standard input for `-`; an empty one is a mistake."""
    prompt = sys.stdin.read() if text == "-" else text
    if not prompt.strip():
        usage('The prompt is empty: say what to do, as in agentctl run demo "hello".')
    return prompt


def attach_auth(url: str | None, auth: str | None) -> dict[str, str]:
    """What `--auth` says: USER:PASSWORD, `bearer TOKEN` or `auth_token TOKEN`; {} without one."""
    if auth is None:
        return {}
    if not url:
        usage("--auth goes with --url: name the server to log in at.")
    kind, _, token = auth.partition(" ")
    if kind in ("bearer", "auth_token") and token:
        return {kind: token}
    user, colon, password = auth.partition(":")
    if not colon or not user:
        usage('--auth is USER:PASSWORD, "bearer TOKEN" or "auth_token TOKEN".')
    return {"user": user, "password": password}


def workspace(path: Path | None) -> str:
    """The directory to work in, absolute; the current one when none is named."""
    return str((path or Path()).expanduser().absolute())


def blocks(prompt: str, files: "Sequence[Path]") -> "list[v1.ContentBlock]":
    """Content blocks of a prompt: its text, then each file; by path where the daemon sees it."""
    from agentctl import v1
    from agentctl.cli.state import address, is_local

    local = is_local(address())
    out = [v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text=prompt)]
    for each in files:
        path = each.expanduser().absolute()
        if not path.is_file():
            usage(f"There is no file {each} to attach.")
        mime = mimetypes.guess_type(path.name)[0] or ""
        kind = {
            "image": v1.ContentType.CONTENT_TYPE_IMAGE,
            "audio": v1.ContentType.CONTENT_TYPE_AUDIO,
        }.get(mime.partition("/")[0])
        if kind is None and local:
            out.append(
                v1.ContentBlock(
                    type=v1.ContentType.CONTENT_TYPE_FILE, path=str(path), name=path.name
                )
            )
            continue
        data = path.read_bytes()
        if len(data) > MAX_FILE:
            usage(f"{each} has {len(data)} bytes: at most {MAX_FILE} can be attached.")
        if kind is not None:
            out.append(v1.ContentBlock(type=kind, data=data, mime_type=mime, name=path.name))
        else:
            out.append(_resource(path, data, mime))
    return out


def _resource(path: Path, data: bytes, mime: str) -> "v1.ContentBlock":
    from agentctl import v1

    block = v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_RESOURCE, uri=path.as_uri())
    if mime:
        block.mime_type = mime
    try:
        block.text = data.decode()
    except UnicodeDecodeError:
        block.data = data
    return block


def mcp_servers(path: Path | None) -> "list[v1.McpServer]":
    """Servers of a file with `{"mcpServers": {NAME: {...}}}`, as many programs keep them."""
    if path is None:
        return []
    try:
        read: Any = json.loads(path.expanduser().read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        usage(f"{path}: {error}. An MCP file is JSON with an object mcpServers.")
    found = _object(read, str(path))
    named = _object(found.get("mcpServers", found), f"{path}: mcpServers")
    return [_mcp_server(name, each, f"{path}: mcpServers.{name}") for name, each in named.items()]


def _mcp_server(name: str, value: Any, where: str) -> "v1.McpServer":
    from agentctl import v1

    raw = _object(value, where)
    server = v1.McpServer(
        name=name,
        args=[str(each) for each in raw.get("args", [])],
        env={key: str(each) for key, each in _object(raw.get("env", {}), where).items()},
        headers={key: str(each) for key, each in _object(raw.get("headers", {}), where).items()},
    )
    url = raw.get("url") or raw.get("httpUrl")
    if isinstance(raw.get("command"), str):
        server.command = raw["command"]
        server.transport = v1.McpTransport.MCP_TRANSPORT_STDIO
    elif isinstance(url, str):
        server.url = url
        sse = raw.get("type") == "sse"
        server.transport = (
            v1.McpTransport.MCP_TRANSPORT_SSE if sse else v1.McpTransport.MCP_TRANSPORT_HTTP
        )
    else:
        usage(f"{where}: expected a command or a url.")
    return server


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        usage(f"{where}: expected an object.")
    return cast(dict[str, Any], value)


async def named_agent(client: "AgentCtl", text: str) -> str:
    """An entry id as it is; an agent id whole, also when only its end was typed."""
    if not text.startswith("agt_"):
        return text
    from agentctl.cli.ids import resolve

    return await resolve(client, "agent", text)


async def caller_env(client: "AgentCtl", agent: str) -> dict[str, str]:
    """Our values of the variables that an entry names, so that keys exported later arrive.

    Only over a Unix socket: a key does not leave the machine because a daemon is elsewhere.

    Raises:
        NotFound: there is no such entry.
    """
    if not client.address.startswith("unix:") or agent.startswith("agt_"):
        return {}
    entry = json.loads((await client.registry.get(agent)).entry_json)
    wanted = [*entry.get("required_env", []), *entry.get("env_passthrough", [])]
    return {
        name: value
        for name, value in os.environ.items()
        if any(fnmatchcase(name, each) for each in wanted)
    }


def environment(
    name: str | None, *, branch: str | None, base: str | None, keep: str | None
) -> dict[str, str]:
    """What Sessions.Create takes beside the name of an environment."""
    told = {"branch": branch, "base": base, "keep": keep}
    asked = {key: str(value) for key, value in told.items() if value is not None}
    if asked and name in (None, "local"):
        named = ", ".join(f"--{key}" for key in asked)
        usage(f"{named} goes with --environment worktree: say that too.")
    return asked
