"""Owns `agentctl registry`: which agents there are, and edits of agents.json through the daemon."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import options
from agentctl.cli.registry_edit import edited, fields_changed, parse_value, read_json
from agentctl.cli.state import address, go, is_local, settings

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.client import AgentCtl

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The agents that there are.")


@app.command("ls")
def list_(as_json: options.Json = False) -> None:
    """Lists the entries of the registry.

    \b
    Examples:
      agentctl registry ls
      agentctl registry ls --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import NONE, out, print_message, table

        entries = (await client.registry.list(page_size=1000)).entries
        if as_json:
            for each in entries:
                print_message(each)
            return
        style = out().text
        rows = [
            [
                each.entry_id,
                style("on", "green") if each.enabled else style("off", "dim"),
                each.protocol,
                each.source,
                each.default_model or NONE,
                each.description or each.display_name,
            ]
            for each in entries
        ]
        table(rows, ["ENTRY", "", "PROTOCOL", "FROM", "MODEL", "WHAT"])

    go(work, start=True)


@app.command()
def show(entry: options.Agent, as_json: options.Json = False) -> None:
    """Shows an entry as it is in force, all layers merged.

    \b
    Examples:
      agentctl registry show gemini
      agentctl registry show gemini --json
    """

    async def work(client: "AgentCtl") -> None:
        import json

        from agentctl.cli.out import out, print_message

        found = await client.registry.get(entry)
        if as_json:
            print_message(found)
        else:
            out().line(json.dumps(json.loads(found.entry_json), indent=2, ensure_ascii=False))

    go(work, start=True)


@app.command()
def add(
    file: Annotated[Path, typer.Argument(help="One entry as JSON; - reads standard input.")],
    as_json: options.Json = False,
) -> None:
    """Adds an entry.

    \b
    Examples:
      agentctl registry add ./my-agent.json
      echo '{"id": "mine", "cmd": ["my-agent", "--acp"]}' | agentctl registry add -
    """
    text = read_json(file)

    async def work(client: "AgentCtl") -> None:
        _tell(await client.registry.put(text, create_only=True), "added", as_json)

    go(work, start=True)


@app.command("set")
def set_(
    entry: options.Agent,
    field: Annotated[str, typer.Argument(help="As model_flag, env.NAME or cmd[1].")],
    value: Annotated[str, typer.Argument(help="JSON, or plain text.")],
    as_json: options.Json = False,
) -> None:
    """Sets one field of an entry.

    \b
    Examples:
      agentctl registry set gemini model_config.default_model gemini-2.5-flash
      agentctl registry set gemini cmd '["gemini", "--experimental-acp"]'
    """

    async def work(client: "AgentCtl") -> None:
        import json

        from agentctl_registry.fieldpath import parse_field, with_field

        raw = json.loads((await client.registry.get(entry)).entry_json)
        path = parse_field(field)
        whole = with_field(raw, path, parse_value(value))
        change = {"id": entry, path[0]: whole}
        _tell(await client.registry.put(json.dumps(change).encode()), "changed", as_json)

    go(work, start=True)


