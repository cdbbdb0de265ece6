"""Pipes that are full, flooded, unread or cut off in the middle of a message."""

import os
from pathlib import Path

import anyio
import pytest

from agentctl.process import pipes
from agentctl.process.errors import ClosedByPeer
from agentctl.process.pipes import STDERR_LINE_BYTES, PipeWriter, StderrLines
from agentctl.process.spawn import Exit, spawn
from tests.process.children import PATIENCE_S, command, python, read_line, until

pytestmark = pytest.mark.anyio

COUNTS_STDIN = """
import sys
n = 0
while chunk := sys.stdin.buffer.read(65536): n += len(chunk)
print(n, flush=True)
"""


async def test_a_message_larger_than_the_pipe_arrives_whole() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(COUNTS_STDIN)) as process:
            await process.write(b"x" * 5_000_000)
            await process.close_stdin()
            assert await read_line(process) == b"5000000\n"


async def test_writing_to_a_dead_agent_says_so() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(command("true")) as process:
            await process.wait_exit()
            with pytest.raises(ClosedByPeer):
                await process.write(b"x" * 5_000_000)


async def test_a_write_that_waits_ends_when_the_agent_dies() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with spawn(command("sleep", "600")) as process, anyio.create_task_group() as group:

            async def write() -> None:
                with pytest.raises(ClosedByPeer):
                    await process.write(b"x" * 5_000_000)

            group.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            process.kill()


async def test_a_cancelled_write_is_finished_before_the_next_one() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    pipe = PipeWriter(writer)
    big = b"a" * 300_000 + b"\n"
    got = b""
    with anyio.fail_after(PATIENCE_S):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(pipe.write, big)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        async with anyio.create_task_group() as group:
            group.start_soon(pipe.write, b"next\n")
            while len(got) < len(big) + 5:
                got += await anyio.to_thread.run_sync(os.read, reader, 65_536)
    pipe.close()
    os.close(reader)
    assert got == big + b"next\n"


async def test_stop_is_not_held_up_by_output_that_nobody_reads() -> None:
    code = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
sys.stdout.buffer.write(b"x" * 4_000_000)
sys.stdout.flush()
sys.stdin.read()
sys.exit(6)
"""
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(code)) as process:
            pass
    assert process.exit == Exit(6, None)


async def test_what_stop_read_is_still_there_for_the_reader() -> None:
    code = "import sys; sys.stdin.read(); print('goodbye', flush=True)"
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(code)) as process:
            await process.stop()
            assert await process.read() == b"goodbye\n"
            assert await process.read() == b""


async def test_what_stop_cannot_keep_is_lost_from_the_end_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipes, "HELD_BYTES", 2_000_000)
    code = "import sys; sys.stdout.buffer.write(bytes(range(250)) * 40_000); sys.stdout.flush()"
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(code)) as process:
            await process.stop()
            kept = b""
            while chunk := await process.read():
                kept += chunk
    assert 0 < len(kept) <= 2_000_000
    assert kept == (bytes(range(250)) * 8_000)[: len(kept)]
    assert process.discarded_bytes == 10_000_000 - len(kept)


async def test_a_reader_that_waits_while_stop_runs_gets_the_last_words() -> None:
    code = "import sys; print('ready', flush=True); sys.stdin.read(); print('goodbye', flush=True)"
    got: list[bytes] = []

    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(code)) as process, anyio.create_task_group() as group:
            await read_line(process)

            async def read() -> None:
                while chunk := await process.read():
                    got.append(chunk)

            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await process.stop()
    assert b"".join(got) == b"goodbye\n"


async def test_unread_output_holds_the_agent_back(tmp_path: Path) -> None:
    mark = tmp_path / "done"
    code = f"""
import pathlib, sys
sys.stdout.buffer.write(b"x" * 8_000_000)
sys.stdout.flush()
pathlib.Path({str(mark)!r}).touch()
"""
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(code)) as process:
            total = len(await process.read())
            assert total <= 1_048_576
            assert not mark.exists()
            while chunk := await process.read():
                total += len(chunk)
    assert total == 8_000_000
    assert mark.exists()


@pytest.mark.proves("P7")
async def test_a_flood_on_stderr_never_blocks_the_agent() -> None:
    code = """
import sys
for n in range(40000): sys.stderr.write("noise %d\\n" % n)
sys.stderr.write("y" * 3_000_000 + "\\n\\x1b[31mred\\x1b[0m end\\n")
print("done", flush=True)
"""
    lines: list[str] = []
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(code), on_stderr=lines.append) as process:
            assert await read_line(process) == b"done\n"
            await process.wait_exit()
            await until(lambda: len(lines) == 40_002)
            assert lines[0] == "noise 0"
            assert lines[-2].endswith(f" [{3_000_000 - STDERR_LINE_BYTES} bytes cut]")
            assert process.stderr_tail[-1] == "red end"
            assert len(process.stderr_tail) == 50


async def test_a_listener_that_fails_does_not_stop_the_drain() -> None:
    def fail(_: str) -> None:
        raise RuntimeError("listener")

    code = "import sys; sys.stderr.write('x' * 1000000 + '\\nlast\\n'); print('done', flush=True)"
    with anyio.fail_after(PATIENCE_S):
        async with spawn(python(code), on_stderr=fail) as process:
            assert await read_line(process) == b"done\n"
            await process.wait_exit()
            assert process.stderr_tail[-1] == "last"


async def test_stderr_is_redacted_before_anybody_sees_it() -> None:
    lines: list[str] = []
    code = "import sys; sys.stderr.write('key hunter2hunter2 end')"
    with anyio.fail_after(PATIENCE_S):
        async with spawn(
            python(code),
            on_stderr=lines.append,
            redact=lambda text: text.replace("hunter2hunter2", "***"),
        ) as process:
            await process.wait_exit()
    assert lines == process.stderr_tail == ["key *** end"]


@pytest.mark.proves("P7")
async def test_stderr_lines_lose_colours_blank_lines_and_broken_utf8() -> None:
    lines = StderrLines(None)
    assert lines.feed(b"\x1b]0;title\x07a\x1b[1;31mb\r\n\n \nc\xff") == ["ab"]
    assert lines.feed(b"\td\n") == ["c\ufffd\td"]
    assert lines.feed(b"tail") == []
    assert lines.flush() == ["tail"]
    assert lines.flush() == []
