"""Owns the normal form of a stream: the words that every agent gives for one story. Pure.

What depends on an agent's taste is left out, so that what is left can be compared:

- events of `OPTIONAL` types, recoverable errors, and what a subagent did;
- what an agent says late (`after_run_id`), and requests outside any run;
- session_status other than created, resumed, forked, interrupted, failed and closed;
- a tool's way to its end (`tool_update` without a final status);
- the end of a tool whose request was denied or cancelled: agents call it failed or cancelled, and tell
  it at once, with the turn's end or never. A completed one stays: it ran against the user's word;
- the card of the tool through which an agent asks a question: to the user that is the question;
- messages of the user or the system, retracted messages, and messages of white space alone.

Consecutive chunks, and the message that replaces them, are one `message`.
"""

from collections.abc import Iterable, Iterator, Sequence

from agentctl.core.events import (
    Complete,
    Error,
    Event,
    Message,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    RunStatus,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.words import FINAL_TOOL, Decision, EventType, Role, SessionChange, ToolStatus

OPTIONAL = frozenset(
    {
        EventType.AGENT_STATUS,
        EventType.SESSION_OPTIONS,
        EventType.CONTEXT_WINDOW,
        EventType.REASONING,
        EventType.PLAN,
        EventType.TASK,
        EventType.FILE_CHANGE,
        EventType.ARTIFACT,
        EventType.GIT,
        EventType.RATE_LIMIT,
        EventType.LOG,
    }
)
"""Types that an agent may send or not; where they stand between chunks they part no message."""

SESSION_WORDS = frozenset(
    {
        SessionChange.CREATED,
        SessionChange.RESUMED,
        SessionChange.FORKED,
        SessionChange.INTERRUPTED,
        SessionChange.FAILED,
        SessionChange.CLOSED,
    }
)
MESSAGE = "message"


def normalised(events: Sequence[Event]) -> list[str]:
    """The words of a session's events: `type`, or `type:word` where the payload has a deciding word."""
    told = _Told(events)
    out: list[str] = []
    for event in events:
        outside = event.run_id is None and event.type is not EventType.SESSION_STATUS
        if outside or event.parent_tool_call_id is not None:
            continue
        for word in told.words(event):
            if word != MESSAGE or not out or out[-1] != MESSAGE:
                out.append(word)
    return out


def spoken(events: Iterable[Event], run_id: str) -> str:
    """The assistant's text of a run: its chunks, or the messages that replaced them."""
    texts: dict[str, str] = {}
    for event in events:
        if event.run_id != run_id or event.parent_tool_call_id is not None:
            continue
        match event.payload:
            case MessageChunk(role=Role.ASSISTANT) as chunk:
                texts[chunk.message_id] = texts.get(chunk.message_id, "") + (chunk.text or "")
            case Message(role=Role.ASSISTANT) as whole:
                texts[whole.message_id] = _text(whole)
            case _:
                pass
    return "".join(texts.values())


def _text(payload: MessageChunk | Message) -> str:
    if isinstance(payload, MessageChunk):
        return payload.text or ""
    return "".join(block.text or "" for block in payload.content)


class _Told:
    """What has to be known of the whole stream before one event becomes words."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._asking: set[str] = set()
        self._retracted: set[str] = set()
        self._refused: set[str] = set()
        self._texts: dict[tuple[str, str], str] = {}
        tool_of: dict[str, str | None] = {}
        for event in events:
            match event.payload:
                case QuestionRequest(tool_call_id=str(tool)):
                    self._asking.add(tool)
                case PermissionRequest() as asked:
                    tool_of[asked.approval_id] = asked.tool_call_id
                case PermissionResolved() as answer if answer.decision is not Decision.APPROVED:
                    self._refused.add(tool_of.get(answer.approval_id) or "")
                case MessageChunk() | Message() as said:
                    key = (event.run_id or "", said.message_id)
                    self._texts[key] = self._texts.get(key, "") + _text(said)
                    if isinstance(said, Message) and said.retracted:
                        self._retracted.add(said.message_id)
                case _:
                    pass

    def words(self, event: Event) -> Iterator[str]:
        kind = event.type
        match event.payload:
            case MessageChunk() | Message() as said:
                if self._shown(event.run_id or "", said):
                    yield MESSAGE
            case SessionStatus(status=status):
                if status in SESSION_WORDS:
                    yield f"{kind}:{status}"
            case ToolCall() | ToolUpdate() as tool:
                yield from self._tool(tool)
            case RunStatus(status=word) | PermissionResolved(decision=word):
                yield f"{kind}:{word}"
            case QuestionResolved(outcome=word) | Complete(outcome=word):
                yield f"{kind}:{word}"
            case Error(recoverable=recoverable):
                if not recoverable:
                    yield str(kind)
            case _:
                if kind not in OPTIONAL:
                    yield str(kind)

    def _shown(self, run: str, said: MessageChunk | Message) -> bool:
        own = said.message_id
        shown = said.role is Role.ASSISTANT and own not in self._retracted
        return shown and bool(self._texts[run, own].strip())

    def _tool(self, tool: ToolCall | ToolUpdate) -> Iterator[str]:
        if tool.tool_call_id in self._asking:
            return
        if isinstance(tool, ToolCall):
            yield str(EventType.TOOL_CALL)
        if tool.status in FINAL_TOOL:
            refused = tool.tool_call_id in self._refused
            if not refused or tool.status is ToolStatus.COMPLETED:
                yield f"{EventType.TOOL_UPDATE}:{tool.status}"
