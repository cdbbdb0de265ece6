"""Batches of lines from a real process, up to its end."""

import anyio
import pytest

from agentctl.process.errors import ClosedByPeer
from agentctl.process.spawn import Exit
from agentctl.transport.frames import MAX_LINE, Oversized
from agentctl.transport.stdio import StdioTransport, open_stdio
from tests.process.children import PATIENCE_S, command, python

pytestmark = pytest.mark.anyio


async def all_lines(transport: StdioTransport) -> list[bytes | Oversized]:
    lines: list[bytes | Oversized] = []
    while batch := await transport.receive():
        lines += batch
    return lines


async def test_lines_written_at_once_come_in_one_batch() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with open_stdio(command("printf", "a\\n\\nb\\r\\nc\\nd")) as transport:
            await transport.process.wait_exit()
            assert await transport.receive() == [b"a", b"b", b"c"]
            assert await transport.receive() == [b"d"]
            assert await transport.receive() == []
            assert await transport.receive() == []


async def test_what_is_sent_is_one_line() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with open_stdio(command("cat")) as transport:
            await transport.send(b'{"id":1}')
            assert await transport.receive() == [b'{"id":1}']
            await transport.process.close_stdin()
            assert await transport.receive() == []
            with pytest.raises(ClosedByPeer):
                await transport.send(b"more")
        assert transport.process.exit == Exit(0, None)


@pytest.mark.proves("P8")
async def test_an_agents_line_of_64_mb_passes_and_a_longer_one_is_skipped() -> None:
    code = f"""
import sys
out = sys.stdout.buffer
out.write(b"x" * {MAX_LINE} + b"\\n")
out.write(b"y" * {MAX_LINE + 1_000_000} + b"\\n")
out.write("{{\\"text\\":\\"a\\u2028b\\u0085c\\"}}\\n".encode())
out.flush()
"""
    with anyio.fail_after(PATIENCE_S):
        async with open_stdio(python(code)) as transport:
            long, skipped, last = await all_lines(transport)
    assert isinstance(long, bytes)
    assert len(long) == MAX_LINE
    assert skipped == Oversized(MAX_LINE + 1_000_000)
    assert last == '{"text":"a\u2028b\u0085c"}'.encode()


async def test_many_small_lines_keep_their_order() -> None:
    code = "for n in range(100000): print(n)"
    with anyio.fail_after(PATIENCE_S):
        async with open_stdio(python(code)) as transport:
            lines = await all_lines(transport)
    assert lines == [b"%d" % n for n in range(100_000)]


async def test_stderr_and_redaction_reach_the_process() -> None:
    seen: list[str] = []
    spec = python("import sys; sys.stderr.write('secret-word\\n')")
    with anyio.fail_after(PATIENCE_S):
        async with open_stdio(
            spec, on_stderr=seen.append, redact=lambda text: text.replace("secret-word", "***")
        ) as transport:
            assert await transport.receive() == []
            await transport.process.wait_exit()
    assert seen == ["***"]
