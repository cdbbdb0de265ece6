"""Owns `agentctl rules`: the standing answers, listed, added and removed.

It turns what a person types into a rule; it refuses to know what fits one.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, options
from agentctl.cli.listing import Listing
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.client import AgentCtl

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WILD = re.compile(r"[*?\[\\]")


app = typer.Typer(cls=Listing, rich_markup_mode=None, help="Standing answers to requests.")

Where = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="S", help="Of a session alone.", autocompletion=completion.sessions
    ),
]


@app.command("ls")
def list_(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]",
            help="What holds in this one; without it, every rule.",
            autocompletion=completion.sessions,
        ),
    ] = None,
    delete: Annotated[
        str | None, typer.Option(metavar="RULE", help="Delete this one first, as rm does.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Lists rules in the order in which they are tried: a session's own, then those of all.

    \b
    Examples:
      agentctl rules
      agentctl rules 9c4f
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import as_json as encoded
        from agentctl.cli.out import out
        from agentctl.rpc.jsonview import to_dict

        found = await _found(client, session)
        if delete:
            await _delete(client, delete, found)
            found = await _found(client, session)
        if as_json:
            for where, each in found:
                told = {"session_id": where} if where else {}
                out().line(encoded({**told, **to_dict(each)}))
        elif found:
            _table(found)
        else:
            out().line("no rules")

    go(work)


@app.command()
def add(
    allow: Annotated[bool, typer.Option("--allow", help="Answer yes.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Answer no.")] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Ask a person.")] = False,
    command: Annotated[
        str | None, typer.Option(metavar="PATTERN", help='A whole command: "npm *".')
    ] = None,
    path: Annotated[
        str | None, typer.Option(metavar="PATTERN", help='A file: ".git/**", "/**/.env".')
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="K", help="read, edit, delete, execute, fetch, mcp …")
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="ID", help="This entry alone.", autocompletion=completion.entries),
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option("--workspace", "-w", metavar="DIR", help="At work in DIR alone.")
    ] = None,
    session: Where = None,
    expires: Annotated[
        str | None, typer.Option(metavar="T", help="Until then: 30m, 12h, 7d, 2w.")
    ] = None,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for.")] = None,
    as_json: options.Json = False,
) -> None:
    """Adds a rule for all sessions. The first rule that fits a request answers it.

    \b
    Examples:
      agentctl rules add --allow --command "npm test" --workspace ~/api --expires 7d
      agentctl rules add --deny --path "/**/.git/**"
    """
    from agentctl.cli.errors import usage

    chosen = [word for word, on in (("allow", allow), ("deny", deny), ("ask", ask)) if on]
    if len(chosen) != 1:
        usage("Say one of --allow, --deny and --ask.")
    folder = str(workspace.expanduser().absolute()) if workspace else ""
    fields: dict[str, Any] = {"entry_id": agent, "workspace": folder or None, "note": note}
    if command is not None:
        fields["command_pattern" if _WILD.search(command) else "command"] = command
    if path is not None:
        whole = absolute(path, folder)
        fields["path_pattern" if _WILD.search(whole) else "path"] = whole
    if expires is not None:
        fields["expires_at"] = until(expires)

    async def work(client: "AgentCtl") -> None:
        from agentctl import v1
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message
        from agentctl.rpc.enums import number

        where = await resolve(client, "session", session) if session else ""
        rule = v1.Rule(
            kind=number(v1.ToolKind, kind, field="kind") if kind else None,
            decision=number(v1.Policy, chosen[0], field="decision"),
            **fields,
        )
        made = await client.approvals.put_rule(where, rule)
        if as_json:
            print_message(made)
        else:
            out().line(f"{chosen[0]} {subject(made)}: {made.rule_id}")

    go(work)


@app.command()
def rm(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The rule, or the end of its id.")],
    as_json: options.Json = False,
) -> None:
    """Removes a rule, of one session or of all.

    \b
    Examples:
      agentctl rules rm 77ab
      agentctl rules rm rul_01k…77ab
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import out, print_json

        gone = await _delete(client, rule, await _found(client, None))
        if as_json:
            print_json({"rule_id": gone})
        else:
            out().line(f"removed {gone}")

    go(work)


