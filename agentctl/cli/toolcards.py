"""Owns one tool on the screen: its line and the block of its output; pure drawing."""

from collections.abc import Iterator
from typing import Any

from agentctl.cli.cards import counted, subject
from agentctl.cli.out import clean, clip, duration, spread
from agentctl.cli.screen import Screen

Json = dict[str, Any]

FINAL = frozenset({"completed", "failed", "cancelled"})
SHOWN_LINES = 6
"""Lines of a failed tool's output that are shown at once."""

KEPT_OUTPUT = 1 << 20
"""Characters of output that are kept to be opened."""


class Tool:
    """What is known of one tool call. `since` is when it began to work, Unix ms."""

    def __init__(self, ts: int) -> None:
        self.data: Json = {}
        self.since = ts
        self.until = ts
        self.ended = False
        self.hides = False
        self._output = ""

    def take(self, ts: int, data: Json) -> None:
        """Takes a tool_call or a tool_update."""
        self.until = ts
        if data.get("status") == "running" and self.data.get("status") != "running":
            self.since = ts
        self.data |= {name: value for name, value in data.items() if value not in ("", [])}
        self._output = data.get("output_replace", self._output) + data.get("output_delta", "")
        self._output = self._output[-KEPT_OUTPUT:]

    @property
    def kind(self) -> str:
        return str(self.data.get("kind", "other"))

    @property
    def counted(self) -> bool:
        """Whether its line shows lines added and removed."""
        return bool(self._diff())

    def line(self, screen: Screen) -> str:
        facts: list[str] = []
        if self._diff():
            facts.append(counted(self._diff()))
        if "exit_code" in self.data:
            facts.append(f"exit {self.data['exit_code']}")
        failed = self._failed()
        if (failed and "exit_code" not in self.data) or self.data.get("status") == "cancelled":
            facts.append(str(self.data["status"]))
        facts.append(f"{duration(max(self.until - self.since, 0)):>6}")
        right = " · ".join(facts)
        kind = f"{self.kind:<7} "
        about = clip(subject(self.data, screen.workspace), screen.room - len(kind) - len(right) - 3)
        dot = screen.style("● ", "red" if failed else "green")
        if self.data.get("status") == "cancelled":
            dot = screen.style("● ", "yellow")
        return spread(
            dot + screen.style(kind, "bold") + about, screen.style(right, "dim"), screen.room
        )

    def block(self, screen: Screen, *, whole: bool = False) -> Iterator[str]:
        """Lines of its output: the last ones of a failure, all of it with `whole`."""
        lines = self._lines()
        self.hides = False
        if not whole and not self._failed():
            self.hides = bool(lines)
            return
        shown = lines if whole else lines[-SHOWN_LINES:]
        for line in shown:
            text = line if whole else clip(line, screen.room - 4)
            yield screen.style(f"  │ {text}", "dim")
        if len(shown) < len(lines):
            self.hides = True
            more = len(lines) - len(shown)
            noun = "line" if more == 1 else "lines"
            yield screen.style(f"  │ … {more} more {noun} (o to open)", "dim")

    def _lines(self) -> list[str]:
        text = self._output or "\n".join(
            str(block["text"]) for block in self.data.get("content", []) if block.get("text")
        )
        if self.data.get("error") and self.data["error"] not in text:
            text = f"{text}\n{self.data['error']}"
        return [line for line in clean(text).split("\n") if line.strip()]

    def _failed(self) -> bool:
        return self.data.get("status") == "failed" or self.data.get("exit_code", 0) != 0

    def _diff(self) -> str:
        blocks: list[Json] = self.data.get("content", [])
        return "\n".join(str(block["diff"]) for block in blocks if block.get("diff"))
