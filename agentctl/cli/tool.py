"""Owns the commands of the tool gateway: one call, its HTTP server, and the MCP server."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from agentctl.cli import options
from agentctl.cli.state import STATE

if TYPE_CHECKING:
    from agentctl.gateway.tool import OpenCodeTool
    from agentctl.gateway.tool.run import Ready

LISTEN = "127.0.0.1:3380"

TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The token of callers. Default: tool.token in the data dir."),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A further name of this address; repeatable."),
]


class Calls(TyperGroup):
    """What is no command of the group is a call."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["call", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Calls,
    no_args_is_help=True,
    rich_markup_mode=None,
    help='The `opencode` tool of OpenClaw: agentctl tool \'{"action": "list_sessions"}\'.',
)


@app.command("call")
def call(
    request: Annotated[
        str, typer.Argument(metavar="JSON", help="The request; - reads it from standard input.")
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print the session's events, one a line.")
    ] = False,
    data_dir: options.DataDir = None,
) -> int:
    """Runs one action of the tool and prints its answer; fails when the answer says so.

    \b
    Examples:
      agentctl tool '{"action": "list_sessions"}'
      agentctl tool --follow '{"action": "attach_session", "session_id": "ses_…"}'
    """
    told = _request(request)

    async def work(tool: "OpenCodeTool") -> bool:
        if follow:
            from agentctl.gateway.tool.following import follow as followed

            return await followed(tool, told, _print)
        answer = await tool(told)
        _print(answer)
        return bool(answer["success"])

    STATE.data_dir = data_dir or STATE.data_dir
    return 0 if _with_tool(work) else 1


@app.command("serve")
def serve(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where.")] = LISTEN,
    token_file: TokenFile = None,
    allow_host: AllowHost = None,
    data_dir: options.DataDir = None,
) -> None:
    """Serves the tool over HTTP: POST /tool, and events on the WebSocket /events.

    \b
    Examples:
      agentctl tool serve
      agentctl tool serve --listen 127.0.0.1:0 --token-file ./token
    """
    _need_gateway()
    from agentctl.gateway.tool.run import serve_http

    _serve(serve_http, listen, token_file, allow_host, data_dir, "")


def mcp(
    http: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Over HTTP here, instead of stdio.")
    ] = "",
    token_file: TokenFile = None,
    allow_host: AllowHost = None,
    data_dir: options.DataDir = None,
) -> None:
    """Serves the tool to MCP clients: on standard input and output, or over HTTP at /mcp.

    \b
    Examples:
      agentctl mcp
      agentctl mcp --http 127.0.0.1:3381
    """
    _need_gateway()
    from agentctl.gateway.tool import mcpserver
    from agentctl.gateway.tool.run import serve_mcp

    if http:
        _serve(serve_mcp, http, token_file, allow_host, data_dir, mcpserver.PATH)
        return
    STATE.data_dir = data_dir or STATE.data_dir
    _with_tool(mcpserver.stdio)


def _need_gateway() -> None:
    """Servers need packages that the rest does without."""
    from importlib.util import find_spec

    from agentctl.core.errors import Unsupported

    missing = [
        name for name in ("mcp", "starlette", "uvicorn", "websockets") if not find_spec(name)
    ]
    if missing:
        raise Unsupported(
            f"This needs the extra `gateway`, of which {', '.join(missing)} is not installed: run "
            "pip install '.[gateway]' in the checkout of agentctl."
        )


def _serve(
    how: Callable[..., Awaitable[None]],
    listen: str,
    token_file: Path | None,
    allow_host: list[str] | None,
    data_dir: Path | None,
    path: str,
) -> None:
    import logging

    from agentctl.cli.state import settings
    from agentctl.gateway.tool import serving

    STATE.data_dir = data_dir or STATE.data_dir
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    listening = serving.listen(listen)

    def ready(url: str, token: Path) -> None:
        sys.stdout.write(f"agentctl tool listening on {url}{path} (token in {token})\n")
        sys.stdout.flush()

    announce: Ready = ready

    async def work(tool: "OpenCodeTool") -> None:
        await tool.house()
        await how(
            tool,
            listening,
            data_dir=settings().data_dir,
            token_file=token_file,
            hosts=allow_host or (),
            ready=announce,
        )

    with listening:
        _with_tool(work)


def _request(text: str) -> dict[str, Any]:
    import json

    from agentctl.cli.errors import usage

    try:
        told: Any = json.loads(sys.stdin.read() if text == "-" else text)
    except (ValueError, RecursionError) as error:
        usage(f"The request is no JSON ({error}).")
    if not isinstance(told, dict):
        usage('The request must be an object, as {"action": "list_sessions"}.')
    return cast(dict[str, Any], told)


def _print(row: dict[str, Any]) -> None:
    from agentctl.cli.out import print_json

    print_json(row)
    sys.stdout.flush()


def _with_tool(work: "Callable[[OpenCodeTool], Awaitable[Any]]") -> Any:
    """Runs `work` with a tool that starts our own daemon when it needs one."""
    import anyio

    from agentctl.cli.state import address, is_local, own_daemon, settings
    from agentctl.core.errors import DaemonFailed
    from agentctl.gateway.tool import OpenCodeTool
    from agentctl.gateway.tool.errors import ToolError

    where, found = address(), settings()

    async def start() -> None:
        from agentctl.cli.daemonize import ensure

        await anyio.to_thread.run_sync(ensure, where, found)

    ours = own_daemon() and is_local(where)

    async def main() -> Any:
        tool = OpenCodeTool(address=where, data_dir=found.data_dir, start=start if ours else None)
        async with tool:
            return await work(tool)

    try:
        return anyio.run(main)
    except ToolError as error:
        raise DaemonFailed(error.message, reason=error.code) from error


COMMANDS: Sequence[Any] = (mcp,)
