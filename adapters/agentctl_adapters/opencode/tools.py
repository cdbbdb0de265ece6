"""Owns tool parts as drafts: cards, output, exit codes, subagents, plans. Pure.

A tool part tells its whole state each time: pending, running (with all of its output so far), then
completed or error. What is told twice is left out further up. A call that the server refused changes its
name to `invalid`; a subagent's call names the child session that works for it.
"""

from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import Payload, Plan, ToolUpdate
from agentctl.core.parts import ContentBlock, Location, PlanEntry
from agentctl.core.words import (
    FINAL_TOOL,
    ContentType,
    PlanStatus,
    Priority,
    ToolKind,
    ToolStatus,
)
from agentctl_adapters.common.cards import card_of
from agentctl_adapters.opencode import changes
from agentctl_adapters.opencode.prompts import block_of_file
from agentctl_adapters.opencode.shapes import Json, as_object, as_objects, as_text, number
from agentctl_adapters.opencode.view import Book, Call, Message, SessionView

Drafts = list[AnyDraft]
ERROR_CHARS = 4000
INVALID = "invalid"

_STATUS = {
    "pending": ToolStatus.PENDING,
    "running": ToolStatus.RUNNING,
    "completed": ToolStatus.COMPLETED,
    "success": ToolStatus.COMPLETED,
    "result": ToolStatus.COMPLETED,
    "error": ToolStatus.FAILED,
    "failed": ToolStatus.FAILED,
}
KINDS = {
    "bash": ToolKind.EXECUTE,
    "shell": ToolKind.EXECUTE,
    "read": ToolKind.READ,
    "list": ToolKind.SEARCH,
    "ls": ToolKind.SEARCH,
    "glob": ToolKind.SEARCH,
    "grep": ToolKind.SEARCH,
    "codesearch": ToolKind.SEARCH,
    "lsp": ToolKind.SEARCH,
    "edit": ToolKind.EDIT,
    "multiedit": ToolKind.EDIT,
    "write": ToolKind.EDIT,
    "patch": ToolKind.EDIT,
    "apply_patch": ToolKind.EDIT,
    "webfetch": ToolKind.FETCH,
    "websearch": ToolKind.FETCH,
    "task": ToolKind.SUBAGENT,
    "todowrite": ToolKind.TODO,
    "todoread": ToolKind.TODO,
}
_PATHS = ("filePath", "file_path", "path", "filepath")
_NO_PATHS = frozenset({ToolKind.EXECUTE, ToolKind.SUBAGENT, ToolKind.TODO, ToolKind.FETCH})
_ABORTS = ("Tool execution aborted", "Task cancelled")
_ABORTED = "<shell_metadata>\nUser aborted the command"
_PLAN_STATUS = {status.value: status for status in PlanStatus}
_PRIORITY = {priority.value: priority for priority in Priority}


