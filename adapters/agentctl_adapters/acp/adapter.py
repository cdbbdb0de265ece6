"""Owns the life of one ACP agent process: start, handshake with its deadline, goodbye, end.

Leaving `connect` means that nothing of the agent is left. Knows no session and no content.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from agentctl.core.adapter import Launch, Progress, Sink, Translator
from agentctl.process.errors import SpawnFailed
from agentctl.process.spawn import SpawnSpec
from agentctl.transport.stdio import open_stdio
from agentctl_adapters.acp.connection import AcpConnection
from agentctl_adapters.acp.handshake import ClientCapabilities, initialize
from agentctl_adapters.acp.inbound import Inbound
from agentctl_adapters.acp.link import Link
from agentctl_adapters.common.failures import handshake_timeout
from agentctl_adapters.common.launchers import start_deadline_s, take_turn
from agentctl_adapters.common.starting import not_started, unpacked

# The slowest known agent needs 3 s, ten times that on a busy machine.
HANDSHAKE_TIMEOUT_S = 60.0


@asynccontextmanager
async def connect(
    launch: Launch, translator: Translator, sink: Sink, progress: Progress
) -> AsyncGenerator[AcpConnection]:
    """Start the agent and shake hands.

    Raises:
        Refused: AGENT_NOT_INSTALLED, there is no such program.
        AgentFailed: it could not be started, died, did not answer in time or speaks another version.
    """
    offer = ClientCapabilities.from_config(launch.entry.protocol_config)
    inbound = Inbound(launch, offer)
    link = Link(launch, translator, sink, inbound.on_request)
    connection = AcpConnection(launch, link, inbound, progress)
    link.on_notification = connection.on_notification
    async with AsyncExitStack() as starting:
        await starting.enter_async_context(take_turn(launch.argv, progress))
        async with _running(launch, link, inbound):
            try:
                await _shake_hands(launch, link, connection, offer)
                await starting.aclose()
                yield connection
            finally:
                await connection.goodbye()


@asynccontextmanager
async def _running(launch: Launch, link: Link, inbound: Inbound) -> AsyncGenerator[None]:
    """The process, its reader and its requests; the reader outlives the process."""
    spec = SpawnSpec(launch.argv, launch.env, Path(launch.cwd), launch.cookie)
    with unpacked():
        async with anyio.create_task_group() as group:
            try:
                async with open_stdio(
                    spec, on_stderr=link.on_stderr, redact=launch.redact
                ) as transport:
                    link.attach(transport)
                    group.start_soon(link.run)
                    group.start_soon(inbound.run, link.peer)
                    yield
            except SpawnFailed as error:
                raise not_started(launch, error) from error
            finally:
                if link.process is not None:
                    await link.close()
                group.cancel_scope.cancel()


async def _shake_hands(
    launch: Launch, link: Link, connection: AcpConnection, offer: ClientCapabilities
) -> None:
    deadline_s = start_deadline_s(launch, HANDSHAKE_TIMEOUT_S)
    try:
        with anyio.fail_after(deadline_s):
            await connection.handshake(initialize(launch.client_version, offer))
    except TimeoutError as error:
        failure = handshake_timeout(
            launch, deadline_s, link.death, _known_version(launch), "an ACP agent"
        )
        if link.process is not None:
            await link.process.stop(force=True)
        raise failure from error


def _known_version(launch: Launch) -> str:
    version = launch.options.get("version")
    return f"version {version}" if isinstance(version, str) and version else ""
