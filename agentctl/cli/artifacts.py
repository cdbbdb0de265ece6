"""Owns `agentctl artifacts`: what runs made, listed, shown, and their bytes handed over.

To a terminal go only texts; it refuses to guess what the bytes of the others mean.
"""

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentctl.cli import completion, options
from agentctl.cli.listing import Listing
from agentctl.cli.state import go

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agentctl import v1
    from agentctl.client import AgentCtl

app = typer.Typer(cls=Listing, rich_markup_mode=None, help="What runs made.")

_TEXTS = ("patch", "diff", "log", "trajectory")
_TEXT_TYPES = re.compile(r"text/|[^;]*(json|xml|yaml|javascript|x-diff|x-patch)\b")
_RANGE = re.compile(r"(\d*)-(\d*)")


class Kind(StrEnum):
    FILE = "file"
    PATCH = "patch"
    DIFF = "diff"
    LOG = "log"
    MEDIA = "media"
    SCREENSHOT = "screenshot"
    TRAJECTORY = "trajectory"
    PULL_REQUEST = "pull_request"
    WORKSPACE = "workspace"


Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="An artifact, or the end of its id.", autocompletion=completion.artifacts
    ),
]


@app.command("ls")
def list_(
    session: options.OfSession = None,
    run: Annotated[
        str | None, typer.Option(metavar="R", help="Of a run.", autocompletion=completion.runs)
    ] = None,
    kind: Annotated[
        list[Kind] | None,
        typer.Option(metavar="K", help="file, patch, diff, log, media …; repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    as_json: options.Json = False,
) -> None:
    """Lists what runs made, newest first.

    \b
    Examples:
      agentctl artifacts --session 9c4f
      agentctl artifacts ls --run 77ab --kind patch --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve, short
        from agentctl.cli.out import NONE, age, out, plain, print_message, table
        from agentctl.rpc.jsonview import to_dict

        where = await resolve(client, "session", session) if session else ""
        whose = await resolve(client, "run", run) if run else ""
        page = await client.artifacts.list(
            session_id=where,
            run_id=whose,
            kinds=[str(each) for each in kind or ()],
            page_size=limit,
        )
        if as_json:
            for each in page.artifacts:
                print_message(each)
            return
        if not page.artifacts:
            out().line("no artifacts")
            return
        names = [each.artifact_id for each in page.artifacts]
        cut = out().is_terminal
        rows = [
            [
                short(each.artifact_id, names) if cut else each.artifact_id,
                str(to_dict(each).get("kind", NONE)),
                _size(each),
                age(each.created_at),
                (short(each.run_id) if cut else each.run_id) if each.run_id else NONE,
                plain(each.title or each.path or each.url or NONE),
            ]
            for each in page.artifacts
        ]
        table(rows, ["ARTIFACT", "KIND", "SIZE", "AGE", "RUN", "TITLE"], right="SIZE")
        if cut:
            out().line(out().text(f"agentctl artifacts get {names[0][-6:]}", "dim"))

    go(work, start=True)


def _size(artifact: "v1.ArtifactSummary") -> str:
    from agentctl.cli.out import NONE, size

    if artifact.deleted:
        return "gone"
    return size(artifact.size) if artifact.HasField("size") else NONE


@app.command()
def show(artifact: Id, as_json: options.Json = False) -> None:
    """Shows what is known of one artifact.

    \b
    Examples:
      agentctl artifacts show 9c4f
      agentctl artifacts show 9c4f --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.cli.out import out, print_message
        from agentctl.cli.sessions import print_fields

        found = await client.artifacts.get(await resolve(client, "artifact", artifact))
        if as_json:
            print_message(found)
            return
        print_fields(found)
        if not found.deleted and not found.HasField("url"):
            out().line(out().text(f"agentctl artifacts get {found.artifact_id[-6:]}", "dim"))

    go(work, start=True)


@app.command()
def get(
    artifact: Id,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to save it; - = to the output."),
    ] = None,
    part: Annotated[
        str,
        typer.Option("--range", metavar="A-B", help="Bytes A to B; A- to the end; -N the last N."),
    ] = "",
) -> None:
    """Hands over the bytes of one artifact: to the output, or into a file.

    \b
    Examples:
      agentctl artifacts get 9c4f | git apply
      agentctl artifacts get 9c4f --output screen.png
    """
    wanted = _range(part)

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve

        identifier = await resolve(client, "artifact", artifact)
        found = await client.artifacts.get(identifier)
        offset, length = _bytes(wanted, found.size)
        chunks = client.artifacts.download(identifier, offset=offset, length=length)
        if output is not None and output != "-":
            await _save(chunks, Path(output), found if not part else None)
        elif sys.stdout.isatty() and output is None:
            await _print(chunks, found)
        else:
            async for chunk in chunks:
                sys.stdout.buffer.write(chunk.data)
            sys.stdout.buffer.flush()

    go(work, start=True)


def _range(text: str) -> tuple[int | None, int | None]:
    """(first, last) as typed; (None, n) means the last n bytes."""
    from agentctl.cli.errors import usage

    if not text:
        return 0, None
    found = _RANGE.fullmatch(text.strip())
    if found is None or not (found[1] or found[2]):
        usage("--range takes A-B, A- or -N, in bytes from 0.")
    first = int(found[1]) if found[1] else None
    last = int(found[2]) if found[2] else None
    if first is not None and last is not None and last < first:
        usage("--range A-B wants B at A or after it.")
    return first, last


def _bytes(wanted: tuple[int | None, int | None], size: int) -> tuple[int, int | None]:
    first, last = wanted
    if first is None:
        return max(size - (last or 0), 0), None
    return first, None if last is None else last - first + 1


async def _print(chunks: "AsyncIterator[v1.ArtifactChunk]", found: "v1.ArtifactSummary") -> None:
    """To a terminal: what is text, without what could steer it.

    Raises:
        Invalid: it is none.
    """
    import codecs

    from agentctl.cli.out import clean, out

    known = _kind(found) in _TEXTS or bool(_TEXT_TYPES.match(found.mime_type))
    if not known and found.mime_type and found.mime_type != "application/octet-stream":
        _refuse(found)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    ends_line = True
    async for chunk in chunks:
        if b"\0" in chunk.data:
            _refuse(found)
        text = clean(decoder.decode(chunk.data))
        out().write(text)
        ends_line = text.endswith("\n") if text else ends_line
    if not ends_line:
        out().line()


def _kind(found: "v1.ArtifactSummary") -> str:
    from agentctl.rpc.jsonview import to_dict

    return str(to_dict(found).get("kind", ""))


def _refuse(found: "v1.ArtifactSummary") -> None:
    from agentctl.cli.out import size
    from agentctl.core.errors import Invalid

    what = ", ".join(each for each in (found.mime_type, size(found.size)) if each)
    raise Invalid(
        f"{found.artifact_id} is no text ({what}) and would spoil this terminal: save it with "
        "--output FILE, or force it with --output -."
    )


async def _save(
    chunks: "AsyncIterator[v1.ArtifactChunk]", output: Path, whole: "v1.ArtifactSummary | None"
) -> None:
    """Writes beside the file and puts it in its place once all has come, and is what was kept."""
    import hashlib

    import anyio

    from agentctl.core.errors import DaemonFailed

    beside = output.with_name(f".{output.name}.part")
    digest = hashlib.sha256()
    try:
        async with await anyio.open_file(beside, "wb") as file:
            async for chunk in chunks:
                digest.update(chunk.data)
                await file.write(chunk.data)
        if whole is not None and whole.sha256 and digest.hexdigest() != whole.sha256:
            raise DaemonFailed(
                f"{output} was not written: what came is not what was kept. Try again."
            )
        await anyio.Path(beside).replace(output)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.Path(beside).unlink(missing_ok=True)
