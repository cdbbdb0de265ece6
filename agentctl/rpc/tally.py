"""Owns the sums over runs: how they ended, tokens, cost, tools, commands, files, time, models.

Pure: what each run did goes in, sums come out. What was not told is left out of a sum and never
counted as 0. For an export, which is of one place of the journal, it counts events of the wire itself;
elsewhere runs are counted as they go (`session/progress.py`), by the same rules.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agentctl import v1
from agentctl.core.parts import Usage
from agentctl.core.words import EventType, Outcome, SessionState
from agentctl.rpc.enums import words
from agentctl.rpc.mirror import fill, read
from agentctl.session.progress import add_usage
from agentctl.session.records import TallyRecord

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
_OUTCOME = {number: Outcome(word) for number, word in words(v1.Outcome.DESCRIPTOR).items()}


@dataclass(slots=True)
class _Counted:
    """One run, the end that it was told with, and its tools that go on: whether each is a command."""

    tally: TallyRecord
    open_tools: dict[str, bool] = field(default_factory=dict[str, bool])


class Tally:
    """Counts the events of one session. `complete` has the end of each run that ended."""

    def __init__(
        self, *, models: Mapping[str, str] | None = None, asked: Mapping[str, str] | None = None
    ) -> None:
        """`models`: the model of a session until it is told; `asked`: the one of a run."""
        self.complete: dict[str, v1.Complete] = {}
        self._runs: dict[str, _Counted] = {}
        self._models = dict(models or {})
        self._asked = asked or {}

    @property
    def runs(self) -> dict[str, TallyRecord]:
        return {run_id: counted.tally for run_id, counted in self._runs.items()}

    def feed(self, event: v1.AgentEvent) -> None:
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
        counted = self._runs.get(run_id)
        if counted is None:
            counted = self._runs[run_id] = _Counted(TallyRecord(run_id, session))
        run = counted.tally
        match kind:
            case "run_status":
                if event.run_status.status == v1.RunChange.RUN_CHANGE_STARTED:
                    run.started = True
                    if run_id in self._asked:
                        self._models[session] = self._asked[run_id]
            case "tool_call" | "tool_update":
                _tool(counted, event)
            case "file_change":
                if event.file_change.path not in run.files:
                    run.files.append(event.file_change.path)
            case "complete":
                self.complete[run_id] = end = event.complete
                run.outcome = _OUTCOME.get(end.outcome, Outcome.FAILED)
                run.started_at = end.started_at if end.HasField("started_at") else None
                run.ended_at = end.ended_at or event.ts
                run.usage = read(Usage, end.usage) if end.HasField("usage") else None
                run.cost_usd = end.cost_usd if end.HasField("cost_usd") else None
                run.model = self._models.get(session, "")
            case _:
                pass


def _tool(counted: _Counted, event: v1.AgentEvent) -> None:
    run, tools = counted.tally, counted.open_tools
    called = event.HasField("tool_call")
    told = event.tool_call if called else event.tool_update
    tool = told.tool_call_id
    if called:
        run.tools += tool not in tools
        tools.setdefault(tool, False)
    elif tool not in tools:
        return
    if told.kind:
        tools[tool] = told.kind == v1.ToolKind.TOOL_KIND_EXECUTE
    if told.status in _FINAL:
        executes = tools.pop(tool)
        run.tools_failed += told.status == v1.ToolStatus.TOOL_STATUS_FAILED
        run.commands += executes and told.status in _DONE


@dataclass(slots=True)
class Sums:
    """The sums of any number of runs; of the paths that they changed it keeps a number each."""

    runs: int = 0
    by_outcome: dict[Outcome, int] = field(default_factory=dict[Outcome, int])
    usage: Usage | None = None
    cost_usd: float | None = None
    run_ms: int = 0
    tools: int = 0
    tools_failed: int = 0
    commands: int = 0
    files: set[int] = field(default_factory=set[int])

    def add(self, run: TallyRecord) -> None:
        self.tools += run.tools
        self.tools_failed += run.tools_failed
        self.commands += run.commands
        if run.files:
            self.files.update(hash((run.session_id, path)) for path in run.files)
        if run.outcome is None:
            return
        self.runs += 1
        self.by_outcome[run.outcome] = self.by_outcome.get(run.outcome, 0) + 1
        if run.started_at is not None:
            self.run_ms += max(run.ended_at - run.started_at, 0)
        if run.usage is not None:
            self.usage = add_usage(self.usage, run.usage)
        if run.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + run.cost_usd

    def _usage(self) -> v1.Usage | None:
        return None if self.usage is None else fill(v1.Usage.DESCRIPTOR, self.usage)

    def entry(self, entry_id: str, *, sessions: int, active: int) -> v1.EntryStats:
        ended = self.by_outcome
        timed_out = ended.get(Outcome.TIMED_OUT, 0)
        return v1.EntryStats(
            entry_id=entry_id,
            sessions=sessions,
            sessions_active=active,
            runs=self.runs,
            runs_completed=ended.get(Outcome.COMPLETED, 0),
            runs_cancelled=ended.get(Outcome.CANCELLED, 0),
            runs_failed=ended.get(Outcome.FAILED, 0) + timed_out,
            runs_timed_out=timed_out,
            run_ms=self.run_ms,
            tools=self.tools,
            tools_failed=self.tools_failed,
            commands=self.commands,
            files_changed=len(self.files),
            usage=self._usage(),
            cost_usd=self.cost_usd,
        )

    def model(self, model: str) -> v1.ModelStats:
        return v1.ModelStats(
            model=model, runs=self.runs, usage=self._usage(), cost_usd=self.cost_usd
        )


def entry_stats(
    entry_id: str, runs: Iterable[TallyRecord], *, sessions: int, active: int
) -> v1.EntryStats:
    """The sums of some runs."""
    sums = Sums()
    for run in runs:
        sums.add(run)
    return sums.entry(entry_id, sessions=sessions, active=active)


class ByModel:
    """The same by model; runs that go on count for none."""

    def __init__(self) -> None:
        self._sums: dict[str, Sums] = {}

    def add(self, run: TallyRecord) -> None:
        if run.outcome is not None:
            self._sums.setdefault(run.model, Sums()).add(run)

    def stats(self) -> list[v1.ModelStats]:
        """The most runs first."""
        found = [sums.model(model) for model, sums in self._sums.items()]
        return sorted(found, key=lambda each: (-each.runs, each.model))


def model_stats(runs: Iterable[TallyRecord]) -> list[v1.ModelStats]:
    """What some runs used, by model."""
    by = ByModel()
    for run in runs:
        by.add(run)
    return by.stats()
