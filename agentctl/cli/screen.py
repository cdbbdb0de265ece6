"""Owns a terminal that streams: text, whole lines, and one line at the bottom that comes and goes.

It refuses to know what the lines say. Text streams; the bottom line (a spinner, a prompt for a key)
is taken away before anything is written and drawn again after.
"""

from agentctl.cli.out import Out, cells, clean, width

ERASE = "\r\x1b[K"


class Screen:
    """Everything that a run shows on one terminal goes through here."""

    def __init__(self, out: Out) -> None:
        self.out = out
        self.workspace = ""
        """Where the agent works; paths in it are shown from there."""
        self._bottom = ""
        self._drawn = False
        self._fresh = True

    @property
    def room(self) -> int:
        return width(self.out.stream)

    def style(self, text: str, style: str) -> str:
        return self.out.text(text, style)

    def text(self, text: str, style: str = "") -> None:
        """Streams text of the agent, as it is but for control characters."""
        shown = clean(text)
        if not shown:
            return
        self._erase()
        self._fresh = shown.endswith("\n")
        self.out.write(self.style(shown, style))

    def end_text(self) -> None:
        """Ends the paragraph that is being streamed."""
        if not self._fresh:
            self._erase()
            self.out.write("\n")
            self._fresh = True

    def line(self, text: str = "") -> None:
        """Writes a line of its own."""
        self._erase()
        self.out.write(("" if self._fresh else "\n") + text + "\n")
        self._fresh = True
        self._draw()

    def bottom(self, text: str) -> None:
        """Shows a line that goes away again; "" takes it away. Only on a terminal."""
        if text == self._bottom or not self.out.is_terminal:
            return
        self._erase()
        self._bottom = text
        self._draw()

    def keep_bottom(self, suffix: str = "") -> None:
        """Leaves the bottom line where it is, as a line like the others."""
        text, self._bottom = self._bottom, ""
        if text:
            self._erase()
            self.line(text + suffix)

    def _erase(self) -> None:
        if self._drawn:
            self.out.write(ERASE)
            self._drawn = False

    def _draw(self) -> None:
        if not self._bottom:
            return
        self.end_text()
        text = self._bottom
        # A line that wraps could not be erased; one with colours was made to fit by its author.
        if cells(text) >= self.room and "\x1b" not in text:
            text = text[-(self.room - 1) :]
        self.out.write(text)
        self._drawn = True
