"""Owns the reading of what an ACP client sends: params and prompts, checked. Pure."""

from base64 import b64decode
from pathlib import PurePath
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from agentctl import v1
from agentctl.gateway.acp.errors import Json, bad

_TYPE = v1.ContentType
_MCP = v1.McpTransport


def as_object(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def text(params: Json, name: str) -> str:
    """A text that must be there and say something."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise bad(f"{name} must be a text, not {value!r:.60}.", name)
    return value


def directory(params: Json, name: str = "cwd") -> str:
    value = text(params, name)
    if not PurePath(value).is_absolute():
        raise bad(f"{name} must be an absolute path, not {value!r:.200}.", name)
    return value


def directories(params: Json) -> list[str]:
    name = "additionalDirectories"
    value = params.get(name)
    if value is None:
        return []
    items = _objects(value, name)
    return [directory({name: each}, name) for each in items]


def _objects(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad(f"{name} must be a list.", name)
    return cast("list[Any]", value)


def mcp_servers(params: Json, *, needed: bool) -> list[v1.McpServer]:
    name = "mcpServers"
    value = params.get(name)
    if value is None and not needed:
        return []
    return [_mcp_server(as_object(each)) for each in _objects(value, name)]


def _mcp_server(given: Json) -> v1.McpServer:
    server = v1.McpServer(name=text(given, "name"))
    kind = given.get("type", "stdio")
    if kind == "stdio":
        server.transport = _MCP.MCP_TRANSPORT_STDIO
        server.command = text(given, "command")
        server.args.extend(str(each) for each in _objects(given.get("args", []), "args"))
        server.env.update(_pairs(given.get("env", []), "env"))
    elif kind in ("http", "sse"):
        server.transport = _MCP.MCP_TRANSPORT_SSE if kind == "sse" else _MCP.MCP_TRANSPORT_HTTP
        server.url = text(given, "url")
        server.headers.update(_pairs(given.get("headers", []), "headers"))
    else:
        raise bad(f"an MCP server of type {kind!r:.60} is not served: stdio, http or sse.", "type")
    return server


def _pairs(value: object, name: str) -> dict[str, str]:
    rows = [as_object(each) for each in _objects(value, name)]
    return {text(row, "name"): str(row.get("value", "")) for row in rows}


def chosen_agent(params: Json) -> str:
    """The entry that `_meta.agentctl.agent` names; "" without one."""
    return as_text(as_object(as_object(params.get("_meta")).get("agentctl")).get("agent"))


def prompt(params: Json, commands: frozenset[str]) -> v1.RunInput:
    """What a prompt asks for: its blocks, or a slash command that the session offers."""
    given = _objects(params.get("prompt"), "prompt")
    blocks = [_block(as_object(each)) for each in given]
    if not any(block.type != _TYPE.CONTENT_TYPE_TEXT or block.text.strip() for block in blocks):
        raise bad("the prompt is empty: say something.", "prompt")
    if len(blocks) == 1 and blocks[0].text.startswith("/"):
        name, _, rest = blocks[0].text[1:].partition(" ")
        if name in commands:
            return v1.RunInput(command=v1.CommandInput(name=name, arguments=rest.strip()))
    return v1.RunInput(blocks=blocks)


def _block(given: Json) -> v1.ContentBlock:
    kind = given.get("type")
    match kind:
        case "text":
            value = given.get("text")
            if not isinstance(value, str):
                raise bad("a text block needs a text.", "prompt")
            return v1.ContentBlock(type=_TYPE.CONTENT_TYPE_TEXT, text=value)
        case "image" | "audio":
            image = kind == "image"
            block = v1.ContentBlock(
                type=_TYPE.CONTENT_TYPE_IMAGE if image else _TYPE.CONTENT_TYPE_AUDIO,
                data=_bytes(given.get("data"), str(kind)),
                mime_type=text(given, "mimeType"),
            )
            _name(block, given)
            return block
        case "resource_link":
            return _link(given)
        case "resource":
            return _resource(as_object(given.get("resource")))
        case _:
            raise bad(f"a prompt cannot hold a block of type {kind!r:.60}.", "prompt")


def _link(given: Json) -> v1.ContentBlock:
    block = v1.ContentBlock(type=_TYPE.CONTENT_TYPE_RESOURCE_LINK, uri=text(given, "uri"))
    _name(block, given)
    block.name = as_text(given.get("name")) or as_text(given.get("title")) or block.uri
    size = given.get("size")
    if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 63:
        block.size = size
    if mime := as_text(given.get("mimeType")):
        block.mime_type = mime
    return block


def _resource(given: Json) -> v1.ContentBlock:
    block = v1.ContentBlock(type=_TYPE.CONTENT_TYPE_RESOURCE, uri=text(given, "uri"))
    if mime := as_text(given.get("mimeType")):
        block.mime_type = mime
    if isinstance(given.get("text"), str):
        block.text = given["text"]
    else:
        block.data = _bytes(given.get("blob"), "resource")
    return block


def _name(block: v1.ContentBlock, given: Json) -> None:
    uri = as_text(given.get("uri"))
    if not uri:
        return
    block.uri = uri
    if uri.startswith("file:"):
        try:
            path = urlsplit(uri).path
        except ValueError:
            raise bad(f"the uri {uri!r:.200} cannot be read.", "prompt") from None
        block.name = PurePath(unquote(path)).name or uri


def _bytes(value: object, what: str) -> bytes:
    if isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except ValueError:
            pass
    raise bad(f"the data of the {what} is no base64.", "prompt")
