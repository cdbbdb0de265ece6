"""Owns how content of the model's API becomes ours, and ours becomes that. Pure.

A prompt is a text or a list of blocks. What the API cannot take as it is becomes text that names it.
"""

import base64
from collections.abc import Sequence

from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, decoded

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def block_of(content: Json) -> ContentBlock:
    """One block; an unknown kind becomes text that names it."""
    source = as_object(content.get("source"))
    mime = as_text(source.get("media_type")) or None
    match content.get("type"):
        case "text":
            return ContentBlock(ContentType.TEXT, text=as_text(content.get("text")))
        case "image":
            uri = as_text(source.get("url")) or None
            data = decoded(source.get("data"))
            return ContentBlock(ContentType.IMAGE, data=data, mime_type=mime, uri=uri)
        case "document":
            name = as_text(content.get("title")) or None
            if source.get("type") == "text":
                text = as_text(source.get("data"))
                return ContentBlock(ContentType.RESOURCE, text=text, mime_type=mime, name=name)
            data = decoded(source.get("data"))
            return ContentBlock(ContentType.RESOURCE, data=data, mime_type=mime, name=name)
        case "tool_reference":
            return ContentBlock(ContentType.TEXT, text=as_text(content.get("tool_name")))
        case kind:
            return ContentBlock(ContentType.TEXT, text=f"[content of unknown type {kind!r}]")


def blocks_of(content: object) -> list[ContentBlock]:
    """The content of a message or a result: a text, or a list of blocks."""
    if isinstance(content, str):
        return [ContentBlock(ContentType.TEXT, text=content)] if content else []
    return [block_of(block) for block in as_objects(content)]


def prompt_content(blocks: Sequence[ContentBlock]) -> str | list[Json]:
    """Our prompt as the API takes it: a plain text where it is no more than that."""
    if len(blocks) == 1 and blocks[0].type is ContentType.TEXT:
        return blocks[0].text or ""
    return [_api_block(block) for block in blocks]


def _api_block(block: ContentBlock) -> Json:
    if block.type is ContentType.IMAGE and block.data is not None and block.mime_type in IMAGES:
        data = base64.b64encode(block.data).decode()
        source = {"type": "base64", "media_type": block.mime_type, "data": data}
        return {"type": "image", "source": source}
    if block.data is not None and block.mime_type == "application/pdf":
        data = base64.b64encode(block.data).decode()
        source = {"type": "base64", "media_type": block.mime_type, "data": data}
        return {"type": "document", "source": source}
    return {"type": "text", "text": _words(block)}


def _words(block: ContentBlock) -> str:
    where = block.path or block.uri or block.name or ""
    if block.text is not None:
        if block.type is ContentType.TEXT or not where:
            return block.text
        return f'<file path="{where}">\n{block.text}\n</file>'
    return f"@{where}" if where else f"[{block.type} of type {block.mime_type}]"
