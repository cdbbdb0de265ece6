"""How numbers, lines and ids look to a person."""

import io

import pytest

from agentctl.cli import ids, out
from agentctl.cli.root import hoist


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (12, "12 ms"),
        (1_900, "1.9 s"),
        (9_960, "10 s"),
        (14_000, "14 s"),
        (200_000, "3 m 20 s"),
        (7_500_000, "2 h 5 m"),
    ],
)
def test_a_duration_has_at_most_two_units(ms: int, text: str) -> None:
    assert out.duration(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7 B"), (684_000, "684 kB"), (412_000_000, "412 MB"), (1_600_000_000, "1.6 GB")],
)
def test_a_size_has_one_unit(count: int, text: str) -> None:
    assert out.size(count) == text


def test_tokens_are_short_from_a_thousand_on() -> None:
    assert [out.tokens(870), out.tokens(12_400)] == ["870", "12.4 k"]


def test_a_line_is_cut_by_what_it_takes_on_the_screen() -> None:
    assert out.clip("abc", 3) == "abc"
    assert out.clip("abcd", 3) == "ab…"
    assert out.cells(out.clip("日本語テキスト", 6)) <= 6
    assert out.cells("\x1b[1mab\x1b[0m") == 2


def test_control_characters_are_taken_out_and_line_ends_kept() -> None:
    assert out.clean("a\r\nb\x1b[2J\x9b\x07\tc\n") == "a\nb[2J\tc\n"
    assert out.plain(" a\n\x1b b ") == "a b"


def test_colours_follow_the_terminal_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert out.Out(Screen()).text("x", "bold red") == "\x1b[1;31mx\x1b[0m"
    assert out.Out(io.StringIO()).text("x", "bold") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert out.Out(Screen()).text("x", "bold") == "x"
    monkeypatch.setattr(out.STATE, "color", "always")
    assert out.Out(io.StringIO()).text("x", "dim") == "\x1b[2mx\x1b[0m"


def test_an_id_is_shown_as_long_as_it_must_be() -> None:
    one, two = "ses_01m8pk21c5rr4gt2gzrv9k31s8", "ses_01m8pk21c5rr4gt2gzrv9f31s8"
    assert ids.short(one) == "ses_01m…31s8"
    assert ids.short(one, [one, two]) == "ses_01m…k31s8"
    for text in (one, "31s8", "ses_31s8", "ses_01m…k31s8", "ses_01m...k31s8"):
        assert ids.matches(one, text)
    assert not ids.matches(one, "run_31s8") and not ids.matches(two, "k31s8")


def test_colour_and_address_may_stand_anywhere_before_two_dashes() -> None:
    assert hoist(["ps", "--color", "never"]) == ["--color", "never", "ps"]
    assert hoist(["ps", "--address=unix:/x", "-a"]) == ["--address", "unix:/x", "ps", "-a"]
    assert hoist(["run", "--", "--color", "never"]) == ["run", "--", "--color", "never"]
    assert hoist(["run", "a", "--color"]) == ["run", "a", "--color"]
