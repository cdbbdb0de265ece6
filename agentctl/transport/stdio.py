"""Lines over an agent's stdin and stdout, in batches: one read of the pipe, one list.

Owns the joining of process and framer; knows nothing of what a line says.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from agentctl.process.spawn import STOP_GRACE_S, Process, SpawnSpec, spawn
from agentctl.transport.frames import LineFramer, Oversized


class StdioTransport:
    """The lines of one process. One task receives, any task sends."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._framer = LineFramer()

    async def receive(self) -> list[bytes | Oversized]:
        """Return all whole, non-empty lines of one read; an empty list means the end of stdout.

        Nothing is read ahead: whoever does not ask lets the agent wait on its pipe.
        """
        while chunk := await self.process.read():
            if lines := [line for line in self._framer.feed(chunk) if line]:
                return lines
        last = self._framer.flush()
        return [last] if last else []

    async def send(self, line: bytes) -> None:
        """Write one line; its end is added here.

        Raises:
            ClosedByPeer: the agent no longer reads.
        """
        await self.process.write(line + b"\n")


@asynccontextmanager
async def open_stdio(
    spec: SpawnSpec,
    *,
    on_stderr: Callable[[str], None] | None = None,
    redact: Callable[[str], str] | None = None,
    grace_s: float = STOP_GRACE_S,
) -> AsyncGenerator[StdioTransport]:
    """Start a process and speak lines with it; leaving the context ends its whole tree.

    Raises:
        SpawnFailed: see agentctl.process.spawn.spawn, whose arguments these are.
    """
    async with spawn(spec, on_stderr=on_stderr, redact=redact, grace_s=grace_s) as process:
        yield StdioTransport(process)
