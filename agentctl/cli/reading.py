"""Owns `agentctl session messages` and `session export`: what a session said, on screen or in a file."""

import sys
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctl.cli import options
from agentctl.cli.sessions import app
from agentctl.cli.state import go
from agentctl.cli.times import moment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentctl import v1
    from agentctl.client import AgentCtl


# The most that the daemon puts into one page.
PAGE = 1000


class WhoSaid(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


class Format(StrEnum):
    JSON = "json"
    MARKDOWN = "markdown"


@app.command()
def messages(
    session: options.Session,
    role: Annotated[WhoSaid | None, typer.Option(help="Only what these said.")] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only from then on: 7d, 2026-02-12T08:00.")
    ] = "",
    limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="Only the newest N messages; 0 = all.")
    ] = 0,
    as_json: options.Json = False,
) -> None:
    """Shows the conversation, oldest message first.

    \b
    Examples:
      agentctl session messages 9c4f --limit 10
      agentctl session messages 9c4f --role user --since 12h --json
    """
    start = moment(since) if since else None

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import clean, out, print_message
        from agentctl.cli.runview import block_text
        from agentctl.rpc.jsonview import to_dict

        identifier = await resolve(client, "session", session)
        for event in await _conversation(client, identifier, role, start, limit):
            if as_json:
                print_message(event)
            elif event.HasField("message"):
                data = to_dict(event)["data"]
                text = "".join(block_text(each) for each in data["content"])
                out().line(out().text(data.get("role", ""), "bold") + _when(event.ts))
                out().line(clean(text) + "\n")

    go(work, start=True)


async def _conversation(
    client: "AgentCtl", session: str, role: WhoSaid | None, since: int | None, limit: int
) -> "list[v1.AgentEvent]":
    """Pages go back in time; what they hold stands in the order it was said."""
    pages: list[list[v1.AgentEvent]] = []
    token, left = "", limit
    while True:
        page = await client.sessions.messages(
            session, role=role, since=since, page_size=min(left, PAGE), page_token=token
        )
        pages.insert(0, list(page.events))
        token = page.next_page_token
        left -= sum(each.HasField("message") for each in page.events)
        if not token or (limit and left <= 0):
            return [event for page in pages for event in page]


def _when(ts: int) -> str:
    from agentctl.cli.out import out

    if not ts:
        return ""
    local = datetime.fromtimestamp(ts / 1000, UTC).astimezone()
    return out().text(f"  {local:%Y-%m-%d %H:%M:%S}", "dim")


@app.command()
def export(
    session: options.Session,
    form: Annotated[
        Format | None, typer.Option("--format", help="JSON lines, or Markdown to read.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to save it.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="--format markdown.")] = False,
    said: Annotated[
        bool, typer.Option("--messages/--no-messages", help="Prompts, messages, reasoning.")
    ] = True,
    files: Annotated[
        bool, typer.Option("--files/--no-files", help="What changed files hold now.")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats/--no-stats", help="Runs, tokens, cost, times.")
    ] = True,
) -> None:
    """Writes a session out as it is now: its runs and events as JSON lines, or to read.

    The format follows the name of FILE when it ends in .md.

    \b
    Examples:
      agentctl session export 9c4f > session.jsonl
      agentctl session export 9c4f --format markdown --files --output session.md
    """
    named = output is not None and output.suffix in (".md", ".markdown")
    chosen = form or (Format.MARKDOWN if markdown or named else Format.JSON)

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve

        identifier = await resolve(client, "session", session)
        chunks = client.sessions.export(
            identifier,
            format=chosen,
            include_messages=said,
            include_files=files,
            include_stats=stats,
        )
        if output is None:
            async for chunk in chunks:
                sys.stdout.buffer.write(chunk.data)
            sys.stdout.buffer.flush()
        else:
            await _save(chunks, output)

    go(work, start=True)


async def _save(chunks: "AsyncIterator[v1.ExportChunk]", output: Path) -> None:
    """Nothing is written where the export fails before its first byte."""
    import anyio

    file = None
    try:
        async for chunk in chunks:
            file = file or await anyio.open_file(output, "wb")
            await file.write(chunk.data)
    finally:
        if file is not None:
            await file.aclose()
