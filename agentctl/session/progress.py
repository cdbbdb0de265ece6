"""Owns what was done in a session, counted as its events come: a pure fold into its record.

Events go in once and in journal order, live or read back. The counts stand in the SessionRecord; what
they are continued from after a restart stands in a SeenRecord, and what each run did in its
TallyRecord. It refuses to know when these are stored and where events come from.
"""

import dataclasses
import os.path
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentctl.core.events import (
    Complete,
    Event,
    FileChange,
    Message,
    MessageChunk,
    Plan,
    RunStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.limits import head
from agentctl.core.parts import ContentBlock, Location, Usage
from agentctl.core.words import (
    ChangeKind,
    EventType,
    Outcome,
    PlanStatus,
    Role,
    RunChange,
    SessionPhase,
    SessionState,
    ToolKind,
    ToolStatus,
)
from agentctl.session.records import SeenRecord, SeenTool, SessionRecord, TallyRecord
from agentctl.session.testruns import recognise

TEXT_BYTES = 4096
"""What is kept of a message or a command that is only shown as the last one."""

OUTPUT_CHARS = 256 * 1024
"""What is kept of a command's output to read test results in: a runner's summary is at its end."""

FOLDED = frozenset(
    {
        EventType.RUN_STATUS,
        EventType.MESSAGE_CHUNK,
        EventType.MESSAGE,
        EventType.TOOL_CALL,
        EventType.TOOL_UPDATE,
        EventType.FILE_CHANGE,
        EventType.PLAN,
        EventType.COMPLETE,
    }
)
"""What a fold needs to see."""

_SPEAKERS = frozenset({Role.ASSISTANT, Role.USER})
_DONE = frozenset({ToolStatus.COMPLETED, ToolStatus.FAILED})
_FINAL = _DONE | {ToolStatus.CANCELLED}
_PHASES: Mapping[SessionState, SessionPhase] = {
    SessionState.STARTING: SessionPhase.ACTIVE,
    SessionState.ACTIVE: SessionPhase.ACTIVE,
    SessionState.IDLE: SessionPhase.ACTIVE,
    SessionState.AWAITING: SessionPhase.ACTIVE,
    SessionState.ASLEEP: SessionPhase.PAUSED,
    SessionState.INTERRUPTED: SessionPhase.PAUSED,
    SessionState.FAILED: SessionPhase.FAILED,
}
_BAD = frozenset({Outcome.FAILED, Outcome.TIMED_OUT})


def phase_of(state: SessionState, last_outcome: Outcome | None) -> SessionPhase:
    """Where a session is, in four words; a closed one is judged by its last run."""
    if state is SessionState.CLOSED:
        return SessionPhase.FAILED if last_outcome in _BAD else SessionPhase.COMPLETED
    return _PHASES[state]


def add_usage(total: Usage | None, told: Usage | None) -> Usage | None:
    """The sum; what neither told stays absent."""
    if told is None or total is None:
        return dataclasses.replace(told) if told is not None else total
    summed = Usage()
    for name in Usage.__slots__:
        values = [v for v in (getattr(total, name), getattr(told, name)) if v is not None]
        setattr(summed, name, sum(values) if values else None)
    return summed


class Facts:
    """The fold of one session; `record` is filled in place."""

    def __init__(
        self,
        record: SessionRecord,
        seen: SeenRecord | None = None,
        tallies: Iterable[TallyRecord] = (),
    ) -> None:
        self.record = record
        # Of a session in a worktree this is the worktree: the paths that its agent tells are there.
        self._workspace = record.spec.workspace
        self.seen = seen or SeenRecord(record.id)
        # One object: stored with the session or with what was seen, it is as of the same event.
        self.seen.progress = record.progress
        self.tallies = {each.run_id: each for each in tallies}
        """Of runs that are open, and of the one that ended last."""
        self.changed: dict[str, TallyRecord] = {}
        """Those that were not stored since they changed."""
        self._ran = ("", SeenTool(ToolKind.OTHER))
        self.done_with: str | None = None
        """A message of whose further chunks nothing is kept."""
        self._message: str | None = None
        self._room = 0

    @classmethod
    def restored(
        cls, record: SessionRecord, seen: SeenRecord, tallies: Iterable[TallyRecord]
    ) -> "Facts":
        """The facts as they were seen last, the record's with them; later events follow."""
        record.progress = seen.progress
        record.usage, record.cost_usd = seen.usage, seen.cost_usd
        record.last_outcome = seen.last_outcome
        return cls(record, seen, tallies)

    def feed(self, event: Event) -> None:
        """One event, of any type."""
        fold = FOLDS.get(type(event.payload))
        if fold is not None:
            fold(self, event, event.payload)

    def chunk(self, event: Event, payload: MessageChunk) -> None:
        """Text comes in floods: of most of it `done_with` spares its caller this call."""
        if payload.message_id != self._message:
            self._speaks(event, payload)
        if self._room > 0 and payload.text:
            self._append(payload.text)
        if self._room <= 0:
            self.done_with = payload.message_id

    def _speaks(self, event: Event, payload: MessageChunk) -> None:
        self._message, self._room, self.done_with = payload.message_id, 0, None
        if event.parent_tool_call_id is not None or payload.role not in _SPEAKERS:
            return
        key = _key(event, payload.message_id)
        if key not in self.seen.said:
            self.seen.said.add(key)
            self.record.progress.message_count += 1
            self.seen.speaking, self.seen.silent = key, True
            self._room = TEXT_BYTES
        elif key == self.seen.speaking:
            said = "" if self.seen.silent else self.record.progress.last_message or ""
            self._room = TEXT_BYTES - len(said.encode("utf-8", "surrogatepass"))

    def _append(self, text: str) -> None:
        progress = self.record.progress
        if self.seen.silent:
            self.seen.silent, self.seen.before = False, progress.last_message
            progress.last_message = ""
        kept = _clean(head(text[: self._room], self._room))
        progress.last_message = (progress.last_message or "") + kept
        room = self._room - len(kept.encode("utf-8", "surrogatepass"))
        # A character that no longer fits ends the text; what follows must not close up to it.
        self._room = room if len(kept) == len(text) else 0

    def message(self, event: Event, payload: Message) -> None:
        if event.parent_tool_call_id is not None or payload.role not in _SPEAKERS:
            return
        seen, progress = self.seen, self.record.progress
        key = _key(event, payload.message_id)
        self._message = self.done_with = None
        if payload.retracted or not payload.content:
            if key in seen.said:
                seen.said.remove(key)
                progress.message_count -= 1
                if key == seen.speaking:
                    seen.speaking = ""
                    if not seen.silent:
                        progress.last_message = seen.before
            return
        if key not in seen.said:
            seen.said.add(key)
            progress.message_count += 1
            seen.before, seen.speaking, seen.silent = progress.last_message, key, False
        if key == seen.speaking:
            if seen.silent:
                seen.silent, seen.before = False, progress.last_message
            progress.last_message = _text(payload.content) or progress.last_message

    def run(self, event: Event, payload: RunStatus) -> None:
        run_id, progress = event.run_id or "", self.record.progress
        tally = self._tally(event)
        if payload.status is RunChange.CREATED:
            progress.runs += 1
            if payload.prompt:
                progress.message_count += 1
                self.seen.waiting[run_id] = _text(payload.prompt)
        elif payload.status is RunChange.STARTED:
            if tally is not None:
                tally.started, tally.started_at = True, event.ts
            self._forget_ended()
            self._message, self.done_with, self.seen.speaking = None, None, ""
            prompt = self.seen.waiting.pop(run_id, "")
            progress.last_message = prompt or progress.last_message

    def forget_run(self, run_id: str) -> None:
        """A run that was refused after its first event was folded: it never was."""
        self.tallies.pop(run_id, None)
        self.changed.pop(run_id, None)
        self.record.progress.runs -= 1
        if run_id in self.seen.waiting:
            del self.seen.waiting[run_id]
            self.record.progress.message_count -= 1

    def _forget_ended(self) -> None:
        ended = [key for key, tally in self.tallies.items() if tally.outcome is not None]
        busy = {tool.run_id for tool in self.seen.tools.values()}
        for key in ended:
            if key not in busy:
                del self.tallies[key]
        self.seen.said = {key for key in self.seen.said if key.partition(" ")[0] in self.tallies}

    def _tally(self, event: Event) -> TallyRecord | None:
        """What is counted of the event's run, which it is told in."""
        run_id = event.run_id or event.after_run_id
        if run_id is None:
            return None
        tally = self.tallies.get(run_id)
        if tally is None:
            if event.run_id is None:
                return None
            tally = self.tallies[run_id] = TallyRecord(
                run_id, self.record.id, self.record.spec.entry_id
            )
        tally.events += 1
        self.changed[run_id] = tally
        return tally

    def tool(self, event: Event, payload: ToolCall) -> None:
        tally = self._tally(event)
        tools = self.seen.tools
        tool = tools.get(payload.tool_call_id)
        if tool is None:
            run_id = tally.run_id if tally is not None else None
            tool = tools[payload.tool_call_id] = SeenTool(payload.kind, run_id)
            if tally is not None:
                tally.tools += 1
        tool.kind = payload.kind
        tool.command = _cut(payload.command or payload.title or payload.name or tool.command)
        tool.paths = _paths(payload.paths, payload.locations) or tool.paths
        if payload.status in _FINAL:
            self._end(payload.tool_call_id, tool, payload.status)

    def update(self, event: Event, payload: ToolUpdate) -> None:
        """Output comes in floods: of what is no command it is one look-up."""
        tool = self.seen.tools.get(payload.tool_call_id)
        if tool is None:
            self._late_output(payload)
            return
        if payload.kind is not None:
            tool.kind = payload.kind
        if tool.kind is ToolKind.EXECUTE:
            _hear(tool, payload)
            tool.command = _cut(payload.command or tool.command or payload.title or "")
        elif payload.paths or payload.locations:
            tool.paths = _paths(payload.paths, payload.locations) or tool.paths
        if payload.status is not None and payload.status in _FINAL:
            self._end(payload.tool_call_id, tool, payload.status)

    def _end(self, tool_id: str, tool: SeenTool, status: ToolStatus) -> None:
        del self.seen.tools[tool_id]
        progress, tally = self.record.progress, self.tallies.get(tool.run_id or "")
        if tally is not None:
            tally.events += 1
            self.changed[tally.run_id] = tally
            tally.tools_failed += status is ToolStatus.FAILED
        if tool.kind is ToolKind.EXECUTE and status in _DONE:
            progress.commands_run += 1
            progress.last_command = tool.command or progress.last_command
            if tally is not None:
                tally.commands += 1
            self._ran = (tool_id, tool)
            self._tests(tool)
        elif tool.kind is ToolKind.READ and status is ToolStatus.COMPLETED:
            self.seen.opened.update(map(self._normal, tool.paths))
            progress.files_open = len(self.seen.opened)

    def _late_output(self, payload: ToolUpdate) -> None:
        """Some agents tell what a command printed after they told its end."""
        tool_id, tool = self._ran
        if payload.tool_call_id == tool_id and _hear(tool, payload):
            self._tests(tool)

    def _tests(self, tool: SeenTool) -> None:
        if tool.output:
            counts = recognise(tool.command, "".join(tool.output), whole=tool.whole)
            if counts is not None:
                progress = self.record.progress
                progress.tests_passed, progress.tests_failed = counts

    def file(self, event: Event, payload: FileChange) -> None:
        seen, progress = self.seen, self.record.progress
        path = self._normal(payload.path)
        seen.changed.add(path)
        if payload.change is ChangeKind.CREATE:
            seen.created.add(path)
        progress.files_changed, progress.files_created = len(seen.changed), len(seen.created)
        told = _clean(payload.path)
        if (tally := self._tally(event)) is not None and told not in tally.files:
            tally.files.append(told)

    def _normal(self, path: str) -> str:
        path = _clean(path)
        return os.path.normpath(path if path[:1] == "/" else f"{self._workspace}/{path}")

    def plan(self, event: Event, payload: Plan) -> None:
        if event.parent_tool_call_id is not None:
            return
        entries, progress = payload.entries, self.record.progress
        doing = (each.content for each in entries if each.status is PlanStatus.IN_PROGRESS)
        progress.current_task = _cut(next(doing, "")) or None
        done = sum(each.status is PlanStatus.COMPLETED for each in entries)
        progress.percent = 100 * done / len(entries) if entries else None

    def complete(self, event: Event, payload: Complete) -> None:
        record, run_id = self.record, event.run_id or ""
        record.usage = add_usage(record.usage, payload.usage)
        if payload.cost_usd is not None:
            record.cost_usd = (record.cost_usd or 0.0) + payload.cost_usd
        record.last_outcome = payload.outcome
        self.seen.usage, self.seen.cost_usd = record.usage, record.cost_usd
        self.seen.last_outcome = payload.outcome
        self.seen.waiting.pop(run_id, None)
        tally = self._tally(event)
        if tally is not None:
            tally.outcome, tally.ended_at = payload.outcome, payload.ended_at or event.ts
            tally.started_at = payload.started_at or tally.started_at
            tally.usage, tally.cost_usd = payload.usage, payload.cost_usd
            tally.model = record.model or record.spec.model or ""


def _hear(tool: SeenTool, payload: ToolUpdate) -> bool:
    """Takes what the command printed out of an update; whether there was any."""
    text = payload.output_delta
    if payload.output_replace is not None or (payload.content and not tool.output):
        tool.output.clear()
        tool.size = 0
        told = (each.text for each in payload.content or () if each.text)
        _say(tool, payload.output_replace or "\n".join(told))
    if text:
        _say(tool, text)
    tool.whole = tool.whole and not payload.truncated
    return bool(text or payload.output_replace or payload.content)


def _say(tool: SeenTool, text: str) -> None:
    text = _clean(text)
    tool.output.append(text)
    tool.size += len(text)
    if tool.size > 2 * OUTPUT_CHARS:
        tool.output = ["".join(tool.output)[-OUTPUT_CHARS:]]
        tool.size, tool.whole = OUTPUT_CHARS, False


def _key(event: Event, message_id: str) -> str:
    return _clean(f"{event.run_id or event.after_run_id or ''} {message_id}")


def _text(content: Sequence[ContentBlock]) -> str:
    return _cut("\n".join(each.text for each in content if each.text))


def _cut(text: str) -> str:
    return _clean(head(text, TEXT_BYTES))


def _clean(text: str) -> str:
    """Agents send halves of characters, which no document can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _paths(paths: Sequence[str] | None, locations: Sequence[Location] | None) -> list[str]:
    return [_clean(path) for path in paths or ()] or [_clean(at.path) for at in locations or ()]


FOLDS: Mapping[type[Any], Callable[[Facts, Event, Any], None]] = {
    MessageChunk: Facts.chunk,
    Message: Facts.message,
    RunStatus: Facts.run,
    ToolCall: Facts.tool,
    ToolUpdate: Facts.update,
    FileChange: Facts.file,
    Plan: Facts.plan,
    Complete: Facts.complete,
}
"""What each type of event does to the facts."""
