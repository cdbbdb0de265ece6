"""Owns the command `events`: the journal as lines, in one of three views."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from agentctl.cli import completion, options
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

Json = dict[str, Any]
Printer = Callable[[list[Json]], None]


def events(
    session: Annotated[
        str | None,
        typer.Option(metavar="S", help="Of a session.", autocompletion=completion.sessions),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="R", help="Of a run.", autocompletion=completion.runs),
    ] = None,
    after: Annotated[
        str, typer.Option(metavar="CURSOR", help="Go on after it; now: only new ones.")
    ] = "",
    kinds: Annotated[
        list[str] | None, typer.Option("--type", metavar="T", help="Of a type; repeatable.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Wait for more.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="With the agents' own messages.")] = False,
    log: Annotated[bool, typer.Option("--log", help="With log lines of the agents.")] = False,
    view: Annotated[
        options.View, typer.Option("--as", help="agentctl, app-sdk or tool.")
    ] = options.View.AGENTCTL,
    as_json: options.Json = False,
) -> None:
    """Prints events of the journal; without --follow what is there, then ends.

    \b
    Examples:
      agentctl events --session 9c4f --type tool_call --type complete
      agentctl events --follow --after now --as app-sdk --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve
        from agentctl.rpc.jsonview import to_dict

        lines = _lines(view, as_json)
        batches = client.batches(
            after,
            sessions=[await resolve(client, "session", session)] if session else [],
            runs=[await resolve(client, "run", run)] if run else [],
            types=kinds or [],
            follow=follow,
            include_raw=raw,
            include_log=log or "log" in (kinds or ()),
        )
        if run:
            await client.runs.get(await resolve(client, "run", run))
        if session:
            await client.sessions.get(await resolve(client, "session", session))
        async for batch in batches:
            rows: list[Json] = []
            if batch.HasField("gap"):
                rows.append({"type": "gap", **to_dict(batch.gap)})
            rows += [to_dict(event) for event in batch.events]
            lines.rows(rows)
        lines.end()

    go(work)


class _Lines:
    """Prints rows of one batch with one write."""

    def __init__(self, show: Callable[[Json], list[str]], end: Callable[[], list[str]]) -> None:
        self._show = show
        self._end = end

    def rows(self, rows: Sequence[Json]) -> None:
        self._print([line for row in rows for line in self._show(row)])

    def end(self) -> None:
        self._print(self._end())

    def _print(self, lines: Sequence[str]) -> None:
        from agentctl.cli.out import out

        if lines:
            out().write("\n".join(lines) + "\n")


def _lines(view: options.View, as_json: bool) -> _Lines:
    from agentctl.cli.out import as_json as dumps
    from agentctl.client.views import ToolView, app_sdk

    def gap_or(make: Callable[[Json], list[Json]]) -> Callable[[Json], list[str]]:
        return lambda row: [dumps(each) for each in ([row] if row["type"] == "gap" else make(row))]

    if view is options.View.TOOL:
        tool = ToolView()
        return _Lines(gap_or(tool.feed), lambda: [dumps(each) for each in tool.flush()])
    if view is options.View.APP_SDK:
        return _Lines(gap_or(app_sdk), list)
    if as_json:
        return _Lines(lambda row: [dumps(row)], list)
    return _Lines(lambda row: [_human(row)], list)


def _human(row: Json) -> str:
    """Time, type, where, and the payload in few words."""
    from datetime import datetime

    from agentctl.cli.out import clip, out, plain, width

    style = out().text
    if row["type"] == "gap":
        return style(f"{'gap':>33}  events are gone: {plain(row.get('reason', ''))}", "yellow")
    moment = datetime.fromtimestamp(row["ts"] / 1000)
    stamp = moment.strftime("%H:%M:%S.%f")[:-3]
    where = (row.get("run_id") or row.get("session_id") or row.get("agent_id") or "")[-4:]
    left = f"{row['seq']:>7} {stamp} {where:<4} "
    kind = f"{row['type']:<19} "
    text = _words(row["type"], row["data"])
    if out().is_terminal:
        text = clip(text, width(out().stream) - len(left) - len(kind))
    return style(left, "dim") + style(kind, _COLORS.get(row["type"], "cyan")) + text


_COLORS = {"error": "red", "complete": "green", "permission_request": "yellow"}
_FIRST = ("status", "state", "outcome", "decision", "action", "change", "role", "kind", "code")
_THEN = ("text", "title", "command", "message", "path", "detail", "reason", "name", "stop_reason")


def _words(kind: str, data: Json) -> str:
    from agentctl.cli.out import plain

    words = [str(data[name]) for name in _FIRST if isinstance(data.get(name), str)]
    for name in _THEN:
        if isinstance(data.get(name), str) and data[name] not in words:
            words.append(plain(data[name]) or repr(data[name]))
    blocks: Any = data.get("prompt") or data.get("content")
    if isinstance(blocks, list):
        words += [plain(each.get("text", "")) for each in cast(list[Json], blocks)]
    if kind == "plan":
        words += [f"{each['status']}: {plain(each['content'])}" for each in data["entries"]]
    if kind == "git":
        words += [plain(word) for word in _git(data)]
    if "output_delta" in data:
        words.append(plain(data["output_delta"]))
    if "exit_code" in data:
        words.append(f"exit {data['exit_code']}")
    if "error" in data:
        error = data["error"]
        words.append(plain(error if isinstance(error, str) else error.get("message", "")))
    return "  ".join(word for word in words if word)


def _git(data: Json) -> list[str]:
    if "pull_request_url" in data:
        return [data["pull_request_url"]]
    words = [data.get("branch", "no branch"), data.get("head", "no commit")[:7]]
    if not data.get("dirty"):
        return [*words, "clean"]
    files = data.get("files")
    changed = "changed" if files is None else f"{files} file{'' if files == 1 else 's'} changed"
    lines = f", +{data['additions']} -{data['deletions']}" if "additions" in data else ""
    return [*words, changed + lines]


COMMANDS: Sequence[Any] = (events,)
