"""Owns tool items as drafts: cards, output, exit codes, patches, subagents. Pure.

A command that outlives its turn stays open and is marked `background`: Codex keeps it as a terminal of
its own and tells its end later. Output deltas have holes; the completed item has all of it.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft
from agentctl.core.events import FileChange, Task, ToolUpdate
from agentctl.core.parts import Location
from agentctl.core.words import (
    FINAL_TOOL,
    TaskKind,
    TaskStatus,
    ToolKind,
    ToolStatus,
)
from agentctl_adapters.codex.changes import blocks_of, changes_of, kind_of, title_of
from agentctl_adapters.codex.content import content_of
from agentctl_adapters.codex.view import Book, Item, Thread, Turn
from agentctl_adapters.common.cards import card_of
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, number

Drafts = list[AnyDraft]
Reader = Callable[[Json, ToolUpdate], None]

COMMAND, PATCH, SUBAGENT = "commandExecution", "fileChange", "subAgentActivity"
ERROR_CHARS = 4000
KILLED = -1
"""The exit code of a command that Codex ended itself."""

_STATUS = {
    "inProgress": ToolStatus.RUNNING,
    "completed": ToolStatus.COMPLETED,
    "failed": ToolStatus.FAILED,
    "declined": ToolStatus.CANCELLED,
    "interrupted": ToolStatus.CANCELLED,
}
_ACTIONS = {"read": ToolKind.READ, "listFiles": ToolKind.SEARCH, "search": ToolKind.SEARCH}


def bare_command(command: str) -> str:
    """What is run, without the shell that Codex wraps around it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    if len(words) == 3 and words[0].endswith("sh") and words[1] in ("-lc", "-c"):
        return words[2]
    return command


def _command(source: Json, told: ToolUpdate) -> None:
    command = bare_command(as_text(source.get("command")))
    told.name = "exec_command"
    told.title = told.command = command
    told.kind = ToolKind.EXECUTE
    actions = as_objects(source.get("commandActions"))
    kinds = {_ACTIONS.get(as_text(each.get("type"))) for each in actions}
    if kinds and None not in kinds:
        told.kind = ToolKind.SEARCH if ToolKind.SEARCH in kinds else ToolKind.READ
        paths = [as_text(a.get("path")) for a in actions if as_text(a.get("path"))]
        told.paths = list(dict.fromkeys(paths))
        told.locations = [Location(path) for path in told.paths]
    told.input_json = orjson.dumps({"command": command, "cwd": as_text(source.get("cwd"))})
    output = source.get("aggregatedOutput")
    told.output_replace = output if isinstance(output, str) else None
    told.exit_code = number(source.get("exitCode"))
    waiting = source.get("processId") is None and source.get("source") == "agent"
    if told.status is ToolStatus.RUNNING and waiting:
        told.status = ToolStatus.PENDING


def _patch(source: Json, told: ToolUpdate) -> None:
    changes = changes_of(source, told.tool_call_id)
    told.name = "apply_patch"
    told.title = title_of(changes)
    told.kind = kind_of(changes)
    told.paths = [each.path for each in changes]
    told.locations = [Location(path) for path in told.paths]
    told.content = blocks_of(changes)
    told.input_json = orjson.dumps({"changes": source.get("changes")})


def _mcp(source: Json, told: ToolUpdate) -> None:
    server, tool = as_text(source.get("server")), as_text(source.get("tool"))
    told.name = f"mcp__{server}__{tool}"
    told.title = f"{server}: {tool}"
    told.kind = ToolKind.MCP
    told.input_json = orjson.dumps(source.get("arguments"))
    result = as_object(source.get("result"))
    if "content" in result:
        told.content = content_of(result.get("content"))
    message = as_text(as_object(source.get("error")).get("message"))
    told.error = message[:ERROR_CHARS] or None


def _dynamic(source: Json, told: ToolUpdate) -> None:
    told.name = told.title = as_text(source.get("tool"))
    told.kind = ToolKind.OTHER
    told.input_json = orjson.dumps(source.get("arguments"))
    if isinstance(source.get("contentItems"), list):
        told.content = content_of(source.get("contentItems"))
    if source.get("success") is False:
        told.status = ToolStatus.FAILED


def _search(source: Json, told: ToolUpdate) -> None:
    action = as_object(source.get("action"))
    what = as_text(source.get("query")) or as_text(action.get("url"))
    told.name, told.kind = "web_search", ToolKind.FETCH
    told.title = f"Search the web for {what}" if what else "Search the web"
    if what:
        told.input_json = orjson.dumps({"query": what, "action": action})


def _image(source: Json, told: ToolUpdate) -> None:
    path = as_text(source.get("path")) or as_text(source.get("savedPath"))
    made = source.get("type") == "imageGeneration"
    told.name = "image_generation" if made else "view_image"
    told.kind = ToolKind.OTHER if made else ToolKind.READ
    told.title = "Make an image" if made else f"View {path.rpartition('/')[2]}"
    if path:
        told.paths, told.locations = [path], [Location(path)]


def _collaboration(source: Json, told: ToolUpdate) -> None:
    told.name = as_text(source.get("tool"))
    told.title = f"Subagents: {told.name}"
    told.kind = ToolKind.SUBAGENT
    words = ("prompt", "model", "reasoningEffort", "receiverThreadIds")
    told.input_json = orjson.dumps({k: source[k] for k in words if source.get(k)})


