"""Owns what the translator remembers of one Claude Code process, which is one conversation.

Plain state, no decisions. Ids are the agent's own: a turn is named by its prompt's uuid.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from agentctl.core.ids import NativeRequestId, NativeSessionId, NativeTurnId
from agentctl.core.parts import Question, RunError
from agentctl.core.words import Origin, ToolKind

# Compaction repeats recent frames; a session that lasts for days must not remember every one.
FRAMES_KEPT = 20_000
CALLS_KEPT = 2_000
TASKS_KEPT = 500

ONLY_SESSION = NativeSessionId("conversation")
"""Names the one conversation of a process until its owner says its real id."""


@dataclass(slots=True)
class Turn:
    """A prompt, or a turn of the agent's own, that has not ended. `uuid` "" when it had none."""

    key: NativeTurnId
    uuid: str = ""
    origin: Origin = Origin.CLIENT


@dataclass(slots=True)
class Call:
    """A tool call: what later words about it leave out."""

    id: str
    name: str
    kind: ToolKind
    turn: NativeTurnId | None
    parent: str | None = None
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    command: str | None = None
    summary: str = ""
    background: bool = False
    done: bool = False


@dataclass(slots=True)
class Task:
    """Background work that the agent declared; `shown` once a reader knows of it."""

    id: str
    call: str | None
    kind: str
    title: str | None
    shown: bool = False
    done: bool = False


@dataclass(slots=True)
class Ask:
    """A can_use_tool request that nobody has answered. `questions` make it a question.

    `message` is kept of a subagent's: it may outlive the turn, and is asked again then.
    """

    request: NativeRequestId
    call: str | None
    message: dict[str, Any] | None = None
    questions: list[Question] | None = None
    always: bool = False


@dataclass(slots=True)
class View:
    """One process. `current` is the turn that speaks; `taken` are the prompts that it answers."""

    session: NativeSessionId = ONLY_SESSION
    native: str = ""
    cwd: str = ""
    key_source: str = ""
    names_prompts: bool = False
    turns: dict[NativeTurnId, Turn] = field(default_factory=dict[NativeTurnId, Turn])
    current: NativeTurnId | None = None
    taken: list[NativeTurnId] = field(default_factory=list[NativeTurnId])
    prompted: set[str] = field(default_factory=set[str])
    failure: RunError | None = None
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    asks: dict[NativeRequestId, Ask] = field(default_factory=dict[NativeRequestId, Ask])
    offers: dict[str, Any] = field(default_factory=dict[str, Any])
    _frames: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])

    def is_new(self, uuid: str) -> bool:
        """Whether a frame of that uuid was not heard before; notes it."""
        if not uuid:
            return True
        if uuid in self._frames:
            return False
        self.remember(uuid)
        return True

    def remember(self, uuid: str) -> None:
        self._frames[uuid] = None
        if len(self._frames) > FRAMES_KEPT:
            self._frames.popitem(last=False)

    def turn_of(self, parent: str | None) -> NativeTurnId | None:
        """The turn that a frame belongs to: a subagent's is the one that started it."""
        if parent is not None and (call := self.calls.get(parent)) is not None:
            return call.turn
        return self.current

    def add_call(self, call: Call) -> None:
        if len(self.calls) >= CALLS_KEPT:
            self.calls = {k: c for k, c in self.calls.items() if not c.done or c.background}
        self.calls[call.id] = call

    def add_task(self, task: Task) -> None:
        if len(self.tasks) >= TASKS_KEPT:
            self.tasks = {k: t for k, t in self.tasks.items() if not t.done}
        self.tasks[task.id] = task

    def is_background(self, parent: str | None) -> bool:
        """Whether what runs under that call outlives its turn."""
        while parent is not None and (call := self.calls.get(parent)) is not None:
            if call.background:
                return True
            parent = call.parent
        return False

    def news(self, name: str, value: object) -> bool:
        """Whether this differs from what was said last under that name; notes it."""
        if name in self.offers and self.offers[name] == value:
            return False
        self.offers[name] = value
        return True
