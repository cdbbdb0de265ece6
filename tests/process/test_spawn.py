"""Starting, watching and stopping one process, and what a caller is told when that fails."""

import errno
import os
import signal
import time
from pathlib import Path

import anyio
import pytest

from agentctl.process.errors import ClosedByPeer, SpawnFailed
from agentctl.process.spawn import EOF_GRACE_S, STOP_GRACE_S, Exit, Process, SpawnSpec, spawn
from agentctl.process.sweep import COOKIE
from tests.process.children import (
    DEAF,
    PATIENCE_S,
    alive,
    command,
    python,
    read_line,
)

pytestmark = pytest.mark.anyio


async def failure_of(spec: SpawnSpec) -> SpawnFailed:
    with anyio.fail_after(PATIENCE_S), pytest.raises(SpawnFailed) as caught:
        async with spawn(spec):
            pytest.fail("it started")
    assert alive(spec.cookie) == []
    return caught.value


async def test_a_missing_program_is_named_with_what_to_do() -> None:
    failed = await failure_of(command("no-such-agent"))
    assert (failed.errno, failed.argv0) == (errno.ENOENT, "no-such-agent")
    assert "not found on PATH" in str(failed)


async def test_a_file_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    failed = await failure_of(command(str(program)))
    assert failed.errno == errno.EACCES
    assert "executable" in str(failed)


