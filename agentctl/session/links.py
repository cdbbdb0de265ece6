"""Owns the pull requests that an agent names: found as its words and outputs pass, told as `git`.

It refuses to know where events go, and what a pull request holds.
"""

from collections.abc import Callable, Sequence

from agentctl.core.events import Event, Git, Message, MessageChunk, ToolCall, ToolUpdate
from agentctl.core.parts import ContentBlock
from agentctl.core.words import FINAL_TOOL, Role, ToolKind
from agentctl.session.writes import Writes
from agentctl.workspace.pullrequests import MAY_BEGIN, PullRequests

MAX_TOLD = 100
"""Of one session: more is a list that the agent reads, not work that it did."""

# What these show is what others wrote.
_READING = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK, ToolKind.TODO})

Say = Callable[[Sequence[Event], Writes], None]


class Links:
    """One session's pull requests; each address is told once."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._found = PullRequests()
        self._held = self._found.held
        self._reading: set[str] = set()
        self._left = MAX_TOLD

    def chunk(self, event: Event, payload: MessageChunk, writes: Writes) -> None:
        text = payload.text
        if not text or ("://" not in text and text[-1] not in MAY_BEGIN and not self._held):
            return
        if payload.role is Role.ASSISTANT and (urls := self._found.feed(payload.message_id, text)):
            self._tell(urls, event, writes)

    def message(self, event: Event, writes: Writes) -> None:
        payload = event.payload
        assert isinstance(payload, Message)
        if payload.role is Role.ASSISTANT:
            self._whole(payload.message_id, payload.content, event, writes)
            self._end(payload.message_id, event, writes)

    def tool(self, event: Event, payload: ToolCall | ToolUpdate, writes: Writes) -> bool:
        """Looks into what a tool shows; whether that tool only reads."""
        tool = payload.tool_call_id
        if payload.kind in _READING:
            self._reading.add(tool)
        reads = tool in self._reading
        if isinstance(payload, ToolUpdate) and not reads:
            if payload.output_delta and (urls := self._found.feed(tool, payload.output_delta)):
                self._tell(urls, event, writes)
            if payload.output_replace:
                self._found.drop(tool)
                self._tell(self._found.feed(tool, payload.output_replace), event, writes)
            if payload.content:
                self._whole(tool, payload.content, event, writes)
        if payload.status in FINAL_TOOL:
            self._reading.discard(tool)
            self._end(tool, event, writes)
        return reads

    def flush(
        self, writes: Writes, *, run_id: str | None = None, after_run_id: str | None = None
    ) -> None:
        """All texts are at their end: what was held may be an address."""
        if urls := self._found.flush():
            self._tell(urls, Event(Git(), run_id=run_id, after_run_id=after_run_id), writes)

    def _whole(
        self, source: str, content: Sequence[ContentBlock], event: Event, writes: Writes
    ) -> None:
        for block in content:
            if block.text:
                self._found.drop(source)
                self._tell(self._found.feed(source, block.text), event, writes)

    def _end(self, source: str, event: Event, writes: Writes) -> None:
        if urls := self._found.flush(source):
            self._tell(urls, event, writes)

    def _tell(self, urls: Sequence[str], event: Event, writes: Writes) -> None:
        told = urls[: self._left]
        if not told:
            return
        self._left -= len(told)
        said = [
            Event(
                Git(pull_request_url=url),
                run_id=event.run_id,
                after_run_id=event.after_run_id,
                parent_tool_call_id=event.parent_tool_call_id,
            )
            for url in told
        ]
        self._say(said, writes)
