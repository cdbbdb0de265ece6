"""Owns `agentctl acp`: an agent of ours as an ACP agent on standard input and output."""

import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, options
from agentctl.cli.options import Approve

if TYPE_CHECKING:
    from agentctl.client import AgentCtl


def acp(
    agent: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="The agent of every session. Default: the client chooses.",
            autocompletion=completion.entries,
        ),
    ] = "",
    approve: options.ApproveOption = None,
    close_on_exit: Annotated[
        bool, typer.Option("--close-on-exit", help="Close its sessions when the client leaves.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log more to standard error.")
    ] = False,
) -> None:
    """Serves an editor or another client as an ACP agent, over standard input and output.

    \b
    Examples:
      agentctl acp --agent gemini
      agentctl acp --agent claude --approve allow
    """
    run(agent, approve, close_on_exit=close_on_exit, verbose=verbose)


def run(
    agent: str = "", approve: Approve | None = None, *, close_on_exit: bool, verbose: bool = False
) -> None:
    """Serves until the client leaves; starts a daemon in the background when none runs."""
    from agentctl.cli.inputs import caller_env
    from agentctl.cli.state import address, go, is_local, own_daemon, settings
    from agentctl.gateway.acp import Choices, serve
    from agentctl.gateway.acp.wire import standard_streams

    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    if sys.stdin.isatty():
        sys.stderr.write("This is an ACP agent for editors: try `agentctl run demo hello`.\n")
    where = address()

    async def revive() -> None:
        import anyio

        from agentctl.cli.daemonize import ensure

        await anyio.to_thread.run_sync(ensure, where, settings())

    choices = Choices(
        agent=agent,
        policy=approve or "",
        close_on_exit=close_on_exit,
        env=caller_env,
        revive=revive if own_daemon() and is_local(where) else None,
    )

    async def work(client: "AgentCtl") -> None:
        with standard_streams() as (stdin, stdout):
            await serve(client, choices, stdin, stdout)

    go(work, start=True)


COMMANDS: Sequence[Any] = (acp,)
