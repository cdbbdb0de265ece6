"""Owns the reading of test results in what a command printed: how many passed, how many failed.

Pure: text in, two numbers out. It refuses to know who ran the command, and counts nothing that its
runner's own summary does not tell.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Counts = tuple[int | None, int | None]
"""Passed and failed; None where the runner does not tell it."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_READERS = frozenset(
    (  # noqa: SIM905  (one word a line would be forty lines)
        "awk bat cat cd cut diff echo egrep env export false fgrep find git grep head jq less ls more "
        "printf pwd rg sed set sleep sort tail tee tr true uniq wc which xxd"
    ).split()
)
"""Programs that show text of others: a summary in what they print is no test run of theirs."""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_WRAPPERS = frozenset({"time", "sudo", "nice", "nohup", "env", "timeout", "xargs"})
_SEPARATORS = frozenset({";", "&&", "||", "|", "&", "|&", "(", ")", "\n"})


@dataclass(frozen=True, slots=True)
class Recogniser:
    """One runner. `adds`: each of its summaries is of other tests; else the last one counts.

    `lines`: it counts lines of the whole output, so that a cut one tells nothing.
    """

    name: str
    find: Callable[[str], Iterator[tuple[int, int | None, int | None]]]
    adds: bool = False
    lines: bool = False


def recognise(command: str, output: str, *, whole: bool = True) -> Counts | None:
    """The counts of the tests that a command ran; None when its output tells of none.

    Args:
        command: as it was given to the shell; empty when unknown.
        output: what it printed, in colour or not.
        whole: False when the output is only the end of what it printed.
    """
    if command and _only_shows(command):
        return None
    text = _ANSI.sub("", output).replace("\r\n", "\n").replace("\r", "\n")
    best: tuple[int, Counts] | None = None
    for one in RECOGNISERS:
        if one.lines and not whole:
            continue
        found = list(one.find(text))
        if not found:
            continue
        counted = found if one.adds else found[-1:]
        counts = (_sum(each[1] for each in counted), _sum(each[2] for each in counted))
        if best is None or found[-1][0] > best[0]:
            best = (found[-1][0], counts)
    return best[1] if best else None


def _sum(values: Iterator[int | None]) -> int | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _only_shows(command: str) -> bool:
    programs = list(_programs(command, 3))
    return bool(programs) and all(program in _READERS for program in programs)


