"""Bad input: one sentence, what to type next, the reason, the exit code; never a traceback."""

from pathlib import Path
from typing import Any

import pytest

from agentctl.core.errors import Exhausted
from tests.cli.conftest import Cli, Done
from tests.cli.fake_daemon import SESSION, FakeDaemon


def check(done: Done, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.count("\n") == 1 and done.err.startswith("error: ")
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "demo", ""), "The prompt is empty"),
        (("run", "demo", "  \n"), "The prompt is empty"),
        (("run", "demo"), "(agentctl run --help)"),
        (("run", "demo", "x", "--nonsense"), "--nonsense"),
        (("run", "demo", "x", "--approve", "maybe"), "maybe"),
        (("run", "demo", "x", "--timeout", "0"), "--timeout takes seconds"),
        (("prom", "x"), "prompt"),
        (("approve", "9c4f", "--always", "--option", "o"), "not both"),
        (("stop",), "--all"),
        (("answer", "9c4f"), "--content"),
        (("--color", "red", "version"), "--color"),
    ],
)
def test_a_wrong_command_line_exits_with_2(
    with_daemon: Cli, words: tuple[str, ...], expected: str
) -> None:
    check(with_daemon(*words), 2, expected)


def test_a_missing_attachment_and_a_bad_mcp_file_are_named(
    with_daemon: Cli, daemon: FakeDaemon, quiet_home: Path
) -> None:
    check(with_daemon("run", "demo", "x", "--file", "nowhere.txt"), 2, "nowhere.txt")
    bad = quiet_home / "mcp.json"
    bad.write_text("{")
    check(with_daemon("run", "demo", "x", "--mcp-config", str(bad)), 2, str(bad))
    bad.write_text('{"mcpServers": {"a": {}}}')
    check(with_daemon("run", "demo", "x", "--mcp-config", str(bad)), 2, "mcpServers.a")
    assert daemon.called("Sessions/Create") == []


def test_no_daemon_at_a_named_address_says_how_to_start_one(cli: Cli, quiet_home: Path) -> None:
    check(
        cli("--address", f"unix:{quiet_home}/none.sock", "run", "demo", "x"),
        1,
        "No daemon answers",
        "agentctl up",
    )
    check(cli("ps"), 1, "agentctl up")
    check(cli("--address", "nonsense", "ps"), 1, "unix:PATH or HOST:PORT")


def test_a_login_is_refused_when_it_is_none_or_has_no_server(with_daemon: Cli) -> None:
    check(with_daemon("run", "demo", "x", "--auth", "me:pw"), 2, "--url")
    check(with_daemon("run", "demo", "x", "--url", "http://x", "--auth", "me"), 2, "USER:PASSWORD")


def test_what_the_daemon_does_not_serve_is_said_in_its_words(with_daemon: Cli) -> None:
    check(with_daemon("stats"), 1, "Stats/Get is not served", "UNSUPPORTED")
    check(with_daemon("tools", SESSION), 1, "UNSUPPORTED")


def test_an_error_of_the_daemon_ends_with_its_reason(with_daemon: Cli, daemon: FakeDaemon) -> None:
    def full(request: Any) -> Any:
        raise Exhausted("the disk is full: free some space and try again.", reason="DISK_FULL")

    daemon.answers["Sessions/Create"] = full
    done = with_daemon("run", "demo", "x")
    check(done, 1, "the disk is full")
    assert done.err.rstrip().endswith("DISK_FULL")


def test_a_bad_settings_file_is_named(cli: Cli, quiet_home: Path) -> None:
    bad = quiet_home / "agentctl.toml"
    bad.write_text("stall_second = 3\n")
    check(cli("--config", str(bad), "status"), 1, str(bad), 'Did you mean "stall_seconds"?')


def test_down_without_a_daemon_is_no_error(cli: Cli) -> None:
    done = cli("down")
    assert (done.code, done.out) == (0, "no daemon is running\n")


def test_a_data_directory_that_cannot_be_written_is_named(cli: Cli, quiet_home: Path) -> None:
    (quiet_home / "file").write_text("")
    check(cli("up", "--data-dir", str(quiet_home / "file" / "data")), 1, "--data-dir")


def test_a_socket_path_that_is_too_long_says_so(cli: Cli, quiet_home: Path) -> None:
    deep = quiet_home / ("d" * 60) / ("e" * 60)
    done = cli("up", "--data-dir", str(deep))
    check(done, 1, "socket path", "INVALID_PARAMETERS")
