"""Owns the folding of a session's events into whole things: prompts, messages, tools, approvals.

Pure: events of the wire in, whole ones out. It refuses to know where they come from and how they
are shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from agentctl import v1
from agentctl.core.words import EventType

_TYPE = {kind: v1.EventType.Value(f"EVENT_TYPE_{kind.name}") for kind in EventType}
_SPOKEN = frozenset({EventType.MESSAGE, EventType.MESSAGE_CHUNK})
TYPES = frozenset(EventType) - {EventType.LOG, EventType.AGENT_STATUS, EventType.SESSION_OPTIONS}
"""What a fold needs to see."""

MESSAGE_TYPES = frozenset(
    {
        EventType.RUN_STATUS,
        EventType.MESSAGE,
        EventType.MESSAGE_CHUNK,
        EventType.REASONING,
        EventType.TOOL_CALL,
        EventType.TOOL_UPDATE,
        EventType.FILE_CHANGE,
        EventType.COMPLETE,
    }
)
"""What a fold for Messages needs to see."""

Key = tuple[str, str]


@dataclass(slots=True)
class Item:
    """One thing of a conversation. `event` is whole: a message has all its text.

    `place` is the seq of its first event, which names it. `end` is what came of a request; `output`,
    `exit_code` and `error` are of a tool.
    """

    place: int
    event: v1.AgentEvent
    end: v1.AgentEvent | None = None
    output: str = ""
    exit_code: int | None = None
    error: str = ""
    background: bool = False
    retracted: bool = False
    _pieces: list[str] = field(default_factory=list[str])

    @property
    def kind(self) -> str:
        return self.event.WhichOneof("payload") or ""

    @property
    def role(self) -> int:
        """The number of the role of a message; 0 for all else."""
        return int(self.event.message.role) if self.kind == "message" else 0

    def say(self, text: str) -> None:
        if text:
            self._pieces.append(text)

    def settle(self) -> None:
        """Puts the pieces of text that came into the event."""
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        if self.kind == "reasoning":
            self.event.reasoning.text += text
        else:
            self.event.message.content.append(
                v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text=text)
            )

    def replace(self) -> None:
        """Forgets the text so far: the whole of it follows."""
        self._pieces.clear()
        self.event.message.ClearField("content")


@dataclass(slots=True)
class Facts:
    """What came of one run, told with the last message of its answer."""

    files: dict[str, None] = field(default_factory=dict[str, None])
    command: str = ""
    tokens: int | None = None


def tokens_of(usage: v1.Usage) -> int | None:
    """All tokens: the total as told, else what was sent and made; None when neither was told."""
    if usage.HasField("total"):
        return usage.total
    told = [
        getattr(usage, name)
        for name in ("input", "output")
        if usage.HasField(name)  # pyright: ignore[reportArgumentType]  names of fields
    ]
    return sum(told) if told else None


class Conversation:
    """Folds the events of one session. A prompt stands where its run started."""

    def __init__(self) -> None:
        self.facts: dict[str, Facts] = {}
        self._items: list[Item] = []
        self._open: dict[Key, Item] = {}
        self._waiting: dict[str, Item] = {}

    def feed(self, event: v1.AgentEvent) -> None:
        run = event.run_id or event.after_run_id
        match event.WhichOneof("payload"):
            case "run_status":
                self._run(event)
            case "message_chunk" | "message" | "reasoning":
                self._text(event, run)
            case "tool_call" | "tool_update":
                self._tool(event, run)
            case "file_change":
                self._facts(run).files[event.file_change.path] = None
                self._add(Item(event.seq, event))
            case "permission_request":
                self._add(Item(event.seq, event), ("apr", event.permission_request.approval_id))
            case "permission_resolved":
                self._ended(event, ("apr", event.permission_resolved.approval_id))
            case "question_request":
                self._add(Item(event.seq, event), ("qst", event.question_request.question_id))
            case "question_resolved":
                self._ended(event, ("qst", event.question_resolved.question_id))
            case "complete":
                self._start(event.run_id)
                self._facts(run).tokens = tokens_of(event.complete.usage)
                self._add(Item(event.seq, event))
            case "error" | "rate_limit":
                self._add(Item(event.seq, event))
            case _:
                pass

    def take(self) -> list[Item]:
        """The items so far; what comes later makes new ones. For use between runs."""
        items, self._items = self._items, []
        self._open.clear()
        self.facts.clear()
        return _whole(items)

    def all(self) -> list[Item]:
        """Everything that is still here, prompts that wait for their turn at the end."""
        return _whole([*self._items, *self._waiting.values()])

    def _facts(self, run: str) -> Facts:
        return self.facts.setdefault(run, Facts())

    def _add(self, item: Item, key: Key | None = None) -> Item:
        self._items.append(item)
        if key is not None:
            self._open[key] = item
        return item

    def _ended(self, event: v1.AgentEvent, key: Key) -> None:
        item = self._open.pop(key, None) or self._add(Item(event.seq, event))
        item.end = event

    def _run(self, event: v1.AgentEvent) -> None:
        status = event.run_status
        if status.status == v1.RunChange.RUN_CHANGE_CREATED and status.HasField("prompt"):
            message = v1.Message(
                message_id=event.run_id, role=v1.Role.ROLE_USER, content=status.prompt.items
            )
            if message.content:
                self._waiting[event.run_id] = Item(event.seq, _as(event, message=message))
        elif status.status == v1.RunChange.RUN_CHANGE_STARTED:
            self._start(event.run_id)

    def _start(self, run: str) -> None:
        prompt = self._waiting.pop(run, None)
        if prompt is not None:
            self._items.append(prompt)

    def _text(self, event: v1.AgentEvent, run: str) -> None:
        kind = event.WhichOneof("payload")
        told = getattr(event, kind or "")
        key = ("think" if kind == "reasoning" else "text", f"{run} {told.message_id}")
        item = self._open.get(key)
        if item is None:
            blank = (
                {"reasoning": v1.Reasoning(message_id=told.message_id)}
                if kind == "reasoning"
                else {"message": v1.Message(message_id=told.message_id, role=told.role)}
            )
            item = self._add(Item(event.seq, _as(event, **blank)), key)
        match kind:
            case "message_chunk":
                if told.HasField("content"):
                    item.settle()
                    item.event.message.content.append(told.content)
                item.say(told.text)
            case "message":
                item.replace()
                item.retracted = told.retracted
                item.event.message.content.extend(told.content)
            case _:
                if told.whole:
                    item.settle()
                    item.event.reasoning.text = ""
                item.retracted = told.retracted
                item.say(told.text)

    def _tool(self, event: v1.AgentEvent, run: str) -> None:
        started = event.HasField("tool_call")
        told = event.tool_call if started else event.tool_update
        key = ("tool", told.tool_call_id)
        item = self._open.get(key)
        if started and item is not None and (item.event.run_id or run) != run:
            item = None
        if item is None:
            blank = v1.ToolCall(tool_call_id=told.tool_call_id)
            item = self._add(Item(event.seq, _as(event, tool_call=blank)), key)
        if started:
            item.event.tool_call.MergeFrom(event.tool_call)
        else:
            _update(item, event.tool_update)
        if item.event.tool_call.kind == v1.ToolKind.TOOL_KIND_EXECUTE:
            card = item.event.tool_call
            self._facts(run).command = card.command or card.title or self._facts(run).command


def _update(item: Item, told: v1.ToolUpdate) -> None:
    card = item.event.tool_call
    for name in ("status", "name", "title", "kind", "input_json", "command"):
        if told.HasField(name):
            setattr(card, name, getattr(told, name))
    for name in ("locations", "paths"):
        if told.HasField(name):
            card.ClearField(name)
            getattr(card, name).extend(getattr(told, name).items)
    if told.HasField("output_replace"):
        item.output = told.output_replace
    if told.HasField("output_delta"):
        item.output += told.output_delta
    if told.HasField("content") and not item.output:
        item.output = "\n".join(each.text for each in told.content.items if each.text)
    if told.HasField("exit_code"):
        item.exit_code = told.exit_code
    item.error = told.error or item.error
    item.background = item.background or told.background


def _as(event: v1.AgentEvent, **payload: object) -> v1.AgentEvent:
    """An event of the same envelope without a place in the journal."""
    made = v1.AgentEvent(version=event.version, ts=event.ts, **payload)  # pyright: ignore[reportArgumentType]  one payload by its name
    made.type = _TYPE[EventType(made.WhichOneof("payload") or "")]
    for name in ("agent_id", "session_id", "session_key", "run_id", "after_run_id"):
        if event.HasField(name):
            setattr(made, name, getattr(event, name))
    if event.HasField("parent_tool_call_id"):
        made.parent_tool_call_id = event.parent_tool_call_id
    return made


def _whole(items: Sequence[Item]) -> list[Item]:
    kept: list[Item] = []
    for item in items:
        item.settle()
        if not item.retracted and _says(item.event):
            kept.append(item)
    return kept


def _says(event: v1.AgentEvent) -> bool:
    return bool(event.message.content) if event.HasField("message") else True


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a conversation in its order. `before` names the page before it, 0 when none is."""

    items: Sequence[Item]
    before: int
    total: int


