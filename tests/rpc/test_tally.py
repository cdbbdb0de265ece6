"""What was used, counted from events."""

from agentctl import v1
from agentctl.core.events import Complete, Event, FileChange, SessionStatus, ToolCall, ToolUpdate
from agentctl.core.words import Outcome, SessionChange, ToolKind, ToolStatus
from agentctl.rpc.tally import Tally, entry_stats, model_stats
from agentctl.session.records import TallyRecord
from tests.rpc.kept import folded, offered, run, wire, worked


def counted(*events: Event, asked: dict[str, str] | None = None) -> Tally:
    tally = Tally(models={"ses_1": "m-first"}, asked=asked)
    for event in wire(events):
        tally.feed(event)
    return tally


def runs_of(*events: Event) -> list[TallyRecord]:
    return list(counted(*events).runs.values())


def stats(runs: list[TallyRecord]) -> v1.EntryStats:
    return entry_stats("demo", runs, sessions=1, active=1)


def test_runs_are_counted_by_how_they_ended() -> None:
    ends = [Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED, Outcome.TIMED_OUT]
    events = [each for n, end in enumerate(ends, start=1) for each in run(n, end=end)]
    got = stats(runs_of(*events, *run(5, end=None)))
    assert (got.runs, got.runs_completed, got.runs_cancelled) == (4, 1, 1)
    assert (got.runs_failed, got.runs_timed_out) == (2, 1)
    assert (got.usage.input, got.usage.output, got.cost_usd, got.run_ms) == (40, 20, 2.0, 8_000)
    assert not got.usage.HasField("total")


def test_tools_commands_and_files_are_counted_once() -> None:
    again = ToolUpdate("t1", status=ToolStatus.FAILED)
    cancelled = ToolCall("t3", kind=ToolKind.EXECUTE, status=ToolStatus.CANCELLED)
    more = [each.payload for each in worked()[2:-1]]
    got = stats(runs_of(*worked(), *run(2, *more, again, cancelled)))
    assert (got.tools, got.tools_failed, got.commands, got.files_changed) == (5, 2, 2, 1)


def test_what_was_not_told_is_absent_and_not_zero() -> None:
    bare = run(1, end=None)
    bare.append(Event(Complete(Outcome.COMPLETED), run_id="run_1", session_id="ses_1"))
    got = stats(runs_of(*bare))
    assert got.runs == 1
    assert not got.HasField("usage") and not got.HasField("cost_usd")


def test_a_run_counts_for_the_model_in_force_when_it_ended() -> None:
    switched = Event(SessionStatus(SessionChange.UPDATED, model="m-next"), session_id="ses_1")
    tally = counted(
        *run(1), switched, *run(2), offered("x", model="m-last"), *run(3), *run(4),
        asked={"run_4": "m-asked"},
    )  # fmt: skip
    got = {each.model: each.runs for each in model_stats(tally.runs.values())}
    assert got == {"m-first": 1, "m-next": 1, "m-last": 1, "m-asked": 1}


def test_both_ways_of_counting_agree() -> None:
    more = [each.payload for each in worked()[2:-1]]
    late = Event(FileChange("/w/late.py"), after_run_id="run_2", session_id="ses_1")
    events = [
        *worked(),
        *run(2, *more, *more),
        late,
        *run(3, end=None),
        *run(4, end=Outcome.FAILED),
    ]
    live = {each.run_id: each for each in folded(events)}
    for run_id, read_back in counted(*events).runs.items():
        told = live[run_id]
        for name in ("outcome", "model", "usage", "cost_usd", "tools", "tools_failed", "commands"):
            assert getattr(told, name) == getattr(read_back, name), (run_id, name)
        assert set(told.files) == set(read_back.files)
