"""Owns what the tools of a session are: what its agent offers, what it called, what asks first. Pure.

A connection that can tell its agent's tools is a `ToolsConnection` beside `core.adapter.Connection`.
What nobody told stays None: an agent that lists no tools is shown those that it was seen to call.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, runtime_checkable

from agentctl.core.ids import NativeSessionId
from agentctl.core.spec import Entry, Rule
from agentctl.core.words import Policy, ToolAccess, ToolKind, ToolSource

OWN_SERVER = "agentctl"
"""The name under which the daemon's own MCP server is handed to an agent."""

_ACCESS = {
    ToolKind.READ: ToolAccess.READ_ONLY,
    ToolKind.SEARCH: ToolAccess.READ_ONLY,
    ToolKind.THINK: ToolAccess.READ_ONLY,
    ToolKind.TODO: ToolAccess.READ_ONLY,
    ToolKind.EDIT: ToolAccess.WRITE,
    ToolKind.DELETE: ToolAccess.WRITE,
    ToolKind.MOVE: ToolAccess.WRITE,
    ToolKind.EXECUTE: ToolAccess.HOST,
    ToolKind.FETCH: ToolAccess.HOST,
    ToolKind.SUBAGENT: ToolAccess.HOST,
}
_KINDS = {kind.value: kind for kind in ToolKind}
_EDITS = frozenset({ToolKind.EDIT, ToolKind.DELETE, ToolKind.MOVE})
_EDITING_MODES = frozenset({"acceptEdits", "autoEdit", "auto_edit", "auto-edit"})
"""Modes of agents that change files without asking, and ask before other things."""
_MCP_PROTOCOLS = ("acp", "claude-code", "codex", "opencode")
_SUMMARY_CHARS = 400


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool that an agent says it has; what it does not tell is empty.

    `server`: the MCP server or plugin that it is of. `hidden`: its model is not shown it. `access`
    only where the agent says so itself; else it follows from `kind`.
    """

    name: str
    source: ToolSource | None = ToolSource.RUNTIME
    kind: ToolKind | None = None
    title: str = ""
    description: str = ""
    server: str = ""
    input_schema: Mapping[str, Any] | None = None
    hidden: bool = False
    access: ToolAccess | None = None


@runtime_checkable
class ToolsConnection(Protocol):
    """What some connections can besides: whoever wants it asks isinstance()."""

    async def tools(self, native: NativeSessionId) -> Sequence[ToolOffer] | None:
        """The tools of a session as of now; None when they are not known (yet)."""
        ...


@dataclass(slots=True)
class Seen:
    """What a session's events tell of one tool."""

    name: str
    kind: ToolKind | None = None
    calls: int = 0
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Stand:
    """What decides, as of now, which tools of a session ask first.

    `guarded`: kinds that a rule may refuse or have asked. `rules`: in the order in which they are tried.
    """

    entry: Entry
    policy: Policy = Policy.ASK
    mode: str = ""
    guarded: frozenset[ToolKind] = frozenset()
    rules: Sequence[Rule] = ()


@dataclass(frozen=True, slots=True)
class SessionTool:
    """One row of Tools.List."""

    offer: ToolOffer
    access: ToolAccess | None = None
    requires_approval: bool | None = None
    runtimes: tuple[str, ...] = ()
    schema_summary: str | None = None
    calls: int = 0


@dataclass(slots=True)
class Observed:
    """Gathers `Seen` from a session's tool calls and permission requests, in any order."""

    tools: dict[str, Seen] = field(default_factory=dict[str, Seen])
    _names: dict[str, str] = field(default_factory=dict[str, str])

    def called(self, call_id: str, name: str | None, kind: ToolKind | None) -> None:
        """A tool_call; one without a name is known by its kind."""
        known = name or (str(kind) if kind not in (None, ToolKind.OTHER) else "")
        if not known or call_id in self._names:
            return
        self._names[call_id] = known
        seen = self._seen(known, kind)
        seen.calls += 1

    def asked(self, call_id: str | None, name: str | None) -> None:
        """A permission request about a tool."""
        known = self._names.get(call_id or "") or name
        if known:
            self._seen(known, None).asked = True

    def _seen(self, name: str, kind: ToolKind | None) -> Seen:
        seen = self.tools.setdefault(name, Seen(name))
        seen.kind = seen.kind or kind
        return seen


