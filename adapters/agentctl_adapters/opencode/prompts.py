"""Owns what a prompt request says, as content blocks: every route that starts a run. Pure."""

import base64
import binascii
from typing import Any

from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType
from agentctl_adapters.opencode.shapes import Json, as_object, as_objects, as_text, as_texts

ROUTES = frozenset({"message", "prompt_async", "command", "shell", "summarize", "init"})
"""The last part of POST /session/{id}/… that starts a run."""


def blocks_of(route: str, body: Json) -> list[ContentBlock]:
    """The prompt as the reader sees it."""
    match route:
        case "command":
            words = f"/{as_text(body.get('command'))} {as_text(body.get('arguments'))}"
            return [text_block(words.strip()), *_parts(body)]
        case "shell":
            return [text_block(f"!{as_text(body.get('command'))}")]
        case "summarize":
            return [text_block("/compact")]
        case "init":
            return [text_block("/init")]
        case _:
            return _parts(body)


def _parts(body: Json) -> list[ContentBlock]:
    told: Any = next((body[key] for key in ("parts", "prompt", "message") if key in body), None)
    if not as_objects(told):
        return [text_block(text) for text in as_texts(told)]
    blocks: list[ContentBlock] = []
    for part in as_objects(told):
        match part.get("type"):
            case "text" if part.get("synthetic") is not True:
                blocks.append(text_block(as_text(part.get("text"))))
            case "file":
                blocks.append(block_of_file(part))
            case "agent":
                blocks.append(text_block(f"@{as_text(part.get('name'))}"))
            case "subtask":
                blocks.append(text_block(as_text(part.get("prompt"))))
            case _:
                continue
    return blocks


def block_of_file(part: Json) -> ContentBlock:
    """A file part: a data URL becomes its bytes, anything else stays a link."""
    mime = as_text(part.get("mime")) or None
    url = as_text(part.get("url")) or as_text(part.get("file"))
    name = as_text(part.get("filename")) or None
    if mime is None and part.get("mediaType") == "image":
        mime = "image/*"
    kind = ContentType.FILE
    if mime is not None and mime.startswith("image/"):
        kind = ContentType.IMAGE
    elif mime is not None and mime.startswith("audio/"):
        kind = ContentType.AUDIO
    block = ContentBlock(kind, mime_type=mime, name=name)
    if url.startswith("data:"):
        block.data = _data(url)
        return block
    block.uri = url or None
    source = as_object(part.get("source"))
    block.path = as_text(source.get("path")) or None
    return block


def _data(url: str) -> bytes | None:
    head, _, body = url.partition(",")
    if not head.endswith(";base64"):
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return None


def text_block(text: str) -> ContentBlock:
    return ContentBlock(ContentType.TEXT, text=text)
