"""Owns the last line of a run: how it ended, what it did, what it used; pure counting."""

from collections.abc import Iterator
from typing import Any

from agentctl.cli.out import Out, clean, duration, plain, tokens

Json = dict[str, Any]

STDERR_LINES = 5
"""Last lines of a dead agent's standard error that are shown."""


class Summary:
    """Counts what a run did."""

    def __init__(self) -> None:
        self.started_at: int | None = None
        self.text = ""
        self._kinds: dict[str, str] = {}
        self._read: set[str] = set()
        self._changed: set[str] = set()

    def event(self, event: Json) -> None:
        data: Json = event["data"]
        match event["type"]:
            case "run_status" if data["status"] == "started":
                self.started_at = event["ts"]
            case "tool_call" | "tool_update":
                self._tool(data)
            case "file_change":
                self._changed.add(data["path"])
            case _:
                pass

    def _tool(self, data: Json) -> None:
        identifier = data["tool_call_id"]
        kind = self._kinds[identifier] = data.get("kind") or self._kinds.get(identifier, "other")
        paths = data.get("paths") or [each["path"] for each in data.get("locations") or ()]
        if kind == "read":
            self._read.update(paths)

    def did(self) -> list[str]:
        """ "3 files read", "1 changed", "2 commands"."""
        kinds = list(self._kinds.values())
        reads = max(len(self._read), kinds.count("read"))
        commands = kinds.count("execute")
        out: list[str] = []
        if reads:
            out.append(_count(reads, "file") + " read")
        if self._changed:
            changed = f"{len(self._changed)} changed"
            out.append(changed if reads else _count(len(self._changed), "file") + " changed")
        if commands:
            out.append(_count(commands, "command"))
        others = len(kinds) - kinds.count("read") - kinds.count("execute") - kinds.count("edit")
        if others > 0 and not out:
            out.append(_count(others, "tool"))
        return out


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def ending(complete: Json, summary: Summary, screen: Out) -> Iterator[str]:
    """The lines that end a run."""
    time = _time(complete, summary)
    facts = [", ".join(summary.did()), *_used(complete)]
    rest = "".join(f" · {each}" for each in facts if each)
    error: Json = complete.get("error", {})
    match complete["outcome"]:
        case "completed":
            took = f" in {time}" if time else ""
            yield screen.text("✓ ", "bold green") + f"completed{took}" + screen.text(rest, "dim")
        case "cancelled":
            yield screen.text("■ ", "bold yellow") + "cancelled" + screen.text(rest, "dim")
        case "timed_out":
            took = f" after {time}" if time else ""
            yield (
                screen.text("✗ ", "bold red")
                + (f"timed out{took}: give it longer with --timeout, or prompt the session again")
                + screen.text(rest, "dim")
            )
        case _:
            for line in clean("\n".join(error.get("stderr_tail", []))).split("\n")[-STDERR_LINES:]:
                if line:
                    yield screen.text(f"  │ {line}", "dim")
            message = plain(error.get("message", "")) or "the agent did not say why it failed"
            yield (
                screen.text("✗ ", "bold red")
                + message
                + screen.text(f"  {error.get('code', '')}".rstrip(), "dim")
            )


def _time(complete: Json, summary: Summary) -> str:
    started = complete.get("started_at") or summary.started_at
    ended = complete.get("ended_at")
    return duration(ended - started) if started and ended else ""


def _used(complete: Json) -> list[str]:
    usage: Json = complete.get("usage", {})
    words = [
        f"{tokens(usage[name])} {label}"
        for name, label in (("input", "in"), ("output", "out"))
        if name in usage
    ]
    out = [", ".join(words)]
    if "cost_usd" in complete:
        out.append(f"${complete['cost_usd']:.4f}")
    return out
