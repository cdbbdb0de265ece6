"""What test runners print is read as counts; what other programs print is not."""

from typing import Any

import pytest

from agentctl.session.testruns import RECOGNISERS, recognise

PYTEST = (
    "\x1b[31mFAILED\x1b[0m test_a.py::\x1b[1mT::test_bad\x1b[0m - AssertionError: 1 != 2\n"
    "\x1b[31m========== \x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m, \x1b[33m1 skipped"
    "\x1b[0m, \x1b[31m\x1b[1m1 error\x1b[0m\x1b[31m in 0.04s\x1b[0m\x1b[31m ==========\x1b[0m\n"
)
UNITTEST = "F.s\n" + "-" * 70 + "\nRan 4 tests in 0.006s\n\n"
JEST = """\
PASS src/b.test.js
Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 1 skipped, 2 passed, 4 total
Snapshots:   0 total
Time:        0.312 s
Ran all test suites.
"""
VITEST = """\
 Test Files  1 failed | 1 passed (2)
      Tests  1 failed | 3 passed | 1 skipped (5)
   Start at  19:49:01
   Duration  284ms (transform 24ms, setup 0ms, collect 12ms, tests 6ms)
"""
MOCHA = (
    "\n  Array\n    \u2714 works\n\n\n  2 passing (6ms)\n  1 pending\n  1 failing\n\n  1) Array\n"
)
NODE = """\
1..3
# tests 3
# suites 0
# pass 1
# fail 1
# cancelled 0
# skipped 1
# todo 0
# duration_ms 182.275448
"""
GO = """\
=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
    b_test.go:6: no
--- FAIL: TestB (0.00s)
=== RUN   TestC
=== RUN   TestC/one
--- PASS: TestC (0.00s)
    --- PASS: TestC/one (0.00s)
FAIL
FAIL\texample.com/m\t0.003s
FAIL
"""
CARGO = """\
running 3 tests
test tests::a ... ok
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.06s

   Doc-tests f_rs

running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
CTEST = """\
2/2 Test #2: b ................................***Failed    0.00 sec

50% tests passed, 1 tests failed out of 2