@app.command()
def rm(entry: options.Agent, as_json: options.Json = False) -> None:
    """Removes an entry from your file; one that is packaged is disabled instead.

    \b
    Examples:
      agentctl registry rm my-agent
      agentctl registry disable gemini
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import out, print_message

        found = await client.registry.delete(entry)
        if as_json:
            print_message(found)
        elif found.HasField("entry"):
            out().line(f"removed; {entry} is again as the {found.entry.source} file has it")
        else:
            out().line(f"removed {entry}")

    go(work, start=True)


@app.command()
def enable(entry: options.Agent, as_json: options.Json = False) -> None:
    """Switches an entry on.

    \b
    Examples:
      agentctl registry enable qwen
      agentctl registry enable qwen --json
    """
    _switch(entry, True, as_json)


@app.command()
def disable(entry: options.Agent, as_json: options.Json = False) -> None:
    """Switches an entry off.

    \b
    Examples:
      agentctl registry disable qwen
      agentctl registry disable qwen --json
    """
    _switch(entry, False, as_json)


def _switch(entry: str, on: bool, as_json: bool) -> None:
    async def work(client: "AgentCtl") -> None:
        word = "enabled" if on else "disabled"
        _tell(await client.registry.enable(entry, on), word, as_json)

    go(work, start=True)


def _tell(entry: "v1.Entry", word: str, as_json: bool) -> None:
    from agentctl.cli.out import out, print_message

    if as_json:
        print_message(entry)
    else:
        out().line(f"{word} {entry.entry_id}")


@app.command()
def validate(
    file: Annotated[
        Path | None, typer.Argument(help="A file to check. Default: the files in force.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Checks agents.json: file, line, field and what was expected. Changes nothing.

    \b
    Examples:
      agentctl registry validate
      agentctl registry validate ./agents.json
    """
    from agentctl.cli.daemonize import answers
    from agentctl.cli.out import out, print_json

    where = address()
    running = not is_local(where) or answers(where)
    problems = _check_file(file) if file else _in_force() if running else _on_disk()
    if as_json:
        print_json({"valid": not problems, "problems": problems})
    for each in [] if as_json else problems:
        place = ":".join(str(each[name]) for name in ("file", "line") if each.get(name))
        told = [place, each.get("field", ""), each["message"]]
        out().line(": ".join(word for word in told if word))
    if problems:
        raise typer.Exit(1)
    if not as_json:
        out().line("nothing is wrong")


Problems = list[dict[str, Any]]


def _in_force() -> Problems:
    async def work(client: "AgentCtl") -> Problems:
        from agentctl.rpc.jsonview import to_dict

        return [to_dict(each) for each in (await client.registry.validate()).problems]

    return go(work)


def _on_disk() -> Problems:
    from agentctl_registry.catalog import Catalog

    told = settings()
    catalog = Catalog.load(user=told.user_registry, project=told.registry)
    return [_problem(each) for each in catalog.problems]


def _check_file(file: Path) -> Problems:
    from agentctl_registry.catalog import Catalog

    told = settings()
    catalog = Catalog.load(user=told.user_registry, project=None)
    text = read_json(file).decode("utf-8-sig", "replace")
    return [_problem(each) for each in catalog.validate(text, str(file))]


def _problem(found: Any) -> dict[str, Any]:
    facts = {"file": found.file, "line": found.line, "field": found.field}
    return {name: value for name, value in facts.items() if value} | {"message": found.message}


@app.command()
def discover(
    entries: Annotated[list[str] | None, typer.Argument(help="Only these entries.")] = None,
    as_json: options.Json = False,
) -> None:
    """Looks which agents are installed and logged in, without a model turn.

    \b
    Examples:
      agentctl registry discover
      agentctl registry discover gemini qwen --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import NONE, out, print_message, table

        found = (await client.registry.discover(entries or [])).agents
        if as_json:
            for each in found:
                print_message(each)
            return
        style = out().text
        rows: list[list[str]] = []
        for each in found:
            here = style("installed", "green") if each.installed else style("missing", "dim")
            login = NONE
            if each.HasField("authenticated"):
                login = "logged in" if each.authenticated else "not logged in"
            detail = each.binary if each.installed else each.install
            rows.append([each.entry_id, here, each.version or NONE, login, detail])
        table(rows, ["ENTRY", "", "VERSION", "LOGIN", "WHERE OR HOW"], whole=True)

    go(work, start=True)


@app.command()
def edit(entry: options.Agent) -> None:
    """Opens an entry in $EDITOR; a bad edit is refused and changes nothing.

    \b
    Examples:
      agentctl registry edit gemini
      EDITOR=nano agentctl registry edit gemini
    """

    async def fetch(client: "AgentCtl") -> bytes:
        return (await client.registry.get(entry)).entry_json

    before = go(fetch, start=True)
    change = fields_changed(entry, before, edited(entry, before))

    async def put(client: "AgentCtl") -> None:
        _tell(await client.registry.put(change), "changed", False)

    if change:
        go(put)
    else:
        from agentctl.cli.out import out

        out().line("nothing was changed")
