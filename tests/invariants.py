"""Owns the promises that any stream of events keeps, and what a transcript's own lines say of it.

`broken` looks at events alone. `Told` is counted from the lines, by no code of ours, so that an empty
or an invented stream is caught as well.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agentctl.core.events import (
    Complete,
    Event,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    RunStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.limits import EVENT_BYTES, weight
from agentctl.core.words import FINAL_TOOL, Outcome, Role, ToolStatus

Line = dict[str, Any]
AGENT_SPEECH = ("[MODE_UPDATE]", "Warning: ", "Error: ", "Info: ")


def broken(events: Sequence[Event]) -> list[str]:
    """Every promise that the stream breaks, in words."""
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


@dataclass
class Told:
    """What the lines of an ACP transcript say by themselves."""

    prompts: int = 0
    good: int = 0
    approvals: int = 0
    questions: int = 0
    tools: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    text: list[str] = field(default_factory=list[str])
    speech: list[str] = field(default_factory=list[str])
    perhaps_failed: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])


def told(lines: Iterable[Line]) -> Told:
    """Counts prompts, good ends, requests, tools and text of an ACP transcript."""
    out = Told()
    open_prompts: dict[str, str] = {}
    cancelled: set[str] = set()
    prompted: set[str] = set()
    process, codex = 0, False
    for line in lines:
        message: Any = line.get("msg")
        if not isinstance(message, dict):
            continue
        message = cast(Any, message)
        process += line["dir"] == "note" and message.get("event") == "spawn"
        codex = codex or "codex-acp" in str(message.get("result"))[:400]
        params: Any = message.get("params") or {}
        session = params.get("sessionId")
        match line["dir"], message:
            case "to_agent", {"method": "session/prompt", "id": own}:
                out.prompts += 1
                prompted.add(str(session))
                open_prompts[repr(own)] = str(session)
            case "to_agent", {"method": "session/cancel"}:
                cancelled |= {key for key, where in open_prompts.items() if where == session}
            case "to_agent", {"method": "session/load"}:
                prompted.discard(str(session))
            case "from_agent", {"method": "session/request_permission", "id": _}:
                out.approvals += 1
                if session in prompted:
                    out.tools.add((str(session), params["toolCall"]["toolCallId"]))
            case "from_agent", {"method": "elicitation/create"}:
                out.questions += 1
            case "from_agent", {"method": "session/update"} if session in prompted:
                _update(out, params, process, codex)
            case "from_agent", {"id": own, "result": {"stopReason": reason}}:
                key = repr(own)
                out.good += reason != "cancelled" and key not in cancelled and key in open_prompts
                open_prompts.pop(key, None)
            case "from_agent", {"id": own, "error": _}:
                open_prompts.pop(repr(own), None)
            case _:
                pass
    return out


def _update(out: Told, params: Line, process: int, codex: bool) -> None:
    update, session = params["update"], params["sessionId"]
    match update:
        case {"sessionUpdate": "tool_call" | "tool_call_update", "toolCallId": own}:
            out.tools.add((session, own))
        case {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}:
            if text.startswith(AGENT_SPEECH) or (codex and "messageId" not in update):
                out.speech.append(text)
                out.perhaps_failed.add((process, session))
            else:
                out.text.append(text)
        case _:
            pass


def differs(events: Sequence[Event], lines: Sequence[Line]) -> list[str]:
    """Where the events say something else than the lines."""
    want = told(lines)
    ends = [event.payload for event in events if isinstance(event.payload, Complete)]
    good = sum(end.outcome is Outcome.COMPLETED for end in ends)
    soft = sum(end.outcome is Outcome.FAILED and end.stop_reason == "end_turn" for end in ends)
    counts: dict[str, tuple[int, int]] = {
        "runs": (len(ends), want.prompts),
        "good ends": (good + soft, want.good),
        "approvals": (_count(events, PermissionRequest), want.approvals),
        "questions": (_count(events, QuestionRequest), want.questions),
        "tools": (len(_cards(events)), len(want.tools)),
    }
    wrong = [f"{n} {what}, the lines say {m}" for what, (n, m) in counts.items() if n != m]
    text = "".join(_assistant(events))
    if text != "".join(want.text):
        wrong.append(f"{len(text)} characters, the lines say {sum(map(len, want.text))}")
    if soft and not want.perhaps_failed:
        wrong.append("a run failed softly where the agent said no error")
    return wrong


def _count(events: Sequence[Event], kind: type[Any]) -> int:
    return sum(isinstance(event.payload, kind) for event in events)


def _cards(events: Sequence[Event]) -> set[tuple[str | None, str]]:
    return {
        (e.session_id, e.payload.tool_call_id) for e in events if isinstance(e.payload, ToolCall)
    }


def _assistant(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        match event.payload:
            case MessageChunk(role=Role.ASSISTANT, text=str(text)):
                yield text
            case _:
                pass
