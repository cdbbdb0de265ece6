"""Owns the choice of view for a followed run: screen, plain text or JSON, with or without keys."""

import sys
from typing import TYPE_CHECKING

from agentctl.cli import keyboard
from agentctl.cli.asks import Asks
from agentctl.cli.follow import Follow, What
from agentctl.cli.out import err, out
from agentctl.cli.render import TerminalView
from agentctl.cli.runview import JsonView, PlainView, RunView
from agentctl.cli.screen import Screen

if TYPE_CHECKING:
    from agentctl.client import AgentCtl


async def follow(client: "AgentCtl", what: What, *, as_json: bool) -> int:
    """Follows a run as this terminal can show it; returns the exit code."""
    on_screen = out().is_terminal and not as_json
    screen = Screen(out() if on_screen else err())
    silent = JsonView() if as_json else PlainView()
    view: RunView = TerminalView(screen) if on_screen else silent
    asks = None
    if keyboard.usable():
        fd = sys.stdin.fileno()
        asks = Asks(client, screen, lambda: keyboard.forget_typed(fd))
    return await Follow(client, what, view, asks).run()
