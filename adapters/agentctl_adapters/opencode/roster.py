"""Owns whose events are ours: the sessions that we opened on a server, and their children. Pure.

A server tells everybody everything: of other clients' sessions nothing is taken. It also remembers in
which session and directory a request was made, because answers find it only there.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agentctl_adapters.opencode.shapes import (
    Json,
    as_object,
    as_objects,
    as_text,
    event_of,
    session_of,
)

# Requests are answered within a session's life; older ones are not asked for again.
REQUESTS_KEPT = 4096
_TOLD_ELSEWHERE = frozenset({"sync", "server.heartbeat"})
_ASKED = frozenset({"permission.asked", "permission.updated", "question.asked"})


@dataclass(slots=True)
class Roster:
    """`roots`: session -> the session of ours that it belongs to (itself, or its parent's).

    `everyone`: the server is ours alone. `expecting`: sessions of ours are being made right now, whose
    events may come before their names; what a fork copies is known as copied only when all is seen.
    """

    everyone: bool = False
    expecting: int = 0
    roots: dict[str, str] = field(default_factory=dict[str, str])
    directories: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[str, str] = field(default_factory=dict[str, str])

    @contextmanager
    def expected(self) -> Generator[None]:
        """While a session is made."""
        self.expecting += 1
        try:
            yield
        finally:
            self.expecting -= 1

    def add(self, session: str, directory: str) -> None:
        """A session of ours."""
        self.roots[session] = session
        self.directories[session] = directory

    def forget(self, root: str) -> None:
        """The session and its children are nobody's any more."""
        for session in [own for own, of in self.roots.items() if of == root]:
            del self.roots[session]
            self.directories.pop(session, None)

    def learn(self, rows: object) -> None:
        """Sessions (children) or requests that a list names."""
        for row in as_objects(rows):
            self._child(row)
            self._ask(row)

    def takes(self, event: Json) -> bool:
        """Whether an event concerns us; notes children and requests on the way."""
        kind, properties, _ = event_of(event)
        if kind in _TOLD_ELSEWHERE:
            return False
        info = as_object(properties.get("info"))
        if kind.startswith("session."):
            self._child(info or properties)
        session = session_of(properties) or session_of(info)
        if kind == "message.part.updated":
            part = as_object(properties.get("part")) or properties
            session = session or session_of(part)
            self._called(session, part)
        elif kind in _ASKED:
            self._ask(properties)
        if not session and kind.startswith("session."):
            session = as_text(info.get("id")) or as_text(properties.get("id"))
        known = self.everyone or self.expecting > 0 or session in self.roots
        return known or not session

    def directory_of(self, session: str) -> str:
        root = self.roots.get(session, session)
        return self.directories.get(session) or self.directories.get(root, "")

    def _child(self, info: Json) -> None:
        own, parent = as_text(info.get("id")), as_text(info.get("parentID"))
        if own and parent in self.roots and own not in self.roots:
            self.roots[own] = self.roots[parent]
            self.directories[own] = as_text(info.get("directory")) or self.directory_of(parent)

    def _called(self, session: str, part: Json) -> None:
        """A subagent's call names its child, whose own announcement some servers leave out."""
        if part.get("type") != "tool" or session not in self.roots:
            return
        metadata: Any = as_object(as_object(part.get("state")).get("metadata"))
        child = as_text(metadata.get("sessionId")) or as_text(metadata.get("sessionID"))
        if child and child not in self.roots:
            self.roots[child] = self.roots[session]
            self.directories[child] = self.directory_of(session)

    def _ask(self, properties: Json) -> None:
        own, session = as_text(properties.get("id")), session_of(properties)
        if not own or session not in self.roots:
            return
        while len(self.asked) >= REQUESTS_KEPT:
            del self.asked[next(iter(self.asked))]
        self.asked[own] = session
