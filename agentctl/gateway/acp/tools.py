"""Owns tool cards as ACP tool calls: what is sent of each, and its content, which ACP replaces whole.

Pure. Output that grows is held back until `flush` or the next word about anything else, so that a
command that prints a thousand lines does not send each of them a thousand times.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentctl.core.events import FileChange, ToolCall, ToolUpdate
from agentctl.core.parts import Location
from agentctl.core.words import FINAL_TOOL, ToolKind, ToolStatus
from agentctl.gateway.acp.content import diffs, text_of, tool_content
from agentctl.gateway.acp.errors import Json, loads

MAX_OUTPUT = 131_072
"""Characters of a command's output that are shown; the rest stays with the daemon."""

KINDS = {
    ToolKind.SUBAGENT: "think",
    ToolKind.TODO: "think",
    ToolKind.MCP: "other",
}
STATUS = {
    ToolStatus.PENDING: "pending",
    ToolStatus.AWAITING_APPROVAL: "pending",
    ToolStatus.RUNNING: "in_progress",
    ToolStatus.COMPLETED: "completed",
    ToolStatus.FAILED: "failed",
    ToolStatus.CANCELLED: "failed",
}


@dataclass(slots=True)
class Card:
    """One tool as the client sees it."""

    own: str
    shown: Json = field(default_factory=dict[str, Any])
    blocks: list[Json] = field(default_factory=list[Json])
    changes: list[Json] = field(default_factory=list[Json])
    output: str = ""
    output_size: int = 0
    exit_code: int | None = None
    error: str = ""
    status: ToolStatus = ToolStatus.PENDING
    background: bool = False
    meta: Json = field(default_factory=dict[str, Any])

    @property
    def content(self) -> list[Json]:
        """Text first, then what was changed."""
        said = self.output
        left = max(self.output_size, len(said)) - MAX_OUTPUT
        if left > 0:
            said = f"{said[:MAX_OUTPUT]}\n[{left} more not shown here]"
        parts = [{"type": "content", "content": text_of(said)}] if said else []
        if self.error and self.status in FINAL_TOOL and not said and not self.blocks:
            parts.append({"type": "content", "content": text_of(self.error)})
        plain = [each for each in self.blocks if not self.changes or each["type"] != "diff"]
        return [*parts, *plain, *self.changes]

    @property
    def raw_output(self) -> Json | None:
        told: Json = {"exitCode": self.exit_code, "error": self.error or None}
        return {name: value for name, value in told.items() if value is not None} or None


