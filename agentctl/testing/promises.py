"""Owns the promises that any stream of events keeps. Looks at events alone and knows no agent."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from agentctl.core.events import (
    Complete,
    Event,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    RunStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.limits import EVENT_BYTES, weight
from agentctl.core.words import FINAL_TOOL, Outcome, ToolStatus


def broken(events: Sequence[Event]) -> list[str]:
    """Every promise that the stream breaks, in words; an empty list when it keeps all.

    The stream is whole: from a session's first event to its last, or the journal of a daemon with no
    open run. One `complete` per run which is its last event, `seq` grows, each approval and question
    is answered once and in its run, each tool is final before `complete` (background excepted) and
    stays so, no event is larger than 256 KiB.
    """
    return [*_numbering(events), *_runs(events), *_asks(events), *_tools(events), *_sizes(events)]


def _numbering(events: Sequence[Event]) -> Iterator[str]:
    numbers = [event.seq for event in events]
    if numbers != sorted(set(numbers)):
        yield "seq does not grow"


def _runs(events: Sequence[Event]) -> Iterator[str]:
    ended: dict[str, int] = {}
    sessions: defaultdict[str, set[str | None]] = defaultdict(set)
    for event in events:
        run = event.run_id
        if run is None:
            if isinstance(event.payload, Complete | RunStatus):
                yield f"{event.type} without a run"
            continue
        if event.after_run_id is not None:
            yield f"{event.type} both in {run} and late of {event.after_run_id}"
        sessions[run].add(event.session_id)
        if run in ended:
            yield f"{event.type} in {run} after its complete"
        if isinstance(event.payload, Complete):
            ended[run] = event.seq
            failed = event.payload.outcome is Outcome.FAILED
            if failed and event.payload.error is None:
                yield f"{run} failed and does not say why"
    yield from (f"{run} never completes" for run in sessions if run not in ended)
    yield from (
        f"{run} is in several sessions" for run, where in sessions.items() if len(where) > 1
    )
    late = {event.after_run_id for event in events if event.after_run_id is not None}
    yield from (f"late of {run}, which never was" for run in late if run not in sessions)


def _asks(events: Sequence[Event]) -> Iterator[str]:
    asked: dict[str, Event] = {}
    answers: Counter[str] = Counter()
    for event in events:
        match event.payload:
            case PermissionRequest(approval_id=own) | QuestionRequest(question_id=own):
                if own in asked:
                    yield f"{own} is asked twice"
                asked[own] = event
            case PermissionResolved(approval_id=own) | QuestionResolved(question_id=own):
                answers[own] += 1
                if own not in asked:
                    yield f"{own} is answered before it is asked"
                elif asked[own].run_id != event.run_id:
                    yield f"{own} is answered in another run"
            case _:
                pass
    yield from (f"{own} has {answers[own]} answers" for own in asked if answers[own] != 1)


Key = tuple[str | None, str]


def _tools(events: Sequence[Event]) -> Iterator[str]:
    status: dict[Key, ToolStatus | None] = {}
    carded: set[tuple[str | None, Key]] = set()
    of_run: defaultdict[str | None, set[Key]] = defaultdict(set)
    background: set[Key] = set()
    for event in events:
        match event.payload:
            case ToolCall() as card:
                key = (event.session_id, card.tool_call_id)
                if (event.run_id, key) in carded:
                    yield f"two cards of {card.tool_call_id}"
                carded.add((event.run_id, key))
                status[key] = card.status
            case ToolUpdate() as update:
                key = (event.session_id, update.tool_call_id)
                yield from _moved(status, key, update)
                if update.background:
                    background.add(key)
            case Complete():
                for key in of_run[event.run_id] - background:
                    if status[key] not in FINAL_TOOL:
                        yield f"{key[1]} is {status[key]} at the end of {event.run_id}"
                continue
            case _:
                continue
        of_run[event.run_id].add(key)


def _moved(status: dict[Key, ToolStatus | None], key: Key, update: ToolUpdate) -> Iterator[str]:
    if key not in status:
        yield f"{key[1]} is updated before its card"
    elif update.status is not None:
        if status[key] in FINAL_TOOL:
            yield f"{key[1]} was {status[key]} and becomes {update.status}"
        status[key] = update.status


def _sizes(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        if weight(event.payload) > EVENT_BYTES:
            yield f"{event.type} of {weight(event.payload)} bytes"
