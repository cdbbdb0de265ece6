"""Owns messages and their text as drafts: each text once, whatever repeats it. Pure.

A part comes cumulative, as deltas, as both, or only whole; deltas may come before their part. What a
part says is the truth: what of it was not shown yet is told, and text that differs is replaced once,
when it is final. The user's own words, and messages that a fork copied, are never told.
"""

from typing import Any

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import Log, MessageChunk, Payload, RateLimit, Reasoning
from agentctl.core.events import Message as Whole
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, LogStream, Role
from agentctl_adapters.opencode import changes, usage
from agentctl_adapters.opencode.offers import Offers
from agentctl_adapters.opencode.prompts import block_of_file
from agentctl_adapters.opencode.shapes import (
    Json,
    as_object,
    as_objects,
    as_text,
    info_of,
    model_name,
    number,
    part_of,
    session_of,
    time_of,
    words_of,
)
from agentctl_adapters.opencode.tools import Tools
from agentctl_adapters.opencode.turns import TurnBook
from agentctl_adapters.opencode.view import Book, Message, Part, SessionView

Drafts = list[AnyDraft]
_TEXT, _REASONING = "text", "reasoning"
_ANSWERS_ONLY = frozenset({_REASONING, "tool", "step-start", "step-finish", "patch", "retry"})
_NOT_TOLD = frozenset({"step-start", "patch", "snapshot", "compaction", "subtask", "agent"})


