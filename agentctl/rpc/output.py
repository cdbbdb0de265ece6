"""Owns what the assistant said in a run, put together from the events of the run in the journal.

The folding of chunks into messages is `conversation`'s; here is what of it is an answer: neither a
prompt, nor what a subagent said, nor what came after the end.
"""

from contextlib import aclosing

import anyio.lowlevel

from agentctl import v1
from agentctl.core.limits import EVENT_BYTES, TEXT_BYTES, tail
from agentctl.core.words import EventType
from agentctl.rpc.conversation import Conversation, Item
from agentctl.rpc.history import portions, read
from agentctl.rpc.ports import HubApi

OUTPUT_BYTES = EVENT_BYTES
"""Of all messages together: as much as one event may have."""

_TYPES = frozenset({EventType.MESSAGE, EventType.MESSAGE_CHUNK})
_TEXT = v1.ContentType.CONTENT_TYPE_TEXT


async def output_of(hub: HubApi, run_id: str) -> v1.RunOutput:
    """The answer of a run, as far as the journal has it."""
    fold = Conversation()
    async with aclosing(read(hub, runs=frozenset({run_id}), types=_TYPES)) as pieces:
        async for piece in pieces:
            for events in portions(piece.events):
                for event in events:
                    fold.feed(event)
                await anyio.lowlevel.checkpoint()
    return answer(fold.all())


def answer(items: list[Item]) -> v1.RunOutput:
    """What of a conversation the assistant said: the newest messages that fit, in order."""
    said = [
        item.event.message
        for item in items
        if item.role == v1.Role.ROLE_ASSISTANT and not item.event.parent_tool_call_id
    ]
    if not said:
        return v1.RunOutput()
    whole = text_of(said[-1])
    text = tail(whole, TEXT_BYTES)
    output = v1.RunOutput(text=text)
    kept: list[v1.Message] = []
    room = OUTPUT_BYTES
    for message in reversed(said):
        room -= message.ByteSize()
        if room < 0:
            break
        kept.append(message)
    if not kept:
        block = v1.ContentBlock(type=_TEXT, text=text, truncated=True)
        last = v1.Message(message_id=said[-1].message_id, role=said[-1].role, content=[block])
        kept.append(last)
        output.truncated = True
    output.messages.extend(reversed(kept))
    if len(kept) < len(said) or len(text) < len(whole):
        output.truncated = True
    return output


def text_of(message: v1.Message) -> str:
    """The text of a message, without its images and files."""
    return "".join(each.text for each in message.content)
