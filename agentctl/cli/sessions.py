"""Owns `agentctl session`: list, show, resume, fork, close, delete; `reading` has the rest."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import options
from agentctl.cli.state import go

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from agentctl import v1
    from agentctl.client import AgentCtl

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Conversations with agents.")


class Phase(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


@app.command("ls")
def list_(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Closed ones too.")] = False,
    entry: Annotated[str, typer.Option(metavar="ENTRY", help="Of this entry.")] = "",
    project: Annotated[str, typer.Option(metavar="P", help="Of this project.")] = "",
    phase: Annotated[
        list[Phase] | None,
        typer.Option(metavar="P", help="active, paused, completed, failed; repeatable."),
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option("--workspace", "-w", metavar="DIR", help="At work there.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Lists sessions, newest first.

    \b
    Examples:
      agentctl session ls
      agentctl session ls --workspace . --phase completed --phase failed
    """
    # Those that ended are closed: who asks for them wants them shown.
    everything = everything or bool({Phase.COMPLETED, Phase.FAILED} & set(phase or ()))
    place = str(workspace.expanduser().resolve()) if workspace else ""

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import short
        from agentctl.cli.out import NONE, age, home, out, plain, print_message, table
        from agentctl.cli.pages import pages
        from agentctl.rpc.jsonview import to_dict

        found: list[v1.Session] = []
        async for page in pages(
            lambda token: client.sessions.list(
                open_only=not everything,
                entry_id=entry,
                project=project,
                phases=[str(each) for each in phase or ()],
                workspace=place,
                page_token=token,
            )
        ):
            found += page.sessions
        if as_json:
            for each in found:
                print_message(each)
            return
        if not found:
            out().line(
                "no sessions" if everything else "no open sessions (--all shows closed ones)"
            )
            return
        names = [each.session_id for each in found]
        rows = [
            [
                short(each.session_id, names) if out().is_terminal else each.session_id,
                each.entry_id,
                _state(to_dict(each)),
                age(each.updated_at),
                home(each.workspace),
                plain(each.name or each.title or NONE),
            ]
            for each in found
        ]
        table(rows, ["SESSION", "ENTRY", "STATE", "SEEN", "WORKSPACE", "TITLE"])

    go(work, start=True)


@app.command()
def show(session: options.Session, as_json: options.Json = False) -> None:
    """Shows one session: where it is, what was done in it, what it used.

    \b
    Examples:
      agentctl session show 9c4f
      agentctl session show 9c4f --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli import session_card
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import print_message

        found = await client.sessions.get(await resolve(client, "session", session))
        if as_json:
            print_message(found)
        else:
            session_card.show(found)

    go(work, start=True)


@app.command()
def resume(
    session: options.Session,
    fork: Annotated[bool, typer.Option("--fork", help="Go on in a copy of it.")] = False,
    as_json: options.Json = False,
) -> None:
    """Takes up a session that was interrupted, put to sleep or closed.

    \b
    Examples:
      agentctl session resume 9c4f
      agentctl session resume 9c4f --fork
    """
    _one(session, as_json, "fork" if fork else "resume")


@app.command()
def fork(
    session: options.Session,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="A name for the copy.")] = None,
    as_json: options.Json = False,
) -> None:
    """Copies a conversation into a new session.

    \b
    Examples:
      agentctl session fork 9c4f
      agentctl session fork 9c4f --name "try it with sqlite"
    """
    _one(session, as_json, "fork", name)


def _one(session: str, as_json: bool, what: str, name: str | None = None) -> None:
    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import print_message

        identifier = await resolve(client, "session", session)
        match what:
            case "resume":
                found = await client.sessions.resume(identifier, wait_ready=True)
            case _:
                found = await client.sessions.fork(identifier, name=name, wait_ready=True)
        if as_json:
            print_message(found)
        else:
            print_fields(found)

    go(work, start=True)


def _state(data: "dict[str, Any]") -> str:
    """The state; for one that is closed, how it ended."""
    state, phase = str(data.get("state", "")), str(data.get("phase", ""))
    return phase if state == "closed" and phase else state


def print_fields(found: "Message") -> None:
    """Every field that was told, one a line."""
    from datetime import datetime

    from agentctl.cli.out import as_json as dumps
    from agentctl.cli.out import out, plain, table
    from agentctl.rpc.jsonview import to_dict

    rows: list[list[str]] = []
    for name, value in to_dict(found).items():
        if value in ("", [], {}, False):
            continue
        if name.endswith("_at"):
            value = f"{datetime.fromtimestamp(value / 1000):%Y-%m-%d %H:%M:%S}"
        text = value if isinstance(value, str) else dumps(value)
        rows.append([out().text(name, "dim"), plain(text)])
    table(rows)


@app.command()
def close(
    session: options.Session,
    reason: options.Reason = None,
    force: options.Force = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="For good: it cannot be taken up again.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Closes a session; its agent ends when this was its last one.

    \b
    Examples:
      agentctl session close 9c4f --reason "done"
      agentctl session close 9c4f --discard
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message

        identifier = await resolve(client, "session", session)
        found = await client.sessions.close(
            identifier, reason=reason, force=force, save_state=False if discard else None
        )
        if as_json:
            print_message(found)
        else:
            out().line(f"closed {found.session_id}")

    go(work, start=True)


@app.command()
def delete(
    session: options.Session,
    native: Annotated[bool, typer.Option("--native", help="The agent's own copy too.")] = False,
    as_json: options.Json = False,
) -> None:
    """Deletes what the daemon keeps of a session: its runs and events.

    \b
    Examples:
      agentctl session delete 9c4f
      agentctl session delete 9c4f --native
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_json

        identifier = await resolve(client, "session", session)
        await client.sessions.delete(identifier, native=native)
        if as_json:
            print_json({"session_id": identifier, "deleted": True})
        else:
            out().line(f"deleted {identifier}")

    go(work, start=True)
