"""Owns a server that we start: its process, where it says that it listens, and its end.

Its own stop leaves the shells of its tools behind, so it is asked to dispose of everything first. It
refuses to know sessions and events.
"""

import re
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from agentctl.core.adapter import Launch
from agentctl.core.errors import AgentctlError, AgentFailed
from agentctl.process.errors import SpawnFailed
from agentctl.process.spawn import SpawnSpec
from agentctl.transport.stdio import open_stdio
from agentctl_adapters.common.failures import command_line, death_error, facts
from agentctl_adapters.common.launchers import start_deadline_s
from agentctl_adapters.common.starting import not_started
from agentctl_adapters.opencode.attach import Target
from agentctl_adapters.opencode.client import Api
from agentctl_adapters.opencode.link import ServerLink
from agentctl_adapters.opencode.settings import USER, denied_in_files, server_env

# A cold start takes 1.7 s, thirty times that on a machine that swaps.
URL_TIMEOUT_S = 60.0
# Disposing ends all turns and shells; it took 30 ms, and up to a second with busy ones.
DISPOSE_TIMEOUT_S = 3.0

_URL = re.compile(r"\blistening on (https?://[^\s\x1b]+)")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Announcement:
    """The line in which a server says where it listens; whatever else it prints is no matter."""

    def __init__(self) -> None:
        self.url = ""
        self.made = anyio.Event()

    def look(self, line: str) -> None:
        if self.url or (found := _URL.search(_ANSI.sub("", line))) is None:
            return
        self.url = found[1].rstrip("/.,")
        self.made.set()


@asynccontextmanager
async def running(launch: Launch, link: ServerLink, password: str) -> AsyncGenerator[None]:
    """The process and its reader; leaving it means that nothing of the server is left.

    Raises:
        Refused: AGENT_NOT_INSTALLED.
        AgentFailed: it could not be started.
    """
    denied = await anyio.to_thread.run_sync(lambda: denied_in_files(launch.env))
    env = server_env(launch, password, denied)
    spec = SpawnSpec(launch.argv, env, Path(launch.cwd), launch.cookie, stdin_pipe=False)

    def redact(text: str) -> str:
        return launch.redact(text.replace(password, "[redacted]"))

    async with anyio.create_task_group() as group:
        try:
            async with open_stdio(spec, on_stderr=link.on_stderr, redact=redact) as transport:
                link.attach(transport)
                group.start_soon(link.run)
                try:
                    yield
                finally:
                    with anyio.CancelScope(shield=True):
                        # It does not care about its stdin: nothing to wait for there.
                        await transport.process.stop(eof_wait_s=0.0)
        except SpawnFailed as error:
            raise not_started(launch, error) from error
        finally:
            if link.process is not None:
                await link.close()
            group.cancel_scope.cancel()


def new_password() -> str:
    return secrets.token_urlsafe(24)


async def address(launch: Launch, link: ServerLink, said: Announcement, password: str) -> Target:
    """Where it listens, once it says so.

    Raises:
        AgentFailed: it exited, or said nothing in time.
    """
    limit_s = start_deadline_s(launch, URL_TIMEOUT_S)
    with anyio.move_on_after(limit_s):
        async with anyio.create_task_group() as group:

            async def end() -> None:
                await link.ended.wait()
                group.cancel_scope.cancel()

            group.start_soon(end)
            await said.made.wait()
            group.cancel_scope.cancel()
    if said.url:
        return Target(said.url, user=USER, password=password)
    if link.ended.is_set():
        raise death_error(launch, link.death, "before it said where it listens")
    if link.process is not None:
        await link.process.stop(force=True)
    raise AgentFailed(
        f"{launch.entry.id} did not say where it listens within {limit_s:g} s (command: "
        f"{command_line(launch)})",
        metadata=facts(launch, link.death, ""),
    )


async def dispose(api: Api) -> None:
    """Ends every turn and every shell of the server; never raises."""
    try:
        await api.call("POST", "/global/dispose", timeout_s=DISPOSE_TIMEOUT_S)
    except AgentctlError:
        return
