"""Owns the first card of a tool call; knows no protocol, and nothing of what comes later."""

from agentctl.core.events import ToolCall, ToolUpdate
from agentctl.core.words import FINAL_TOOL, ToolKind, ToolStatus


def card_of(told: ToolUpdate, status: ToolStatus | None = None) -> ToolCall:
    """The first card; its end, if it has one already, follows as an update."""
    status = status or told.status or ToolStatus.PENDING
    return ToolCall(
        told.tool_call_id,
        name=told.name,
        title=told.title,
        kind=told.kind or ToolKind.OTHER,
        status=ToolStatus.RUNNING if status in FINAL_TOOL else status,
        input_json=told.input_json,
        locations=told.locations or [],
        command=told.command,
        paths=told.paths or [],
    )
