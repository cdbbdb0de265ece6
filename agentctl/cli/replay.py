"""Owns `agentctl replay`: recorded transcripts through translate and turns, printed as events.

Needs no daemon. It refuses to know how a protocol is spoken: the adapter's entry point brings that.
"""

from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from json import loads
from pathlib import Path
from typing import Any, cast

import orjson

from agentctl.cli.out import as_json, clean, out, plain
from agentctl.core.adapter import ProtocolAdapter
from agentctl.core.errors import Invalid
from agentctl.core.events import (
    Complete,
    Event,
    Log,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    Reasoning,
    RunStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.replay import Replayer, frame_of

ADAPTERS = "agentctl.adapters"
SHOWN_CHARS = 160


def replay(protocol: str, files: Sequence[Path], json: bool) -> None:
    """Prints the events of recordings; with several files each JSON row names its `file`.

    Raises:
        Invalid: an unknown protocol, or a line that is no line of a transcript.
        OSError: a file that cannot be read.
    """
    adapter = _adapter(protocol)
    many = len(files) > 1
    for path in files:
        if many and not json:
            out().line(out().text(str(path), "bold"))
        for events in _events(adapter, path):
            if not events:
                continue
            rows = [_row(event, path, many) if json else _line(event) for event in events]
            out().write("".join(f"{row}\n" for row in rows))


def _adapter(protocol: str) -> ProtocolAdapter:
    found = {point.name: point for point in entry_points(group=ADAPTERS)}
    if protocol not in found:
        known = ", ".join(sorted(found)) or "none"
        raise Invalid(
            f'There is no protocol "{protocol}"; use one of: {known}.',
            reason="INVALID_PARAMETERS",
            metadata={"usage": "1", "field": "protocol"},
        )
    return cast(ProtocolAdapter, found[protocol].load())


def _events(adapter: ProtocolAdapter, path: Path) -> Iterator[list[Event]]:
    replayer = Replayer(adapter.translator())
    client: object = None
    # In binary, so that only \n ends a line: an agent's text may hold every other line end.
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            told = _parsed(path, number, line)
            # Several clients of one server hear the same: the recording is the first one's.
            client = told.get("client") if client is None else client
            if told.get("client") not in (None, client):
                continue
            frame = frame_of(told)
            if frame is not None:
                yield replayer.feed(int(told["t"]), frame)
    yield replayer.finish()


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        told = orjson.loads(line)
    except ValueError:
        told = _lenient(line)
    if isinstance(told, dict):
        row = cast(dict[str, Any], told)
        if isinstance(row.get("dir"), str) and isinstance(row.get("t"), int | float):
            return row
    raise Invalid(
        f"{path}:{number} is no line of a transcript; "
        'expected {"t": ms, "dir": "to_agent", "msg": …}.',
        reason="INVALID_PARAMETERS",
        metadata={"file": str(path), "line": str(number)},
    )


def _lenient(line: bytes) -> object:
    """Recordings keep halves of surrogate pairs and broken bytes as the agent sent them."""
    try:
        return loads(line.decode("utf-8", "replace"))
    except ValueError:
        return None


def _row(event: Event, path: Path, many: bool) -> str:
    # The converter loads protobuf, which a look at the text form does not need.
    from agentctl.rpc.jsonview import event_to_json

    row = event_to_json(event)
    if many:
        row = {**row, "file": str(path)}
    return as_json(row)


def _line(event: Event) -> str:
    whose = event.run_id or (f"after {event.after_run_id}" if event.after_run_id else "")
    told = plain(clean(_words(event)))[:SHOWN_CHARS]
    return f"{event.ts:>8} {event.type:<20} {whose:<12} {told}".rstrip()


def _words(event: Event) -> str:
    match event.payload:
        case MessageChunk(text=text) | Reasoning(text=text):
            return text or ""
        case RunStatus(status=status, prompt=prompt):
            return f"{status} {' '.join(block.text or '' for block in prompt or [])}"
        case ToolCall() as call:
            return f"{call.status} {call.kind} {call.command or call.title or call.tool_call_id}"
        case ToolUpdate() as update:
            code = "" if update.exit_code is None else f"exit {update.exit_code} "
            status = update.status or ""
            return f"{status} {code}{update.error or update.output_delta or update.title or ''}"
        case PermissionRequest(approval_id=own, title=title):
            return f"{own} {title or ''}"
        case PermissionResolved(approval_id=own, decision=decision):
            return f"{own} {decision}"
        case Log(stream=stream, text=text):
            return f"{stream} {text}"
        case Complete(outcome=outcome, error=error):
            return f"{outcome} {error.message if error else ''}"
        case other:
            return str(getattr(other, "message", None) or getattr(other, "title", None) or "")
