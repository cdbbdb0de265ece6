"""Owns what holds for one call of the program: which daemon, which colours; knows no command.

Everything heavy is imported inside, so that `agentctl --help` stays quick.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from agentctl.client import AgentCtl
    from agentctl.config import Settings

T = TypeVar("T")


@dataclass(slots=True)
class State:
    """The global options, as given."""

    address: str = ""
    color: str = "auto"
    config: Path | None = None
    data_dir: Path | None = None


STATE = State()


def settings() -> "Settings":
    """The settings in force for this call."""
    from agentctl.config import load_settings

    told = {} if STATE.data_dir is None else {"data_dir": STATE.data_dir.absolute()}
    return load_settings(STATE.config, told)


def own_daemon() -> bool:
    """Whether the daemon meant is the one of our data directory, so that we may start it."""
    return not STATE.address and (
        STATE.data_dir is not None or not os.environ.get("AGENTCTL_ADDRESS")
    )


def address() -> str:
    """Where the daemon is: --address, --data-dir, $AGENTCTL_ADDRESS, `listen`, the data directory."""
    if STATE.address:
        return STATE.address
    told = os.environ.get("AGENTCTL_ADDRESS")
    if told and STATE.data_dir is None:
        return told
    from agentctl.config import socket_path

    found = settings()
    local = [each for each in found.listen if each.startswith("unix:")]
    return next(iter(local or found.listen), f"unix:{socket_path(found.data_dir)}")


def is_local(place: str) -> bool:
    """Whether an address is a Unix socket: the daemon then is this user's, on this machine."""
    return place.startswith("unix:")


def go(work: Callable[["AgentCtl"], Awaitable[T]], *, start: bool = False) -> T:
    """Runs `work` with a client of the daemon; with `start` it may start one first."""
    import anyio

    from agentctl.client import AgentCtl

    where = address()
    if start and own_daemon() and is_local(where):
        from agentctl.cli.daemonize import ensure

        ensure(where, settings())

    async def main() -> T:
        async with AgentCtl.connect(where) as client:
            return await work(client)

    return anyio.run(main)
