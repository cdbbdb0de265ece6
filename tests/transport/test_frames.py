"""Lines come out as they went in, however they were cut, however long they are."""

import time
from collections.abc import Callable

import pytest

from agentctl.transport.frames import MAX_LINE, LineFramer, Oversized

TEXT = b'{"a":1}\n\nplain\r\n{"u":"\xe2\x80\xa8\xc2\x85\x0b\x0c"}\nin\rside\r\n'
LINES = [b'{"a":1}', b"", b"plain", b'{"u":"\xe2\x80\xa8\xc2\x85\x0b\x0c"}', b"in\rside"]


@pytest.mark.proves("P8")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_wherever_the_chunks_are_cut(size: int) -> None:
    framer = LineFramer()
    got: list[bytes | Oversized] = []
    for at in range(0, len(TEXT), size):
        got += framer.feed(TEXT[at : at + size])
    assert got == LINES
    assert framer.flush() is None


def test_an_unfinished_last_line_is_given_at_the_end() -> None:
    framer = LineFramer()
    assert framer.feed(b"a\nb") == [b"a"]
    assert framer.feed(b"c\r") == []
    assert framer.flush() == b"bc"
    assert framer.flush() is None


@pytest.mark.proves("P8")
@pytest.mark.parametrize("size", [1, 4, 9, 1000])
def test_a_line_that_is_too_long_is_skipped_and_the_next_one_lives(size: int) -> None:
    framer = LineFramer(max_line=8)
    text = b"12345678\r\n123456789\nok\n" + b"x" * 50 + b"\n12345678\n"
    got: list[bytes | Oversized] = []
    for at in range(0, len(text), size):
        got += framer.feed(text[at : at + size])
    assert got == [b"12345678", Oversized(9), b"ok", Oversized(50), b"12345678"]


def test_a_line_that_is_too_long_at_the_end_is_reported_too() -> None:
    framer = LineFramer(max_line=8)
    assert framer.feed(b"x" * 20) == []
    assert framer.flush() == Oversized(20)
    assert framer.flush() is None


@pytest.mark.proves("P8")
def test_a_line_of_64_mb_passes_and_one_of_65_mb_does_not() -> None:
    framer = LineFramer()
    chunk = b"x" * 1_048_576
    for _ in range(64):
        assert framer.feed(chunk) == []
    (line,) = framer.feed(b"\n")
    assert isinstance(line, bytes)
    assert len(line) == MAX_LINE
    for _ in range(65):
        assert framer.feed(chunk) == []
    assert framer.feed(b"\nnext\n") == [Oversized(65 * 1_048_576), b"next"]


def best_time(work: Callable[[], int]) -> float:
    spent: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        assert work() == MAX_LINE
        spent.append(time.perf_counter() - began)
    return min(spent)


@pytest.mark.proves("P8")
def test_a_long_line_costs_little_more_than_joining_it_once() -> None:
    chunks = [b"x" * 65_536] * (MAX_LINE // 65_536)

    def join() -> int:
        return len(b"".join(chunks))

    def frame() -> int:
        framer = LineFramer()
        for chunk in chunks:
            framer.feed(chunk)
        (line,) = framer.feed(b"\n")
        assert isinstance(line, bytes)
        return len(line)

    assert best_time(frame) < 20 * best_time(join)  # searching again at each chunk: 500 times
