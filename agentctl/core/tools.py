"""Owns one tool call as the reader sees it: its card, its status, its output; knows no protocol.

A final status is final. An exit code that is not zero is a failure whatever the status says. Output
streams as deltas up to a bound; then only its end is held, and sent once when the tool is done.
"""

from dataclasses import dataclass
from typing import TypeVar

from agentctl.core.events import Event, ToolCall, ToolUpdate
from agentctl.core.limits import head, size_of, tail
from agentctl.core.parts import ContentBlock, Location
from agentctl.core.whole import Whole
from agentctl.core.words import FINAL_TOOL, ToolKind, ToolStatus

T = TypeVar("T", Location, str)

OUTPUT_BYTES = 256 * 1024
"""Bytes of one tool's output that travel as deltas."""
TAIL_BYTES = 64 * 1024
"""Bytes of the end that are sent once output is longer than that."""
WHOLE_BYTES = 8 * 1024 * 1024
"""Bytes that are held of output that comes in pieces; of more, the end."""


class Output:
    """Turns output, told in pieces or whole each time, into deltas and at most one tail."""

    __slots__ = ("_held", "_pieces", "_pieces_size", "_told", "_whole", "size")

    def __init__(self) -> None:
        self._whole: str | None = None
        self._pieces: list[str] = []
        self._pieces_size = 0
        self._told = 0
        self._held = False
        self.size = 0

    def append(self, text: str) -> str | None:
        """More output; what of it to send now."""
        size = size_of(text)
        self.size += size
        if self._whole is not None:
            self._whole += text
        else:
            self._keep(text, size)
        return self._tell(text, size)

    def replace(self, text: str) -> tuple[str | None, str | None]:
        """The whole output so far; what to send now, as (delta, replacement)."""
        before = self._known()
        self._pieces.clear()
        self._whole = text
        size = self.size
        if before is not None and text.startswith(before):
            more = text[len(before) :]
            added = size_of(more)
            self.size = size + added
            return (self._tell(more, added) if more else None), None
        self.size = size_of(text)
        if self._held or self._told + self.size > OUTPUT_BYTES:
            self._held = True
            return None, None
        self._told += self.size
        return None, text

    def finish(self) -> str | None:
        """All that is held of output that was too long to be told, once; None when it was not."""
        if not self._held:
            return None
        self._held = False
        self._told = OUTPUT_BYTES
        if self._whole is not None:
            return self._whole
        whole = "".join(self._pieces)
        self._pieces, self._pieces_size = [], 0
        return whole

    def _known(self) -> str | None:
        if self._whole is not None:
            return self._whole
        return "".join(self._pieces) if self._pieces_size == self.size else None

    def _keep(self, text: str, size: int) -> None:
        self._pieces.append(text)
        self._pieces_size += size
        if self._pieces_size > 2 * WHOLE_BYTES:
            end = tail("".join(self._pieces), WHOLE_BYTES)
            self._pieces = [end]
            self._pieces_size = size_of(end)

    def _tell(self, text: str, size: int) -> str | None:
        if self._held:
            return None
        room = OUTPUT_BYTES - self._told
        if size <= room:
            self._told += size
            return text
        self._held = True
        self._told = OUTPUT_BYTES
        return head(text, room) or None


