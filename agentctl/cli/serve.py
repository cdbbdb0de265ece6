"""Owns the commands of the daemon's life: serve in the foreground, up and down in the background.

`serve --mode` serves other programs' protocols beside the daemon; each is a gateway that is loaded then.
"""

import logging
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import options
from agentctl.cli.state import STATE

if TYPE_CHECKING:
    import psutil

    from agentctl.config import Settings
    from agentctl.gateway.opencode.serving import Options

# Each agent may take its whole stop ladder (20 s); they are stopped side by side.
DOWN_S = 60.0

# Between two looks at a process that is ending.
LOOK_S = 0.02


class ServeMode(StrEnum):
    OPENCODE = "opencode"
    ACP = "acp"


def serve(
    listen: options.Listen = None,
    data_dir: options.DataDir = None,
    registry: options.Registry = None,
    record: options.Record = None,
    config: options.Config = None,
    mode: Annotated[
        ServeMode | None, typer.Option(help="Serve OpenCode's HTTP API as well, or ACP on stdio.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="For HTTP: 4096; 0 is any free one."),
    ] = None,
    hostname: Annotated[
        str | None, typer.Option(metavar="HOST", help="For HTTP: 127.0.0.1.")
    ] = None,
    cors: Annotated[
        str | None, typer.Option(metavar="ORIGINS", help="For HTTP: web pages that may call.")
    ] = None,
    username: Annotated[str | None, typer.Option(metavar="U", help="For HTTP: opencode.")] = None,
    password: Annotated[
        str | None, typer.Option(metavar="P", help="For HTTP: or OPENCODE_SERVER_PASSWORD.")
    ] = None,
) -> None:
    """Runs the daemon in the foreground until Ctrl-C or SIGTERM.

    \b
    Examples:
      agentctl serve
      agentctl serve --listen 127.0.0.1:7777 --record ./transcripts
      agentctl serve --mode opencode --port 4096
    """
    import anyio

    from agentctl.cli.errors import usage

    http: dict[str, Any] = {
        "port": port,
        "hostname": hostname,
        "cors": cors,
        "username": username,
        "password": password,
    }
    strange = [name for name, value in http.items() if value is not None]
    if strange and mode is not ServeMode.OPENCODE:
        usage(f"--{strange[0]} goes with --mode opencode.")
    settings = _settings(listen, data_dir, registry, record, config)
    if mode is ServeMode.ACP:
        return _serve_acp(data_dir, config)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # It notes each write beside a registry file, this log included when it lies there.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    if mode is ServeMode.OPENCODE:
        try:
            from agentctl.gateway.opencode.serving import options as told
        except ModuleNotFoundError as error:
            usage(
                f"{error.name} is missing: install the extra `gateway` (docs/gateway-opencode.md)."
            )
        return anyio.run(_serve_opencode, settings, told(**http))

    from agentctl.daemon import serve as run_daemon

    def ready(addresses: list[str]) -> None:
        for address in addresses:
            sys.stdout.write(f"agentctl listening on {address}\n")
        sys.stdout.flush()

    async def main() -> None:
        await run_daemon(settings, ready=ready)

    anyio.run(main)


def _serve_acp(data_dir: Path | None, config: Path | None) -> None:
    from agentctl.cli.acp import acp

    STATE.data_dir, STATE.config = data_dir or STATE.data_dir, config or STATE.config
    acp()


async def _serve_opencode(settings: "Settings", told: "Options") -> None:
    """Serves HTTP beside the daemon, which runs here when none runs elsewhere."""
    import signal

    import anyio

    from agentctl.client import AgentCtl
    from agentctl.gateway.opencode.serving import announce, serving

    def write(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with (
            _some_daemon(settings) as address,
            AgentCtl.connect(address) as client,
            serving(client, told) as url,
        ):
            announce(told, url, write)
            async for _ in signals:
                return


@asynccontextmanager
async def _some_daemon(settings: "Settings") -> AsyncGenerator[str]:
    """The address of the daemon on this data directory; it runs in this process if in no other."""
    import gc

    from agentctl.cli.daemonize import answers
    from agentctl.config import socket_path
    from agentctl.daemon import GC_THRESHOLDS, running

    own = f"unix:{socket_path(settings.data_dir)}"
    local = [each for each in settings.listen if each.startswith("unix:")]
    address = local[0] if local else own
    if answers(address):
        yield address
        return
    if settings.listen and not local:
        settings = settings.model_copy(update={"listen": [*settings.listen, own]})
    async with running(settings) as addresses:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        for each in addresses:
            sys.stdout.write(f"agentctl listening on {each}\n")
        yield address


def up(
    listen: options.Listen = None,
    data_dir: options.DataDir = None,
    registry: options.Registry = None,
    record: options.Record = None,
    config: options.Config = None,
) -> None:
    """Starts the daemon in the background and waits until it serves.

    \b
    Examples:
      agentctl up
      agentctl up --data-dir /srv/agentctl --registry ./agents.json
    """
    from agentctl.cli.daemonize import ensure, log_file
    from agentctl.cli.out import out
    from agentctl.config import socket_path

    settings = _settings(listen, data_dir, registry, record, config)
    local = [each for each in settings.listen if each.startswith("unix:")]
    if settings.listen and not local:
        local = [f"unix:{socket_path(settings.data_dir)}"]
        listen = [*(listen or settings.listen), local[0]]
    address = local[0] if local else f"unix:{socket_path(settings.data_dir)}"
    arguments = _arguments(listen, registry, record, config)
    pid = ensure(address, settings, arguments)
    if pid is None:
        out().line(f"agentctl is already listening on {address}")
    else:
        out().line(f"agentctl listening on {address} (pid {pid}, log {log_file(settings)})")


def down(
    data_dir: options.DataDir = None,
    config: options.Config = None,
    force: options.Force = False,
) -> None:
    """Stops the daemon with all its agents, and waits until it is gone.

    \b
    Examples:
      agentctl down
      agentctl down --data-dir /srv/agentctl
    """
    import psutil

    from agentctl.cli import state
    from agentctl.cli.daemonize import answers
    from agentctl.cli.errors import usage
    from agentctl.cli.out import out
    from agentctl.core.errors import DaemonFailed

    STATE.data_dir, STATE.config = data_dir or STATE.data_dir, config or STATE.config
    address = state.address()
    if not state.is_local(address):
        usage(f"{address} is not of this machine: stop that daemon where it runs.")
    if not answers(address):
        out().line("no daemon is running")
        return

    async def pid_of(client: Any) -> int:
        return (await client.daemon.get_info(timeout_s=10)).pid

    pid = state.go(pid_of)
    try:
        daemon = psutil.Process(pid)
        daemon.kill() if force else daemon.terminate()
        if not _gone(daemon):
            raise DaemonFailed(
                f"The daemon (pid {pid}) still runs after {DOWN_S:.0f} s: `agentctl down --force` "
                "kills it, and its agents end with it."
            )
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied:
        raise DaemonFailed(f"The daemon (pid {pid}) belongs to another user.") from None
    out().line(f"stopped (pid {pid})")


def _gone(daemon: "psutil.Process") -> bool:
    """Waits for the end of a process that is not our child; one that nobody reaps has ended too."""
    import psutil

    deadline = time.monotonic() + DOWN_S
    while time.monotonic() < deadline:
        if not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(LOOK_S)
    return False


def _settings(
    listen: Sequence[str] | None,
    data_dir: Path | None,
    registry: Path | None,
    record: Path | None,
    config: Path | None,
) -> "Settings":
    from agentctl.config import load_settings

    told: dict[str, Any] = {
        "listen": list(listen) if listen else None,
        "data_dir": _absolute(data_dir or STATE.data_dir),
        "registry": _absolute(registry),
        "record_dir": _absolute(record),
    }
    given = {name: value for name, value in told.items() if value is not None}
    return load_settings(config or STATE.config, given)


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.expanduser().absolute()


def _arguments(
    listen: Sequence[str] | None,
    registry: Path | None,
    record: Path | None,
    config: Path | None,
) -> list[str]:
    pairs = [
        *(("--listen", each) for each in listen or ()),
        ("--registry", _absolute(registry)),
        ("--record", _absolute(record)),
        ("--config", _absolute(config or STATE.config)),
    ]
    return [str(word) for name, value in pairs if value is not None for word in (name, value)]


COMMANDS: Sequence[Any] = (serve, up, down)
