"""A Claude Code conversation written by hand: the other half of a test's sentence."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from agentctl.core.adapter import Frame
from agentctl.core.events import Complete, Event, Message, MessageChunk
from agentctl.core.replay import Replayer, frame_of
from agentctl.core.words import Role
from agentctl_adapters.claude.translate import ClaudeTranslator

Line = dict[str, Any]
SESSION = "00000000-0000-4000-8000-000000000000"


def replayed(lines: Iterable[Line]) -> list[Event]:
    """The events of a transcript."""
    replayer = Replayer(ClaudeTranslator())
    events: list[Event] = []
    for line in lines:
        frame = frame_of(line)
        if frame is not None:
            events += replayer.feed(line["t"], frame)
    return events + replayer.finish()


def shown(events: Sequence[Event]) -> str:
    """The assistant's text as a reader has it at the end, subagents left out."""
    parts: dict[str, str] = {}
    for event in events:
        if event.parent_tool_call_id is not None:
            continue
        match event.payload:
            case MessageChunk(message_id=own, role=Role.ASSISTANT, text=str(text)):
                parts[own] = parts.get(own, "") + text
            case Message(message_id=own, content=content, retracted=retracted):
                parts[own] = "" if retracted else "".join(block.text or "" for block in content)
            case _:
                pass
    return "".join(parts.values())


class Talk:
    """Frames in, events out; uuids and ids are made in order."""

    def __init__(self, **init: Any) -> None:
        self.replayer = Replayer(ClaudeTranslator())
        self.events: list[Event] = []
        self._init = init
        self._numbers = count(1)

    def frame(self, frame: Frame) -> list[Event]:
        events = self.replayer.feed(next(self._numbers), frame)
        self.events += events
        return events

    def send(self, **message: Any) -> list[Event]:
        return self.frame(Frame("to_agent", message))

    def hear(self, kind: str, **fields: Any) -> list[Event]:
        number = next(self._numbers)
        frame = {"type": kind, "session_id": SESSION, "uuid": f"frame-{number}", **fields}
        return self.frame(Frame("from_agent", frame))

    def system(self, subtype: str, **fields: Any) -> list[Event]:
        return self.hear("system", subtype=subtype, **fields)

    def ask_control(self, subtype: str, **fields: Any) -> str:
        """A control request of ours; its id."""
        own = f"ours-{next(self._numbers)}"
        request = {"subtype": subtype, **fields}
        self.send(type="control_request", request_id=own, request=request)
        return own

    def reply(self, own: str, **response: Any) -> list[Event]:
        inner = {"subtype": "success", "request_id": own, "response": response}
        return self.hear("control_response", response=inner)

    def prompt(self, words: str = "hi", uuid: str = "") -> str:
        """Our line; the uuid that names its turn."""
        uuid = uuid or f"prompt-{next(self._numbers)}"
        message = {"role": "user", "content": words}
        self.send(type="user", message=message, uuid=uuid)
        return uuid

    def init(self, *uuids: str, **fields: Any) -> list[Event]:
        named = {"user_message_uuids": list(uuids)} if uuids else {}
        told = {"model": "m", "apiKeySource": "ANTHROPIC_API_KEY", "cwd": "/code"}
        return self.system("init", **{**told, **self._init, **named, **fields})

    def begin(self, words: str = "hi") -> str:
        """A prompt whose turn has begun."""
        uuid = self.prompt(words)
        self.hear("command_lifecycle", command_uuid=uuid, state="started")
        self.init(uuid)
        return uuid

    def end(self, *uuids: str, **fields: Any) -> list[Event]:
        named = {"user_message_uuids": list(uuids)} if uuids else {}
        how = {"subtype": "success", "is_error": False, "terminal_reason": "completed"}
        return self.hear("result", **{**how, "stop_reason": "end_turn", **named, **fields})

    def event(self, kind: str, answer: str = "msg", **fields: Any) -> list[Event]:
        event = {"type": kind, **fields}
        return self.hear("stream_event", event=event, api_message_id=answer)

    def delta(self, text: str, answer: str = "msg", index: int = 0) -> list[Event]:
        delta = {"type": "text_delta", "text": text}
        return self.event("content_block_delta", answer, index=index, delta=delta)

    def block(self, block: Line, answer: str = "msg", **fields: Any) -> list[Event]:
        """An `assistant` frame."""
        return self.hear("assistant", message={"id": answer, "content": [block]}, **fields)

    def text(self, text: str, answer: str = "msg", **fields: Any) -> list[Event]:
        return self.block({"type": "text", "text": text}, answer, **fields)

    def tool(
        self, own: str = "t1", name: str = "Bash", parent: str | None = None, **source: Any
    ) -> list[Event]:
        block = {"type": "tool_use", "id": own, "name": name, "input": source}
        return self.block(block, f"of-{own}", parent_tool_use_id=parent)

    def result(
        self, own: str = "t1", content: Any = "", told: Any = None, **more: Any
    ) -> list[Event]:
        parent = more.pop("parent", None)
        meta = more.pop("meta", None)
        block = {"type": "tool_result", "tool_use_id": own, "content": content, **more}
        return self.hear(
            "user",
            message={"role": "user", "content": [block]},
            tool_use_result=told,
            tool_result_meta=[{"id": own, **meta}] if meta else None,
            parent_tool_use_id=parent,
        )

    def leave(
        self, own: str, name: str = "Bash", request: str = "r1", **fields: Any
    ) -> list[Event]:
        """The agent asks for leave for a tool."""
        source = fields.pop("input", {"command": "ls"})
        asked = {"subtype": "can_use_tool", "tool_name": name, "tool_use_id": own, "input": source}
        whole = {"type": "control_request", "request_id": request, "request": {**asked, **fields}}
        return self.frame(Frame("from_agent", whole))

    def answer(self, request: str = "r1", **response: Any) -> list[Event]:
        inner = {"subtype": "success", "request_id": request, "response": response}
        return self.send(type="control_response", response=inner)

    def finish(self) -> list[Event]:
        events = self.replayer.finish()
        self.events += events
        return events

    @property
    def ends(self) -> list[Complete]:
        return [e.payload for e in self.events if isinstance(e.payload, Complete)]