class Messages:
    """Messages and parts of every session."""

    def __init__(self, book: Book, turns: TurnBook, tools: Tools, offers: Offers) -> None:
        self._book = book
        self._turns = turns
        self._tools = tools
        self._offers = offers

    def updated(self, properties: Json, raw: Any, *, missed: bool = False) -> Drafts:
        """A message.updated; `missed`: it was fetched, and is new although it is complete."""
        info = info_of(properties)
        session = session_of(info) or session_of(properties)
        own = as_text(info.get("id"))
        if not session or not own:
            return []
        view = self._book.view(session)
        message = view.messages.get(own)
        first = message is None or not message.role
        if message is None:
            message = view.messages[own] = Message(own, view)
            message.live = missed or _is_new(view, info)
        message.role = as_text(info.get("role")) or message.role
        if not message.live:
            return []
        if message.role == "user":
            first = first and "summary" not in info
            drafts = self._turns.user_message(view, message, first=first)
            drafts += self._offers.in_force(view, info, raw)
            message.waiting.clear()
            diffs = as_objects(as_object(info.get("summary")).get("diffs"))
            return drafts + changes.of_summary(view, message, diffs, raw)
        return self._answer(view, message, info, first, raw)

    def _answer(
        self, view: SessionView, message: Message, info: Json, first: bool, raw: Any
    ) -> Drafts:
        message.parent = as_text(info.get("parentID")) or message.parent
        message.model = model_name(info) or message.model
        message.summary = info.get("summary") is True
        message.root = as_text(as_object(info.get("path")).get("root")) or message.root
        drafts = self._begin_answer(view, message) if first else []
        message.finish = as_text(info.get("finish")) or message.finish
        error = as_object(info.get("error"))
        message.error = dict(error) if error else message.error
        waiting, message.waiting = message.waiting, []
        for properties, told in waiting:
            drafts += self.part(properties, told)
        if time_of(info, "completed") is not None and not message.completed:
            message.completed = True
            drafts += self._complete(message, raw)
        window = usage.of_message(self._book, message, info)
        if window is not None:
            drafts.append(self._draft(message, window, raw))
        return drafts

    def _begin_answer(self, view: SessionView, message: Message) -> Drafts:
        message.role = "assistant"
        drafts = self._turns.assistant_message(view, message)
        if message.turn is not None and view.parent is None:
            message.turn.last = message
        return drafts

    def _complete(self, message: Message, raw: Any) -> Drafts:
        drafts: Drafts = []
        for part in message.parts:
            if part.held_back is not None:
                drafts += self._replace(part, part.held_back, raw)
        return drafts

    # Parts

    def part(self, properties: Json, raw: Any, *, missed: bool = False) -> Drafts:
        """A message.part.updated; `missed`: it was fetched, so text that grows now has a gap."""
        part = part_of(properties)
        session = session_of(part) or session_of(properties)
        own = as_text(part.get("messageID")) or as_text(properties.get("messageID"))
        kind = as_text(part.get("type"))
        if not session or not own or not kind:
            return []
        view = self._book.view(session)
        message = view.messages.get(own)
        if message is None:
            message = view.messages[own] = Message(own, view)
        if not message.live:
            return []
        drafts = self._role_of(view, message, kind, part)
        if not message.role:
            message.waiting.append((properties, raw))
            return drafts
        if message.role == "user":
            text = as_text(part.get("text"))
            if kind == _TEXT and text and part.get("synthetic") is not True:
                message.texts.append(text)
            return drafts
        return drafts + self._answer_part(message, kind, part, properties, raw, missed)

    def _answer_part(
        self,
        message: Message,
        kind: str,
        part: Json,
        properties: Json,
        raw: Any,
        missed: bool,
    ) -> Drafts:
        match kind:
            case "text" | "reasoning":
                delta = as_text(properties.get("delta"))
                grown = self._text(message, part, kind == _TEXT, delta, raw)
                if missed and (state := self._book.parts.get(as_text(part.get("id")))):
                    state.dirty = True
                return grown
            case "tool":
                return self._tools.part(message.view, message, part, raw)
            case "step-finish":
                window = usage.of_step(self._book, message, as_text(part.get("id")), part)
                return [self._draft(message, window, raw)] if window else []
            case "step-start" if message.turn is not None:
                message.turn.snapshots |= bool(part.get("snapshot"))
                return []
            case "file":
                return self._file(message, part, raw)
            case "retry":
                told = RateLimit(words_of(part.get("error")), attempt=number(part.get("attempt")))
                return [self._draft(message, told, raw)]
            case _ if kind in _NOT_TOLD:
                return []
            case _:
                note = f"The server sent a part of unknown kind {kind[:200]!r}."
                return [self._draft(message, Log(LogStream.NOTE, note), raw)]

    def _role_of(self, view: SessionView, message: Message, kind: str, part: Json) -> Drafts:
        """Finds out whose words a message has that was not announced."""
        if message.role:
            return []
        if kind in _ANSWERS_ONLY:
            return self._begin_answer(view, message)
        turn = view.turn
        if kind != _TEXT or turn is None:
            return []
        if any(as_text(part.get("text")) in t.texts for t in view.turns):
            message.role = "user"
            return self._turns.user_message(view, message, first=True)
        return self._begin_answer(view, message) if turn.seen or turn.touched else []

    def _text(self, message: Message, part: Json, text: bool, delta: str, raw: Any) -> Drafts:
        own = as_text(part.get("id")) or f"{message.id}:{'text' if text else 'reasoning'}"
        told = as_text(part.get("text"))
        state = self._book.parts.get(own)
        if state is None:
            state = self._new_part(own, message, text)
            _, _, early = self._book.early.pop(own, ("", "", list[str]()))
            if early and not told:
                delta = "".join(early)
            state.dirty = bool(early and told)
        ended = time_of(part, "end") is not None
        if ended:
            state.done = True
        shown = "".join(state.pieces)
        state.pieces = [shown]
        if delta and _is_step(state, shown, told, delta):
            state.stepwise = bool(told)
            return [self._say(state, delta, raw)]
        if not told:
            return []
        if told.startswith(shown):
            # After its end a part gets no delta: one that comes was sent before a refetch saw the end.
            state.dirty, state.held_back = state.done, None
            return [self._say(state, told[len(shown) :], raw)] if len(told) > len(shown) else []
        if ended or message.completed:
            return self._replace(state, told, raw)
        state.held_back = told
        return []

    def _new_part(self, own: str, message: Message, text: bool) -> Part:
        view = message.view
        state = Part(own, message, text)
        state.session, state.call = view.root.native, view.parent_call
        state.turn = message.turn
        self._book.parts[own] = state
        message.parts.append(state)
        return state

    def _say(self, state: Part, text: str, raw: Any) -> Draft:
        if not state.shown:
            message = state.message
            state.shown = f"{message.id}/{message.blocks}" if message.blocks else message.id
            message.blocks += 1
        state.pieces.append(text)
        payload = (
            MessageChunk(state.shown, Role.ASSISTANT, text)
            if state.text
            else Reasoning(state.shown, text)
        )
        turn = state.turn.key if state.turn is not None and state.turn.over else None
        return Draft(payload, state.session, turn, None, state.call, raw)

    def _replace(self, state: Part, text: str, raw: Any) -> Drafts:
        """The final text is not what was shown."""
        state.held_back, state.dirty = None, False
        if not any(state.pieces):
            return [self._say(state, text, raw)]
        state.pieces = [text]
        if state.replaced:
            return []
        state.replaced = True
        block = ContentBlock(ContentType.TEXT, text=text)
        payload: Payload = (
            Whole(state.shown, Role.ASSISTANT, [block])
            if state.text
            else Reasoning(state.shown, text, whole=True)
        )
        return [self._draft(state.message, payload, raw)]

    def _file(self, message: Message, part: Json, raw: Any) -> Drafts:
        own = as_text(part.get("id")) or as_text(part.get("url"))
        if own in self._book.parts:
            return []
        state = self._new_part(own, message, True)
        state.done = True
        state.shown = f"{message.id}/{message.blocks}" if message.blocks else message.id
        message.blocks += 1
        chunk = MessageChunk(state.shown, content=block_of_file(part))
        return [self._draft(message, chunk, raw)]

    # Deltas

    def delta(self, properties: Json, raw: Any) -> Drafts:
        """A delta off the short way: of a part that is not known, or of one with a gap."""
        own = as_text(properties.get("partID"))
        text = as_text(properties.get("delta"))
        state = self._book.parts.get(own)
        if not text or properties.get("field") not in (None, "text", "reasoning"):
            return []
        if state is not None:
            return [] if state.dirty or not state.message.live else [self._say(state, text, raw)]
        session = session_of(properties)
        message_id = as_text(properties.get("messageID"))
        message = self._book.view(session).messages.get(message_id) if session else None
        if message is not None and (message.role == "user" or not message.live):
            return []
        self._book.early.setdefault(own, (session, message_id, []))[2].append(text)
        return []

    def flush(self, view: SessionView) -> Drafts:
        """The turn may be over: what was held for a part or a message that never came is told."""
        drafts: Drafts = []
        for message in [m for m in view.messages.values() if m.waiting]:
            waiting, message.waiting = message.waiting, []
            drafts += self._begin_answer(view, message)
            for properties, raw in waiting:
                drafts += self.part(properties, raw)
        for own, (session, message_id, early) in [*self._book.early.items()]:
            if session != view.id:
                continue
            del self._book.early[own]
            message = view.messages.get(message_id)
            if message is None:
                message = view.messages[message_id] = Message(message_id, view)
                message.turn = view.turn
            if message.live and message.role != "user":
                drafts.append(self._say(self._new_part(own, message, True), "".join(early), None))
        return drafts

    def gap(self) -> None:
        """The event stream broke: text that is being written has lost something."""
        for part in self._book.parts.values():
            part.dirty = part.dirty or not part.done
        self._book.early.clear()

    def removed(self, properties: Json, raw: Any) -> Drafts:
        """A message or a part of it was taken back (revert, a retried answer)."""
        view = self._book.view(session_of(properties))
        message = view.messages.get(as_text(properties.get("messageID")))
        if message is None or not message.live:
            return []
        own = as_text(properties.get("partID"))
        drafts: Drafts = []
        for part in [p for p in message.parts if not own or p.id == own]:
            message.parts.remove(part)
            self._book.parts.pop(part.id, None)
            if part.shown:
                gone = (
                    Whole(part.shown, retracted=True)
                    if part.text
                    else Reasoning(part.shown, retracted=True)
                )
                drafts.append(self._draft(message, gone, raw))
        return drafts

    def _draft(self, message: Message, payload: Payload, raw: Any) -> Draft:
        view, turn = message.view, message.turn
        key = turn.key if turn is not None and turn.over else None
        return Draft(payload, view.root.native, key, None, view.parent_call, raw)


def _is_new(view: SessionView, info: Json) -> bool:
    """Whether a message seen for the first time is new: a fork copies its messages as events."""
    created = time_of(info, "created")
    if created is not None and view.created is not None and created < view.created:
        return False
    if info.get("role") != "assistant" or time_of(info, "completed") is None:
        return True
    parent = as_text(info.get("parentID"))
    if not parent:
        return view.turn is not None
    if any(turn.message == parent for turn in view.turns):
        return True
    known = view.messages.get(parent)
    return known is not None and known.live


def _is_step(state: Part, shown: str, told: str, delta: str) -> bool:
    """Whether only the delta is new: the part tells no text, or tells just this step of it."""
    if not told or state.stepwise:
        return True
    return told == delta and bool(shown) and not told.startswith(shown)
