"""Owns the size of an event: nothing of it is larger than 256 KiB. Knows no wire format.

Text that appends travels as several events; every other field is cut, and says so by `truncated`
where its payload has that field. Cuts fall between code points.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from agentctl.core.events import (
    Event,
    FileChange,
    Message,
    MessageChunk,
    Payload,
    Reasoning,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock
from agentctl.core.whole import Whole
from agentctl.core.words import ContentType, Role

EVENT_BYTES = 256 * 1024
# The envelope (ids, cursor) and the framing of fields travel in the same event.
HEADROOM_BYTES = 8 * 1024
TEXT_BYTES = EVENT_BYTES - HEADROOM_BYTES
# A code point takes at most four bytes: shorter text needs no count.
SURELY_SMALL_CHARS = TEXT_BYTES // 4
LIST_ITEMS = 1000
"""Items kept of a list when the event would be too large otherwise."""
_PART_BYTES = 32
_CUT_FLOOR = 4 * 1024
_BLOCK_FLOOR = 256


def size_of(text: str) -> int:
    """Bytes of the text in UTF-8; lone surrogates count three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def head(text: str, limit: int) -> str:
    """The longest start of the text that fits into `limit` bytes."""
    if len(text) * 4 <= limit:
        return text
    return text.encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")


def tail(text: str, limit: int) -> str:
    """The longest end of the text that fits into `limit` bytes."""
    if len(text) * 4 <= limit or limit <= 0:
        return text if limit > 0 else ""
    return text.encode("utf-8", "surrogatepass")[-limit:].decode("utf-8", "ignore")


