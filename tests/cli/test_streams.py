"""What a caller may do with the three standard streams and the arguments, without a traceback."""

import os
import subprocess
import sys

import pytest

LIMIT_S = 30


def shell(line: str, *words: str | bytes, **env: str) -> "subprocess.CompletedProcess[bytes]":
    """Runs `sh -c line`, where "$0" "$@" stand for agentctl and `words`."""
    agentctl: list[str | bytes] = [sys.executable, "-m", "agentctl", *words]
    done = subprocess.run(
        ["sh", "-c", line, *agentctl],
        env={**os.environ, "AGENTCTL_ADDRESS": "unix:/nowhere/a.sock", **env},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(closed: str) -> None:
    assert shell(f'"$0" "$@" {closed}', "version").returncode == 0
    assert shell(f'"$0" "$@" {closed}', "ps").returncode == 1


def test_a_full_disk_behind_standard_output_is_told_in_one_sentence() -> None:
    done = shell('"$0" "$@" >/dev/full', "version")
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"error: The output cannot be written" in done.stderr


def test_a_pipe_that_nobody_reads_ends_the_command_in_silence() -> None:
    done = shell('(sleep 0.5; "$0" "$@"; echo $? >&2) | true', "version")
    assert done.stderr == b"1\n"


@pytest.mark.parametrize("words", [("run", "demo", b"say \xff"), ("events", "--session", b"\xff")])
def test_an_argument_that_is_not_utf8_is_refused(words: tuple[str | bytes, ...]) -> None:
    done = shell('exec "$0" "$@"', *words)
    assert done.returncode == 2
    assert b"is not UTF-8: convert it first" in done.stderr


def test_a_prompt_that_is_not_utf8_is_refused() -> None:
    done = shell('printf "say \\377" | "$0" "$@"', "run", "demo", "-")
    assert done.returncode == 2
    assert b"The input is not UTF-8" in done.stderr


def test_what_an_encoding_lacks_is_shown_as_an_escape() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = shell('exec "$0" "$@"', "events", "--after", "é", "--bogus-é", **ascii_only)
    assert done.returncode == 2
    assert b"--bogus-\\xe9" in done.stderr
