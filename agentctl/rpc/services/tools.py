"""Owns the Tools service: the tools of a session, as its agent tells them and as it was seen to use them.

Nothing is started for it. Invoke is not served: no agent lets others use its tools.
"""

from contextlib import aclosing

import orjson

from agentctl import v1
from agentctl.core.toolspace import Observed, SessionTool, tools_of
from agentctl.core.words import EventType, ToolKind
from agentctl.rpc.calls import Context
from agentctl.rpc.enums import words
from agentctl.rpc.history import read
from agentctl.rpc.pages import fitted
from agentctl.rpc.ports import HubApi
from agentctl.rpc.records import enum_number
from agentctl.rpc.requests import need, page_of
from agentctl.session.api import ManagerApi

# A schema that is larger than this is told by its summary alone: a page must fit into an answer.
SCHEMA_BYTES = 64 << 10

_TYPES = frozenset(
    {
        EventType.TOOL_CALL,
        EventType.TOOL_UPDATE,
        EventType.PERMISSION_REQUEST,
        EventType.SESSION_OPTIONS,
    }
)


class ToolsService:
    """The tools that a session's agent has."""

    def __init__(self, manager: ManagerApi, hub: HubApi) -> None:
        self._manager = manager
        self._hub = hub

    async def list(self, request: v1.ListToolsRequest, context: Context) -> v1.ListToolsResponse:
        told = await self._manager.session_tools(need(request.session_id, "session_id"))
        seen, servers = Observed(), set[str]()
        wanted = frozenset({told.session_id})
        async with aclosing(read(self._hub, sessions=wanted, types=_TYPES)) as pieces:
            async for piece in pieces:
                for event in piece.events:
                    _take(event, seen, servers)
        rows = tools_of(told.offers, seen.tools, told.stand, servers)
        page, token = page_of(
            rows, lambda row: row.offer.name, request.page_size, request.page_token
        )
        tools, token = await fitted(map(_message, page), token, lambda tool: tool.name)
        return v1.ListToolsResponse(tools=tools, next_page_token=token)


def _take(event: v1.AgentEvent, seen: Observed, servers: set[str]) -> None:
    match event.WhichOneof("payload"):
        case "tool_call":
            call = event.tool_call
            seen.called(call.tool_call_id, call.name or None, _kind(call.kind))
        case "tool_update" if event.tool_update.HasField("name"):
            update = event.tool_update
            seen.called(update.tool_call_id, update.name, _kind(update.kind))
        case "permission_request":
            asked = event.permission_request
            seen.asked(asked.tool_call_id or None, asked.tool_name or None)
        case "session_options" if event.session_options.HasField("mcp_servers"):
            servers |= {each.name for each in event.session_options.mcp_servers.items}
        case _:
            pass


def _kind(number: int) -> ToolKind | None:
    word = words(v1.ToolKind.DESCRIPTOR).get(number)
    return None if word is None else ToolKind(word)


def _message(row: SessionTool) -> v1.Tool:
    offer = row.offer
    schema = None if offer.input_schema is None else orjson.dumps(offer.input_schema, default=str)
    return v1.Tool(
        name=offer.name,
        title=offer.title or None,
        description=offer.description or None,
        kind=enum_number(v1.ToolKind, offer.kind),
        source=enum_number(v1.ToolSource, offer.source),
        requires_approval=row.requires_approval,
        input_schema_json=schema if schema and len(schema) <= SCHEMA_BYTES else None,
        server=offer.server or None,
        access=enum_number(v1.ToolAccess, row.access),
        hidden=offer.hidden,
        runtimes=row.runtimes,
        schema_summary=row.schema_summary,
        calls=row.calls,
    )
