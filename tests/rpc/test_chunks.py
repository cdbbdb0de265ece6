"""The short way of text chunks writes what protobuf writes, and takes nothing that it cannot."""

from typing import Any

import pytest

from agentctl import v1
from agentctl.core.events import Event, Log, MessageChunk
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, LogStream, Role
from agentctl.rpc.chunks import MAX_HEADS, ChunkFrames
from agentctl.rpc.convert import FrameEncoder, encode_frame

JOURNAL = "0123456789abcdef"
NAMES = ("run_id", "after_run_id", "agent_id", "session_id", "session_key", "task_id")


def chunk(text: str, seq: int = 4711, message: str = "m1", **envelope: Any) -> Event:
    return Event(payload=MessageChunk(message, text=text), seq=seq, **envelope)


@pytest.mark.parametrize("seq", [128, 999, 1000, 16383, 16384, 2**31, 2**53 + 1])
@pytest.mark.parametrize("length", [0, 1, 60, 127, 128, 1900, 2047, 2048, 16384, 70_000])
def test_it_writes_the_same_bytes_for_any_length_and_place(seq: int, length: int) -> None:
    event = chunk("é" * length, seq, ts=1764500000000, session_id="ses_1", run_id="run_1")
    assert ChunkFrames(JOURNAL).frame(event) == encode_frame(event, JOURNAL)


def test_it_writes_the_same_bytes_for_any_envelope() -> None:
    frames = ChunkFrames(JOURNAL)
    told: list[dict[str, Any]] = [dict.fromkeys(NAMES[:n], "x" * n) for n in range(len(NAMES) + 1)]
    told += [{name: value} for name in NAMES for value in ("", "ß", "y" * 300)]
    told += [{"parent_tool_call_id": "t", "ts": ts} for ts in (0, 1, 127, 128)]
    for envelope in told:
        for message in ("m1", "", "m" * 200):
            event = chunk("text", message=message, **envelope)
            assert frames.frame(event) == encode_frame(event, JOURNAL)


def test_one_run_after_the_other_gets_its_own_envelope_however_many_there_are() -> None:
    frames = ChunkFrames(JOURNAL)
    for number in [*range(MAX_HEADS + 2), 0]:
        event = chunk("t", seq=200 + number, ts=1000 + number // 7, run_id=f"run_{number}")
        assert frames.frame(event) == encode_frame(event, JOURNAL)


@pytest.mark.parametrize(
    "event",
    [
        chunk("early", seq=127),
        chunk("raw", raw=b"{}"),
        Event(MessageChunk("m1", Role.USER, "a user's"), seq=4711),
        Event(MessageChunk("m1", content=ContentBlock(ContentType.TEXT, text="x")), seq=4711),
        Event(MessageChunk("m1"), seq=4711),
        Event(Log(LogStream.NOTE, "no chunk"), seq=4711),
    ],
    ids=lambda event: str(event.payload)[:40],
)
def test_what_is_not_plain_goes_the_long_way_and_arrives_all_the_same(event: Event) -> None:
    assert ChunkFrames(JOURNAL).frame(event) is None
    assert FrameEncoder(JOURNAL)(event) == encode_frame(event, JOURNAL)


def test_half_a_surrogate_pair_is_mended_as_ever() -> None:
    event = chunk("half \ud800")
    frame = FrameEncoder(JOURNAL)(event)
    assert frame == encode_frame(event, JOURNAL)
    assert v1.EventBatch.FromString(frame).events[0].message_chunk.text.startswith("half ")
