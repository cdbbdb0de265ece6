"""Owns writing a session out, as JSON lines or Markdown, exactly as it was at one place of the journal.

The records of runs may be a moment ahead or behind: each run is told as the events up to that place
have it.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import orjson

from agentctl import v1
from agentctl.core.state import FINAL_RUN
from agentctl.core.words import EventType, RunState
from agentctl.rpc import conversation, markdown, tally
from agentctl.rpc.conversation import Conversation
from agentctl.rpc.enums import words
from agentctl.rpc.history import portions, read
from agentctl.rpc.jsonview import to_dict
from agentctl.rpc.ports import HubApi
from agentctl.rpc.records import enum_number, run_message, session_message
from agentctl.rpc.requests import MAX_PAGE
from agentctl.rpc.tally import Tally, entry_stats, model_stats
from agentctl.session.api import ManagerApi
from agentctl.session.records import RunRecord, SessionRecord, TallyRecord

CHUNK_BYTES = 256 * 1024
"""A piece on the wire; far below what clients take."""

FILE_BYTES = 1024 * 1024
"""Of one changed file; source files are far smaller, and what is larger is named only."""

_WORDS = frozenset({EventType.MESSAGE, EventType.MESSAGE_CHUNK, EventType.REASONING})
_FINAL = frozenset(enum_number(v1.RunState, each) for each in FINAL_RUN)


@dataclass(frozen=True, slots=True)
class Options:
    """What to write; see ExportSessionRequest."""

    messages: bool = True
    files: bool = False
    stats: bool = True


@dataclass(frozen=True, slots=True)
class Cut:
    """A session at one place of the journal."""

    record: SessionRecord
    runs: list[v1.Run]
    tallied: Mapping[str, TallyRecord]
    cursor: str
    seq: int

    @property
    def stats(self) -> v1.EntryStats:
        runs = self.tallied.values()
        active = int(self.record.state in tally.ACTIVE)
        return entry_stats(self.record.spec.entry_id, runs, sessions=1, active=active)

    @property
    def models(self) -> list[v1.ModelStats]:
        return model_stats(self.tallied.values())

    @property
    def paths(self) -> list[str]:
        """The changed files, each once."""
        return sorted({path for run in self.tallied.values() for path in run.files})


async def cut(manager: ManagerApi, hub: HubApi, record: SessionRecord) -> Cut:
    """Takes the cut: the head of the journal when it begins to read."""
    records: list[RunRecord] = []
    token = ""
    while True:
        page, token = await manager.list_runs(session_id=record.id, after=token, limit=MAX_PAGE)
        records += page
        if not token:
            break
    counted = Tally(
        models={record.id: record.spec.model or record.model},
        asked={run.id: run.prompt.model for run in records if run.prompt.model},
    )
    cursor, seq = "", 0
    async with aclosing(read(hub, sessions=frozenset({record.id}), types=tally.TYPES)) as pieces:
        async for piece in pieces:
            cursor, seq = piece.cursor, piece.seq
            for events in portions(piece.events):
                for event in events:
                    counted.feed(event)
                await anyio.lowlevel.checkpoint()
    known = {run.id for run in records}
    records += [await manager.get_run(each) for each in counted.runs if each not in known]
    records.sort(key=lambda run: run.id)
    tallied = counted.runs
    runs = [
        _at_cut(run_message(each), tallied.get(each.id), counted.complete.get(each.id))
        for each in records
    ]
    return Cut(record, runs, tallied, cursor, seq)


def _at_cut(run: v1.Run, told: TallyRecord | None, end: v1.Complete | None) -> v1.Run:
    """The run as the events have it; one whose events are gone is as its record says."""
    if told is None:
        return run
    if end is not None:
        run.state = enum_number(v1.RunState, words(v1.Outcome.DESCRIPTOR)[end.outcome])
        run.ended_at = told.ended_at
        for name in ("stop_reason", "cost_usd", "started_at"):
            if end.HasField(name):
                setattr(run, name, getattr(end, name))
        for name in ("usage", "error"):
            if end.HasField(name):
                getattr(run, name).CopyFrom(getattr(end, name))
    elif run.state in _FINAL:
        state = RunState.RUNNING if told.started else RunState.QUEUED
        run.state = enum_number(v1.RunState, state)
        for name in ("ended_at", "stop_reason", "usage", "cost_usd", "error", "folded_into"):
            run.ClearField(name)  # pyright: ignore[reportArgumentType]  names of fields
    return run


async def export(
    manager: ManagerApi, hub: HubApi, record: SessionRecord, form: int, options: Options
) -> AsyncGenerator[bytes]:
    """The pieces of a written session; close it when done."""
    at = await cut(manager, hub, record)
    written = (
        _markdown(hub, at, options)
        if form == v1.ExportFormat.EXPORT_FORMAT_MARKDOWN
        else _json(hub, at, options)
    )
    room: list[bytes] = []
    size = 0
    async with aclosing(written):
        async for data in written:
            room.append(data)
            size += len(data)
            if size >= CHUNK_BYTES:
                yield b"".join(room)
                room, size = [], 0
    if room:
        yield b"".join(room)


def line(value: Any) -> bytes:
    """One JSON object on its line, whatever a reader takes for the end of a line."""
    data = orjson.dumps(value)
    if b"\xe2\x80" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data.replace(b"\xc2\x85", b"\\u0085") + b"\n"


async def _json(hub: HubApi, at: Cut, options: Options) -> AsyncGenerator[bytes]:
    head = {"type": "session", "version": 1, "cursor": at.cursor}
    yield line({**head, "data": to_dict(session_message(at.record))})
    for run in at.runs:
        if not options.messages:
            run.ClearField("prompt")
        yield line({"type": "run", "data": to_dict(run)})
    if options.stats:
        models = [to_dict(each) for each in at.models]
        yield line({"type": "stats", "data": {**to_dict(at.stats), "by_model": models}})
    types = frozenset(EventType) - {EventType.LOG} - (frozenset() if options.messages else _WORDS)
    sessions = frozenset({at.record.id})
    async with aclosing(read(hub, sessions=sessions, types=types, upto=at.seq)) as pieces:
        async for piece in pieces:
            for events in portions(piece.events):
                yield b"".join(_lines(events, options))
                await anyio.lowlevel.checkpoint()
    if options.files:
        for path in at.paths:
            found = await changed_file(at.record, path)
            yield line({"type": "file", "data": {k: v for k, v in found.items() if v is not None}})


def _lines(events: Iterable[v1.AgentEvent], options: Options) -> Iterator[bytes]:
    for event in events:
        if not options.messages and event.HasField("run_status"):
            event.run_status.ClearField("prompt")
        yield line(to_dict(event))


async def _markdown(hub: HubApi, at: Cut, options: Options) -> AsyncGenerator[bytes]:
    session = session_message(at.record)
    yield markdown.header(session, at.stats if options.stats else None, at.models).encode()
    writer = markdown.Writer(session.entry_id, session.workspace, messages=options.messages)
    fold = Conversation()
    sessions = frozenset({at.record.id})
    types = conversation.TYPES
    async with aclosing(read(hub, sessions=sessions, types=types, upto=at.seq)) as pieces:
        async for piece in pieces:
            for events in portions(piece.events):
                for event in events:
                    fold.feed(event)
                    if event.HasField("complete"):
                        for item in fold.take():
                            yield writer.write(item).encode()
                await anyio.lowlevel.checkpoint()
    for item in fold.all():
        yield writer.write(item).encode()
    if options.files and at.paths:
        yield b"\n## Changed files\n"
        for path in at.paths:
            found = await changed_file(at.record, path)
            yield markdown.file(path, found["text"], found["note"] or "").encode()


async def changed_file(record: SessionRecord, path: str) -> dict[str, Any]:
    """What a changed file holds now; only of the session's own directories."""
    spec = record.spec
    roots = [Path(each) for each in (spec.workspace, *spec.additional_directories)]
    text, note, size = await anyio.to_thread.run_sync(_read, roots, path)
    return {"path": path, "size": size, "text": text, "note": note}


def _read(roots: list[Path], path: str) -> tuple[str | None, str | None, int | None]:
    try:
        target = (roots[0] / path).resolve()
        if not any(target.is_relative_to(root.resolve()) for root in roots):
            return None, "It lies outside the session's directories.", None
        if not target.is_file():
            return None, "It is not there any more.", None
        size = target.stat().st_size
        if size > FILE_BYTES:
            return None, f"It is {size} bytes: too large to be written here.", size
        return target.read_bytes().decode("utf-8"), None, size
    except UnicodeDecodeError:
        return None, "It is no text.", None
    except (OSError, ValueError) as error:
        return None, f"It cannot be read: {error}.", None
