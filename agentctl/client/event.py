"""Owns an event as an app sees it: its dotted family, its payload as plain data, its cursor.

A view of the message that travelled: nothing is converted before it is asked for.
"""

from typing import Any

from agentctl import v1
from agentctl.client.views import APP_SDK, app_sdk
from agentctl.rpc.jsonview import to_dict

Json = dict[str, Any]


class Event:
    """One event of the stream; `run.events(after=event.cursor)` goes on behind it."""

    __slots__ = ("_families", "_json", "_wire")

    def __init__(self, wire: v1.AgentEvent) -> None:
        self._wire = wire
        self._json: Json | None = None
        self._families: tuple[str, ...] | None = None

    def as_dict(self) -> Json:
        """The whole event in the JSON form of `agentctl events --json`."""
        if self._json is None:
            self._json = to_dict(self._wire)
        return self._json

    def as_app_sdk(self, family: str = "") -> Json | None:
        """The event as an OpenClawEvent: version, id, ts, type, runId, …, data, raw.

        Args:
            family: which one, where `families` has two; absent: the first.

        Returns:
            None when it has no family (or not this one).
        """
        views = app_sdk(self.as_dict())
        return next((view for view in views if family in ("", view["type"])), None)

    @property
    def type(self) -> str:
        """The word of the event model, such as `message_chunk`."""
        return self.as_dict()["type"]

    @property
    def families(self) -> tuple[str, ...]:
        """The dotted types: none, one, or two (a tool that is called and done at once)."""
        if self._families is None:
            told = APP_SDK.get(self.type)
            self._families = () if told is None else tuple(told(self.data))
        return self._families

    @property
    def family(self) -> str:
        """The first of `families`, such as `assistant.delta`; "" when there is none."""
        return next(iter(self.families), "")

    @property
    def data(self) -> Json:
        """The payload; fields that were not told are absent."""
        return self.as_dict()["data"]

    @property
    def text(self) -> str:
        """What a chunk appends, or the text of a whole message; "" for other events."""
        if self.type == "message":
            return "".join(block.get("text", "") for block in self.data.get("content", ()))
        speaks = self.type in ("message_chunk", "reasoning")
        return self.data.get("text", "") if speaks else ""

    @property
    def version(self) -> int:
        return self._wire.version

    @property
    def cursor(self) -> str:
        """Where to go on after this event."""
        return self._wire.cursor

    @property
    def id(self) -> str:
        """The same as `cursor`."""
        return self._wire.cursor

    @property
    def seq(self) -> int:
        """Its place in the journal."""
        return self._wire.seq

    @property
    def ts(self) -> int:
        """Unix ms."""
        return self._wire.ts

    @property
    def run_id(self) -> str | None:
        return self.as_dict().get("run_id")

    @property
    def after_run_id(self) -> str | None:
        """The run that it came too late for."""
        return self.as_dict().get("after_run_id")

    @property
    def session_id(self) -> str | None:
        return self.as_dict().get("session_id")

    @property
    def session_key(self) -> str | None:
        return self.as_dict().get("session_key")

    @property
    def task_id(self) -> str | None:
        return self.as_dict().get("task_id")

    @property
    def agent_id(self) -> str | None:
        return self.as_dict().get("agent_id")

    @property
    def parent_tool_call_id(self) -> str | None:
        """The tool call of the subagent that caused it."""
        return self.as_dict().get("parent_tool_call_id")

    @property
    def raw(self) -> Any:
        """The agent's own message, redacted; None unless it was journalled and asked for."""
        return self.as_dict().get("raw")

    def __repr__(self) -> str:
        return f"Event({self.family or self.type!r}, id={self.id!r}, data={self.data!r})"
