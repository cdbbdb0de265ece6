"""Owns the life of one app-server process: start, handshake with its deadline, goodbye, end.

Leaving `connect` means that nothing of it is left: it ends cleanly at the end of its stdin and takes its
commands along, the leash does the rest. Knows no thread and no content.
"""

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from agentctl.core.adapter import Draft, Launch, Progress, Sink
from agentctl.core.events import Error
from agentctl.process.errors import SpawnFailed
from agentctl.process.spawn import SpawnSpec
from agentctl.transport.stdio import open_stdio
from agentctl_adapters.codex import native
from agentctl_adapters.codex.account import IN_MEMORY
from agentctl_adapters.codex.connection import CodexConnection
from agentctl_adapters.codex.inbound import Inbound
from agentctl_adapters.codex.link import Link
from agentctl_adapters.codex.translate import CodexTranslator
from agentctl_adapters.common.failures import handshake_timeout
from agentctl_adapters.common.launchers import start_deadline_s, take_turn
from agentctl_adapters.common.starting import not_started, unpacked

# Measured: 0.4 s on two loaded cores; a hundred times that is a machine that swaps.
HANDSHAKE_TIMEOUT_S = 60.0


@asynccontextmanager
async def connect(
    launch: Launch, sink: Sink, progress: Progress
) -> AsyncGenerator[CodexConnection]:
    """Start the app-server and shake hands.

    Raises:
        Refused: AGENT_NOT_INSTALLED, there is no such program.
        AgentFailed: it could not be started, died or did not answer in time.
    """
    launch = await anyio.to_thread.run_sync(prepared, launch)
    inbound = Inbound()
    link = Link(launch, CodexTranslator(live=True), sink, inbound.on_request)
    inbound.peer = link.peer
    connection = CodexConnection(launch, link, inbound)
    link.on_notification = connection.on_notification
    link.on_given_up = connection.on_given_up
    async with _running(launch, link) as group:
        try:
            async with take_turn(launch.argv, progress):
                await _shake_hands(launch, link, connection)
            connection.serve(group)
            await _warn(launch, link)
            yield connection
        finally:
            await connection.goodbye()


def prepared(launch: Launch) -> Launch:
    """The program itself instead of its script; a key of the environment stays in memory."""
    argv = native.native_argv(launch.argv, launch.env)
    if native.key_of(launch.env) is not None:
        argv = (*argv, *IN_MEMORY)
    return dataclasses.replace(launch, argv=argv)


@asynccontextmanager
async def _running(launch: Launch, link: Link) -> AsyncGenerator[TaskGroup]:
    """The process and its reader; the reader outlives the process."""
    spec = SpawnSpec(launch.argv, launch.env, Path(launch.cwd), launch.cookie)
    with unpacked():
        async with anyio.create_task_group() as group:
            try:
                async with open_stdio(
                    spec, on_stderr=link.on_stderr, redact=launch.redact
                ) as transport:
                    link.attach(transport)
                    group.start_soon(link.run)
                    yield group
            except SpawnFailed as error:
                raise not_started(launch, error) from error
            finally:
                if link.process is not None:
                    await link.close()
                group.cancel_scope.cancel()


async def _shake_hands(launch: Launch, link: Link, connection: CodexConnection) -> None:
    deadline_s = start_deadline_s(launch, HANDSHAKE_TIMEOUT_S)
    try:
        with anyio.fail_after(deadline_s):
            await connection.handshake()
    except TimeoutError as error:
        failure = handshake_timeout(launch, deadline_s, link.death, "", "`codex app-server`")
        if link.process is not None:
            await link.process.stop(force=True)
        raise failure from error


async def _warn(launch: Launch, link: Link) -> None:
    home = native.home_of(launch.env)
    if await anyio.to_thread.run_sync(native.is_temporary, home, launch.env):
        words = (
            f"The home of {launch.entry.id} ({home}) is in a temporary directory, where its sandbox"
            " refuses to run any command. Set CODEX_HOME to a directory elsewhere."
        )
        link.tell([Draft(Error("AGENT_CONFIG", words))])
