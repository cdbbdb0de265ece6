"""What real agents said, through our events, as an ACP client is told it: valid, whole, in order, once."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from acp import schema

from agentctl.core.events import (
    Event,
    Message,
    MessageChunk,
    PermissionRequest,
    QuestionRequest,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.replay import Replayer, frame_of
from agentctl.core.words import FINAL_TOOL, Role
from agentctl.gateway.acp import asks
from agentctl.gateway.acp.errors import Json
from agentctl.gateway.acp.options import Offers
from agentctl.gateway.acp.translate import Translator
from agentctl_adapters.acp.translate import AcpTranslator
from agentctl_adapters.claude.translate import ClaudeTranslator
from agentctl_adapters.codex.translate import CodexTranslator
from agentctl_adapters.opencode.translate import OpenCodeTranslator
from tests.gateway.acp.client import conforms, model_of
from tests.replaying import TRANSCRIPTS, lines_of

pytestmark = pytest.mark.proves("GA2")


KINDS = {
    "claude": ClaudeTranslator,
    "codex": CodexTranslator,
    "opencode": OpenCodeTranslator,
}
PATHS = [path for path in sorted(TRANSCRIPTS.glob("*/*.jsonl")) if path.parent.name != "golden"]
every = pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")


def replayed(path: Path) -> list[Event]:
    replayer = Replayer(KINDS.get(path.parent.name, AcpTranslator)())
    events: list[Event] = []
    for line in lines_of(path):
        if (frame := frame_of(line)) is not None:
            events += replayer.feed(line["t"], frame)
    return events + replayer.finish()


def sessions_of(path: Path) -> list[list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in replayed(path):
        if event.session_id is not None:
            found.setdefault(event.session_id, []).append(event)
    return list(found.values())


def told(events: Sequence[Event]) -> list[Json]:
    """Every update and request of a session, each checked by the schema."""
    translator = Translator(Offers(booleans=True))
    updates: list[Json] = []
    for event in events:
        for update in translator.feed(event):
            conforms(schema.SessionNotification, {"sessionId": "s", "update": update})
            updates.append(update)
        ask: asks.Ask | None = None
        match event.payload:
            case PermissionRequest() as payload:
                card = translator.tools.card(payload.tool_call_id or "")
                ask = asks.permission("s", payload, card.shown if card is not None else {})
            case QuestionRequest() as payload:
                ask = asks.question("s", payload, form=True, url=True)
                assert ask is not None
            case _:
                pass
        if ask is not None:
            conforms(model_of({"method": ask.method, "params": ask.params}), ask.params)
    return updates + translator.flush()


def spoken(events: Sequence[Event]) -> str:
    """The assistant's words: chunks, and what a whole message adds to them."""
    text = ""
    chunks: dict[tuple[str | None, str], str] = {}
    for event in events:
        match event.payload:
            case MessageChunk(role=Role.ASSISTANT, message_id=own, text=str(piece)):
                key = (event.run_id or event.after_run_id, own)
                chunks[key] = chunks.get(key, "") + piece
                text += piece
            case Message(role=Role.ASSISTANT, message_id=own, content=content, retracted=None):
                whole = "".join(each.text or "" for each in content)
                before = chunks.get((event.run_id or event.after_run_id, own), "")
                text += whole.removeprefix(before)
            case _:
                pass
    return text


@every
def test_all_that_an_agent_said_is_told_and_conforms(path: Path) -> None:
    for events in sessions_of(path):
        updates = told(events)
        words = [
            each["content"]["text"]
            for each in updates
            if each["sessionUpdate"] == "agent_message_chunk" and each["content"]["type"] == "text"
        ]
        assert "".join(words) == spoken(events)


@every
def test_every_tool_is_opened_before_it_is_updated_and_reaches_its_end(path: Path) -> None:
    for events in sessions_of(path):
        last: dict[str, str] = {}
        for update in told(events):
            own = update.get("toolCallId", "")
            if update["sessionUpdate"] == "tool_call_update":
                assert own in last, own
            if "status" in update:
                last[own] = update["status"]
        ends: dict[str, bool] = {}
        for event in events:
            if isinstance(event.payload, ToolCall | ToolUpdate) and event.payload.status:
                ends[event.payload.tool_call_id] = event.payload.status in FINAL_TOOL
        assert {
            own: end in ("completed", "failed") for own, end in last.items() if own in ends
        } == ends
