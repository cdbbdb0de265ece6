"""Owns the program as a whole: its commands, global options, and how an error ends it.

Each command imports what it needs when it runs, so that help and completion stay quick.
"""

from collections.abc import Sequence

from agentctl.cli import (
    acp,
    approvals,
    artifacts,
    chat,
    doctor,
    environments,
    events,
    extras,
    ps,
    questions,
    reading,
    registry,
    root,
    rules,
    run_lists,
    serve,
    top,
)
from agentctl.cli import run as running
from agentctl.cli import tool as tools

app = root.program()

for module in (
    serve,
    acp,
    tools,
    ps,
    doctor,
    running,
    chat,
    top,
    events,
    approvals,
    questions,
    extras,
):
    root.add(app, module.COMMANDS)
app.add_typer(reading.app, name="session")
app.add_typer(run_lists.app, name="runs")
app.add_typer(rules.app, name="rules")
app.add_typer(artifacts.app, name="artifacts")
app.add_typer(environments.app, name="environments")
app.add_typer(registry.app, name="registry")
app.add_typer(tools.app, name="tool")


def run(arguments: Sequence[str]) -> int:
    """Runs the program and returns its exit code."""
    return root.run(app, arguments)
