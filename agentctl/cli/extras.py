"""Owns the commands on what sessions and agents hold: stats, models, tools, auth, replay.

What the daemon does not serve yet, it says itself.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, options
from agentctl.cli.state import go
from agentctl.cli.times import moment

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from agentctl import v1
    from agentctl.client import AgentCtl


def stats(
    session: options.OfSession = None,
    entry: Annotated[str, typer.Option(metavar="ENTRY", help="Of this entry.")] = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Runs that ended since: 7d, 2026-02-12.")
    ] = "",
    by_session: Annotated[
        bool, typer.Option("--sessions", help="A line for each session too.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Shows what was used, by entry and by model: runs, tokens, cost, tools, files, time.

    \b
    Examples:
      agentctl stats --since 7d --sessions
      agentctl stats --entry gemini --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import print_message
        from agentctl.cli.usage import show, show_sessions

        start = moment(since) if since else None
        where = await resolve(client, "session", session) if session else ""
        found = await client.stats.get(session_id=where, entry_id=entry, since=start)
        if as_json:
            print_message(found)
            return
        show(found)
        if by_session and found.entries:
            sessions = (await client.sessions.list(entry_id=entry, page_size=1000)).sessions
            show_sessions(
                [
                    each
                    for each in sessions
                    if where in ("", each.session_id) and each.last_active_at >= (start or 0)
                ]
            )

    go(work, start=True)


def models(
    agent: Annotated[
        str, typer.Argument(help="Of this entry.", autocompletion=completion.entries)
    ] = "",
    session: options.OfSession = None,
    as_json: options.Json = False,
) -> None:
    """Lists the models that agents offer.

    \b
    Examples:
      agentctl models gemini
      agentctl models --session 9c4f --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, plain, print_message, table
        from agentctl.cli.pages import pages

        where = await resolve(client, "session", session) if session else ""
        found: list[v1.ModelOffer] = []
        async for page in pages(
            lambda token: client.models.list(agent=agent, session_id=where, page_token=token)
        ):
            found += page.models
        if as_json:
            for each in found:
                print_message(each)
            return
        rows = [
            [
                each.entry_id,
                plain(each.model.id),
                "default" if each.is_default else "",
                plain(each.model.name),
            ]
            for each in found
        ]
        if rows:
            table(rows, ["ENTRY", "MODEL", "", "NAME"])
        else:
            out().line("no models are listed")

    go(work, start=True)


def tools(session: options.Session, as_json: options.Json = False) -> None:
    """Lists the tools that a session's agent has: whose they are, what they may do, how often used.

    \b
    Examples:
      agentctl tools 9c4f
      agentctl tools 9c4f --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message
        from agentctl.cli.pages import pages
        from agentctl.cli.usage import show_tools

        identifier = await resolve(client, "session", session)
        found: list[v1.Tool] = []
        async for page in pages(lambda token: client.tools.list(identifier, page_token=token)):
            found += page.tools
        if as_json:
            for each in found:
                print_message(each)
        elif found:
            show_tools(found)
        else:
            out().line("its agent has told no tools yet: they are listed as it uses them")

    go(work, start=True)


def auth(
    agent: options.Agent,
    method: Annotated[str | None, typer.Argument(help="The login to use.")] = None,
    as_json: options.Json = False,
) -> None:
    """Lists the logins that an agent offers, or has it log in with one.

    \b
    Examples:
      agentctl auth gemini
      agentctl auth gemini oauth-personal
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import out, print_json

        if method is not None:
            await client.agents.authenticate(agent, method)
            if as_json:
                print_json({"agent": agent, "method": method, "authenticated": True})
            else:
                out().line(f"{agent} is logged in ({method})")
            return
        found = (await client.agents.auth_methods(agent)).methods
        if not found and not as_json:
            out().line(f"{agent} offers no login of its own")
            return
        _show(found, ("id", "name", "description"), as_json)
        if not as_json:
            out().line(out().text(f"agentctl auth {agent} {found[0].id}", "dim"))

    go(work, start=True)


def _show(found: "Sequence[Message]", fields: Sequence[str], as_json: bool) -> None:
    """A table of some fields of each message, or all of it as JSON."""
    from agentctl.cli.out import NONE, out, plain, print_message, table
    from agentctl.rpc.jsonview import to_dict

    if as_json:
        for each in found:
            print_message(each)
        return
    rows = [[plain(str(to_dict(each).get(name, NONE))) for name in fields] for each in found]
    if rows:
        table(rows, [name.upper() for name in fields])
    else:
        out().line("nothing to list")


def replay(
    protocol: Annotated[str, typer.Argument(help="acp, or another that is installed.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Transcripts.")],
    as_json: options.Json = False,
) -> None:
    """Reads recorded transcripts (serve --record DIR) and prints the events they make.

    \b
    Examples:
      agentctl replay acp transcripts/gemini-agt_01k9c.jsonl
      agentctl replay acp *.jsonl --json
    """
    from agentctl.cli.replay import replay as read

    read(protocol, files, as_json)


COMMANDS: Sequence[Any] = (stats, models, tools, auth, replay)
