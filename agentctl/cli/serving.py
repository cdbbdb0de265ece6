"""Owns the program as its daemon needs it: `serve` and its neighbours, without what clients type.

The memory of a daemon that rests is what it has loaded.
"""

from collections.abc import Sequence

from agentctl.cli import root, serve

app = root.program()
root.add(app, serve.COMMANDS)


def run(arguments: Sequence[str]) -> int:
    """Runs the program and returns its exit code."""
    return root.run(app, arguments)