async def test_a_script_whose_interpreter_is_missing_says_so(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    failed = await failure_of(command(str(program)))
    assert "first line" in str(failed)


async def test_a_file_that_is_no_program_says_so(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("hello\n")
    program.chmod(0o755)
    failed = await failure_of(command(str(program)))
    assert failed.errno == errno.ENOEXEC


async def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    failed = await failure_of(command("cat", cwd=tmp_path / "gone"))
    assert failed.cwd == tmp_path / "gone"
    assert str(tmp_path / "gone") in str(failed)


async def test_a_file_as_working_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = await failure_of(command("cat", cwd=tmp_path / "file"))
    assert "not a directory" in str(failed)


@pytest.mark.proves("P12")
async def test_a_huge_variable_is_named_with_its_size() -> None:
    failed = await failure_of(command("cat", env={"HUGE_ONE": "x" * 200_000, "SMALL": "x"}))
    assert failed.errno == errno.E2BIG
    assert "environment variable HUGE_ONE has 200010 bytes" in str(failed)


@pytest.mark.proves("P12")
async def test_a_huge_argument_is_named_with_its_size() -> None:
    failed = await failure_of(command("cat", "x" * 300_000))
    assert "argument 1 has 300001 bytes" in str(failed)


@pytest.mark.proves("P12")
async def test_an_environment_too_big_as_a_whole_names_its_largest_part() -> None:
    many = {f"V{n}": "x" * 100_000 for n in range(90)}
    failed = await failure_of(command("cat", env={**many, "LARGEST": "x" * 110_000}))
    assert "LARGEST" in str(failed)


async def test_a_nul_byte_is_refused_by_name() -> None:
    failed = await failure_of(command("cat", env={"BROKEN": "a\0b"}))
    assert "BROKEN" in str(failed)


async def test_what_is_written_comes_back_and_eof_ends_it() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(command("cat")) as process:
            await process.write(b"hello\n")
            assert await read_line(process) == b"hello\n"
            await process.close_stdin()
            assert await process.read() == b""
            assert await process.wait_exit() == Exit(0, None)
            with pytest.raises(ClosedByPeer):
                await process.write(b"more")


async def test_an_agent_without_stdin_reads_eof_at_once() -> None:
    base = command("cat")
    spec = SpawnSpec(base.argv, base.env, base.cwd, base.cookie, stdin_pipe=False)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            assert await process.wait_exit() == Exit(0, None)
            with pytest.raises(ClosedByPeer):
                await process.write(b"x")


@pytest.mark.proves("P6")
async def test_death_at_start_is_told_within_a_second_with_the_last_words() -> None:
    spec = python("import sys; sys.stderr.write('no key\\n'); sys.exit(41)")
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            with anyio.fail_after(1):
                assert await process.wait_exit() == Exit(41, None)
            assert process.stderr_tail == ["no key"]


async def test_death_by_signal_is_told_within_a_second() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(DEAF)) as process:
            await read_line(process)
            os.kill(process.pid, signal.SIGKILL)
            with anyio.fail_after(1):
                assert await process.wait_exit() == Exit(None, signal.SIGKILL)


async def test_death_is_told_although_an_orphan_holds_stdout() -> None:
    orphan = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    code = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", {orphan!r}])
os.read(0, 1)
os._exit(5)
"""
    spec = python(code)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await read_line(process)
            assert process.exit is None
            await process.write(b"x")
            with anyio.fail_after(1):
                assert await process.wait_exit() == Exit(5, None)
            assert len(alive(spec.cookie)) == 2
            await process.wait_empty()
            assert alive(spec.cookie) == []


@pytest.mark.proves("P3")
async def test_an_agent_that_ignores_eof_is_terminated() -> None:
    spec = python("import time; print('ready', flush=True); time.sleep(600)")
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await read_line(process)
            await process.stop(eof_wait_s=0.05)
            assert process.exit == Exit(None, signal.SIGTERM)
    assert alive(spec.cookie) == []


@pytest.mark.proves("P3")
async def test_an_agent_that_ignores_eof_and_term_is_killed() -> None:
    spec = python(DEAF)
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await read_line(process)
            await process.stop(eof_wait_s=0)
            assert process.exit == Exit(None, signal.SIGKILL)


async def test_a_forced_stop_hastens_a_gentle_one() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(DEAF)) as process, anyio.create_task_group() as group:
            await read_line(process)
            began = time.monotonic()
            group.start_soon(process.stop)
            await anyio.wait_all_tasks_blocked()
            await process.stop(force=True)
            assert time.monotonic() - began < EOF_GRACE_S + STOP_GRACE_S
            assert process.exit == Exit(None, signal.SIGKILL)


async def test_terminate_and_kill_reach_the_tree() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(command("sleep", "600")) as gentle, spawn(python(DEAF)) as deaf:
            gentle.terminate()
            assert await gentle.wait_exit() == Exit(None, signal.SIGTERM)
            await read_line(deaf)
            deaf.kill()
            assert await deaf.wait_exit() == Exit(None, signal.SIGKILL)
            await deaf.wait_empty()


@pytest.mark.proves("P5")
async def test_a_caller_that_gives_up_leaves_no_process() -> None:
    spec = python(DEAF)
    with anyio.fail_after(PATIENCE_S):
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with spawn(spec):
                pytest.fail("it was cancelled before")
        assert alive(spec.cookie) == []


@pytest.mark.proves("P5")
async def test_a_cancelled_owner_still_ends_its_process() -> None:
    spec = python("import sys; print('ready', flush=True); sys.stdin.read()")
    owned: list[Process] = []
    with anyio.fail_after(PATIENCE_S):
        with anyio.CancelScope() as scope:
            async with spawn(spec) as process:
                owned.append(process)
                await read_line(process)
                scope.cancel()
                await anyio.sleep_forever()
        assert [each.exit for each in owned] == [Exit(0, None)]
        assert alive(spec.cookie) == []


@pytest.mark.proves("P12")
@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LANG": "de_DE.ISO-8859-1"}])
async def test_argv_and_environment_arrive_byte_for_byte(locale: dict[str, str]) -> None:
    odd = "\u00e9\udcff\u2192"
    spec = command("/usr/bin/env", f"ARG={odd}", "cat", "/proc/self/environ", env=locale)
    expected = {**spec.env, COOKIE: spec.cookie, "ARG": odd}
    with anyio.fail_after(PATIENCE_S):
        async with spawn(spec) as process:
            await process.wait_exit()
            told = (await process.read()).rstrip(b"\0").split(b"\0")
    assert sorted(told) == sorted(os.fsencode(f"{k}={v}") for k, v in expected.items())


async def test_two_starts_at_once_stay_apart() -> None:
    told: dict[bytes, int] = {}

    async def start(word: bytes) -> None:
        async with spawn(command("cat")) as process:
            await process.write(word + b"\n")
            assert await read_line(process) == word + b"\n"
            told[word] = process.pid

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(start, b"one")
            group.start_soon(start, b"two")
    assert len(set(told.values())) == 2


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_no_descriptor_is_left_behind() -> None:
    async def once() -> int:
        async with spawn(command("cat")) as process:
            await process.write(b"x\n")
            await read_line(process)
        return open_descriptors()

    with anyio.fail_after(PATIENCE_S):
        first = await once()
        assert [await once() for _ in range(3)] == [first] * 3
