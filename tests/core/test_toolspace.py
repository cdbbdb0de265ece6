"""Which tools a session has, what each can do, and which of them ask first."""

from collections.abc import Mapping
from typing import Any

import pytest

from agentctl.core.spec import Entry, Rule
from agentctl.core.toolspace import (
    Observed,
    Seen,
    SessionTool,
    Stand,
    ToolOffer,
    schema_summary,
    tools_of,
)
from agentctl.core.words import Policy, ToolAccess, ToolKind, ToolSource

ASKS = Entry("a", protocol="claude-code")
LISTED = Entry("a", tools_requiring_permission=("edit", "run_shell_command"))
SILENT = Entry("a", protocol_config={"asking_mode": {"mode": "default", "instead_of": ["yolo"]}})


def one(offer: ToolOffer, stand: Stand, seen: Seen | None = None) -> SessionTool:
    (row,) = tools_of([offer], {} if seen is None else {seen.name: seen}, stand)
    return row


def of_kind(kind: ToolKind | None) -> ToolOffer:
    return ToolOffer("tool", kind=kind)


@pytest.mark.proves("D5")
@pytest.mark.parametrize(
    ("kind", "access"),
    [
        (ToolKind.READ, "read_only"),
        (ToolKind.SEARCH, "read_only"),
        (ToolKind.THINK, "read_only"),
        (ToolKind.TODO, "read_only"),
        (ToolKind.EDIT, "write"),
        (ToolKind.DELETE, "write"),
        (ToolKind.MOVE, "write"),
        (ToolKind.EXECUTE, "host"),
        (ToolKind.FETCH, "host"),
        (ToolKind.SUBAGENT, "host"),
        (ToolKind.MCP, None),
        (ToolKind.OTHER, None),
        (None, None),
    ],
)
def test_what_a_tool_can_do_follows_from_its_kind(
    kind: ToolKind | None, access: str | None
) -> None:
    assert one(of_kind(kind), Stand(ASKS)).access == access


def test_what_an_agent_says_itself_of_a_tool_goes_before_its_kind() -> None:
    offer = ToolOffer("t", kind=ToolKind.MCP, access=ToolAccess.READ_ONLY)
    assert one(offer, Stand(ASKS)).access == "read_only"


WHOLE = Rule("r", ToolKind.EXECUTE, decision=Policy.ALLOW)
NARROW = Rule("r", ToolKind.EXECUTE, command="ls", decision=Policy.ALLOW)
GUARD = frozenset({ToolKind.EDIT})


@pytest.mark.proves("D5")
@pytest.mark.parametrize(
    ("kind", "stand", "asks"),
    [
        (ToolKind.EXECUTE, Stand(ASKS), True),
        (ToolKind.READ, Stand(ASKS), None),
        (None, Stand(ASKS), None),
        (ToolKind.EXECUTE, Stand(ASKS, Policy.DENY), True),
        (ToolKind.EXECUTE, Stand(ASKS, Policy.ALLOW), False),
        (ToolKind.EDIT, Stand(ASKS, Policy.ALLOW, guarded=GUARD), True),
        (ToolKind.EXECUTE, Stand(ASKS, rules=[WHOLE]), False),
        (ToolKind.EXECUTE, Stand(ASKS, rules=[NARROW]), True),
        (ToolKind.EDIT, Stand(ASKS, rules=[WHOLE]), True),
        (ToolKind.EDIT, Stand(ASKS, mode="acceptEdits"), False),
        (ToolKind.EXECUTE, Stand(ASKS, mode="acceptEdits"), True),
        (ToolKind.EXECUTE, Stand(SILENT, mode="yolo"), False),
        (ToolKind.EXECUTE, Stand(SILENT, mode="default"), True),
        (ToolKind.EDIT, Stand(LISTED), True),
        (ToolKind.FETCH, Stand(LISTED), None),
    ],
)
def test_policy_rules_and_mode_say_whether_it_asks_first(
    kind: ToolKind | None, stand: Stand, asks: bool | None
) -> None:
    assert one(of_kind(kind), stand).requires_approval is asks


def test_a_tool_that_was_seen_to_ask_asks() -> None:
    row = one(of_kind(None), Stand(LISTED), Seen("tool", calls=2, asked=True))
    assert (row.requires_approval, row.calls) == (True, 2)


def test_where_nothing_is_offered_it_is_what_was_called_and_what_the_entry_names() -> None:
    seen = {"bash": Seen("bash", ToolKind.EXECUTE, 1), "mcp__gh__pr": Seen("mcp__gh__pr", calls=3)}
    rows = {row.offer.name: row for row in tools_of(None, seen, Stand(LISTED))}
    assert list(rows) == ["bash", "edit", "mcp__gh__pr", "run_shell_command"]
    assert rows["edit"].offer.kind is ToolKind.EDIT and rows["edit"].calls == 0
    assert rows["mcp__gh__pr"].offer.server == "gh"
    assert rows["mcp__gh__pr"].offer.source is ToolSource.MCP
    assert rows["mcp__gh__pr"].runtimes == ("acp", "claude-code", "codex", "opencode")
    assert rows["bash"].runtimes == ("acp",)


def test_an_offer_is_joined_with_its_calls_and_a_server_is_found_by_its_name() -> None:
    offers = [ToolOffer("read", kind=ToolKind.READ), ToolOffer("odd")]
    seen = {
        "odd": Seen("odd", ToolKind.EXECUTE, 1),
        "gh_pr": Seen("gh_pr", ToolKind.MCP, 1),
        "mcp__agentctl__ask": Seen("mcp__agentctl__ask", None, 1),
    }
    rows = {row.offer.name: row for row in tools_of(offers, seen, Stand(ASKS), ["gh", "g"])}
    assert rows["odd"].access == "host" and rows["read"].calls == 0
    assert (rows["gh_pr"].offer.source, rows["gh_pr"].offer.server) == ("mcp", "gh")
    assert rows["mcp__agentctl__ask"].offer.source is ToolSource.AGENTCTL


def test_calls_are_counted_once_and_known_by_their_kind_without_a_name() -> None:
    seen = Observed()
    seen.called("1", "bash", ToolKind.EXECUTE)
    seen.called("1", "bash", ToolKind.EXECUTE)
    seen.called("2", None, ToolKind.READ)
    seen.called("3", None, ToolKind.OTHER)
    seen.called("4", None, None)
    seen.asked("1", None)
    seen.asked(None, "write")
    assert {name: (tool.calls, tool.asked) for name, tool in seen.tools.items()} == {
        "bash": (1, True),
        "read": (1, False),
        "write": (0, True),
    }


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        (None, None),
        ({"type": "string"}, None),
        (
            {
                "properties": {
                    "path": {"type": "string"},
                    "limit": {"type": "integer"},
                    "how": {"enum": ["a", "b"]},
                    "all": {"type": "array", "items": {"type": "string"}},
                    "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "more": {"type": ["string", "null"]},
                    "free": True,
                },
                "required": ["path"],
            },
            (
                "path: string, limit?: integer, how?: a | b, all?: string[], any?: string | null, "
                "more?: string | null, free?: any"
            ),
        ),
    ],
)
def test_a_schema_is_told_in_one_line(schema: Mapping[str, Any] | None, line: str | None) -> None:
    assert schema_summary(schema) == line


def test_a_line_that_is_too_long_is_cut() -> None:
    schema = {"properties": {f"name{n}": {"type": "string"} for n in range(100)}}
    line = schema_summary(schema) or ""
    assert len(line) == 400 and line.endswith("…")
