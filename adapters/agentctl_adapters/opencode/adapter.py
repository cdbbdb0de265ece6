"""Owns the life of one connection to an OpenCode server: started by us, or reached by its URL.

Leaving `connect` means that nothing of a server of ours is left; another's is only let go of. Knows no
session and no content.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from agentctl.core.adapter import Frame, Launch, Progress, Sink
from agentctl_adapters.common.launchers import take_turn
from agentctl_adapters.common.starting import unpacked
from agentctl_adapters.opencode import server
from agentctl_adapters.opencode.attach import Target, http_client, target_of, version_of
from agentctl_adapters.opencode.catalog import Catalog
from agentctl_adapters.opencode.client import Api
from agentctl_adapters.opencode.connection import OpenCodeConnection
from agentctl_adapters.opencode.host import Host
from agentctl_adapters.opencode.link import ServerLink
from agentctl_adapters.opencode.refetch import Refetch
from agentctl_adapters.opencode.roster import Roster
from agentctl_adapters.opencode.shapes import as_object
from agentctl_adapters.opencode.stream import PACE, Pace
from agentctl_adapters.opencode.streams import Streams
from agentctl_adapters.opencode.translate import OpenCodeTranslator

# A timer of these kinds ends a turn by what is known: what may have been missed is looked at first.
_LOOK_FIRST = frozenset({"hold", "settle"})


@asynccontextmanager
async def connect(
    launch: Launch,
    translator: OpenCodeTranslator,
    sink: Sink,
    progress: Progress,
    pace: Pace = PACE,
) -> AsyncGenerator[OpenCodeConnection]:
    """Start the server, or reach the one at `url`.

    Raises:
        Refused: AGENT_NOT_INSTALLED; AUTH_REQUIRED.
        AgentFailed: it could not be started, died, said nothing in time, or is no OpenCode server.
        Invalid: `url` or `auth` of the entry is wrong.
    """
    said = server.Announcement()
    link = ServerLink(launch, translator, sink, said.look)
    with unpacked():
        if launch.entry.url:
            target = await anyio.to_thread.run_sync(lambda: target_of(launch))
            async with (
                _remote(link),
                _talking(launch, link, translator, target, own=False, pace=pace) as connection,
            ):
                yield connection
            return
        password = server.new_password()
        async with AsyncExitStack() as starting:
            await starting.enter_async_context(take_turn(launch.argv, progress))
            async with server.running(launch, link, password):
                target = await server.address(launch, link, said, password)
                async with _talking(
                    launch, link, translator, target, own=True, pace=pace
                ) as connection:
                    await starting.aclose()
                    yield connection


@asynccontextmanager
async def _remote(link: ServerLink) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as group:
        link.feed(Frame("spawn"))
        group.start_soon(link.serve_remote)
        try:
            yield
        finally:
            link.lose()
            await link.close()
            group.cancel_scope.cancel()


@asynccontextmanager
async def _talking(
    launch: Launch,
    link: ServerLink,
    translator: OpenCodeTranslator,
    target: Target,
    *,
    own: bool,
    pace: Pace,
) -> AsyncGenerator[OpenCodeConnection]:
    """HTTP, the event reader and the timers; all of it ends before the server does."""
    async with await http_client(target) as http, anyio.create_task_group() as group:
        api = Api(http, link, launch)
        version = await version_of(api, launch)
        roster = Roster(everyone=own)
        refetch = Refetch(api, link, roster, translator)
        streams = Streams(http, link, roster, refetch, group, pace)
        host = Host(
            launch=launch,
            api=api,
            link=link,
            roster=roster,
            refetch=refetch,
            catalog=Catalog(api),
            translator=translator,
            streams=streams,
            group=group,
            own=own,
            version=version,
            remote=target.remote,
        )
        await streams.start()
        if not own:
            await probe(host)

        async def due(key: str) -> None:
            kind, _, rest = key.partition(":")
            session = rest.partition(":")[0]
            if kind in _LOOK_FIRST and session in roster.roots and translator.turns.awaits(key):
                await refetch.session(session)

        group.start_soon(link.run_timers, due)
        connection = OpenCodeConnection(host)
        try:
            yield connection
        finally:
            with anyio.CancelScope(shield=True):
                await connection.goodbye()
            group.cancel_scope.cancel()


async def probe(host: Host) -> None:
    """Whether another's server takes prompts that do not wait for their end.

    Its own description tells; without one, a request that it must refuse does.
    """
    described = await host.api.call("GET", "/doc", quiet=True)
    if paths := as_object(described.told.get("paths")):
        host.sync_only = "/session/{sessionID}/prompt_async" not in paths
        return
    nobody = "/session/ses_agentctl_probe/prompt_async"
    answer = await host.api.call("POST", nobody, body={}, quiet=True)
    named = not answer.page and "ses" in repr(answer.body).lower()
    missing = answer.status == 404 and not named
    host.sync_only = answer.page or answer.status in (405, 501) or missing
