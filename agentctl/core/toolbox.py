"""Owns the tool calls of one session: one card each, merged, closed; knows no protocol.

How a tool that its agent never ended is closed: `cancelled` when its approval was not given or the run
was cancelled or timed out, `failed` when the run failed. When the run completed, nobody knows what the
tool did: `cancelled`, with a sentence that says so; `completed` is the agent's word only.
"""

from collections.abc import Collection

from agentctl.core.events import Event, PermissionRequest, ToolCall, ToolUpdate
from agentctl.core.tools import Tool
from agentctl.core.words import FINAL_TOOL, Outcome, ToolKind, ToolStatus

# Late updates of older tools make a new card; a long session does not keep every tool it ever had.
TOOLS_KEPT = 1000
UNTOLD = "The agent ended its turn without saying how this tool ended."


class Toolbox:
    """Cards by the agent's own id of the call."""

    __slots__ = ("_tools",)

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    @property
    def open_count(self) -> int:
        return sum(tool.open for tool in self._tools.values())

    def call(
        self, call: ToolCall, run_id: str | None, after: str | None, parent: str | None
    ) -> list[Event]:
        """The agent announces a tool; a card that is there already is updated instead."""
        tool = self._tools.get(call.tool_call_id)
        if tool is None or self._is_reused(tool, run_id):
            return [self._card(call, run_id, after, parent)]
        return self._updated(tool, tool.rename(call))

    def update(
        self, update: ToolUpdate, run_id: str | None, after: str | None, parent: str | None
    ) -> list[Event]:
        """The agent says more of a tool, perhaps its first word about it."""
        tool = self._tools.get(update.tool_call_id)
        if tool is not None:
            return self._updated(tool, update)
        status, update.status = update.status, None
        card = ToolCall(
            update.tool_call_id,
            name=update.name,
            title=update.title,
            kind=update.kind or ToolKind.OTHER,
            status=ToolStatus.RUNNING if status in FINAL_TOOL else status or ToolStatus.RUNNING,
            input_json=update.input_json,
            locations=update.locations or [],
            command=update.command,
            paths=update.paths or [],
        )
        events = [self._card(card, run_id, after, parent)]
        update.status = status
        return events + self._updated(self._tools[update.tool_call_id], update)

    def card_of(self, tool_id: str | None) -> ToolCall | None:
        """What is known of a call."""
        tool = self._tools.get(tool_id) if tool_id is not None else None
        return tool.card if tool is not None else None

    def parent_of(self, tool_id: str | None) -> str | None:
        """The call of the subagent that made this one."""
        tool = self._tools.get(tool_id) if tool_id is not None else None
        return tool.parent if tool is not None else None

    def asked(self, ask: PermissionRequest, run_id: str | None, parent: str | None) -> list[Event]:
        """A permission request: the card waits, and is made from the request when there is none."""
        if ask.tool_call_id is None:
            return []
        tool = self._tools.get(ask.tool_call_id)
        events: list[Event] = []
        if tool is None or self._is_reused(tool, run_id):
            if run_id is None:
                return []
            card = ToolCall(
                ask.tool_call_id,
                name=ask.tool_name,
                title=ask.title,
                kind=ask.tool_kind or ToolKind.OTHER,
                status=ToolStatus.AWAITING_APPROVAL,
                input_json=ask.input_json,
                command=ask.details.command if ask.details else None,
            )
            events = [self._card(card, run_id, None, parent)]
            tool = self._tools[ask.tool_call_id]
        tool.approvals += 1
        tool.denied = False
        waiting = ToolUpdate(tool.id, status=ToolStatus.AWAITING_APPROVAL)
        return events + self._updated(tool, waiting)

    def answered(self, tool_id: str, approved: bool, open_runs: Collection[str]) -> list[Event]:
        """An answer went out: an approved tool runs once nothing else of it waits."""
        tool = self._tools.get(tool_id)
        if tool is None:
            return []
        tool.approvals = max(0, tool.approvals - 1)
        if not approved:
            tool.denied = True
            return []
        waits = tool.card.status is ToolStatus.AWAITING_APPROVAL
        if (
            not waits
            or tool.approvals
            or (tool.run_id is not None and tool.run_id not in open_runs)
        ):
            return []
        return self._updated(tool, ToolUpdate(tool.id, status=ToolStatus.RUNNING))

    def close_run(self, run_id: str, outcome: Outcome) -> list[Event]:
        """Closes what the run leaves open, except what the agent itself keeps running."""
        return [
            tool.event(_closed(tool, outcome), run_id)
            for tool in self._tools.values()
            if tool.run_id == run_id and tool.open and not tool.background
        ]

    def close_all(self, outcome: Outcome, *, spare: Collection[str]) -> list[Event]:
        """Closes what outlived its run or never had one."""
        return [
            tool.event(_closed(tool, outcome), None, tool.run_id)
            for tool in self._tools.values()
            if tool.open and tool.run_id not in spare
        ]

    def forget_old(self) -> None:
        """Drops the oldest ended tools of a long session."""
        surplus = len(self._tools) - TOOLS_KEPT
        if surplus > 0:
            ended = [key for key, tool in self._tools.items() if not tool.open]
            for key in ended[:surplus]:
                del self._tools[key]

    def _is_reused(self, tool: Tool, run_id: str | None) -> bool:
        """Some agents number their calls anew each turn."""
        return not tool.open and run_id is not None and tool.run_id != run_id

    def _card(
        self, call: ToolCall, run_id: str | None, after: str | None, parent: str | None
    ) -> Event:
        self._tools[call.tool_call_id] = Tool(
            call.tool_call_id, run_id if run_id is not None else after, parent, _copy(call)
        )
        return Event(call, run_id, after, parent)

    def _updated(self, tool: Tool, update: ToolUpdate) -> list[Event]:
        changed = tool.change(update)
        return [] if changed is None else [tool.event(changed, tool.run_id)]


def _copy(call: ToolCall) -> ToolCall:
    """The card as we track it; the event of the first one is the reader's and never changes."""
    return ToolCall(
        call.tool_call_id,
        name=call.name,
        title=call.title,
        kind=call.kind,
        status=call.status,
        input_json=call.input_json,
        locations=call.locations,
        command=call.command,
        paths=call.paths,
    )


def _closed(tool: Tool, outcome: Outcome) -> ToolUpdate:
    match outcome:
        case _ if tool.denied:
            return tool.close(ToolStatus.CANCELLED)
        case Outcome.FAILED:
            return tool.close(ToolStatus.FAILED)
        case Outcome.COMPLETED:
            return tool.close(ToolStatus.CANCELLED, UNTOLD)
        case _:
            return tool.close(ToolStatus.CANCELLED)
