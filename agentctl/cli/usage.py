"""Owns the tables of `agentctl stats`: by entry with a total, and by model."""

from agentctl import v1
from agentctl.cli.out import NONE, duration, out, plain, table, tokens

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


def _tokens(stats: v1.EntryStats | v1.ModelStats) -> str:
    if not stats.HasField("usage"):
        return NONE
    usage = stats.usage
    return tokens(usage.total if usage.HasField("total") else usage.input + usage.output)


def _cost(stats: v1.EntryStats | v1.ModelStats) -> str:
    if not stats.HasField("cost_usd"):
        return NONE
    # Cents would show many a session as free.
    return f"${stats.cost_usd:.{4 if stats.cost_usd < 0.1 else 2}f}"