def tools_of(
    offers: Sequence[ToolOffer] | None,
    seen: Mapping[str, Seen],
    stand: Stand,
    servers: Iterable[str] = (),
) -> list[SessionTool]:
    """The rows, by name: what is offered and what was called; where nothing is offered, also what
    the registry's entry names as asking first. `servers` are the MCP servers of the session."""
    known_servers = sorted(servers, key=len, reverse=True)
    rows = {offer.name: offer for offer in offers or ()}
    for name, tool in seen.items():
        if (known := rows.get(name)) is None:
            rows[name] = unlisted(name, tool.kind, known_servers)
        elif known.kind is None and tool.kind is not None:
            rows[name] = replace(known, kind=tool.kind)
    if offers is None:
        for name in stand.entry.tools_requiring_permission:
            rows.setdefault(name, unlisted(name, None))
    return [_row(rows[name], seen.get(name, Seen(name)), stand) for name in sorted(rows)]


def unlisted(name: str, kind: ToolKind | None, servers: Iterable[str] = ()) -> ToolOffer:
    """A tool that no list names, by the name and kind that its calls have."""
    server = server_of(name) or next((s for s in servers if name.startswith(f"{s}_")), "")
    if server == OWN_SERVER:
        return ToolOffer(name, ToolSource.AGENTCTL, kind or ToolKind.MCP, server=server)
    if server or kind is ToolKind.MCP:
        return ToolOffer(name, ToolSource.MCP, kind or ToolKind.MCP, server=server)
    return ToolOffer(name, ToolSource.RUNTIME, kind or _kind_by_word(name))


def server_of(name: str) -> str:
    """The server in `mcp__server__tool`; "" for other names."""
    head, _, rest = name.partition("__")
    server, _, tool = rest.partition("__")
    return server if head == "mcp" and tool else ""


def _kind_by_word(name: str) -> ToolKind | None:
    return _KINDS.get(name)


def _row(offer: ToolOffer, seen: Seen, stand: Stand) -> SessionTool:
    access = offer.access or (None if offer.kind is None else _ACCESS.get(offer.kind))
    external = offer.source in (ToolSource.MCP, ToolSource.AGENTCTL)
    return SessionTool(
        offer,
        access,
        _asks_first(offer, seen, access, stand),
        _MCP_PROTOCOLS if external else (stand.entry.protocol,),
        schema_summary(offer.input_schema),
        seen.calls,
    )


def _asks_first(
    offer: ToolOffer, seen: Seen, access: ToolAccess | None, stand: Stand
) -> bool | None:
    """None where only the agent knows."""
    kind = offer.kind
    if kind is not None and kind in stand.guarded:
        return True
    if stand.policy is Policy.ALLOW:
        return False
    for rule in stand.rules:
        if _of_whole_kind(rule, kind):
            return rule.decision is not Policy.ALLOW
    if stand.mode in _silent_modes(stand.entry):
        return False
    if stand.mode in _EDITING_MODES and kind in _EDITS:
        return False
    listed = stand.entry.tools_requiring_permission
    if seen.asked or offer.name in listed or (kind is not None and kind in listed):
        return True
    acts = access in (ToolAccess.WRITE, ToolAccess.HOST)
    # An entry that names tools names all that its agent asks for by itself.
    return True if acts and not listed else None


def _of_whole_kind(rule: Rule, kind: ToolKind | None) -> bool:
    """Whether the rule answers for every use of tools of that kind, whatever they are given."""
    narrow = rule.command or rule.path or rule.path_pattern or rule.command_pattern
    return not narrow and rule.kind in (None, kind)


def _silent_modes(entry: Entry) -> Iterable[str]:
    """The modes in which this agent asks for nothing, as its entry tells."""
    told = entry.protocol_config.get("asking_mode")
    silent = cast("dict[str, Any]", told).get("instead_of") if isinstance(told, dict) else None
    return cast("list[str]", silent) if isinstance(silent, list) else ()


def schema_summary(schema: Mapping[str, Any] | None) -> str | None:
    """The arguments of a JSON schema in one line: `path: string, limit?: integer`."""
    properties: Any = (schema or {}).get("properties")
    if not isinstance(properties, dict):
        return None
    needed: Any = (schema or {}).get("required") or ()
    parts = [
        f"{name}{'' if name in needed else '?'}: {_type_of(value)}"
        for name, value in cast("dict[str, Any]", properties).items()
    ]
    line = ", ".join(parts)
    return line if len(line) <= _SUMMARY_CHARS else f"{line[: _SUMMARY_CHARS - 1]}…"


def _type_of(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    told = cast("dict[str, Any]", schema)
    kind: Any = told.get("type")
    if isinstance(told.get("enum"), list):
        return " | ".join(str(each) for each in cast("list[Any]", told["enum"]))
    if kind == "array":
        return f"{_type_of(told.get('items'))}[]"
    if isinstance(kind, list):
        return " | ".join(str(each) for each in cast("list[Any]", kind))
    for name in ("anyOf", "oneOf"):
        if isinstance(told.get(name), list):
            return " | ".join(_type_of(each) for each in cast("list[Any]", told[name]))
    return str(kind) if kind else "any"
