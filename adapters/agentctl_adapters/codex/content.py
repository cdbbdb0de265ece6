"""Owns content blocks between Codex and us: prompts as recorded, results of tools. Pure."""

import orjson

from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, decoded


def prompt_of(items: object) -> list[ContentBlock]:
    """The input of a turn/start as content."""
    return [_input(item) for item in as_objects(items)]


def _input(item: Json) -> ContentBlock:
    url, path = as_text(item.get("url")), as_text(item.get("path"))
    match item.get("type"):
        case "text":
            return ContentBlock(ContentType.TEXT, text=as_text(item.get("text")))
        case "image":
            return _media(ContentType.IMAGE, url)
        case "audio":
            return _media(ContentType.AUDIO, url)
        case "localImage":
            return ContentBlock(ContentType.IMAGE, path=path or None)
        case "localAudio":
            return ContentBlock(ContentType.AUDIO, path=path or None)
        case _:
            name = as_text(item.get("name")) or None
            return ContentBlock(ContentType.FILE, path=path or None, name=name)


def _media(kind: ContentType, url: str) -> ContentBlock:
    head, _, data = url.partition(",")
    if not head.startswith("data:"):
        return ContentBlock(kind, uri=url or None)
    mime = head.removeprefix("data:").partition(";")[0] or None
    return ContentBlock(kind, data=decoded(data), mime_type=mime)


def content_of(items: object) -> list[ContentBlock]:
    """The result of an MCP tool, or of one of ours."""
    return [_result(item) for item in as_objects(items)]


def _result(item: Json) -> ContentBlock:
    mime = as_text(item.get("mimeType")) or None
    match item.get("type"):
        case "text" | "inputText":
            return ContentBlock(ContentType.TEXT, text=as_text(item.get("text")))
        case "image":
            data = decoded(as_text(item.get("data")))
            return ContentBlock(ContentType.IMAGE, data=data, mime_type=mime)
        case "inputImage":
            return _media(ContentType.IMAGE, as_text(item.get("imageUrl")))
        case "audio":
            data = decoded(as_text(item.get("data")))
            return ContentBlock(ContentType.AUDIO, data=data, mime_type=mime)
        case "resource":
            inner = as_object(item.get("resource"))
            return ContentBlock(
                ContentType.RESOURCE,
                text=as_text(inner.get("text")) or None,
                uri=as_text(inner.get("uri")) or None,
                mime_type=as_text(inner.get("mimeType")) or None,
            )
        case _:
            return ContentBlock(ContentType.TEXT, text=orjson.dumps(item).decode())
