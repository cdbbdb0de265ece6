"""Owns what a transcript's own lines say, to compare events with.

`Told` is counted from the lines, by no code of ours, so that an empty or an invented stream is caught
as well. `broken`, which looks at events alone, ships in the package.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agentctl.core.events import (
    Complete,
    Event,
    MessageChunk,
    PermissionRequest,
    QuestionRequest,
    ToolCall,
)
from agentctl.core.words import Outcome, Role
from agentctl.testing.promises import broken

__all__ = ["Told", "broken", "differs", "told"]

Line = dict[str, Any]
AGENT_SPEECH = ("[MODE_UPDATE]", "Warning: ", "Error: ", "Info: ")


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
