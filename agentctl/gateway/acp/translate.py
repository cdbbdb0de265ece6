"""Owns the translation of a session's events into ACP session updates. Pure: no I/O, no clock.

    feed(event) -> updates in order        flush() -> what is held back (growing output)

ACP appends and never takes back: a message that replaces its chunks is sent as far as it is new.
Requests of the agent are not updates; `asks` has them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentctl.core.events import (
    Artifact,
    Complete,
    ContextWindow,
    Error,
    Event,
    FileChange,
    Git,
    Message,
    MessageChunk,
    Plan,
    RateLimit,
    Reasoning,
    RunStatus,
    SessionOptions,
    SessionStatus,
    Task,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, PlanStatus, Role, RunChange, SessionChange
from agentctl.gateway.acp.content import block_of, text_of
from agentctl.gateway.acp.errors import Json
from agentctl.gateway.acp.options import Offers
from agentctl.gateway.acp.tools import Tools
from agentctl.rpc.jsonview import event_to_json

_CHUNKS = {
    Role.ASSISTANT: "agent_message_chunk",
    Role.USER: "user_message_chunk",
    Role.SYSTEM: "agent_thought_chunk",
}
_PLAN_STATUS = {
    PlanStatus.PENDING: "pending",
    PlanStatus.IN_PROGRESS: "in_progress",
    PlanStatus.COMPLETED: "completed",
}


@dataclass(slots=True)
class _Said:
    """A message or thought so far, to know what a whole one adds."""

    pieces: list[str] = field(default_factory=list[str])
    blocks: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Translator:
    """One session's events. `own` holds the runs that this client prompted: it knows their words."""

    def __init__(self, offers: Offers) -> None:
        self.offers = offers
        self.own: set[str] = set()
        self.tools = Tools()
        self._said: dict[tuple[str, str], _Said] = {}
        self._prompts: dict[str, list[ContentBlock]] = {}
        self._window: tuple[int | None, int | None, float | None] = (None, None, None)
        self._title: str | None = None
        self._handlers: Mapping[type[Any], Callable[[Any, Event], Iterator[Json]]] = {
            MessageChunk: self._chunk,
            Message: self._message,
            Reasoning: self._reasoning,
            ToolCall: self._called,
            ToolUpdate: self._updated,
            FileChange: self._changed,
            Plan: self._plan,
            RunStatus: self._run,
            ContextWindow: self._usage,
            SessionOptions: self._options,
            SessionStatus: self._status,
            Complete: self._complete,
            Error: self._aside,
            RateLimit: self._aside,
            Task: self._aside,
            Git: self._aside,
            Artifact: self._aside,
        }

    def feed(self, event: Event) -> list[Json]:
        """The updates of one event, what was held back before it first."""
        payload = event.payload
        handle = self._handlers.get(type(payload))
        if handle is None:
            return list(self.tools.flush())
        made = handle(payload, event)
        if isinstance(payload, ToolCall | ToolUpdate | FileChange):
            return list(made)
        return [*self.tools.flush(), *made]

    def flush(self) -> list[Json]:
        """The output that grew since it was last sent."""
        return list(self.tools.flush())

    def _key(self, event: Event, kind: str, message_id: str) -> tuple[str, str]:
        return f"{event.run_id or event.after_run_id} {kind}", message_id

    def _chunk(self, chunk: MessageChunk, event: Event) -> Iterator[Json]:
        key = self._key(event, "text", chunk.message_id)
        said = self._said.get(key)
        if said is None:
            said = self._said[key] = _Said()
        if chunk.content is not None:
            said.blocks += 1
            yield from _blocks(chunk.role, chunk.message_id, [chunk.content], event)
        if chunk.text:
            said.pieces.append(chunk.text)
            yield _words(_CHUNKS[chunk.role], chunk.text, chunk.message_id, event)

    def _message(self, message: Message, event: Event) -> Iterator[Json]:
        if message.retracted:
            return
        key = self._key(event, "text", message.message_id)
        before = self._said.get(key)
        whole = "".join(each.text or "" for each in message.content if _is_text(each))
        self._said[key] = _Said([whole], sum(not _is_text(each) for each in message.content))
        if before is None:
            yield from _blocks(message.role, message.message_id, message.content, event)
            return
        yield from self._rest(before.text, whole, _CHUNKS[message.role], message.message_id, event)
        others = [each for each in message.content if not _is_text(each)][before.blocks :]
        yield from _blocks(message.role, message.message_id, others, event)

    def _rest(
        self, before: str, whole: str, kind: str, message_id: str, event: Event
    ) -> Iterator[Json]:
        """What a whole text adds to the pieces; another text altogether is said anew."""
        if whole.startswith(before):
            if len(whole) > len(before):
                yield _words(kind, whole[len(before) :], message_id, event)
        elif whole.strip() and whole.strip() not in before:
            yield _words(kind, f"\n\n{whole}", f"{message_id}/whole", event)

    def _reasoning(self, thought: Reasoning, event: Event) -> Iterator[Json]:
        if thought.retracted or not thought.text:
            return
        kind, own = "agent_thought_chunk", thought.message_id
        said = self._said.setdefault(self._key(event, "thought", own), _Said())
        if thought.whole and said.pieces:
            before, said.pieces = said.text, [thought.text]
            yield from self._rest(before, thought.text, kind, own, event)
            return
        said.pieces.append(thought.text)
        yield _words(kind, thought.text, own, event)

    def _called(self, call: ToolCall, event: Event) -> Iterator[Json]:
        return self.tools.called(call, _meta(event))

    def _updated(self, update: ToolUpdate, event: Event) -> Iterator[Json]:
        return self.tools.updated(update, _meta(event))

    def _changed(self, change: FileChange, event: Event) -> Iterator[Json]:
        return self.tools.changed(change, _meta(event))

    def _plan(self, plan: Plan, event: Event) -> Iterator[Json]:
        if plan.document and not plan.entries:
            yield _words("agent_thought_chunk", plan.document, "", event)
            return
        entries = [
            {
                "content": each.content,
                "status": _PLAN_STATUS[each.status],
                "priority": each.priority.value if each.priority else "medium",
            }
            for each in plan.entries
            if each.status in _PLAN_STATUS
        ]
        yield _with_meta({"sessionUpdate": "plan", "entries": entries}, event)

    def _run(self, status: RunStatus, event: Event) -> Iterator[Json]:
        """The prompt of another client, or of the past, once it is its turn."""
        run = event.run_id or ""
        if status.status is RunChange.CREATED and status.prompt:
            self._prompts[run] = status.prompt
        elif status.status is RunChange.STARTED and run in self._prompts:
            prompt = self._prompts.pop(run)
            if run not in self.own:
                yield from _blocks(Role.USER, run, prompt, event)

    def _usage(self, window: ContextWindow, event: Event) -> Iterator[Json]:
        used, size, cost = self._window
        told = (
            used if window.used is None else window.used,
            size if window.size is None else window.size,
            cost if window.cost_usd is None else window.cost_usd,
        )
        used, size, cost = told
        if event.parent_tool_call_id or told == self._window:
            return
        self._window = told
        if used is not None and size is not None:
            update: Json = {"sessionUpdate": "usage_update", "used": used, "size": size}
            if cost is not None:
                update["cost"] = {"amount": cost, "currency": "USD"}
            yield update

    def _options(self, options: SessionOptions, event: Event) -> Iterator[Json]:
        self.offers.fold(options)
        return self.offers.news()

    def _status(self, status: SessionStatus, event: Event) -> Iterator[Json]:
        self.offers.fold_status(status)
        yield from self.offers.news()
        if status.title and status.title != self._title:
            self._title = status.title
            yield {"sessionUpdate": "session_info_update", "title": status.title}
        if status.status is SessionChange.COMPACTED:
            yield from self._aside(status, event)

    def _complete(self, complete: Complete, event: Event) -> Iterator[Json]:
        self._said.clear()
        self._prompts.pop(event.run_id or "", None)
        self.own.discard(event.run_id or "")
        yield from self.tools.flush()
        self.tools.ended()

    def _aside(self, payload: object, event: Event) -> Iterator[Json]:
        """What ACP has no update for: an event of ours in `_meta`, for clients that look there."""
        told = event_to_json(event)
        seen = {"type": told["type"], "data": told["data"]}
        yield {"sessionUpdate": "session_info_update", "_meta": {"agentctl": {"event": seen}}}


def _is_text(block: ContentBlock) -> bool:
    return block.type is ContentType.TEXT


def _meta(event: Event) -> Json:
    """Whose doing it was: of a subagent, or of a run that is over."""
    parent, made = event.parent_tool_call_id, {}
    if parent is not None:
        # The second is where clients look that know Claude's own ACP agent.
        made = {"parentToolCallId": parent, "claudeCode": {"parentToolUseId": parent}}
    if event.after_run_id is not None:
        made["afterRunId"] = event.after_run_id
    return made


def _with_meta(update: Json, event: Event) -> Json:
    if event.parent_tool_call_id is not None or event.after_run_id is not None:
        update["_meta"] = _meta(event)
    return update


def _words(kind: str, text: str, message_id: str, event: Event) -> Json:
    update: Json = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    if message_id:
        update["messageId"] = message_id
    return _with_meta(update, event)


def _blocks(
    role: Role, message_id: str, blocks: list[ContentBlock], event: Event
) -> Iterator[Json]:
    for block in blocks:
        content = block_of(block)
        if content is not None and content != text_of(""):
            made: Json = {"sessionUpdate": _CHUNKS[role], "content": content}
            yield _with_meta(made | {"messageId": message_id}, event)
