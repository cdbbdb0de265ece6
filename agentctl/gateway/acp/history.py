"""Owns reading a session back for a client that loads it: what it offers, and its conversation.

A session at rest is read as its agent remembers it. One that is busy is read from the journal up to
a cursor, and followed from there: so nothing of the turn under way is lost or told twice.
"""

import logging
from collections.abc import AsyncGenerator, Iterator

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import Invalid
from agentctl.core.events import Event, MessageChunk, SessionOptions, SessionStatus
from agentctl.core.words import Role
from agentctl.gateway.acp.errors import Json
from agentctl.gateway.acp.options import Offers
from agentctl.gateway.acp.translate import Translator
from agentctl.rpc.convert import from_message
from agentctl.rpc.enums import words

logger = logging.getLogger(__name__)

PAGE = 1000
_ROLES = {number: Role(word) for number, word in words(v1.Role.DESCRIPTOR).items()}
_BUSY = (v1.SessionState.SESSION_STATE_ACTIVE, v1.SessionState.SESSION_STATE_AWAITING)


def event_of(message: v1.AgentEvent, session_id: str) -> Event | None:
    """The event, when it is one of this session and of a kind that this version knows."""
    if message.session_id != session_id:
        return None
    match message.WhichOneof("payload"):
        case None:
            return None
        case "message_chunk" if not message.message_chunk.HasField("content"):
            return _said(message)
        case _:
            pass
    try:
        return from_message(message)
    except Invalid as error:
        logger.warning("an event cannot be read: %s", error)
        return None


def _said(message: v1.AgentEvent) -> Event:
    """A piece of text: nine of ten events are, and reading them field by field costs most."""
    told = message.message_chunk
    return Event(
        MessageChunk(told.message_id, _ROLES.get(told.role, Role.SYSTEM), told.text),
        run_id=message.run_id or None,
        after_run_id=message.after_run_id or None,
        parent_tool_call_id=message.parent_tool_call_id or None,
        session_id=message.session_id,
        seq=message.seq,
        ts=message.ts,
    )


def events_of(batch: v1.EventBatch, session_id: str) -> Iterator[Event]:
    for message in batch.events:
        if (event := event_of(message, session_id)) is not None:
            yield event


async def offered(client: AgentCtl, session_id: str, offers: Offers, after: str = "") -> None:
    """Folds all that a session has told of its choices."""
    types = ("session_options", "session_status")
    stream = client.events(after, sessions=[session_id], types=types, follow=False)
    async for message in stream:
        event = event_of(message, session_id)
        match event.payload if event is not None else None:
            case SessionOptions() as options:
                offers.fold(options)
            case SessionStatus() as status:
                offers.fold_status(status)
            case _:
                pass


async def conversation(
    client: AgentCtl, session: v1.Session, translator: Translator
) -> AsyncGenerator[Json | str]:
    """The updates that tell the conversation so far; last the cursor after which to follow."""
    session_id = session.session_id
    if session.state not in _BUSY:
        cursor = (await client.daemon.get_info()).head_cursor
        newest = await _newest_run(client, session_id)
        events = await _messages(client, session_id)
        if await _newest_run(client, session_id) == newest:
            for message in events:
                if (event := event_of(message, session_id)) is not None:
                    for update in translator.feed(event):
                        yield update
            yield cursor
            return
    stream = client.subscribe(sessions=[session_id], follow=False)
    async for batch in stream.batches():
        for event in events_of(batch, session_id):
            for update in translator.feed(event):
                yield update
    for update in translator.flush():
        yield update
    yield stream.cursor


async def _newest_run(client: AgentCtl, session_id: str) -> str:
    runs = (await client.runs.list(session_id=session_id, page_size=1)).runs
    return runs[0].run_id if runs else ""


async def _messages(client: AgentCtl, session_id: str) -> list[v1.AgentEvent]:
    """All pages, oldest first."""
    pages: list[list[v1.AgentEvent]] = []
    token = ""
    while True:
        page = await client.sessions.messages(session_id, page_size=PAGE, page_token=token)
        pages.append(list(page.events))
        token = page.next_page_token
        if not token:
            return [event for each in reversed(pages) for event in each]
