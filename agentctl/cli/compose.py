"""Owns the prompt that a person types while the agent still works: it is queued behind the run.

It takes keys and draws one line; it refuses to know what a prompt does.
"""

from collections.abc import Awaitable, Callable

from agentctl.cli.keyboard import ENTER, ERASE, ESCAPE
from agentctl.cli.out import plain
from agentctl.cli.screen import Screen


class Compose:
    """`draft` is what was typed and not sent; None when nobody types."""

    def __init__(self, screen: Screen, send: Callable[[str], Awaitable[str]]) -> None:
        self._screen = screen
        self._send = send
        self.draft: str | None = None

    @property
    def busy(self) -> bool:
        """Whether a line is being typed, so that keys belong to it."""
        return self.draft is not None

    async def key(self, character: str) -> None:
        """Takes a key; the first one that prints begins the line, a space without being part of it."""
        if character in ENTER:
            await self._enter()
        elif character == ESCAPE:
            self.draft = None
            self._screen.bottom("")
        elif character in ERASE:
            if self.draft is not None:
                self.draft = self.draft[:-1] or None
                self._show()
        elif character.isprintable():
            self.draft = character.lstrip() if self.draft is None else self.draft + character
            self._show()

    async def _enter(self) -> None:
        text, self.draft = (self.draft or "").strip(), None
        self._screen.bottom("")
        if text:
            told = await self._send(text)
            self._screen.line(self._screen.style(f"  {told}: {plain(text)}", "dim"))

    def _show(self) -> None:
        self._screen.bottom("" if self.draft is None else f"> {self.draft}")