def _subagent(source: Json, told: ToolUpdate) -> None:
    path, kind = as_text(source.get("agentPath")), as_text(source.get("kind"))
    told.name, told.kind = "subagent", ToolKind.SUBAGENT
    told.title = f"Subagent {path} {kind}".rstrip()
    told.input_json = orjson.dumps({"agent": path, "activity": kind})


READERS: Mapping[str, Reader] = {
    COMMAND: _command,
    PATCH: _patch,
    SUBAGENT: _subagent,
    "mcpToolCall": _mcp,
    "dynamicToolCall": _dynamic,
    "webSearch": _search,
    "imageView": _image,
    "imageGeneration": _image,
    "collabAgentToolCall": _collaboration,
}


class Tools:
    """Tool items of every thread."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._agents: dict[str, tuple[Thread, Item]] = {}
        """Subagents at work: the thread and the call that started each child thread."""

    def started(self, thread: Thread, source: Json, turn: Turn | None, msg: Any) -> Drafts:
        told = _read(source)
        item = thread.items[told.tool_call_id] = Item(
            told.tool_call_id, as_text(source.get("type")), turn, tool=True, told=source
        )
        item.running = item.kind == COMMAND and source.get("processId") is not None
        drafts: Drafts = [thread.draft(card_of(told, told.status or ToolStatus.RUNNING), turn, msg)]
        if told.content or told.output_replace:
            news = ToolUpdate(item.id, content=told.content, output_replace=told.output_replace)
            drafts.append(thread.draft(news, turn))
        if item.kind == SUBAGENT and source.get("kind") == "started":
            drafts += self._hired(thread, item, source)
        return drafts

    def completed(self, thread: Thread, source: Json, turn: Turn | None, msg: Any) -> Drafts:
        item_id = as_text(source.get("id"))
        item = thread.items.get(item_id)
        drafts: Drafts = []
        if item is None and source.get("type") == SUBAGENT:
            drafts += self.started(thread, source, turn, msg)
        told = _read(source)
        if told.status not in FINAL_TOOL:
            told.status = ToolStatus.COMPLETED
        if source.get("type") == SUBAGENT and source.get("kind") == "started":
            return drafts
        thread.items.pop(item_id, None)
        if turn is not None and turn.interrupted and told.exit_code == KILLED:
            told.status = ToolStatus.CANCELLED
        drafts.append(thread.draft(told, turn, msg))
        if source.get("type") == PATCH and told.status is ToolStatus.COMPLETED:
            changes: list[FileChange] = changes_of(source, item_id)
            drafts += [thread.draft(change, turn) for change in changes]
        return drafts

    def output(self, thread: Thread, params: Json, msg: Any) -> Drafts:
        item = thread.items.get(as_text(params.get("itemId")))
        text = as_text(params.get("delta"))
        if item is None or not text:
            return []
        item.running = item.running or item.kind == COMMAND
        return [thread.draft(ToolUpdate(item.id, output_delta=text), item.turn, msg)]

    def repatched(self, thread: Thread, params: Json, msg: Any) -> Drafts:
        """The patch of an open card was told anew."""
        item = thread.items.get(as_text(params.get("itemId")))
        if item is None or not item.tool:
            return []
        item.told = {**item.told, "changes": params.get("changes")}
        told = _read(item.told)
        told.status = None
        return [thread.draft(told, item.turn, msg)]

    def left_open(self, thread: Thread, item: Item) -> Drafts:
        """Its turn is over: a command that runs on stays open, all else is for the run to close."""
        working = item.kind == SUBAGENT and item.told.get("kind") == "started"
        if not item.running and not working:
            del thread.items[item.id]
            return []
        return [thread.draft(ToolUpdate(item.id, background=True), item.turn)]

    def child_ended(self, child: Thread, status: str) -> Drafts:
        """A subagent's turn is over; so is the call that started it."""
        thread, item = self._agents.pop(child.id, (None, None))
        if thread is None or item is None:
            return []
        thread.items.pop(item.id, None)
        update = ToolUpdate(item.id, status=_STATUS.get(status, ToolStatus.COMPLETED))
        ends = {"failed": TaskStatus.FAILED, "interrupted": TaskStatus.CANCELLED}
        task = Task(child.id, item.id, TaskKind.SUBAGENT, status=TaskStatus.COMPLETED)
        task.status = ends.get(status, TaskStatus.COMPLETED)
        return [thread.draft(update, item.turn), thread.draft(task, item.turn)]

    def _hired(self, thread: Thread, item: Item, source: Json) -> Drafts:
        child_id = as_text(source.get("agentThreadId"))
        if not child_id:
            return []
        child = self._book.thread(child_id)
        self._book.adopt(child, thread, item.id)
        self._agents[child_id] = (thread, item)
        title = as_text(source.get("agentPath")) or None
        task = Task(child_id, item.id, TaskKind.SUBAGENT, title, TaskStatus.RUNNING)
        return [thread.draft(task, item.turn)]


def _read(source: Json) -> ToolUpdate:
    word = as_text(source.get("status"))
    told = ToolUpdate(as_text(source.get("id")), status=_STATUS.get(word, ToolStatus.RUNNING))
    reader = READERS.get(as_text(source.get("type")))
    if reader is not None:
        reader(source, told)
    return told


def diff_of(item: Item | None) -> tuple[str | None, str | None]:
    """The first file and the whole diff of a patch that waits for leave."""
    if item is None or item.kind != PATCH:
        return None, None
    changes = changes_of(item.told, item.id)
    text = "".join(each.diff or "" for each in changes)
    return (changes[0].path if changes else None), (text or None)