def _programs(command: str, depth: int) -> Iterator[str]:
    """The programs that a shell line starts, by name."""
    lexer = shlex.shlex(command.replace("\n", ";"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return
    fresh = True
    for at, word in enumerate(words):
        if word in _SEPARATORS or set(word) <= set(";&|()"):
            fresh = True
        elif fresh and not re.match(r"\w+=", word):
            name = word.rpartition("/")[2]
            script = next((w for w in words[at + 1 :] if not w.startswith("-")), "")
            if name in _SHELLS and script and depth:
                yield from _programs(script, depth - 1)
            elif name not in _WRAPPERS:
                yield name
                fresh = False
            fresh = fresh and name in _WRAPPERS


def _number(text: str | None) -> int:
    return int(text) if text else 0


def _words(text: str, *names: str) -> int | None:
    """The sum of `3 name` in a summary; None when it names none of them."""
    found = [int(n) for n, name in re.findall(r"(\d+) (\w+)", text) if name in names]
    return sum(found) if found else None


_PYTEST = re.compile(
    r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+|no tests ran) in [\d.]+s(?: \([\d:]+\))?(?: =+)?$",
    re.MULTILINE,
)


def _pytest(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _PYTEST.finditer(text):
        told = match[1]
        names = set(re.findall(r"\d+ (\w+)", told))
        known = {"passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed"}
        if told == "no tests ran" or names & (known | {"deselected"}):
            passed = _words(told, "passed", "xpassed") or 0
            yield match.start(), passed, _words(told, "failed", "error", "errors") or 0


_UNITTEST = re.compile(
    r"^Ran (\d+) tests? in [\d.]+s\n+(OK|FAILED|NO TESTS RAN)(?: \(([^)\n]*)\))?$", re.MULTILINE
)


def _unittest(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _UNITTEST.finditer(text):
        told = dict(re.findall(r"([a-z ]+)=(\d+)", match[3] or ""))
        told = {name.strip(): int(number) for name, number in told.items()}
        failed = sum(told.get(name, 0) for name in ("failures", "errors", "unexpected successes"))
        spared = told.get("skipped", 0) + told.get("expected failures", 0)
        yield match.start(), max(int(match[1]) - failed - spared, 0), failed


_JEST = re.compile(r"^Tests: +((?:\d+ [a-z]+, )*\d+ total)$", re.MULTILINE)


def _jest(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _JEST.finditer(text):
        yield match.start(), _words(match[1], "passed") or 0, _words(match[1], "failed") or 0


_VITEST = re.compile(r"^ *Tests {2}((?:\d+ [a-z]+(?: \| )?)+|no tests)(?: \(\d+\))?$", re.MULTILINE)


def _vitest(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _VITEST.finditer(text):
        yield match.start(), _words(match[1], "passed") or 0, _words(match[1], "failed") or 0


_MOCHA = re.compile(
    r"^ *(\d+) passing \(\d+\w+\)$(?:\n^ *\d+ pending$)?(?:\n^ *(\d+) failing$)?", re.MULTILINE
)


def _mocha(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _MOCHA.finditer(text):
        yield match.start(), int(match[1]), _number(match[2])


_NODE = re.compile(
    r"^[\u2139#] tests \d+\n(?:[\u2139#] \w+ [\d.]+\n)*?"
    r"[\u2139#] pass (\d+)\n[\u2139#] fail (\d+)$",
    re.MULTILINE,
)


def _node(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _NODE.finditer(text):
        yield match.start(), int(match[1]), int(match[2])


_GO = re.compile(
    r"^(?:ok|FAIL)[ \t]+\S+[ \t]+(?:[\d.]+s|\(cached\)|\[build failed\])(?:[ \t].*)?$", re.MULTILINE
)
_GO_TEST = re.compile(r"^--- (PASS|FAIL): \S+ \([\d.]+s\)$", re.MULTILINE)


def _go(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    packages = list(_GO.finditer(text))
    if not packages:
        return
    ends = [match[1] for match in _GO_TEST.finditer(text)]
    # Without -v only failures are listed: how many passed is not told then.
    passed = ends.count("PASS") if "PASS" in ends or "=== RUN" in text else None
    yield packages[-1].start(), passed, ends.count("FAIL")


_CARGO = re.compile(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed;", re.MULTILINE)


def _cargo(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _CARGO.finditer(text):
        yield match.start(), int(match[1]), int(match[2])


_CTEST = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.MULTILINE)


def _ctest(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _CTEST.finditer(text):
        yield match.start(), int(match[2]) - int(match[1]), int(match[1])


_PHPUNIT = re.compile(
    r"^(?:OK \((\d+) tests?, \d+ assertions?\)|Tests: (\d+), Assertions: \d+(.*)\.)$", re.MULTILINE
)


def _phpunit(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _PHPUNIT.finditer(text):
        told = {name: int(n) for name, n in re.findall(r"([A-Z]\w+): (\d+)", match[3] or "")}
        failed = told.get("Failures", 0) + told.get("Errors", 0)
        spared = told.get("Skipped", 0) + told.get("Incomplete", 0)
        total = int(match[1] or match[2])
        yield match.start(), max(total - failed - spared, 0), failed


_RSPEC = re.compile(
    r"^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?"
    r"(?:, (\d+) errors? occurred outside of examples)?$",
    re.MULTILINE,
)


def _rspec(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _RSPEC.finditer(text):
        failed = int(match[2])
        passed = max(int(match[1]) - failed - _number(match[3]), 0)
        yield match.start(), passed, failed + _number(match[4])


_MAVEN = re.compile(
    r"^(?:\[\w+\] )?(?:\[\w+\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$",
    re.MULTILINE,
)


def _maven(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _MAVEN.finditer(text):
        failed = int(match[2]) + int(match[3])
        yield match.start(), max(int(match[1]) - failed - int(match[4]), 0), failed


_DOTNET = re.compile(
    r"^(?:Passed|Failed|Skipped)! +- Failed: +(\d+), Passed: +(\d+), Skipped: +\d+, Total: +\d+",
    re.MULTILINE,
)
_DOTNET_OLD = re.compile(
    r"^Total tests: \d+\n(?: +Passed: (\d+)\n?)?(?: +Failed: (\d+)\n?)?(?: +Skipped: \d+)?",
    re.MULTILINE,
)
_DOTNET_NEW = re.compile(
    r"^Test summary: total: \d+, failed: (\d+), succeeded: (\d+), skipped: \d+", re.MULTILINE
)


def _dotnet(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _DOTNET.finditer(text):
        yield match.start(), int(match[2]), int(match[1])


def _dotnet_old(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _DOTNET_OLD.finditer(text):
        if match[1] or match[2]:
            yield match.start(), _number(match[1]), _number(match[2])


def _dotnet_new(text: str) -> Iterator[tuple[int, int | None, int | None]]:
    for match in _DOTNET_NEW.finditer(text):
        yield match.start(), int(match[2]), int(match[1])


RECOGNISERS: tuple[Recogniser, ...] = (
    Recogniser("pytest", _pytest),
    Recogniser("unittest", _unittest),
    Recogniser("jest", _jest),
    Recogniser("vitest", _vitest),
    Recogniser("mocha", _mocha),
    Recogniser("node --test", _node),
    Recogniser("go test", _go, lines=True),
    Recogniser("cargo test", _cargo, adds=True, lines=True),
    Recogniser("ctest", _ctest),
    Recogniser("phpunit", _phpunit),
    Recogniser("rspec", _rspec),
    Recogniser("maven surefire", _maven, adds=True, lines=True),
    Recogniser("dotnet test", _dotnet, adds=True, lines=True),
    Recogniser("dotnet test, old", _dotnet_old, adds=True, lines=True),
    Recogniser("dotnet test, new", _dotnet_new),
)
"""The runners, each with its summary; of several in one output the last one counts."""
