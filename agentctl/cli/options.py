"""Owns the arguments and options that several commands share: their names, help and completion."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentctl.cli import completion


class Approve(StrEnum):
    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


class OnAsk(StrEnum):
    WAIT = "wait"
    DENY = "deny"
    FAIL = "fail"


class KeepWhen(StrEnum):
    CHANGED = "changed"
    ALWAYS = "always"
    NEVER = "never"


class IfBusy(StrEnum):
    QUEUE = "queue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    STEER = "steer"


class View(StrEnum):
    AGENTCTL = "agentctl"
    APP_SDK = "app-sdk"
    TOOL = "tool"


Agent = Annotated[
    str,
    typer.Argument(help="An entry of the registry.", autocompletion=completion.entries),
]
Session = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="A session, or the end of its id.",
        autocompletion=completion.sessions,
    ),
]
Prompt = Annotated[str, typer.Argument(help="What to do; - reads it from standard input.")]
Workspace = Annotated[
    Path | None, typer.Option("--workspace", "-w", metavar="DIR", help="Where to work. Default: .")
]
Model = Annotated[str | None, typer.Option("--model", "-m", metavar="M", help="The model.")]
Mode = Annotated[str | None, typer.Option(metavar="M", help="The agent's mode.")]
ApproveOption = Annotated[Approve | None, typer.Option(help="What answers requests. Default: ask.")]
McpConfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="MCP servers, as JSON with `mcpServers`.")
]
Url = Annotated[str | None, typer.Option(metavar="URL", help="Attach to a running server.")]
Auth = Annotated[str | None, typer.Option(metavar="A", help="Login for --url.")]
Timeout = Annotated[float | None, typer.Option(metavar="S", help="End it after S seconds.")]
OnAskOption = Annotated[
    OnAsk, typer.Option(help="Unanswered: wait, deny, or end.", show_default=False)
]
Files = Annotated[
    list[Path] | None, typer.Option("--file", "-f", metavar="PATH", help="Attach; repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Force = Annotated[bool, typer.Option("--force", help="Kill at once.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; the agent is told.")]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Journal and socket. Default: the user's.")
]
Registry = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A project's agents.json, over the user's.")
]
Record = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write a transcript of each agent here.")
]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="The settings file (TOML).")]
Listen = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDR", help="unix:PATH or HOST:PORT (with a token); repeatable."),
]

OfSession = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="S", help="Of a session.", autocompletion=completion.sessions
    ),
]
Environment = Annotated[
    str | None,
    typer.Option(
        "--environment",
        metavar="E",
        help="Where it runs: local, worktree.",
        autocompletion=completion.environments,
    ),
]
Branch = Annotated[
    str | None, typer.Option(metavar="B", help="Worktree: its branch (--base C: from).")
]
Base = Annotated[
    str | None, typer.Option(metavar="C", help="Worktree: commit to start from.", hidden=True)
]
Keep = Annotated[KeepWhen | None, typer.Option(help="Worktree: keep it at the end?")]