Total Test time (real) =   0.00 sec
"""
PHPUNIT = "\nFAILURES!\nTests: 5, Assertions: 7, Errors: 1, Failures: 1, Skipped: 1.\n"
RSPEC = "\nFinished in 0.00512 seconds (files took 0.1 seconds to load)\n5 examples, 1 failure, 1 pending\n"
MAVEN = """\
[INFO] Running com.example.AppTest
[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.05 s <<< FAILURE!
[INFO] Results:
[INFO]
[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1
[INFO]
"""
DOTNET = """\
Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5, Duration: 8 ms - A.dll (net8.0)
Failed!  - Failed:     1, Passed:     2, Skipped:     1, Total:     4, Duration: 9 ms - B.dll (net8.0)
"""
DOTNET_OLD = (
    "Total tests: 4\n     Passed: 2\n     Failed: 1\n    Skipped: 1\n Total time: 1.2 Seconds\n"
)
DOTNET_NEW = "Test summary: total: 4, failed: 1, succeeded: 2, skipped: 1, duration: 0.9s\n"

SAMPLES: list[tuple[str, str, str, tuple[int | None, int | None]]] = [
    ("pytest", "python -m pytest", PYTEST, (2, 2)),
    ("pytest", "pytest -q", "..\n2 passed in 0.02s\n", (2, 0)),
    ("pytest", "pytest", "== 300 passed, 2 warnings in 83.10s (0:01:23) ==\n", (300, 0)),
    ("pytest", "pytest nothing", "============ no tests ran in 0.01s ============\n", (0, 0)),
    ("unittest", "python3 -m unittest", UNITTEST + "OK\n", (4, 0)),
    (
        "unittest",
        "make test",
        UNITTEST + "FAILED (failures=1, skipped=1, expected failures=1)\n",
        (1, 1),
    ),
    ("unittest", "tox", UNITTEST + "FAILED (errors=2)\n", (2, 2)),
    ("jest", "npx jest", JEST, (2, 1)),
    ("jest", "npm test", "\n> app@1.0.0 test\n> jest\n\n" + JEST, (2, 1)),
    ("vitest", "npx vitest run", VITEST, (3, 1)),
    ("mocha", "npx mocha", MOCHA, (2, 1)),
    ("mocha", "npm run test:unit", "  12 passing (1s)\n\n", (12, 0)),
    ("node --test", "node --test", NODE, (1, 1)),
    ("node --test", "node --test", NODE.replace("#", "\u2139"), (1, 1)),
    ("go test", "go test -v ./...", GO, (2, 1)),
    (
        "go test",
        "go test ./...",
        "ok  \texample.com/m\t0.003s\n?   \tx\t[no test files]\n",
        (None, 0),
    ),
    (
        "go test",
        "go test",
        "--- FAIL: TestB (0.00s)\nFAIL\nFAIL\texample.com/m\t0.01s\n",
        (None, 1),
    ),
    ("cargo test", "cargo test", CARGO, (2, 1)),
    ("ctest", "ctest", CTEST, (1, 1)),
    ("phpunit", "vendor/bin/phpunit", PHPUNIT, (2, 2)),
    ("phpunit", "composer test", "OK (3 tests, 4 assertions)\n", (3, 0)),
    ("rspec", "bundle exec rspec", RSPEC, (3, 1)),
    ("maven surefire", "mvn -q test", MAVEN, (1, 1)),
    ("maven surefire", "mvn test", "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n", (2, 0)),
    ("dotnet test", "dotnet test", DOTNET, (7, 1)),
    ("dotnet test, old", "dotnet test", DOTNET_OLD, (2, 1)),
    ("dotnet test, new", "dotnet test", DOTNET_NEW, (2, 1)),
]


@pytest.mark.proves("F1")
@pytest.mark.parametrize(
    ("runner", "command", "output", "counts"), SAMPLES, ids=[f"{s[0]}: {s[1]}" for s in SAMPLES]
)
def test_a_runners_summary_is_read(runner: str, command: str, output: str, counts: Any) -> None:
    assert recognise(command, output) == counts
    assert recognise(command, output.replace("\n", "\r\n")) == counts
    assert recognise(f"bash -lc '{command}'", output) == counts
    assert recognise("", output) == counts


def test_every_recogniser_has_a_sample() -> None:
    assert {sample[0] for sample in SAMPLES} == {one.name for one in RECOGNISERS}


@pytest.mark.proves("F1")
@pytest.mark.parametrize("sample", SAMPLES, ids=[f"{s[0]}: {s[1]}" for s in SAMPLES])
@pytest.mark.parametrize(
    "command",
    [
        "cat log.txt",
        "grep -n passed log.txt",
        "cd logs && tail -5 test.log | grep -v x",
        "bash -c 'head -20 test.log'",
        "FOO=1 rg 'failed' .",
        "git show HEAD:log.txt",
    ],
)
def test_a_summary_that_a_reader_shows_is_no_test_run(command: str, sample: Any) -> None:
    assert recognise(command, sample[2]) is None


@pytest.mark.proves("F1")
@pytest.mark.parametrize(
    "output",
    [
        "",
        "the build passed in 3s\n",
        "log.txt:12:2 passed in 0.02s\n",
        "I ran pytest: 3 passed in 0.1s, fine\n",
        "12:Tests:       1 failed, 2 passed, 3 total\n",
        "5 examples of what failed\n",
        "  - Ran 4 tests in 0.006s\n",
        "ok\n",
        "test result: unknown\n",
        "3 files changed in 0.1s\n",
    ],
)
def test_words_about_tests_are_no_counts(output: str) -> None:
    assert recognise("./check.sh", output) is None


def test_a_pipe_behind_a_runner_does_not_hide_it() -> None:
    assert recognise("cd app && pytest -q 2>&1 | tail -3", "2 passed in 0.02s\n") == (2, 0)
    assert recognise("timeout 60 pytest -q | grep passed", "2 passed in 0.02s\n") == (2, 0)


def test_the_last_summary_of_one_output_counts() -> None:
    output = "1 failed, 1 passed in 0.02s\n" + "2 passed in 0.01s\n"
    assert recognise("pytest; pytest --lf", output) == (2, 0)


def test_lines_are_not_counted_when_the_beginning_was_cut() -> None:
    assert recognise("go test -v ./...", GO, whole=False) is None
    assert recognise("pytest", PYTEST, whole=False) == (2, 2)
