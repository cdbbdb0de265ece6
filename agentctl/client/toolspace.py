"""Owns the tools of a session as an app sees them: a list that was asked for once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentctl import v1
from agentctl.rpc.jsonview import to_dict

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. What its agent does not tell is None.

    Attributes:
        source: agentctl, mcp, plugin, channel, runtime (the agent itself) or app.
        access: the most it can do: read_only, write (the workspace) or host (commands, and beyond).
        requires_approval: whether its use is asked for first, as the session is set now.
        hidden: the agent has it, its model is not shown it.
        runtimes: the protocols whose agents can use it.
        calls: how often the session called it.
    """

    name: str
    title: str | None = None
    description: str | None = None
    kind: str | None = None
    source: str | None = None
    server: str | None = None
    access: str | None = None
    requires_approval: bool | None = None
    hidden: bool = False
    input_schema: Any = None
    schema_summary: str | None = None
    runtimes: tuple[str, ...] = ()
    calls: int = 0

    @property
    def read_only(self) -> bool:
        return self.access == "read_only"

    @property
    def can_write(self) -> bool:
        return self.access in ("write", "host")

    @property
    def can_use_host(self) -> bool:
        return self.access == "host"


class ToolSpace:
    """The tools of a session at one moment."""

    __slots__ = ("_tools",)

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tuple(tools)

    def list(
        self, *, source: str | None = None, access: str | None = None, hidden: bool | None = None
    ) -> tuple[Tool, ...]:
        """All of them, or those of a source, with an access, hidden or not."""
        return tuple(
            tool
            for tool in self._tools
            if source in (None, tool.source)
            and access in (None, tool.access)
            and hidden in (None, tool.hidden)
        )

    def get(self, name: str) -> Tool | None:
        return next((tool for tool in self._tools if tool.name == name), None)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"ToolSpace({[tool.name for tool in self._tools]!r})"


async def tool_space(client: "AgentCtl", session_id: str) -> ToolSpace:
    """Asks for the tools of a session."""
    tools: list[Tool] = []
    token = ""
    while True:
        page = await client.tools.list(session_id, page_size=PAGE, page_token=token)
        tools += [_tool(each) for each in page.tools]
        token = page.next_page_token
        if not token:
            return ToolSpace(tools)


def _tool(told: v1.Tool) -> Tool:
    plain = to_dict(told)
    plain["runtimes"] = tuple(plain.get("runtimes", ()))
    return Tool(**plain)
