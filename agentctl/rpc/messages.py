"""Owns a page of a conversation as the journal has it, for agents that keep no history to ask for."""

from collections.abc import Sequence
from contextlib import aclosing

import anyio.lowlevel
from google.protobuf.message import Message

from agentctl import v1
from agentctl.core.errors import Invalid
from agentctl.rpc.conversation import MESSAGE_TYPES, Conversation, events_of, metadata, page
from agentctl.rpc.history import portions, read
from agentctl.rpc.pages import ANSWER_BYTES
from agentctl.rpc.ports import HubApi

PLACE = "journal:"
"""How a page token of ours begins; others are the agent's own."""

BAD_TOKEN = "page_token is none of this session: begin again without one."


async def journalled(
    hub: HubApi, session_id: str, request: v1.MessagesRequest, size: int
) -> v1.MessagesResponse:
    """The newest messages that fit the request, or those before its page token.

    Raises:
        Invalid: the page token is malformed.
    """
    before = _place(request.page_token)
    fold = Conversation()
    sessions = frozenset({session_id})
    async with aclosing(read(hub, sessions=sessions, types=MESSAGE_TYPES)) as pieces:
        async for piece in pieces:
            for events in portions(piece.events):
                for event in events:
                    fold.feed(event)
                await anyio.lowlevel.checkpoint()
    items = fold.all()
    found = page(
        items,
        limit=size,
        before=before,
        role=request.role if request.HasField("role") and request.role else None,
        since=request.since if request.HasField("since") else None,
    )
    shown, earlier = list(found.items), found.before
    rows = [list(events_of(each)) for each in shown]
    sizes = [sum(event.ByteSize() for event in row) for row in rows]
    while len(shown) > 1 and sum(sizes) > ANSWER_BYTES:
        del shown[0], rows[0], sizes[0]
        earlier = shown[0].place
    told = [event for row in rows for event in row]
    return v1.MessagesResponse(
        truncated=shorten(told),
        events=told,
        next_page_token=f"{PLACE}{earlier}" if earlier else "",
        metadata=metadata(items, shown, fold.facts),
        total=found.total,
    )


def shorten(events: Sequence[v1.AgentEvent]) -> list[str]:
    """Cuts the longest texts until all fits into one answer; the ids of what was cut."""
    sizes = [event.ByteSize() for event in events]
    over = sum(sizes) - ANSWER_BYTES
    # One long text of many must not pay for all.
    least = ANSWER_BYTES // (2 * max(len(events), 1))
    cut: list[str] = []
    for _, event in sorted(zip(sizes, events, strict=True), key=lambda each: -each[0]):
        if over <= 0:
            break
        payload = event.message if event.HasField("message") else None
        if payload is not None:
            for block in payload.content:
                over -= _cut(block, "text", over, least)
            cut.append(payload.message_id)
        elif event.HasField("reasoning"):
            over -= _cut(event.reasoning, "text", over, least)
            cut.append(event.reasoning.message_id)
        elif event.HasField("tool_update"):
            over -= _cut(event.tool_update, "output_replace", over, least)
            event.tool_update.truncated = True
            cut.append(event.tool_update.tool_call_id)
    return cut


def _cut(holder: Message, field: str, over: int, least: int) -> int:
    """Leaves the beginning of a text; how many bytes went."""
    data = str(getattr(holder, field)).encode()
    if over <= 0 or not data:
        return 0
    kept = data[: max(len(data) - over, least)]
    setattr(holder, field, kept.decode(errors="ignore"))
    return len(data) - len(kept)


def _place(token: str) -> int | None:
    if not token:
        return None
    place = token.removeprefix(PLACE)
    if not place.isdecimal() or len(place) > 19:
        raise Invalid(BAD_TOKEN, metadata={"field": "page_token"})
    return int(place)
