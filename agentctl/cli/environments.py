"""Owns `agentctl environments`: where agents can run, and the words of `--environment`."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentctl.cli import completion, options
from agentctl.cli.listing import Listing
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.client import AgentCtl

app = typer.Typer(cls=Listing, rich_markup_mode=None, help="Where agents can run.")


@app.command("ls")
def list_(as_json: options.Json = False) -> None:
    """Lists where agents can run.

    \b
    Examples:
      agentctl environments
      agentctl environments ls --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import NONE, out, plain, print_message, table
        from agentctl.cli.pages import pages

        found: list[v1.Environment] = []
        async for page in pages(lambda token: client.environments.list(page_token=token)):
            found += page.environments
        if as_json:
            for each in found:
                print_message(each)
            return
        rows = [
            [
                each.name,
                out().text("ready", "green") if each.available else out().text("missing", "dim"),
                str(each.sessions) if each.HasField("sessions") else NONE,
                plain(each.detail or NONE),
            ]
            for each in found
        ]
        table(rows, ["ENVIRONMENT", "STATE", "SESSIONS", "DETAIL"], right="SESSIONS")

    go(work, start=True)


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="One of them.", autocompletion=completion.environments)
    ],
    as_json: options.Json = False,
) -> None:
    """Shows one: whether sessions can be made there, what it can do, what it takes.

    \b
    Examples:
      agentctl environments show worktree
      agentctl environments show worktree --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import out, plain, print_message, table

        found = await client.environments.status(name)
        if as_json:
            print_message(found)
            return
        facts = {
            "name": found.name,
            "state": "ready" if found.available else "missing",
            "detail": found.detail,
            "sessions": str(found.sessions) if found.HasField("sessions") else "",
            "can": ", ".join(found.capabilities),
        }
        table([[out().text(key, "dim"), plain(value)] for key, value in facts.items() if value])
        if found.options:
            out().line()
            table(
                [[f"--{key}", plain(about)] for key, about in sorted(found.options.items())],
                ["OPTION", "MEANING"],
            )

    go(work, start=True)
