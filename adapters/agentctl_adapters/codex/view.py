"""Owns what is known of the threads of one app-server: their turns, open items and place. Pure.

A child thread (a subagent's) has no session of its own: its drafts go to the session of the thread that
started it, under the call that started it. A turn may be known by two ids (reviews), and stays known for
a while after its end: commands outlive their turns. Knows no wire format.
"""

from dataclasses import dataclass, field
from typing import Any

from agentctl.core.adapter import Draft
from agentctl.core.events import Payload
from agentctl.core.ids import NativeRequestId, NativeSessionId, NativeTurnId
from agentctl.core.parts import ContentBlock, RunError, Usage

# Late words of a turn name it; one that ended longer ago than this says nothing any more.
TURNS_KEPT = 64
OWNERS_KEPT = 1024


@dataclass(slots=True)
class Item:
    """An item that was started and not completed. `blocks` are the texts of its parts, in pieces."""

    id: str
    kind: str
    turn: "Turn | None"
    blocks: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    tool: bool = False
    running: bool = False
    told: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Prompt:
    """A turn/start of ours; `turn` once the agent named it."""

    key: NativeTurnId
    turn: "Turn | None" = None


@dataclass(slots=True, eq=False)
class Turn:
    """One turn of a thread; `keys` are its runs, the first of which has its text and tools.

    A child's turn has the run of its parent and ends nothing.
    """

    id: str
    keys: list[NativeTurnId]
    child: bool = False
    ended: bool = False
    interrupted: bool = False
    error: RunError | None = None
    usage: Usage | None = None
    seen: int = 0
    silent: int = 0

    @property
    def run(self) -> NativeTurnId | None:
        return self.keys[0] if self.keys else None


@dataclass(slots=True, eq=False)
class Thread:
    id: str
    session: NativeSessionId
    parent_call: str | None = None
    opened: bool = False
    idle: bool = False
    activity: int = 0
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])
    waiting: list[Prompt] = field(default_factory=list[Prompt])
    announced: list[list[ContentBlock] | None] = field(
        default_factory=list[list[ContentBlock] | None]
    )
    """Turns that we asked for by another name than turn/start, with what was asked."""
    items: dict[str, Item] = field(default_factory=dict[str, Item])
    total: Usage | None = None
    last: Usage | None = None
    model: str | None = None
    mode: str | None = None
    warned: set[str] = field(default_factory=set[str])
    servers: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def open_turn(self) -> Turn | None:
        """The oldest turn that has not ended."""
        return next((turn for turn in self.turns.values() if not turn.ended), None)

    def turn(self, turn_id: object) -> Turn | None:
        return self.turns.get(turn_id) if isinstance(turn_id, str) else None

    def know(self, turn: Turn, *ids: str) -> None:
        """From here on these ids name this turn."""
        for each in ids:
            self.turns[each] = turn
        surplus = len(self.turns) - TURNS_KEPT
        if surplus > 0:
            ended = [key for key, old in self.turns.items() if old.ended]
            for key in ended[:surplus]:
                del self.turns[key]

    def draft(
        self,
        payload: Payload,
        turn: Turn | None = None,
        raw: Any = None,
        request: NativeRequestId | None = None,
    ) -> Draft:
        run = turn.run if turn is not None else None
        return Draft(payload, self.session, run, request, self.parent_call, raw)


class Book:
    """The threads of one process, and whose turn is whose."""

    def __init__(self) -> None:
        self.threads: dict[str, Thread] = {}
        self.owners: dict[str, Thread] = {}
        """Threads by the ids of their turns, the latest."""

    def thread(self, thread_id: str) -> Thread:
        found = self.threads.get(thread_id)
        if found is None:
            found = self.threads[thread_id] = Thread(thread_id, NativeSessionId(thread_id))
        return found

    def own(self, turn_id: str, thread: Thread) -> None:
        self.owners[turn_id] = thread
        if len(self.owners) > OWNERS_KEPT:
            del self.owners[next(iter(self.owners))]

    def adopt(self, child: Thread, parent: Thread, call: str) -> None:
        """`child` works for a call of `parent`; a thread that we opened ourselves stays its own."""
        if child.opened or child is parent or child.parent_call is not None:
            return
        child.session = parent.session
        child.parent_call = call