class Tools:
    """The cards of one session."""

    def __init__(self) -> None:
        self._cards: dict[str, Card] = {}
        self._growing: Card | None = None

    @property
    def growing(self) -> bool:
        """Whether output is held back."""
        return self._growing is not None

    def card(self, own: str) -> Card | None:
        return self._cards.get(own)

    def ended(self) -> None:
        """A run is over: forgets the cards that nothing can be said of any more."""
        self._cards = {
            own: card
            for own, card in self._cards.items()
            if card.background and card.status not in FINAL_TOOL
        }

    def flush(self) -> Iterator[Json]:
        """The output that was held back."""
        card, self._growing = self._growing, None
        if card is not None:
            yield _update(card, {"content": card.content})

    def called(self, call: ToolCall, meta: Json) -> Iterator[Json]:
        known = self._cards.get(call.tool_call_id)
        if known is not None and known.status not in FINAL_TOOL:
            kept = ToolUpdate(call.tool_call_id, call.status, call.name, call.title, call.kind)
            kept.input_json, kept.command = call.input_json, call.command
            kept.locations, kept.paths = call.locations or None, call.paths or None
            yield from self.updated(kept, meta)
            return
        yield from self.flush()
        card = self._cards[call.tool_call_id] = Card(call.tool_call_id, meta=dict(meta))
        card.status = call.status
        if call.name:
            card.meta["toolName"] = call.name
        yield _opened(card, _fields(call))

    def updated(self, update: ToolUpdate, meta: Json) -> Iterator[Json]:
        card = self._cards.get(update.tool_call_id)
        if self._growing is not card:
            yield from self.flush()
        fresh = card is None
        if card is None:
            card = self._cards[update.tool_call_id] = Card(update.tool_call_id, meta=dict(meta))
        if update.name:
            card.meta["toolName"] = update.name
        shown = _fields(update)
        grew = self._absorb(card, update, shown)
        if fresh:
            yield _opened(card, shown | ({"content": card.content} if grew else {}))
        elif shown:
            if grew or self._growing is card:
                shown["content"] = card.content
            self._growing = None
            yield _update(card, shown)
        elif grew:
            self._growing = card

    def _absorb(self, card: Card, update: ToolUpdate, shown: Json) -> bool:
        """Takes what is not sent as it comes; whether the content is another one now."""
        if update.status is not None:
            card.status = update.status
            if update.status is ToolStatus.CANCELLED:
                card.meta["agentctl"] = {"status": "cancelled"}
        before = (card.output, len(card.blocks), card.error)
        if update.output_replace is not None:
            card.output = update.output_replace[: MAX_OUTPUT + 1]
            card.output_size = len(update.output_replace)
        if update.output_delta:
            card.output_size += len(update.output_delta)
            if len(card.output) <= MAX_OUTPUT:
                card.output += update.output_delta[: MAX_OUTPUT + 1 - len(card.output)]
        card.output_size = max(card.output_size, update.output_size or 0)
        if update.content is not None:
            card.blocks = list(tool_content(update.content))
        card.error = update.error or card.error
        card.exit_code = card.exit_code if update.exit_code is None else update.exit_code
        card.background = card.background or update.background is True
        if (update.exit_code is not None or update.error) and (raw := card.raw_output):
            shown["rawOutput"] = raw
        replaced = update.content is not None and bool(card.blocks)
        return replaced or before != (card.output, len(card.blocks), card.error)

    def changed(self, change: FileChange, meta: Json) -> Iterator[Json]:
        """A file was changed: a diff in the content of its tool, or a call of its own without one."""
        made = list(diffs(change.path, change.diff or "", change.change))
        card = self._cards.get(change.tool_call_id or "")
        if self._growing is not card:
            yield from self.flush()
        if card is None:
            yield {
                "sessionUpdate": "tool_call",
                "toolCallId": f"change:{change.path}",
                "title": f"{change.change.value.capitalize()} {change.path}",
                "kind": _CHANGE_KINDS.get(change.change.value, "edit"),
                "status": "completed",
                "locations": [{"path": change.path}],
                "content": made,
                "_meta": meta,
            }
        elif made:
            card.changes += made
            self._growing = None
            yield _update(card, {"content": card.content})


_CHANGE_KINDS = {"delete": "delete", "rename": "move"}


def _opened(card: Card, shown: Json) -> Json:
    shown.setdefault("title", card.meta.get("toolName") or shown.get("kind") or "Tool")
    shown.setdefault("status", STATUS[card.status])
    card.shown.update(shown)
    made: Json = {"sessionUpdate": "tool_call", "toolCallId": card.own, **shown}
    return made | {"_meta": card.meta} if card.meta else made


def _update(card: Card, shown: Json) -> Json:
    card.shown.update(shown)
    made: Json = {"sessionUpdate": "tool_call_update", "toolCallId": card.own, **shown}
    return made | {"_meta": card.meta} if card.meta else made


def _fields(told: ToolCall | ToolUpdate) -> Json:
    """What ACP has a field of the same meaning for; only what is told."""
    shown: Json = {}
    if told.title or told.command:
        shown["title"] = told.title or told.command
    elif isinstance(told, ToolCall) and told.name:
        shown["title"] = told.name
    if told.kind is not None:
        shown["kind"] = KINDS.get(told.kind, told.kind.value)
    if told.status is not None:
        shown["status"] = STATUS[told.status]
    if told.input_json:
        shown["rawInput"] = loads(told.input_json)
    elif told.command:
        shown["rawInput"] = {"command": told.command}
    if places := told.locations or [Location(path) for path in told.paths or ()]:
        shown["locations"] = [
            {"path": each.path} | ({"line": each.line} if each.line is not None else {})
            for each in places
        ]
    return shown