def absolute(pattern: str, workspace: str) -> str:
    """A path pattern from the root: one without / at its begin is meant from the workspace."""
    under = "/**" if pattern.endswith("/") else ""
    told = os.path.join(workspace or Path.cwd(), os.path.expanduser(pattern))  # noqa: PTH111, PTH118
    return os.path.normpath(told).rstrip("/") + under or "/"


def until(text: str) -> int:
    """The Unix ms at which a time like 7d from now is over."""
    import time

    from agentctl.cli.errors import usage

    told = re.fullmatch(r"(\d{1,6})\s*([smhdw])", text.strip())
    if told is None or int(told[1]) == 0:
        usage(f'"{text}" is no time: say how long it holds, as in 30m, 12h, 7d or 2w.')
    return int((time.time() + int(told[1]) * _UNITS[told[2]]) * 1000)


def subject(rule: "v1.Rule") -> str:
    """What a rule is for, in one line."""
    from agentctl.cli.out import home, plain

    named = rule.command or rule.command_pattern
    paths = rule.path or rule.path_pattern
    told = " in ".join(each for each in (plain(named), home(plain(paths))) if each) or "anything"
    return f"{told} ({plain(rule.note)})" if rule.note else told


Found = Sequence[tuple[str, "v1.Rule"]]
"""Rules with the session that each is of; "" for those of all sessions."""


async def _found(client: "AgentCtl", session: str | None) -> Found:
    from agentctl.cli.ids import resolve
    from agentctl.cli.pages import pages

    own: list[tuple[str, v1.Rule]] = []
    if session:
        where = await resolve(client, "session", session)
        own = [(where, each) for each in (await client.approvals.list_rules(where)).rules]
    else:
        async for page in pages(
            lambda token: client.sessions.list(open_only=True, page_token=token)
        ):
            own += [(each.session_id, rule) for each in page.sessions for rule in each.rules]
    return [*own, *(("", each) for each in (await client.approvals.list_rules()).rules)]


async def _delete(client: "AgentCtl", text: str, found: Found) -> str:
    from agentctl.cli.ids import SHORTEST, matches
    from agentctl.core.errors import Invalid

    named = [(where, each.rule_id) for where, each in found if matches(each.rule_id, text)]
    if len(named) > 1 or len(text) < SHORTEST:
        raise Invalid(f'"{text}" means {len(named)} rules: type more of the end of its id.')
    where, rule_id = named[0] if named else ("", text)
    await client.approvals.delete_rule(where, rule_id)
    return rule_id


def _table(found: Found) -> None:
    from agentctl.cli.ids import short
    from agentctl.cli.out import out, table
    from agentctl.rpc.jsonview import to_dict

    names = [each.rule_id for _, each in found]
    screen = out()
    rows: list[list[str]] = []
    for where, each in found:
        data = to_dict(each)
        rows.append(
            [
                short(each.rule_id, names) if screen.is_terminal else each.rule_id,
                data.get("decision", ""),
                data.get("kind", "any"),
                _place(each, short(where) if screen.is_terminal else where),
                _left(each),
                subject(each),
            ]
        )
    table(rows, ["RULE", "DECISION", "KIND", "WHERE", "LEFT", "WHAT"])


def _place(rule: "v1.Rule", session: str) -> str:
    from agentctl.cli.out import home, plain

    told = [session, plain(rule.entry_id), home(plain(rule.workspace))]
    return " ".join(each for each in told if each) or "all"


def _left(rule: "v1.Rule") -> str:
    import time

    if not rule.HasField("expires_at"):
        return "-"
    seconds = rule.expires_at / 1000 - time.time()
    if seconds <= 0:
        return "expired"
    for unit in "dhm":
        if seconds >= _UNITS[unit]:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return f"{int(seconds)}s"
