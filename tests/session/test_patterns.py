"""Patterns of rules: which commands and paths they fit, and which do not compile."""

import time

import pytest

from agentctl.session.patterns import BadPattern, absolute, fits_command, fits_path, inside

# A pattern is tried on the loop for each request: a hostile one must not hold it.
QUICK_S = 1.0


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("npm test", "npm test", True),
        ("npm test", "npm test --watch", False),
        ("npm test*", "npm test --watch", True),
        ("npm *", "npm test", True),
        ("*test*", "npm run test:unit", True),
        ("git ?ush", "git push", True),
        ("git ?ush", "git rush b", False),
        ("git pu[sl]*", "git pull", True),
        ("git pu[!s]l", "git pull", True),
        ("git pu[!s]h", "git push", False),
        (r"echo \*", "echo *", True),
        (r"echo \*", "echo all", False),
        ("a*b*c", "a1b2b3c", True),
        ("a*b*c", "a1c2b", False),
        ("***", "anything", True),
        ("echo (1)", "echo (1)", True),
        ("NPM test", "npm test", False),
    ],
)
@pytest.mark.parametrize("guarded", [False, True])
def test_a_command_fits_as_a_whole(pattern: str, command: str, fits: bool, guarded: bool) -> None:
    assert fits_command(pattern, command, guarded=guarded) is fits


@pytest.mark.parametrize(
    "more",
    ["; rm -rf /", "| sh", "& rm x", "&& rm x", "> /etc/x", "< x", "`id`", "$(id)", "\nid", "$X"],
)
def test_no_wildcard_that_allows_covers_a_shell_operator(more: str) -> None:
    command = f"npm test {more}"
    assert fits_command("npm test*", command, guarded=False)
    assert not fits_command("npm test*", command, guarded=True)
    assert not fits_command(f"npm test {'[!x]' * len(more)}", command, guarded=True)


def test_an_operator_that_the_pattern_names_is_allowed() -> None:
    assert fits_command("npm test | tee *", "npm test | tee log.txt", guarded=True)
    assert not fits_command("npm test | tee *", "npm test | tee log.txt; id", guarded=True)


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("/w/.git/**", "/w/.git/config", True),
        ("/w/.git/**", "/w/.git/refs/heads/main", True),
        ("/w/.git/**", "/w/.git", True),
        ("/w/.git/**", "/w/.gitignore", False),
        ("/**/.git/**", "/a/b/.git/config", True),
        ("/**/.git/**", "/.git", True),
        ("/**", "/", True),
        ("/w/*.py", "/w/a.py", True),
        ("/w/*.py", "/w/src/a.py", False),
        ("/w/**/*.py", "/w/a.py", True),
        ("/w/**/*.py", "/w/src/deep/a.py", True),
        ("/w/**/**/a", "/w/a", True),
        ("/w/?.py", "/w/ab.py", False),
        ("/w/[ab].py", "/w/b.py", True),
        ("/w/", "/w", True),
    ],
)
def test_a_path_fits_name_by_name(pattern: str, path: str, fits: bool) -> None:
    assert fits_path(pattern, path) is fits


@pytest.mark.parametrize("pattern", ["[ab", "x[", "[", "[z-a]", "a\\", "x" * 1001])
def test_a_pattern_that_does_not_compile_is_told_as_such(pattern: str) -> None:
    with pytest.raises(BadPattern):
        fits_command(pattern, "x", guarded=False)
    with pytest.raises(BadPattern):
        fits_path(f"/{pattern}", "/x")


@pytest.mark.parametrize("pattern", ["/a/../b", "/./a", "/a**", "/w/**.py", "/" + "a/" * 65])
def test_a_path_pattern_that_no_path_can_fit_does_not_compile(pattern: str) -> None:
    with pytest.raises(BadPattern):
        fits_path(pattern, "/x")


def test_many_stars_and_a_long_command_take_no_time() -> None:
    begun = time.monotonic()
    assert not fits_command("*a" * 400 + "*b", "a" * 100_000, guarded=True)
    assert not fits_path("/" + "**/a/" * 31 + "b", "/a" * 2000)
    assert time.monotonic() - begun < QUICK_S


def test_paths_are_seen_from_the_root_without_dots() -> None:
    assert absolute("src/../.git/config", "/w") == "/w/.git/config"
    assert absolute("//etc/passwd", "/w") == "/etc/passwd"
    assert absolute("../../../etc", "/w") == "/etc"
    assert inside("/w/a", "/w/") and inside("/w", "/w") and inside("/w", "/")
    assert not inside("/work", "/w")
