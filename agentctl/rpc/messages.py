"""Owns a page of a conversation as the journal has it, for agents that keep no history to ask for."""

from contextlib import aclosing

import anyio.lowlevel

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
    return v1.MessagesResponse(
        events=[event for row in rows for event in row],
        next_page_token=f"{PLACE}{earlier}" if earlier else "",
        metadata=metadata(items, shown, fold.facts),
        total=found.total,
    )


def _place(token: str) -> int | None:
    if not token:
        return None
    place = token.removeprefix(PLACE)
    if not place.isdecimal() or len(place) > 19:
        raise Invalid(BAD_TOKEN, metadata={"field": "page_token"})
    return int(place)