@dataclass(slots=True)
class Tool:
    """What a reader of the events knows of one tool call."""

    id: str
    run_id: str | None
    parent: str | None
    card: ToolCall
    late: bool = False
    content: list[ContentBlock] | None = None
    exit_code: int | None = None
    background: bool = False
    denied: bool = False
    approvals: int = 0
    output: Output | None = None
    whole: str | None = None
    """Its output that was too long to be told, until an event takes it along."""

    def event(self, update: ToolUpdate, run_id: str | None, after: str | None = None) -> Event:
        """The update as an event of this tool."""
        event = Event(update, run_id, after, self.parent)
        if self.whole is not None:
            size = self.output.size if self.output is not None else 0
            cut = size if size > size_of(self.whole) else None
            event.whole, self.whole = [Whole("output", self.whole, size=cut)], None
        return event

    @property
    def open(self) -> bool:
        return self.card.status not in FINAL_TOOL

    def rename(self, call: ToolCall) -> ToolUpdate:
        """A second card for the same call, as the update that it is."""
        kind = None if call.kind is ToolKind.OTHER else call.kind
        return ToolUpdate(
            self.id,
            status=call.status,
            name=call.name,
            title=call.title,
            kind=kind,
            input_json=call.input_json,
            locations=call.locations or None,
            command=call.command,
            paths=call.paths or None,
        )

    def change(self, update: ToolUpdate) -> ToolUpdate | None:
        """The update reduced to what is new, and noted; None when nothing is."""
        update.status = self._move(update)
        if update.exit_code is not None:
            if update.exit_code == self.exit_code:
                update.exit_code = None
            else:
                self.exit_code = update.exit_code
        self._card(update)
        if update.content is not None:
            if update.content == (self.content or []):
                update.content = None
            else:
                self.content = update.content
        if update.background is not None:
            if update.background == self.background:
                update.background = None
            else:
                self.background = update.background
        self._output(update)
        return update if _says_something(update) else None

    def close(self, status: ToolStatus, error: str | None = None) -> ToolUpdate:
        """The end that the agent never told."""
        self.card.status = status
        self.background = False
        update = ToolUpdate(self.id, status=status, error=error)
        self._finish_output(update)
        return update

    def _move(self, update: ToolUpdate) -> ToolStatus | None:
        new, old = update.status, self.card.status
        if new is None or new is old or old in FINAL_TOOL:
            return None
        code = self.exit_code if update.exit_code is None else update.exit_code
        if new is ToolStatus.COMPLETED and code:
            new = ToolStatus.FAILED
        if new is ToolStatus.PENDING:
            return None
        if new is ToolStatus.RUNNING and self.approvals:
            return None
        self.card.status = new
        return new

    def _card(self, update: ToolUpdate) -> None:
        card = self.card
        update.name = _changed(card.name, update.name)
        update.title = _changed(card.title, update.title)
        update.command = _changed(card.command, update.command)
        update.input_json = None if update.input_json == card.input_json else update.input_json
        update.kind = None if update.kind is card.kind else update.kind
        update.locations = _changed_list(card.locations, update.locations)
        update.paths = _changed_list(card.paths, update.paths)
        card.name = update.name or card.name
        card.title = update.title or card.title
        card.command = update.command or card.command
        card.input_json = update.input_json or card.input_json
        card.kind = update.kind or card.kind
        if update.locations is not None:
            card.locations = update.locations
        if update.paths is not None:
            card.paths = update.paths

    def _output(self, update: ToolUpdate) -> None:
        if update.output_replace is not None:
            self.output = self.output or Output()
            update.output_delta, update.output_replace = self.output.replace(update.output_replace)
        elif update.output_delta is not None:
            self.output = self.output or Output()
            update.output_delta = self.output.append(update.output_delta)
        if update.status in FINAL_TOOL or not self.open:
            self._finish_output(update)

    def _finish_output(self, update: ToolUpdate) -> None:
        if self.output is not None and (whole := self.output.finish()) is not None:
            update.output_delta = None
            update.output_replace = end = tail(whole, TAIL_BYTES)
            update.output_size = self.output.size
            if size_of(end) < self.output.size:
                update.truncated = True
                self.whole = whole


def _changed(old: str | None, new: str | None) -> str | None:
    return None if not new or new == old else new


def _changed_list(old: list[T], new: list[T] | None) -> list[T] | None:
    return None if new is None or new == old else new


def _says_something(update: ToolUpdate) -> bool:
    return any(
        value is not None
        for value in (
            update.status,
            update.name,
            update.title,
            update.kind,
            update.input_json,
            update.locations,
            update.command,
            update.paths,
            update.content,
            update.output_delta,
            update.output_replace,
            update.exit_code,
            update.error,
            update.background,
        )
    )