def pieces(text: str, limit: int = TEXT_BYTES) -> Iterator[str]:
    """The text in order, in pieces that fit into `limit` bytes."""
    at, step = 0, max(1, limit // 4)
    while at < len(text):
        piece = head(text[at : at + limit], limit) or text[at : at + step]
        yield piece
        at += len(piece)


def bound(event: Event) -> list[Event]:
    """The event itself when it is small enough, else smaller ones that say the same in order."""
    event.raw = None if event.raw is not None and len(event.raw) > TEXT_BYTES else event.raw
    payload = event.payload
    match payload:
        case MessageChunk(text=str(text)) if len(text) > SURELY_SMALL_CHARS:
            return _split(event, text, lambda piece: dataclasses.replace(payload, text=piece))
        case Reasoning(text=str(text)) if len(text) > SURELY_SMALL_CHARS:
            return _split(event, text, lambda piece: dataclasses.replace(payload, text=piece))
        case ToolUpdate(output_delta=str(text)) if len(text) > SURELY_SMALL_CHARS:
            return _split_output(event, payload, text)
        case _:
            return [_small(event)]


def _split(event: Event, text: str, make: Callable[[str], Payload]) -> list[Event]:
    parts = list(pieces(text))
    if len(parts) == 1:
        return [event]
    events = [
        dataclasses.replace(event, payload=make(piece), raw=None, whole=None) for piece in parts
    ]
    events[0].raw, events[0].whole = event.raw, event.whole
    for later in events[1:]:
        match later.payload:
            case Reasoning() as reasoning:
                reasoning.whole = None
            case _:
                pass
    return events


def _split_output(event: Event, payload: ToolUpdate, text: str) -> list[Event]:
    *first, last = pieces(text)
    tool = payload.tool_call_id
    events = [
        dataclasses.replace(
            event, payload=ToolUpdate(tool, output_delta=piece), raw=None, whole=None
        )
        for piece in first
    ]
    payload.output_delta = last
    if weight(payload) > TEXT_BYTES:
        payload.output_delta = None
        only = ToolUpdate(tool, output_delta=last)
        events.append(dataclasses.replace(event, payload=only, raw=None, whole=None))
    return [*events, _small(event)]


def weight(value: object) -> int:
    """About how many bytes the value takes in an event."""
    match value:
        case str():
            return size_of(value)
        case bytes():
            return len(value)
        case list():
            return sum(_PART_BYTES + weight(item) for item in cast(list[Any], value))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return sum(weight(getattr(value, f.name)) for f in dataclasses.fields(value))
        case _:
            return 8


def short(blocks: Sequence[ContentBlock], limit: int = TEXT_BYTES) -> list[ContentBlock]:
    """Copies of the blocks, together about `limit` bytes; what is cut says so by `truncated`."""
    copies = [dataclasses.replace(block) for block in blocks]
    each = limit
    while weight(copies) > limit and each > _BLOCK_FLOOR:
        each //= 2
        _cut_items(copies, each, {})
    room = max(1, limit // (_BLOCK_FLOOR * 2))
    return copies if weight(copies) <= limit else copies[:room]


def _small(event: Event) -> Event:
    payload = event.payload
    if seen := _media(payload):
        event.whole = [*(event.whole or ()), *seen]
    if weight(payload) <= TEXT_BYTES:
        return event
    kept: _Kept = {}
    if isinstance(payload, ToolUpdate) and (output := payload.output_replace) is not None:
        payload.output_size = payload.output_size or size_of(output)
        payload.output_replace = tail(output, TEXT_BYTES // 2)
        if payload.output_replace != output:
            kept[id(payload), "output_replace"] = Whole("output", output)
        payload.truncated = True
    limit = TEXT_BYTES
    while weight(payload) > TEXT_BYTES and limit > _CUT_FLOOR:
        limit //= 2
        _cut(payload, limit, kept)
    if weight(payload) > TEXT_BYTES:
        _shorten(payload, kept)
    if kept:
        event.whole = [*(event.whole or ()), *kept.values()]
    return event


_Kept = dict[tuple[int, str], Whole]
"""What was cut, as it was before the first cut; by the part and the field."""


def _media(payload: Payload) -> list[Whole]:
    """The images and sounds that an agent shows."""
    match payload:
        case ToolUpdate(content=list(blocks)) if blocks:
            pass
        case Message(role=Role.ASSISTANT, content=blocks):
            pass
        case MessageChunk(role=Role.ASSISTANT, content=ContentBlock() as block):
            blocks = [block]
        case _:
            return []
    return [Whole("data", b.data, b.mime_type) for b in blocks if b.data and is_media(b)]


def is_media(block: ContentBlock) -> bool:
    """Whether the block is an image, a sound or a film."""
    told = (block.mime_type or "").partition("/")[0]
    return block.type in (ContentType.IMAGE, ContentType.AUDIO) or told in _SEEN_OR_HEARD


_SEEN_OR_HEARD = frozenset({"image", "audio", "video"})


def _cut(part: object, limit: int, kept: _Kept) -> None:
    """Cuts every text longer than `limit` bytes; JSON and binary data are left out instead."""
    cut = False
    for field in dataclasses.fields(cast(Any, part)):
        value = getattr(part, field.name)
        match value:
            case str() if size_of(value) > limit:
                _note_size(part, size_of(value))
                kept.setdefault((id(part), field.name), _whole(part, field.name, value))
                setattr(part, field.name, head(value, limit))
                cut = True
            case bytes() if len(value) > limit:
                _note_size(part, len(value))
                if not (isinstance(part, ContentBlock) and is_media(part)):
                    kept.setdefault((id(part), field.name), _whole(part, field.name, value))
                setattr(part, field.name, None)
                cut = True
            case list():
                cut |= _cut_items(cast(list[Any], value), limit, kept)
            case _ if dataclasses.is_dataclass(value):
                _cut(value, limit, kept)
            case _:
                pass
    if cut:
        _say_cut(part)


def _whole(part: object, name: str, value: str | bytes) -> Whole:
    if name.endswith("_json"):
        return Whole(name.removesuffix("_json"), value, "application/json")
    name = name.removesuffix("_replace")
    return Whole(name, value, part.mime_type if isinstance(part, ContentBlock) else None)


def _cut_items(items: list[Any], limit: int, kept: _Kept) -> bool:
    cut = False
    for index, item in enumerate(items):
        if isinstance(item, str) and size_of(item) > limit:
            items[index] = head(item, limit)
            cut = True
        elif dataclasses.is_dataclass(item):
            _cut(item, limit, kept)
    return cut


def _note_size(part: object, size: int) -> None:
    if isinstance(part, ContentBlock) and part.size is None:
        part.size = size


def _say_cut(part: object) -> None:
    if isinstance(part, Message):
        return
    if isinstance(part, FileChange | ContentBlock | ToolUpdate) or hasattr(part, "truncated"):
        cast(Any, part).truncated = True


def _shorten(part: object, kept: _Kept) -> None:
    """The last resort: too many parts, each small."""
    for field in dataclasses.fields(cast(Any, part)):
        value = getattr(part, field.name)
        if isinstance(value, list) and len(cast(list[Any], value)) > LIST_ITEMS:
            setattr(part, field.name, cast(list[Any], value)[:LIST_ITEMS])
            _say_cut(part)
    if weight(part) > TEXT_BYTES:
        _cut(part, TEXT_BYTES // LIST_ITEMS // 2, kept)
