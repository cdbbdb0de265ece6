"""What agents made, as it may be kept: secrets out, names and types right."""

from pathlib import Path

import pytest

from agentctl.process.env import KEY_HINTS, KEY_PATTERNS, redactor
from agentctl.session import kept_files
from agentctl.session.kept_files import cleaned, mime_of, short_path, shows_screen, without_secrets


@pytest.mark.proves("AR11")
def test_a_secret_is_found_wherever_a_long_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_files, "PIECE_CHARS", 50)
    secrets = ("correct-horse", "-----BEGIN KEY-----\nabc\ndef\n-----END KEY-----")
    text = "".join(
        f"{number} {secrets[0]} and {secrets[1]} | " + "x" * 7 + "\n" for number in range(40)
    )
    data, redacted = cleaned(text + "no line end " * 20 + secrets[0], redactor(secrets), secrets)
    assert redacted
    for part in (b"correct", b"BEGIN", b"abc"):
        assert part not in data
    assert data.count(b"[redacted]") == 81
    assert cleaned("nothing\n" * 100, redactor(secrets), secrets) == (b"nothing\n" * 100, False)


def test_the_longest_secret_goes_first_and_short_ones_stay() -> None:
    data, redacted = without_secrets(
        b"password-12 password-1 abc", ("abc", "password-1", "password-12")
    )
    assert (data, redacted) == (b"[redacted] [redacted] abc", True)
    assert without_secrets(b"\xff\x00", ("password-1",)) == (b"\xff\x00", False)


def test_every_pattern_of_a_key_has_a_hint_by_which_it_is_looked_for() -> None:
    samples = [
        "Bearer abcdefgh12",
        "bearer abcdefgh12",
        "sk-abcdefgh12",
        "AIza0123456789abcdef",
        *(f"gh{letter}_0123456789abcdef" for letter in "pousr"),
        "github_pat_0123456789abcdef",
        *(f"xox{letter}-01234567" for letter in "abprs"),
        "AKIA0123456789ABCDEF",
    ]
    assert len(KEY_PATTERNS) == 8
    for sample in samples:
        assert "[redacted]" in redactor([])(f"x {sample} y"), sample
        assert any(hint in sample for hint in KEY_HINTS), sample


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.py", b"", "text/x-python"),
        ("a.md", b"", "text/markdown"),
        ("A.PNG", b"", "image/png"),
        ("Makefile", b"all:\n", "text/plain; charset=utf-8"),
        ("none", "ä".encode() * 3000, "text/plain; charset=utf-8"),
        ("none", b"\xff\xfe\x00", "application/octet-stream"),
        ("none", b"\xff", "application/octet-stream"),
    ],
)
def test_a_file_has_its_type_by_its_name_or_what_it_holds(
    name: str, data: bytes, told: str
) -> None:
    assert mime_of(name, data) == told


def test_paths_are_shown_as_seen_from_the_workspace(tmp_path: Path) -> None:
    assert short_path("/w/a/b", "/w") == "a/b"
    assert short_path("/other/b", "/w") == "/other/b"


def test_tools_that_show_a_screen_are_known_by_their_words() -> None:
    assert shows_screen("mcp__browser__take_screenshot", None)
    assert shows_screen(None, "Capture a screen shot")
    assert not shows_screen("screen", "Read image.png")
