"""Owns what we say to an ACP agent: pure builders of params.

Knows no pipe, no clock and no session state; `connection` sends what is built here.
"""

import base64
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

from agentctl.core.adapter import Feature, NativeSession
from agentctl.core.errors import Invalid, Unsupported
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import McpServer, PromptSpec, SessionSpec
from agentctl.core.words import ContentType
from agentctl_adapters.common.shapes import Json, as_text


def mcp_servers(servers: Sequence[McpServer], features: frozenset[str]) -> list[Json]:
    """Raises: Unsupported: the agent does not take this transport; the message names the server."""
    return [_mcp_server(server, features) for server in servers]


def _mcp_server(server: McpServer, features: frozenset[str]) -> Json:
    if server.transport == "stdio":
        return {
            "name": server.name,
            "command": server.command,
            "args": list(server.args),
            "env": [{"name": name, "value": value} for name, value in server.env.items()],
        }
    needed = Feature.MCP_HTTP if server.transport == "http" else Feature.MCP_SSE
    if needed not in features:
        raise Unsupported(
            f"the agent does not take MCP servers over {server.transport}: leave {server.name} out"
            " or run it as a command (stdio)",
            metadata={"mcp_server": server.name},
        )
    headers = [{"name": name, "value": value} for name, value in server.headers.items()]
    return {"type": server.transport, "name": server.name, "url": server.url, "headers": headers}


def session_params(spec: SessionSpec, features: frozenset[str], **more: str) -> Json:
    """Params of session/new, and with sessionId of load, resume and fork.

    Raises:
        Unsupported: an MCP transport or further directories that the agent does not take.
    """
    params: Json = {
        **more,
        "cwd": spec.workspace,
        "mcpServers": mcp_servers(spec.mcp_servers, features),
    }
    if spec.additional_directories:
        if Feature.ADDITIONAL_DIRECTORIES not in features:
            raise Unsupported(
                "the agent takes no additional directories: leave them out, or make the workspace"
                " a directory that contains them"
            )
        params["additionalDirectories"] = list(spec.additional_directories)
    return params


def prompt_blocks(prompt: PromptSpec, features: frozenset[str]) -> list[Json]:
    """The content of session/prompt; a command is its text with a slash.

    Raises:
        Unsupported: content or a kind of prompt that the agent does not take.
        Invalid: a block without content, or nothing to say at all.
    """
    if prompt.review:
        raise Unsupported("ACP has no code reviews: ask for one in words, or by a slash command")
    if prompt.output_schema_json is not None:
        raise Unsupported("ACP has no output schemas: describe the answer that you want in words")
    blocks: list[Json] = []
    if prompt.command is not None:
        words = f"/{prompt.command.name.removeprefix('/')} {prompt.command.arguments}".rstrip()
        blocks.append(text_block(words))
    blocks += [_block(block, features) for block in prompt.blocks]
    if not blocks or blocks == [text_block("")]:
        raise Invalid("the prompt is empty: say something")
    return blocks


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def _block(block: ContentBlock, features: frozenset[str]) -> Json:
    match block.type:
        case ContentType.TEXT:
            return text_block(block.text or "")
        case ContentType.DIFF:
            return text_block(block.diff or block.text or "")
        case ContentType.IMAGE:
            return _media(block, "image", Feature.IMAGE in features)
        case ContentType.AUDIO:
            return _media(block, "audio", Feature.AUDIO in features)
        case ContentType.FILE | ContentType.RESOURCE:
            return _file(block, features)
        case ContentType.RESOURCE_LINK:
            return _link(block)
        case ContentType.TERMINAL:
            raise Invalid("a prompt cannot hold a terminal: send its text")


def _media(block: ContentBlock, kind: str, able: bool) -> Json:
    if not able:
        raise Unsupported(
            f"the agent takes no {kind}: leave {_named(block, kind)} out or describe it in words"
        )
    if block.data is None:
        raise Invalid(f"{_named(block, kind)} has no data")
    made: Json = {
        "type": kind,
        "data": base64.b64encode(block.data).decode(),
        "mimeType": block.mime_type or ("image/png" if kind == "image" else "audio/wav"),
    }
    if kind == "image" and block.uri:
        made["uri"] = block.uri
    return made


def _file(block: ContentBlock, features: frozenset[str]) -> Json:
    mime = block.mime_type or ""
    if block.data is not None and mime.startswith("image/") and Feature.IMAGE in features:
        return _media(block, "image", True)
    has_content = block.text is not None or block.data is not None
    if has_content and Feature.EMBEDDED_CONTEXT in features:
        resource: Json = {"uri": _uri(block) or f"file:///{quote(block.name or 'content')}"}
        if block.text is not None:
            resource["text"] = block.text
        else:
            resource["blob"] = base64.b64encode(block.data or b"").decode()
        if mime:
            resource["mimeType"] = mime
        return {"type": "resource", "resource": resource}
    if _uri(block):
        return _link(block)
    if block.text is not None:
        return text_block(block.text)
    if block.data is not None:
        raise Unsupported(
            f"the agent takes no embedded files: give the path of {_named(block, 'the file')}"
        )
    raise Invalid("a file needs a path, a URI or its content")


def _link(block: ContentBlock) -> Json:
    uri = _uri(block)
    if not uri:
        raise Invalid("a resource link needs a URI or a path")
    link: Json = {
        "type": "resource_link",
        "uri": uri,
        "name": block.name or uri.rstrip("/").rpartition("/")[2] or uri,
    }
    if block.mime_type:
        link["mimeType"] = block.mime_type
    if block.size is not None:
        link["size"] = block.size
    return link


def _uri(block: ContentBlock) -> str:
    return block.uri or (f"file://{quote(block.path)}" if block.path else "")


def _named(block: ContentBlock, kind: str) -> str:
    return block.name or block.path or block.uri or f"the {kind.removeprefix('the ')}"


def native_session(row: Json) -> NativeSession:
    """One row of session/list."""
    updated: int | None = None
    try:
        text = as_text(row.get("updatedAt"))
        updated = int(datetime.fromisoformat(text).timestamp() * 1000) if text else None
    except (ValueError, OverflowError, OSError):
        updated = None
    return NativeSession(
        NativeSessionId(as_text(row.get("sessionId"))),
        as_text(row.get("cwd")),
        as_text(row.get("title")),
        updated,
    )


def resume_wait_s(now: int, opened: int, least_s: float) -> float:
    """Seconds until the minute of `opened` (Unix ms) is over and least_s seconds have passed."""
    next_minute = (opened // 60_000 + 1) * 60_000
    return max(0.0, (max(next_minute, opened + int(least_s * 1000)) - now) / 1000)
