"""Owns what the translator remembers: sessions, their prompts, messages and parts. Plain state.

No decisions: those are in `turns`, `messages`, `tools`, `changes` and `asks`. Ids are the server's own.
"""

from dataclasses import dataclass, field
from typing import Any

from agentctl.core.events import FileChange
from agentctl.core.ids import NativeSessionId, NativeTurnId
from agentctl.core.parts import ContentBlock, PlanEntry, RunError, Usage
from agentctl.core.words import ToolKind

# A session that lasts for days must not remember every message; what is older is not heard of again.
MESSAGES_KEPT = 500
CALLS_KEPT = 2000


@dataclass(slots=True, eq=False)
class Turn:
    """One prompt (or a turn that the server began), until its end.

    `seen`: the server has shown the user message. `touched`: something new came since it was accepted,
    though not under our message id; `idled`: and an idle before its answer. `held`: an idle came while
    the answer was not complete. `into`: the prompt into whose turn the server took this one. `well`: why
    a sync answer without an error says that the model stopped.
    """

    key: NativeTurnId
    message: str = ""
    named: bool = False
    silent: bool = False
    texts: frozenset[str] = frozenset()
    accepted: bool = False
    answered: bool = False
    seen: bool = False
    touched: bool = False
    replied: bool = False
    idled: bool = False
    held: bool = False
    aborted: bool = False
    over: bool = False
    snapshots: bool = False
    error: RunError | None = None
    well: str | None = None
    told: set[str] = field(default_factory=set[str])
    into: "Turn | None" = None
    last: "Message | None" = None
    steps: dict[str, tuple[str, Usage | None, float | None]] = field(
        default_factory=dict[str, tuple[str, Usage | None, float | None]]
    )
    totals: dict[str, tuple[Usage | None, float | None]] = field(
        default_factory=dict[str, tuple[Usage | None, float | None]]
    )
    changed: dict[str, str | None] = field(default_factory=dict[str, str | None])
    by_tools: set[str] = field(default_factory=set[str])
    pending: dict[str, FileChange] = field(default_factory=dict[str, FileChange])


@dataclass(slots=True, eq=False)
class Message:
    """A message of a session. `live`: it is new and no history. `turn`: to which its parts belong."""

    id: str
    view: "SessionView"
    role: str = ""
    live: bool = True
    turn: Turn | None = None
    parent: str = ""
    completed: bool = False
    error: dict[str, Any] | None = None
    finish: str = ""
    summary: bool = False
    model: str = ""
    root: str = ""
    blocks: int = 0
    parts: list["Part"] = field(default_factory=list["Part"])
    waiting: list[Any] = field(default_factory=list[Any])
    texts: list[str] = field(default_factory=list[str])
    window: tuple[Any, ...] = ()


@dataclass(slots=True, eq=False)
class Part:
    """Text or reasoning that is being written. `dirty`: something of it was missed."""

    id: str
    message: Message
    text: bool
    shown: str = ""
    pieces: list[str] = field(default_factory=list[str])
    dirty: bool = False
    done: bool = False
    replaced: bool = False
    stepwise: bool = False
    held_back: str | None = None
    session: NativeSessionId = NativeSessionId("")  # noqa: RUF009 - a string, not mutable
    call: str | None = None
    turn: Turn | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A tool call: what later words about it leave out."""

    id: str
    name: str = ""
    kind: ToolKind = ToolKind.OTHER
    child: str = ""
    asked_diff: str | None = None
    done: bool = False
    ran: bool = False
    failed: bool = False


@dataclass(slots=True, eq=False)
class SessionView:
    """One session of the server. A child's events go to `root`, with the `call` that made it."""

    id: str
    native: NativeSessionId
    parent: "SessionView | None" = None
    call: str | None = None
    directory: str = ""
    created: int | None = None
    title: str | None = None
    ours: bool = False
    busy: bool = False
    twin: bool = False
    had_turn: bool = False
    cascade: bool = False
    turns: list[Turn] = field(default_factory=list[Turn])
    expect: list[Turn] = field(default_factory=list[Turn])
    ended: Turn | None = None
    stranger: Message | None = None
    spent: dict[str, Turn | None] = field(default_factory=dict[str, Turn | None])
    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    told: dict[str, Any] = field(default_factory=dict[str, Any])
    todos: list[PlanEntry] | None = None

    @property
    def root(self) -> "SessionView":
        view = self
        for _ in range(16):
            if view.parent is None:
                return view
            view = view.parent
        return view

    @property
    def turn(self) -> Turn | None:
        """The oldest open prompt of the root: what comes belongs to it."""
        turns = self.root.turns if self.parent is not None else self.turns
        return turns[0] if turns else None

    @property
    def parent_call(self) -> str | None:
        """What marks a child's events; a child whose call is not known is marked by its own id."""
        if self.parent is None:
            return None
        return self.call or self.id

    def news(self, name: str, value: Any) -> bool:
        """Whether this differs from what was said last under that name; notes it."""
        if name in self.told and self.told[name] == value:
            return False
        self.told[name] = value
        return True

    def find_call(self, call_id: str) -> Call:
        """The call's state, new when it was not heard of."""
        call = self.calls.get(call_id)
        if call is None:
            if len(self.calls) >= CALLS_KEPT:
                self.calls = {key: call for key, call in self.calls.items() if not call.done}
            call = self.calls[call_id] = Call(call_id)
        return call


@dataclass(slots=True)
class Book:
    """Everything of one process (or server) that lasts longer than a frame."""

    views: dict[str, SessionView] = field(default_factory=dict[str, SessionView])
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    early: dict[str, tuple[str, str, list[str]]] = field(
        default_factory=dict[str, tuple[str, str, list[str]]]
    )
    """Deltas of parts not seen yet: part id -> (session, message, texts)."""
    windows: dict[str, int] = field(default_factory=dict[str, int])
    """Context size by `provider/model`; the largest that was told."""

    def view(self, session: str) -> SessionView:
        view = self.views.get(session)
        if view is None:
            view = self.views[session] = SessionView(session, NativeSessionId(session))
        return view

    def running(self) -> list[str]:
        """Sessions with an open turn: what a refetch has to look at."""
        return [view.id for view in self.views.values() if view.turns]

    def family(self, session: str) -> list[str]:
        """The session and its children: all that an abort of it or a refetch concerns."""
        root = self.view(session).root
        return [view.id for view in self.views.values() if view.root is root]

    def forget_old(self, view: SessionView) -> None:
        """Drops the oldest messages of a long session, and their parts."""
        while len(view.messages) > MESSAGES_KEPT:
            old = view.messages.pop(next(iter(view.messages)))
            for part in old.parts:
                self.parts.pop(part.id, None)


def blocks_text(blocks: list[ContentBlock]) -> frozenset[str]:
    """The texts of a prompt, to tell the server's echo of them."""
    return frozenset(block.text for block in blocks if block.text)
