"""Owns the door of the server: address, password, start and stop. Knows no route."""

import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import uvicorn

from agentctl.client import AgentCtl
from agentctl.core.errors import DaemonFailed, Invalid
from agentctl.gateway.opencode.app import application, rooms
from agentctl.gateway.opencode.guard import Access, is_loopback

PORT, HOSTNAME, USERNAME = 4096, "127.0.0.1", "opencode"
PASSWORD_VARIABLE, USERNAME_VARIABLE = "OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME"

# Event streams end at once; a prompt that is waited for is not, and its client will ask again.
GRACE_S = 2

WARNING = (
    f"Warning: {PASSWORD_VARIABLE} is not set; whoever reaches this address can use the agents."
)


@dataclass(frozen=True, slots=True)
class Options:
    """How to serve. `port` 0: any free one. `directory`: what a request means that names none."""

    port: int = PORT
    hostname: str = HOSTNAME
    username: str = USERNAME
    password: str = ""
    origins: Sequence[str] = ()
    directory: Path | None = None

    def check(self) -> None:
        """Raises Invalid: it would stand open to others than this machine's user."""
        if self.password:
            return
        if not is_loopback(self.hostname):
            raise Invalid(
                f"{self.hostname} is reached from other machines: set a password ({PASSWORD_VARIABLE} "
                "or --password), or listen on 127.0.0.1."
            )
        if "*" in self.origins:
            raise Invalid(
                "--cors '*' lets every web page use the agents: set a password "
                f"({PASSWORD_VARIABLE} or --password), or name the origins."
            )


def options(
    *,
    port: int | None = None,
    hostname: str | None = None,
    cors: str | None = None,
    username: str | None = None,
    password: str | None = None,
) -> Options:
    """Options from the command line and the environment.

    The password is taken out of the environment: an agent that is started later must not have it.

    Raises:
        Invalid: it would stand open to others than this machine's user.
    """
    told_password = os.environ.pop(PASSWORD_VARIABLE, "")
    told_username = os.environ.pop(USERNAME_VARIABLE, "")
    made = Options(
        port=PORT if port is None else port,
        hostname=hostname or HOSTNAME,
        username=username or told_username or USERNAME,
        password=told_password if password is None else password,
        origins=[each.strip() for each in (cors or "").split(",") if each.strip()],
    )
    made.check()
    return made


class _Server(uvicorn.Server):
    """One whose signals are its owner's business."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def listen(told: Options) -> socket.socket:
    """Binds the address.

    Raises:
        DaemonFailed: it is taken, or not of this machine.
    """
    try:
        found = socket.getaddrinfo(
            told.hostname, told.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        door = socket.socket(family, kind, protocol)
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(address)
            door.listen(128)
        except OSError:
            door.close()
            raise
    except OSError as error:
        raise DaemonFailed(
            f"Cannot listen on {told.hostname} port {told.port} ({error.strerror or error}): end what "
            "listens there, or choose another with --port."
        ) from error
    return door


def url_of(door: socket.socket, told: Options) -> str:
    host = f"[{told.hostname}]" if ":" in told.hostname else told.hostname
    return f"http://{host}:{door.getsockname()[1]}"


@asynccontextmanager
async def serving(client: AgentCtl, told: Options) -> AsyncGenerator[str]:
    """Serves beside the daemon of `client`; yields the URL. Leaving it stops the server, no agent.

    Raises:
        DaemonFailed: the address cannot be had.
        AgentctlError: the daemon cannot be reached.
    """
    # It tells of its own start and end, which its owner does already.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    door = await anyio.to_thread.run_sync(listen, told)
    try:
        access = Access(told.username, told.password, told.origins, frozenset({told.hostname}))
        async with rooms(client, told.directory) as behind:
            config = uvicorn.Config(
                application(behind, access),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=GRACE_S,
            )
            server = _Server(config)
            async with anyio.create_task_group() as group:
                group.start_soon(server.serve, [door])
                try:
                    yield url_of(door, told)
                finally:
                    behind.pump.stop()
                    server.should_exit = True
    finally:
        door.close()


def announce(told: Options, url: str, write: Callable[[str], object]) -> None:
    """Says where it is, in the words that programs wait for."""
    if not told.password:
        write(f"{WARNING}\n")
    write(f"opencode server listening on {url}\n")
