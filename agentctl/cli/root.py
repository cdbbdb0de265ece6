"""Owns what every command line of ours has: global options, how words are read, how an error ends it.

It knows no command, so that a daemon holds only its own.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentctl.cli.errors import is_of_output, leaf, report
from agentctl.cli.options import Config
from agentctl.cli.state import STATE
from agentctl.cli.streams import prepare, readable

GROUPS = (
    ("run prompt chat", "prompt an agent, or talk with it"),
    ("start stop cancel ps top", "agents and what they do"),
    ("events replay", "what happened; what a recording holds"),
    ("approvals approve deny rules", "permission requests"),
    ("questions answer reject", "questions of agents"),
    ("session runs artifacts stats", "what is kept"),
    ("registry doctor auth", "which agents there are"),
    ("models tools environments", "what they have, and where they run"),
    ("serve up down status version", "the daemon"),
    ("acp mcp tool", "ways in for editors and other agents"),
)
"""Every command with its neighbours, so that the help of all of them fits one screen."""


class Grouped(TyperGroup):
    """Lists commands by what they are for instead of one a line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands (each has --help)"):
            rows = [(names.replace(" ", ", "), about) for names, about in GROUPS]
            formatter.write_dl(rows, col_max=40)


def main(
    address: Annotated[
        str, typer.Option(metavar="ADDR", help="The daemon: unix:PATH or HOST:PORT.")
    ] = "",
    config: Config = None,
    color: Annotated[
        str, typer.Option(metavar="WHEN", help="Colours: auto, always or never.")
    ] = "auto",
) -> None:
    """Runs coding agents and keeps every event of them.

    \b
    Examples:
      agentctl run demo "hello"
      agentctl doctor
    """
    if color not in ("auto", "always", "never"):
        raise typer.BadParameter("use auto, always or never", param_hint="--color")
    STATE.address = address or STATE.address
    STATE.config = config or STATE.config
    STATE.color = color if color != "auto" else STATE.color


def add(group: typer.Typer, commands: Sequence[Any]) -> None:
    for command in commands:
        group.command(command.__name__.rstrip("_").replace("_", "-"))(command)


def program() -> typer.Typer:
    """A command line that has no command yet."""
    made = typer.Typer(
        cls=Grouped,
        name="agentctl",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    made.callback()(main)
    return made


def hoist(arguments: Sequence[str]) -> list[str]:
    """Puts `--color` and `--address` in front, where they are read: they may stand anywhere."""
    front: list[str] = []
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            rest += [word, *words]
            break
        if (
            name == "--color"
            and (equals or (words[:1] and words[0] in ("auto", "always", "never")))
        ) or (name == "--address" and (equals or words)):
            front += [name, value if equals else words.pop(0)]
        else:
            rest.append(word)
    return front + rest


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Runs a program and returns its exit code."""
    try:
        prepare()
        words = hoist(readable(arguments))
        done: Any = app(words, prog_name="agentctl", standalone_mode=False)
        code = done if isinstance(done, int) else 0
        sys.stdout.flush()
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        code = report(error)
        if is_of_output(leaf(error)):
            # Python flushes once more at its end, and would complain of the same output.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
