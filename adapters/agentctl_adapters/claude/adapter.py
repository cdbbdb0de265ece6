"""Owns the frame in which a Claude Code process lives: leaving `connect` means that nothing is left.

The process itself is started by the connection once its conversation is named. Knows no message.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from agentctl.core.adapter import Launch, Progress, Sink
from agentctl_adapters.claude.connection import ClaudeConnection
from agentctl_adapters.claude.translate import ClaudeTranslator
from agentctl_adapters.common.starting import unpacked


@asynccontextmanager
async def connect(
    launch: Launch, translator: ClaudeTranslator, sink: Sink, progress: Progress
) -> AsyncGenerator[ClaudeConnection]:
    """A connection without a process; new, resumed and forked sessions start one.

    Starting raises what core.adapter promises of `connect`, from those calls.
    """
    connection = ClaudeConnection(launch, translator, sink)
    with unpacked():
        async with anyio.create_task_group() as group:
            connection.serve(group)
            try:
                yield connection
            finally:
                await connection.goodbye()
                connection.end()
