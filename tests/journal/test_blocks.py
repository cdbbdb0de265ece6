import pytest

from agentctl.core.errors import Invalid
from agentctl.core.words import EventType
from agentctl.journal.blocks import BLOCK_BYTES, COMPLETE_BIT, NUMBERS, RAW_BIT, pack, pick, walk
from agentctl.journal.select import Selection, wanted
from tests.journal.kit import chunk, chunks, complete, decode, encode, event, plan, strip_raw

LIMIT = 1024 * 1024


def test_a_list_of_one_run_is_one_block_and_its_events_are_numbered_on() -> None:
    blocks = pack(chunks(100), 7, encode, LIMIT)
    assert [(block.first, block.last) for block in blocks] == [(8, 107)]
    assert [told["seq"] for told in decode(blocks[0].data)] == list(range(8, 108))


def test_a_block_ends_where_session_run_or_agent_changes() -> None:
    events = [chunk(), chunk(run="run_2"), chunk(run=None), chunk(session="ses_2"), chunk()]
    blocks = pack(events, 0, encode, LIMIT)
    assert [(block.session_id, block.run_id) for block in blocks] == [
        ("ses_1", "run_1"),
        ("ses_1", "run_2"),
        ("ses_1", None),
        ("ses_2", "run_1"),
        ("ses_1", "run_1"),
    ]


def test_a_block_is_cut_at_256_kib_and_a_larger_event_stands_alone() -> None:
    events = [chunk("x" * 100_000) for _ in range(4)]
    events.insert(2, chunk("y" * (BLOCK_BYTES + 10)))
    blocks = pack(events, 0, encode, LIMIT)
    assert [(block.first, block.last) for block in blocks] == [(1, 2), (3, 3), (4, 5)]


def test_the_mask_tells_types_and_raw() -> None:
    with_raw = chunk()
    with_raw.raw = b"{}"
    (block,) = pack([with_raw, complete()], 0, encode, LIMIT)
    chunk_bit = 1 << NUMBERS[EventType.MESSAGE_CHUNK]
    assert block.mask == chunk_bit | COMPLETE_BIT | RAW_BIT


def test_an_event_too_large_loses_its_raw_first_and_is_refused_only_then() -> None:
    heavy = chunk()
    heavy.raw = b"r" * 2000
    (block,) = pack([heavy], 0, encode, 1000)
    assert "raw" not in decode(block.data)[0]
    with pytest.raises(Invalid, match="message_chunk"):
        pack([chunk("x" * 2000)], 0, encode, 1000)


@pytest.mark.parametrize("size", [1, 60, 127, 128, 16_000, 17_000, 300_000])
def test_frames_of_any_size_are_walked(size: int) -> None:
    data = encode(chunk("x" * size)) + encode(plan())
    assert [number for _, _, number in walk(data)] == [
        NUMBERS[EventType.MESSAGE_CHUNK],
        NUMBERS[EventType.PLAN],
    ]


def test_a_selection_takes_out_what_is_not_wanted() -> None:
    events = [chunk(), plan(), chunk(), complete()]
    events[2].raw = b"R"
    (block,) = pack(events, 10, encode, LIMIT)
    data, count = pick(
        block.data, 11, after=11, want=wanted({EventType.MESSAGE_CHUNK}, False), strip=strip_raw
    )
    assert count == 1
    assert decode(data) == [
        {"seq": 13, "session": "ses_1", "run": "run_1", "text": "hello", "type": "message_chunk"}
    ]


def test_a_block_of_wanted_types_passes_as_the_very_same_bytes() -> None:
    (block,) = pack(chunks(3), 0, encode, LIMIT)
    selection = Selection(want=wanted((), False), strip=strip_raw)
    assert selection.view(block, 0)[0] is block.data


def test_logs_come_only_when_asked_for() -> None:
    log_bit = 1 << NUMBERS[EventType.LOG]
    assert not wanted((), False) & log_bit
    assert wanted((), True) & log_bit
    assert wanted({EventType.LOG}, False) == log_bit


def test_an_event_without_any_id_is_packed_too() -> None:
    bare = event(plan().payload, session=None, run=None, agent=None)
    assert pack([bare], 0, encode, LIMIT)[0].last == 1
