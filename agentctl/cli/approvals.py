"""Owns the commands on permission requests: approvals, approve, deny."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, options
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.client import AgentCtl

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The request, or the end of its id.", autocompletion=completion.approvals
    ),
]


def approvals(
    session: Annotated[
        str | None,
        typer.Option(metavar="S", help="Of a session.", autocompletion=completion.sessions),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Answered ones too.")] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Answered ones too, and who decided by which rule.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Lists the permission requests that wait for an answer.

    \b
    Examples:
      agentctl approvals
      agentctl approvals --session 9c4f --history
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message
        from agentctl.cli.pages import pages

        where = await resolve(client, "session", session) if session else ""
        found: list[v1.Approval] = []
        async for page in pages(
            lambda token: client.approvals.list(
                session_id=where, include_resolved=everything or history, page_token=token
            )
        ):
            found += page.approvals
        if as_json:
            for each in found:
                print_message(each)
            return
        if not found:
            out().line("nothing waits for an answer")
            return
        _list(found, history=history)

    go(work)


def _list(found: "Sequence[v1.Approval]", *, history: bool) -> None:
    from agentctl.cli.cards import subject, verb
    from agentctl.cli.ids import short
    from agentctl.cli.out import age, out, table
    from agentctl.rpc.jsonview import to_dict

    names = [each.approval_id for each in found]
    rows: list[list[str]] = []
    waits = 0
    for each in found:
        data = to_dict(each)
        waits += "decision" not in data
        request = data["request"]
        rows.append(
            [
                short(each.approval_id, names) if out().is_terminal else each.approval_id,
                short(each.session_id) if out().is_terminal else each.session_id,
                age(each.created_at),
                data.get("decision", "open"),
                *([_decider(each)] if history else []),
                verb(request),
                subject(request),
            ]
        )
    by = ["BY"] if history else []
    table(rows, ["APPROVAL", "SESSION", "AGE", "STATE", *by, "KIND", "WHAT"])
    if waits and out().is_terminal:
        tail = next(each for each in found if not each.HasField("decision")).approval_id[-4:]
        out().line(out().text(f"agentctl approve {tail}   agentctl deny {tail}", "dim"))


def _decider(record: "v1.Approval") -> str:
    from agentctl.cli.ids import short
    from agentctl.cli.out import out
    from agentctl.rpc.jsonview import to_dict

    by = str(to_dict(record).get("by", "-"))
    rule = short(record.rule_id) if out().is_terminal else record.rule_id
    return f"{by} {rule}" if rule else by


def approve(
    approval_id: Id,
    always: Annotated[
        bool, typer.Option("--always", help="This command or path, for the session.")
    ] = False,
    option: Annotated[
        str | None, typer.Option(metavar="O", help="Exactly this option of the agent.")
    ] = None,
    reason: options.Reason = None,
    as_json: options.Json = False,
) -> None:
    """Allows what an agent asks for, once.

    \b
    Examples:
      agentctl approve 9c4f
      agentctl approve 9c4f --always
    """
    if always and option:
        from agentctl.cli.errors import usage

        usage("Say --always or --option, not both: an option says itself how far it reaches.")
    _respond(approval_id, "" if option else "approve", option, reason, always, as_json)


def deny(approval_id: Id, reason: options.Reason = None, as_json: options.Json = False) -> None:
    """Refuses what an agent asks for, once.

    \b
    Examples:
      agentctl deny 9c4f
      agentctl deny 9c4f --reason "use the staging database"
    """
    _respond(approval_id, "deny", None, reason, False, as_json)


def _respond(
    text: str,
    decision: str,
    option: str | None,
    reason: str | None,
    always: bool,
    as_json: bool,
) -> None:
    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message

        identifier = await resolve(client, "approval", text)
        found = await client.approvals.respond(
            identifier, decision, option_id=option, reason=reason, always=always
        )
        if as_json:
            print_message(found)
            return
        from agentctl.cli.cards import subject, verb
        from agentctl.rpc.jsonview import to_dict

        data = to_dict(found)
        request = data["request"]
        word = data.get("decision", "answered")
        out().line(f"{word}: {verb(request)} {subject(request)}")

    go(work)


COMMANDS: Sequence[Any] = (approvals, approve, deny)