class Tools:
    """Tool calls of every session."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.servers: set[str] = set()
        """Names of MCP servers; their tools are called `server_tool`."""

    def kind_of(self, name: str) -> ToolKind:
        kind = KINDS.get(name.lower())
        if kind is not None:
            return kind
        if any(name.startswith(f"{server}_") for server in self.servers):
            return ToolKind.MCP
        return ToolKind.OTHER

    def part(self, view: SessionView, message: Message, part: Json, raw: Any) -> Drafts:
        """A tool part of a live answer."""
        call_id = as_text(part.get("callID")) or as_text(part.get("id"))
        if not call_id:
            return []
        state = _state(part)
        known = call_id in view.calls
        call = view.find_call(call_id)
        name = as_text(part.get("tool"))
        if name and name != INVALID:
            call.name, call.kind = name, self.kind_of(name)
        call.name = call.name or name
        told = self._read(call, name == INVALID, state)
        self._link(view, call, state)
        drafts: Drafts = []
        if not known:
            drafts.append(_draft(message, card_of(told), raw))
        if told.status is not None or told.output_replace is not None:
            drafts.append(_draft(message, told, raw))
        if told.status in FINAL_TOOL and not call.done:
            call.done = True
            call.failed = told.status is not ToolStatus.COMPLETED
            if not call.failed:
                drafts += self._done(view, message, call, state)
        return drafts

    def _read(self, call: Call, invalid: bool, state: Json) -> ToolUpdate:
        source = as_object(state.get("input"))
        metadata = as_object(state.get("metadata"))
        word = as_text(state.get("status"))
        status = _STATUS.get(word) or (ToolStatus.COMPLETED if word else None)
        told = ToolUpdate(call.id, status=status, name=call.name or None, kind=call.kind)
        if source and not invalid:
            told.input_json = orjson.dumps(source, default=str)
            told.command = as_text(source.get("command")) or None
            if call.kind is not ToolKind.EXECUTE:
                told.command = None
            _places(told, call, source)
        if not invalid:
            told.title = as_text(state.get("title")) or None
        told.exit_code = number(metadata.get("exit"))
        call.ran = call.ran or "output" in metadata
        if invalid and status is ToolStatus.COMPLETED:
            told.status = ToolStatus.FAILED
            told.error = (as_text(source.get("error")) or as_text(state.get("output")))[
                :ERROR_CHARS
            ]
        elif status is ToolStatus.FAILED:
            words = as_text(state.get("error")) or as_text(state.get("output"))
            told.error = words[:ERROR_CHARS] or None
            if words.startswith(_ABORTS) or metadata.get("interrupted") is True:
                told.status = ToolStatus.CANCELLED
        self._output(call, told, state, metadata)
        return told

    def _output(self, call: Call, told: ToolUpdate, state: Json, metadata: Json) -> None:
        whole = as_text(state.get("output"))
        if call.kind is ToolKind.EXECUTE:
            so_far = metadata.get("output")
            told.output_replace = so_far if isinstance(so_far, str) else whole or None
            if _ABORTED in whole and told.status is ToolStatus.COMPLETED and told.exit_code is None:
                told.status = ToolStatus.CANCELLED
        elif whole and told.status is ToolStatus.COMPLETED:
            told.content = [ContentBlock(ContentType.TEXT, text=whole)]
        if metadata.get("truncated") is True:
            told.truncated = True
        blocks = [block_of_file(item) for item in as_objects(state.get("attachments"))]
        path = as_text(metadata.get("outputPath"))
        if path:
            blocks.append(ContentBlock(ContentType.FILE, path=path, name="full output"))
        if blocks:
            told.content = [*(told.content or []), *blocks]

    def _link(self, view: SessionView, call: Call, state: Json) -> None:
        """A subagent's call names its child session."""
        metadata = as_object(state.get("metadata"))
        child = as_text(metadata.get("sessionId")) or as_text(metadata.get("sessionID"))
        if not child or child == view.id or call.child == child:
            return
        call.child = child
        other = self._book.view(child)
        other.parent, other.call = view, call.id

    def _done(self, view: SessionView, message: Message, call: Call, state: Json) -> Drafts:
        drafts: Drafts = []
        if call.kind is ToolKind.TODO:
            todos = as_object(state.get("metadata")).get("todos")
            told = todos if todos is not None else as_object(state.get("input")).get("todos")
            drafts += self.todos(view, told, message)
        if call.kind is ToolKind.EDIT:
            found = changes.of_tool(message, call, state)
            drafts += [_draft(message, change) for change in found]
        return drafts

    def todos(self, view: SessionView, told: object, message: Message | None = None) -> Drafts:
        """The to-do list of a session is its plan; the same list is told once."""
        if not isinstance(told, list):
            return []
        entries = [
            PlanEntry(
                as_text(item.get("content")),
                _PLAN_STATUS.get(as_text(item.get("status")), PlanStatus.PENDING),
                _PRIORITY.get(as_text(item.get("priority"))),
            )
            for item in as_objects(told)  # pyright: ignore[reportUnknownArgumentType]  # foreign JSON
        ]
        if entries == (view.todos or []):
            return []
        view.todos = entries
        plan = Plan(entries)
        if message is not None:
            return [_draft(message, plan)]
        return [Draft(plan, view.root.native, None, None, view.parent_call)]


def adopt(book: Book, view: SessionView, parent: str) -> None:
    """A child session is told by its parent's id; the call that made it may be named later."""
    if not parent or parent == view.id or view.parent is not None:
        return
    view.parent = book.view(parent)
    named = next((c for c in view.parent.calls.values() if c.child == view.id), None)
    if named is not None:
        view.call = named.id
        return
    waiting = [
        call
        for call in view.parent.calls.values()
        if call.kind is ToolKind.SUBAGENT and not call.child and not call.done
    ]
    if waiting:
        view.call = waiting[0].id


def _state(part: Json) -> Json:
    """The state object; some servers give only its word, with input and output beside it."""
    state = part.get("state")
    if isinstance(state, dict):
        return as_object(part.get("state"))
    return {
        "status": as_text(state) or as_text(part.get("status")),
        "input": part.get("input"),
        "output": part.get("output"),
        "error": part.get("error"),
        "metadata": part.get("metadata"),
    }


def _places(told: ToolUpdate, call: Call, source: Json) -> None:
    if call.kind in _NO_PATHS:
        return
    paths = [path for key in _PATHS if (path := as_text(source.get(key)))]
    if not paths:
        return
    told.paths = list(dict.fromkeys(paths))
    line = number(source.get("offset")) if call.kind is ToolKind.READ else None
    told.locations = [Location(path, line) for path in told.paths]


def _draft(message: Message, payload: Payload, raw: Any = None) -> Draft:
    view, turn = message.view, message.turn
    key = turn.key if turn is not None and turn.over else None
    return Draft(payload, view.root.native, key, None, view.parent_call, raw)
