"""Owns what the translator remembers of one ACP session: its open prompts, tools and offers.

Plain state, no decisions: those are in `updates`, `calls`, `answers` and `asks`. Ids are the agent's own.
"""

from dataclasses import dataclass, field
from typing import Any

from agentctl.core.events import FileChange
from agentctl.core.ids import NativeSessionId, NativeTurnId
from agentctl.core.parts import RunError, Usage
from agentctl.core.words import ToolKind

# A session that lasts for days must not remember every message; reuse of an id that old is not seen.
MESSAGES_KEPT = 4096
CALLS_KEPT = 2000


@dataclass(slots=True)
class Turn:
    """A prompt that has no answer yet. `soft`: the agent's last words were an error in its text."""

    key: NativeTurnId
    prompt: str = ""
    usage: Usage | None = None
    cost_before: float | None = None
    soft: RunError | None = None
    retries: int = 0
    calls: int = 0


@dataclass(slots=True)
class Call:
    """A tool call: what later words about it leave out."""

    name: str | None = None
    kind: ToolKind | None = None
    title: str | None = None
    command: str | None = None
    input_json: bytes | None = None
    paths: list[str] | None = None
    changes: list[FileChange] = field(default_factory=list[FileChange])
    plan: bytes | None = None
    done: bool = False


@dataclass(slots=True)
class _Block:
    kind: str
    epoch: int
    shown: str
    count: int = 0


@dataclass(slots=True)
class SessionView:
    """One session of one process. `live`: prompted, so that what comes is new and not history."""

    id: NativeSessionId
    live: bool = False
    fresh: bool = False
    cwd: str = ""
    turns: list[Turn] = field(default_factory=list[Turn])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    terminals: dict[str, str] = field(default_factory=dict[str, str])
    offers: dict[str, Any] = field(default_factory=dict[str, Any])
    model_ids: frozenset[str] = frozenset()
    title: str | None = None
    window: tuple[object, ...] = ()
    window_size: int | None = None
    cost: float | None = None
    spent: Usage | None = None
    thread_status: str = ""
    # The message that is being written: its agent's id, its kind, the id that readers see.
    own: str | None = None
    own_kind: str = ""
    shown: str = ""
    epoch: int = 0
    _blocks: dict[str, _Block] = field(default_factory=dict[str, _Block])

    @property
    def turn(self) -> Turn | None:
        """The oldest open prompt: updates belong to it."""
        return self.turns[0] if self.turns else None

    def block(self, kind: str, own: str) -> str:
        """The message id to show: the agent's, with `/n` for each further block under that id."""
        block = self._blocks.get(own)
        if block is None:
            if len(self._blocks) >= MESSAGES_KEPT:
                self._blocks.clear()
            block = self._blocks[own] = _Block(kind, self.epoch, own)
        elif block.kind != kind or block.epoch != self.epoch:
            block.kind, block.epoch = kind, self.epoch
            block.count += 1
            block.shown = f"{own}/{block.count}"
        self.own, self.own_kind, self.shown = own, kind, block.shown
        return block.shown

    def interrupt(self) -> None:
        """Something that is no text came: text under the same id is a new block."""
        self.own = None
        self.epoch += 1
        if self.turns:
            self.turns[0].soft = None

    def call(self, call_id: str) -> Call:
        """The call's state, new when it was not heard of."""
        call = self.calls.get(call_id)
        if call is None:
            if len(self.calls) >= CALLS_KEPT:
                self.calls = {key: call for key, call in self.calls.items() if not call.done}
            call = self.calls[call_id] = Call()
        return call

    def news(self, name: str, value: object) -> bool:
        """Whether this differs from what was said last under that name; notes it."""
        if name in self.offers and self.offers[name] == value:
            return False
        self.offers[name] = value
        return True
