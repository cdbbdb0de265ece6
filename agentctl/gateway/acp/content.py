"""Owns how our content becomes ACP's: blocks, and unified diffs as pairs of old and new text. Pure."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from agentctl.core.parts import ContentBlock
from agentctl.core.words import ChangeKind, ContentType

Json = dict[str, Any]

_CHANGES = {
    ChangeKind.CREATE: "add",
    ChangeKind.MODIFY: "modify",
    ChangeKind.DELETE: "delete",
    ChangeKind.RENAME: "modify",
}
_NO_NEWLINE = "\\ No newline"


def text_of(text: str) -> Json:
    return {"type": "text", "text": text}


def block_of(block: ContentBlock) -> Json | None:
    """A ContentBlock of ACP; None for what it cannot show."""
    match block.type:
        case ContentType.TEXT:
            return text_of(block.text or "")
        case ContentType.IMAGE | ContentType.AUDIO if block.data is not None:
            kind = block.type.value
            fallback = "image/png" if block.type is ContentType.IMAGE else "audio/wav"
            made: Json = {
                "type": kind,
                "data": b64encode(block.data).decode(),
                "mimeType": block.mime_type or fallback,
            }
            return made | {"uri": block.uri} if kind == "image" and block.uri else made
        case ContentType.RESOURCE if block.text is not None or block.data is not None:
            return {"type": "resource", "resource": _resource(block)}
        case ContentType.DIFF:
            return text_of(block.diff or block.text or "")
        case ContentType.TERMINAL:
            return None
        case _:
            return _link(block)


def _resource(block: ContentBlock) -> Json:
    made: Json = {"uri": uri_of(block) or f"file:///{quote(block.name or 'content')}"}
    if block.text is not None:
        made["text"] = block.text
    else:
        made["blob"] = b64encode(block.data or b"").decode()
    return made | ({"mimeType": block.mime_type} if block.mime_type else {})


def _link(block: ContentBlock) -> Json | None:
    uri = uri_of(block)
    if not uri:
        return text_of(block.text) if block.text else None
    link: Json = {
        "type": "resource_link",
        "uri": uri,
        "name": block.name or uri.rstrip("/").rpartition("/")[2] or uri,
    }
    told = {"mimeType": block.mime_type, "description": block.text, "size": block.size}
    return link | {name: value for name, value in told.items() if value}


def uri_of(block: ContentBlock) -> str:
    return block.uri or (f"file://{quote(block.path)}" if block.path else "")


def tool_content(blocks: Sequence[ContentBlock]) -> Iterator[Json]:
    """The content of a tool, diffs as such."""
    for block in blocks:
        if block.type is ContentType.DIFF and block.path and block.diff:
            yield from diffs(block.path, block.diff)
        elif (made := block_of(block)) is not None:
            yield {"type": "content", "content": made}


def diffs(path: str, diff: str, change: ChangeKind | None = None) -> Iterator[Json]:
    """The hunks of a unified diff, each as the text before and after it.

    ACP has whole texts where we have diffs: what is unchanged between two hunks is not shown.
    """
    for old, new, created, deleted in _hunks(diff):
        kind = change or (
            ChangeKind.CREATE if created else ChangeKind.DELETE if deleted else ChangeKind.MODIFY
        )
        made: Json = {"type": "diff", "path": path, "newText": new}
        made["oldText"] = None if kind is ChangeKind.CREATE and not old else old
        made["_meta"] = {"kind": _CHANGES[kind]}
        yield made


def _hunks(diff: str) -> Iterator[tuple[str, str, bool, bool]]:
    old: list[str] = []
    new: list[str] = []
    created = deleted = inside = False
    sides: tuple[list[str], ...] = ()
    for line in diff.split("\n"):
        if line.startswith("@@"):
            if inside:
                yield "".join(old), "".join(new), created, deleted
            old, new, inside, sides = [], [], True, ()
        elif not inside:
            created = created or line.startswith("--- /dev/null")
            deleted = deleted or line.startswith("+++ /dev/null")
        elif line.startswith(_NO_NEWLINE):
            for side in sides:
                side[-1] = side[-1].removesuffix("\n")
        else:
            sides = {"-": (old,), "+": (new,), " ": (old, new)}.get(line[:1], ())
            for side in sides:
                side.append(line[1:] + "\n")
    if inside:
        yield "".join(old), "".join(new), created, deleted
