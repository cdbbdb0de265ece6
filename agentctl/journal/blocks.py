"""Owns blocks, the unit of storage: packing events into one, walking and filtering its frames.

Pure. Refuses to know what stands in a frame beyond its length and its type: a frame is
`0x0A <varint length> <event>`, and an event begins with `0x08 <type>` (field 1, the type number).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from agentctl.core.errors import Invalid
from agentctl.core.events import Event, Payload
from agentctl.core.words import EventType

BLOCK_BYTES = 256 * 1024
"""A block is cut here; an event that alone is larger is its own block."""

PAGE_BYTES = 1024 * 1024
"""The most that one read or one batch carries: gRPC clients refuse 4 MiB in every language."""

NUMBERS = {kind: number for number, kind in enumerate(EventType, start=1)}
TYPE_BITS = sum(1 << number for number in NUMBERS.values())
COMPLETE_BIT = 1 << NUMBERS[EventType.COMPLETE]
LOG_BIT = 1 << NUMBERS[EventType.LOG]
RAW_BIT = 1 << 40

# By class, not by EventType: an enum member hashes in Python code, a class in C.
_BIT_OF: dict[type, int] = {payload: 1 << NUMBERS[payload.TYPE] for payload in get_args(Payload)}

Encode = Callable[[Event], bytes]
StripRaw = Callable[[bytes], bytes]


@dataclass(slots=True)
class Block:
    """Consecutive events of one list with the same session, run and agent.

    `mask` has bit `1 << number` for each type inside and RAW_BIT when some event carries raw.
    `serves`: the sessions that also see this block of an agent (it has no session of its own).
    `view` keeps the block as most subscribers want it, made once for all of them.
    """

    first: int
    last: int
    session_id: str | None
    run_id: str | None
    agent_id: str | None
    mask: int
    data: bytes
    serves: frozenset[str] = frozenset()
    view: tuple[bytes, int] | None = None


def pack(events: Sequence[Event], after: int, encode: Encode, frame_limit: int) -> list[Block]:
    """Stamps seq from `after` + 1, encodes each event once and cuts blocks.

    Raises:
        Invalid: an event is larger than `frame_limit` bytes even without its raw.
    """
    blocks: list[Block] = []
    frames: list[bytes] = []
    keep = frames.append
    session = run = agent = None
    seq, first, size, mask = after, after + 1, 0, 0
    for event in events:
        seq += 1
        event.seq = seq
        frame = encode(event)
        length = len(frame)
        if length > frame_limit:
            frame = _shrunk(event, encode, frame_limit)
            length = len(frame)
        if frames and (
            event.session_id != session
            or event.run_id != run
            or event.agent_id != agent
            or size + length > BLOCK_BYTES
        ):
            blocks.append(Block(first, seq - 1, session, run, agent, mask, b"".join(frames)))
            frames.clear()
            size = mask = 0
        if not frames:
            first = seq
            session, run, agent = event.session_id, event.run_id, event.agent_id
        keep(frame)
        size += length
        mask |= _BIT_OF[type(event.payload)]
        if event.raw is not None:
            mask |= RAW_BIT
    if frames:
        blocks.append(Block(first, seq, session, run, agent, mask, b"".join(frames)))
    return blocks


def _shrunk(event: Event, encode: Encode, frame_limit: int) -> bytes:
    event.raw = None
    frame = encode(event)
    if len(frame) > frame_limit:
        raise Invalid(
            f"An event of type {event.type} has {len(frame)} bytes, more than the journal's"
            f" {frame_limit}: cut its text before it is appended."
        )
    return frame


def walk(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields (start, end, type number) of each frame in `data`."""
    start, size = 0, len(data)
    while start < size:
        at = start + 1
        byte = data[at]
        length, shift = byte & 0x7F, 7
        while byte & 0x80:
            at += 1
            byte = data[at]
            length |= (byte & 0x7F) << shift
            shift += 7
        end = at + 1 + length
        yield start, end, data[at + 2]
        start = end


def pick(
    data: bytes, first: int, *, after: int, want: int, strip: StripRaw | None
) -> tuple[bytes, int]:
    """Returns the frames with seq > `after` and a type in `want`, and how many they are.

    `strip`, when given, takes the raw out of each frame.
    """
    kept: list[bytes] = []
    for seq, (start, end, number) in enumerate(walk(data), start=first):
        if seq > after and want >> number & 1:
            frame = data[start:end]
            kept.append(strip(frame) if strip is not None else frame)
    return b"".join(kept), len(kept)
