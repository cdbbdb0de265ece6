"""Owns `agentctl runs`: list and show."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, options
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Prompts and their ends.")

_STYLES = {"completed": "green", "failed": "red", "timed_out": "red", "running": "cyan"}


@app.command("ls")
def list_(
    session: Annotated[
        str | None,
        typer.Option(metavar="S", help="Of a session.", autocompletion=completion.sessions),
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option(metavar="T", help="In a state; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Lists runs, newest first.

    \b
    Examples:
      agentctl runs ls
      agentctl runs ls --session 9c4f --state failed --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve, short
        from agentctl.cli.out import NONE, age, duration, out, print_message, table
        from agentctl.rpc.jsonview import to_dict

        where = await resolve(client, "session", session) if session else ""
        page = await client.runs.list(session_id=where, states=state or [], page_size=limit)
        if as_json:
            for each in page.runs:
                print_message(each)
            return
        if not page.runs:
            out().line("no runs")
            return
        names = [each.run_id for each in page.runs]
        rows: list[list[str]] = []
        for each in page.runs:
            data = to_dict(each)
            word = str(data.get("state", ""))
            took = each.ended_at - each.started_at if each.started_at and each.ended_at else None
            rows.append(
                [
                    short(each.run_id, names) if out().is_terminal else each.run_id,
                    short(each.session_id) if out().is_terminal else each.session_id,
                    out().text(word, _STYLES.get(word, "dim")),
                    age(each.created_at),
                    NONE if took is None else duration(took),
                    _prompt(data),
                ]
            )
        table(rows, ["RUN", "SESSION", "STATE", "AGE", "TOOK", "PROMPT"])

    go(work, start=True)


def _prompt(data: dict[str, Any]) -> str:
    from agentctl.cli.out import plain
    from agentctl.cli.runview import block_text

    command = data.get("command")
    if command:
        return f"/{command['name']} {command['arguments']}".rstrip()
    return plain(" ".join(block_text(each) for each in data["prompt"])) or data.get("origin", "")


@app.command()
def show(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run, or the end of its id.", autocompletion=completion.runs
        ),
    ],
    as_json: options.Json = False,
) -> None:
    """Shows one run: its prompt, how it ended, what it used.

    \b
    Examples:
      agentctl runs show 9c4f
      agentctl runs show 9c4f --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import as_json as dumps
        from agentctl.cli.out import out, plain, print_message, table
        from agentctl.rpc.jsonview import to_dict

        found = await client.runs.get(await resolve(client, "run", run))
        if as_json:
            print_message(found)
            return
        data = to_dict(found)
        data["prompt"] = _prompt(data)
        for name in ("created_at", "started_at", "ended_at"):
            if name in data:
                data[name] = f"{datetime.fromtimestamp(data[name] / 1000):%Y-%m-%d %H:%M:%S}"
        rows = [
            [out().text(name, "dim"), plain(value if isinstance(value, str) else dumps(value))]
            for name, value in data.items()
            if value not in ("", [], {}, False)
        ]
        table(rows)
        out().line(out().text(f"agentctl events --run {found.run_id[-6:]}", "dim"))

    go(work, start=True)
