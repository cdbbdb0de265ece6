"""Owns how far a stream of the tool's events was told, so that a reader who comes back misses nothing.

Pure. An `agent.*` event is made of several of ours (a text of its chunks, a command of its card), and
one of ours may make several, so a place has three parts: up to which event all was told, how much of
the next one, and from where to read again to tell what follows. It refuses to know where events come
from.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentctl.client.views import ToolView
from agentctl.gateway.tool.errors import ToolError, invalid

Json = dict[str, Any]

TYPES = (
    *ToolView.TABLE,
    "run_status",
    "session_status",
    "permission_resolved",
    "question_resolved",
)
"""What a view must see; the others neither become events nor end a text."""

NOW = "now"

_PLACE = re.compile(r"([0-9A-Za-z]+):(\d{1,18})(?:\+(\d{1,9}))?(?:~(\d{1,18}))?")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in one journal: told up to `told` and `rows` of what comes next; read from `base`."""

    journal: str
    told: int
    base: int
    rows: int = 0

    def __str__(self) -> str:
        rows = f"+{self.rows}" if self.rows else ""
        behind = f"~{self.base}" if self.base < self.told else ""
        return f"{self.journal}:{self.told}{rows}{behind}"


def places(cursor: str) -> dict[str, Place]:
    """The places in a cursor of this gateway, by journal; a cursor of the daemon is one too.

    Raises:
        ToolError: INVALID_PARAMETERS.
    """
    found: dict[str, Place] = {}
    for part in cursor.split(","):
        match = _PLACE.fullmatch(part)
        if match is None:
            raise _malformed(cursor)
        told = int(match[2])
        base = told if match[4] is None else int(match[4])
        if base > told:
            raise _malformed(cursor)
        found[match[1]] = Place(match[1], told, base, int(match[3] or 0))
    return found


def _malformed(cursor: str) -> ToolError:
    return invalid(f"{cursor[:80]!r} is no cursor: use one that an event carried, or now.", "after")


def joined(parts: Mapping[str, Place]) -> str:
    return ",".join(str(each) for each in parts.values())


class Track:
    """Turns events of one journal into the tool's, each once, from a place on."""

    def __init__(self, journal: str, told: int, rows: int = 0) -> None:
        self._journal = journal
        self._told = told
        self._rows = rows
        self._view = ToolView()
        self._since: dict[str, int] = {}
        self._runs: dict[str, set[str]] = {}

    @property
    def place(self) -> Place:
        return Place(self._journal, self._told, min(self._since.values(), default=self._told))

    def feed(self, event: Json) -> list[tuple[Json, Place]]:
        """The new events that this one makes, each with the place after it."""
        seq: int = event["seq"]
        before = self.place
        session = event.get("session_id", "")
        if session:
            self._since.setdefault(session, seq - 1)
            self._note(session, event)
        rows = self._view.feed(event)
        if session and not self._runs.get(session) and not self._view.speaking(session):
            self._since.pop(session, None)
            self._runs.pop(session, None)
        if seq <= self._told:
            return []
        self._told = seq
        if not rows:
            return []
        known, self._rows = self._rows, 0
        behind = [replace(before, rows=n) for n in range(1, len(rows))]
        return [*zip(rows, [*behind, self.place], strict=True)][known:]

    def _note(self, session: str, event: Json) -> None:
        run = event.get("run_id")
        if run is None:
            return
        runs = self._runs.setdefault(session, set())
        runs.discard(run) if event["type"] == "complete" else runs.add(run)
