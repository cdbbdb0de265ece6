"""Owns the choice of view for a followed run: screen, plain text or JSON, with or without keys."""

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agentctl.cli import keyboard
from agentctl.cli.asks import Asks
from agentctl.cli.compose import Compose
from agentctl.cli.follow import Follow, What
from agentctl.cli.out import err, out
from agentctl.cli.render import TerminalView
from agentctl.cli.runview import JsonView, PlainView, RunView
from agentctl.cli.screen import Screen

if TYPE_CHECKING:
    from agentctl.client import AgentCtl


async def follow(
    client: "AgentCtl",
    what: What,
    *,
    as_json: bool,
    send: Callable[[str], Awaitable[str]] | None = None,
    keep: Callable[[str], None] | None = None,
) -> int:
    """Follows a run as this terminal can show it; returns the exit code.

    Args:
        client: Of the daemon.
        what: The run.
        as_json: Events instead of a view.
        send: Takes what is typed meanwhile, and says what became of it.
        keep: Is given what was being typed when the run ended.
    """
    on_screen = out().is_terminal and not as_json
    screen = Screen(out() if on_screen else err())
    silent = JsonView() if as_json else PlainView()
    view: RunView = TerminalView(screen) if on_screen else silent
    asks = compose = None
    if keyboard.usable():
        fd = sys.stdin.fileno()
        asks = Asks(client, screen, lambda: keyboard.forget_typed(fd))
        compose = Compose(screen, send) if send is not None else None
    code = await Follow(client, what, view, asks, compose).run()
    if compose is not None and compose.draft and keep is not None:
        keep(compose.draft)
    return code