def page(
    items: Sequence[Item],
    *,
    limit: int,
    before: int | None = None,
    role: int | None = None,
    since: int | None = None,
) -> Page:
    """The newest `limit` messages, with the reasoning and tools between them unless a role is asked.

    Args:
        items: a whole conversation.
        limit: at most so many messages.
        before: only what stands before the item of this place.
        role: only messages of this role.
        since: only what began at or after this Unix ms.
    """
    fit = [each for each in items if _fits(each, role, since)]
    total = sum(each.kind == "message" for each in fit)
    if before is not None:
        places = [each.place for each in fit]
        at = places.index(before) if before in places else None
        fit = fit[:at] if at is not None else [each for each in fit if each.place < before]
    start, left = len(fit), limit
    while start and (left or fit[start - 1].kind != "message"):
        start -= 1
        left -= fit[start].kind == "message"
    return Page(fit[start:], fit[start].place if start else 0, total)


def _fits(item: Item, role: int | None, since: int | None) -> bool:
    if item.event.parent_tool_call_id or (since is not None and item.event.ts < since):
        return False
    if role is not None:
        return item.role == role
    return item.kind in ("message", "reasoning", "tool_call")


def events_of(item: Item) -> Iterator[v1.AgentEvent]:
    """A thing as events: a tool is its card, and an update with what it gave."""
    yield item.event
    if item.kind != "tool_call":
        return
    card = item.event.tool_call
    update = v1.ToolUpdate(tool_call_id=card.tool_call_id, status=card.status)
    if item.output:
        update.output_replace = item.output
    if item.exit_code is not None:
        update.exit_code = item.exit_code
    if item.error:
        update.error = item.error
    yield _as(item.event, tool_update=update)


def metadata(
    items: Sequence[Item], shown: Sequence[Item], facts: dict[str, Facts]
) -> list[v1.MessageMetadata]:
    """What came of the runs of a conversation whose last message of the assistant is shown."""
    last = {each.event.run_id: each for each in items if each.role == v1.Role.ROLE_ASSISTANT}
    places = {each.place for each in shown}
    return [
        v1.MessageMetadata(
            message_id=item.event.message.message_id,
            run_id=run,
            files_changed=list(told.files),
            command_run=told.command or None,
            tokens_used=told.tokens,
        )
        for run, item in last.items()
        if item.place in places
        and (told := facts.get(run))
        and (told.files or told.command or told.tokens is not None)
    ]
