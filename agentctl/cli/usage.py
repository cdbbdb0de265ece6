"""Owns the tables of `agentctl stats` (by entry with a total, by model, by session) and `tools`."""

from collections.abc import Sequence

from agentctl import v1
from agentctl.cli.ids import short
from agentctl.cli.out import NONE, age, duration, out, plain, size, table, tokens
from agentctl.cli.session_card import money
from agentctl.rpc.jsonview import to_dict

_HEAD = [
    "ENTRY",
    "SESSIONS",
    "RUNS",
    "FAILED",
    "TOKENS",
    "COST",
    "TOOLS",
    "COMMANDS",
    "FILES",
    "TIME",
]


def show(stats: v1.GetStatsResponse) -> None:
    if not stats.entries:
        out().line("nothing was used yet")
        return
    rows = [_entry(each, each.entry_id) for each in stats.entries]
    if len(rows) > 1:
        rows.append(_entry(stats.total, "all"))
    table(rows, _HEAD, right=" ".join(_HEAD[1:]))
    if stats.by_model:
        out().line()
        models = [
            [plain(each.model) or NONE, str(each.runs), _tokens(each), _cost(each)]
            for each in stats.by_model
        ]
        table(models, ["MODEL", "RUNS", "TOKENS", "COST"], right="RUNS TOKENS COST")
    if stats.journal_bytes:
        out().line(out().text(f"\nthe journal holds {size(stats.journal_bytes)}", "dim"))


_SESSION_HEAD = ["SESSION", "ENTRY", "RUNS", "TOKENS", "COST", "COMMANDS", "FILES", "SEEN"]


def show_sessions(sessions: Sequence[v1.Session]) -> None:
    """What each session used, the dearest first; those without a run are left out."""
    names = [each.session_id for each in sessions]
    by_cost = sorted(sessions, key=lambda each: (-each.cost_usd, -_total(each.usage)))
    rows = [
        [
            short(each.session_id, names) if out().is_terminal else each.session_id,
            each.entry_id,
            str(each.progress.runs),
            _tokens(each),
            _cost(each),
            str(each.progress.commands_run),
            str(each.progress.files_changed),
            age(each.last_active_at) if each.last_active_at else NONE,
        ]
        for each in by_cost
        if each.progress.runs
    ]
    if rows:
        out().line()
        table(rows, _SESSION_HEAD, right=" ".join(_SESSION_HEAD[2:]))


def show_tools(tools: Sequence[v1.Tool]) -> None:
    rows: list[list[str]] = []
    for each in tools:
        data = to_dict(each)
        source = str(data.get("source") or NONE)
        asks = data.get("requires_approval")
        rows.append(
            [
                plain(each.name) + (out().text(" (hidden)", "dim") if each.hidden else ""),
                f"{source} {plain(each.server)}" if each.server else source,
                str(data.get("access") or NONE).replace("_", "-"),
                NONE if asks is None else "asks" if asks else "no",
                str(each.calls) if each.HasField("calls") else NONE,
                plain(each.description or each.title or each.schema_summary or NONE),
            ]
        )
    table(rows, ["TOOL", "SOURCE", "ACCESS", "ASKS", "CALLS", "WHAT IT DOES"], right="CALLS")


def _entry(stats: v1.EntryStats, name: str) -> list[str]:
    return [
        name,
        str(stats.sessions),
        str(stats.runs),
        str(stats.runs_failed),
        _tokens(stats),
        _cost(stats),
        str(stats.tools),
        str(stats.commands),
        str(stats.files_changed),
        duration(stats.run_ms) if stats.run_ms else NONE,
    ]


def _total(usage: v1.Usage) -> int:
    return usage.total if usage.HasField("total") else usage.input + usage.output


def _tokens(stats: v1.EntryStats | v1.ModelStats | v1.Session) -> str:
    return tokens(_total(stats.usage)) if stats.HasField("usage") else NONE


def _cost(stats: v1.EntryStats | v1.ModelStats | v1.Session) -> str:
    return money(stats.cost_usd) if stats.HasField("cost_usd") else NONE
