"""Owns the counting of runs: how they ended, tokens, cost, tools, commands, files, time, models.

Pure: events of the wire in, sums out. What was not told is left out of a sum and never counted as 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agentctl import v1
from agentctl.core.words import EventType, SessionState

TYPES = frozenset(
    {
        EventType.RUN_STATUS,
        EventType.SESSION_STATUS,
        EventType.SESSION_OPTIONS,
        EventType.TOOL_CALL,
        EventType.TOOL_UPDATE,
        EventType.FILE_CHANGE,
        EventType.COMPLETE,
    }
)
"""What a tally needs to see."""

ACTIVE = frozenset(
    {SessionState.STARTING, SessionState.ACTIVE, SessionState.IDLE, SessionState.AWAITING}
)
"""Sessions whose agent is at work or ready for it."""

_DONE = frozenset({v1.ToolStatus.TOOL_STATUS_COMPLETED, v1.ToolStatus.TOOL_STATUS_FAILED})
_FINAL = _DONE | {v1.ToolStatus.TOOL_STATUS_CANCELLED}
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning", "total")


@dataclass(slots=True)
class RunTally:
    """One run. `complete` is absent while it runs; `ended_at` is Unix ms."""

    session_id: str
    run_id: str
    started: bool = False
    complete: v1.Complete | None = None
    ended_at: int = 0
    model: str = ""
    tools: int = 0
    tools_failed: int = 0
    commands: int = 0
    files: set[str] = field(default_factory=set[str])
    open_tools: dict[str, bool] = field(default_factory=dict[str, bool])
    """Tools that have not ended, and whether each runs a command."""


class Tally:
    """Counts the events of any number of sessions."""

    def __init__(
        self, *, models: Mapping[str, str] | None = None, asked: Mapping[str, str] | None = None
    ) -> None:
        """`models`: the model of a session until it is told; `asked`: the one of a run."""
        self.runs: dict[str, RunTally] = {}
        self.events = 0
        self._models = dict(models or {})
        self._asked = asked or {}

    def feed(self, event: v1.AgentEvent) -> None:
        self.events += 1
        session = event.session_id
        run_id = event.run_id or event.after_run_id
        kind = event.WhichOneof("payload")
        if kind == "session_status" or kind == "session_options":
            model = getattr(event, kind).model
            if model:
                self._models[session] = model
            return
        if not run_id or not session:
            return
        run = self.runs.get(run_id)
        if run is None:
            run = self.runs[run_id] = RunTally(session, run_id)
        match kind:
            case "run_status":
                if event.run_status.status == v1.RunChange.RUN_CHANGE_STARTED:
                    run.started = True
                    if run_id in self._asked:
                        self._models[session] = self._asked[run_id]
            case "tool_call" | "tool_update":
                _tool(run, event)
            case "file_change":
                run.files.add(event.file_change.path)
            case "complete":
                run.complete = event.complete
                run.ended_at = event.complete.ended_at or event.ts
                run.model = self._models.get(session, "")
            case _:
                pass

    def ended(self, *, since: int | None = None) -> list[RunTally]:
        """The runs to count: those that ended, at or after `since`, and without it also those
        that still run."""
        if since is None:
            return list(self.runs.values())
        return [run for run in self.runs.values() if run.complete and run.ended_at >= since]


def _tool(run: RunTally, event: v1.AgentEvent) -> None:
    called = event.HasField("tool_call")
    told = event.tool_call if called else event.tool_update
    tool = told.tool_call_id
    if called:
        run.tools += tool not in run.open_tools
        run.open_tools.setdefault(tool, False)
    elif tool not in run.open_tools:
        return
    if told.kind:
        run.open_tools[tool] = told.kind == v1.ToolKind.TOOL_KIND_EXECUTE
    if told.status in _FINAL:
        executes = run.open_tools.pop(tool)
        run.tools_failed += told.status == v1.ToolStatus.TOOL_STATUS_FAILED
        run.commands += executes and told.status in _DONE


def entry_stats(
    entry_id: str, runs: Iterable[RunTally], *, sessions: int, active: int
) -> v1.EntryStats:
    """The sums of some runs."""
    stats = v1.EntryStats(entry_id=entry_id, sessions=sessions, sessions_active=active)
    files: set[tuple[str, str]] = set()
    for run in runs:
        stats.tools += run.tools
        stats.tools_failed += run.tools_failed
        stats.commands += run.commands
        files.update((run.session_id, path) for path in run.files)
        complete = run.complete
        if complete is None:
            continue
        stats.runs += 1
        match complete.outcome:
            case v1.Outcome.OUTCOME_COMPLETED:
                stats.runs_completed += 1
            case v1.Outcome.OUTCOME_CANCELLED:
                stats.runs_cancelled += 1
            case v1.Outcome.OUTCOME_TIMED_OUT:
                stats.runs_failed += 1
                stats.runs_timed_out += 1
            case _:
                stats.runs_failed += 1
        if complete.HasField("started_at") and complete.HasField("ended_at"):
            stats.run_ms += max(complete.ended_at - complete.started_at, 0)
        _add(stats, complete)
    stats.files_changed = len(files)
    return stats


def model_stats(runs: Iterable[RunTally]) -> list[v1.ModelStats]:
    """The same by model, the most runs first; runs that go on count for none."""
    found: dict[str, v1.ModelStats] = {}
    for run in runs:
        if run.complete is not None:
            stats = found.setdefault(run.model, v1.ModelStats(model=run.model))
            stats.runs += 1
            _add(stats, run.complete)
    return sorted(found.values(), key=lambda each: (-each.runs, each.model))


def _add(stats: v1.EntryStats | v1.ModelStats, complete: v1.Complete) -> None:
    for name in _TOKENS:
        if complete.usage.HasField(name):
            setattr(stats.usage, name, getattr(stats.usage, name) + getattr(complete.usage, name))
    if complete.HasField("cost_usd"):
        stats.cost_usd += complete.cost_usd
