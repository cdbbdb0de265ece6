"""Owns tool calls of ACP as drafts: names, kinds, commands, output, exit codes, file changes. Pure.

tool_call, tool_call_update and the toolCall of a permission request carry the same fields, each of
them may be the first word about a call, and any field may come later or again.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import FileChange, ToolUpdate
from agentctl.core.parts import ContentBlock, Location
from agentctl.core.words import FINAL_TOOL, ContentType, ToolKind, ToolStatus
from agentctl_adapters.acp.content import (
    agents_own_diff,
    block_of,
    change_of,
    diff_block,
    plan_of,
)
from agentctl_adapters.acp.quirks import Quirks
from agentctl_adapters.acp.usage import number
from agentctl_adapters.acp.view import Call, SessionView
from agentctl_adapters.common.cards import card_of
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

ERROR_CHARS = 4000
_CANCELLED = ToolStatus.CANCELLED

_KINDS = {
    "read": ToolKind.READ,
    "edit": ToolKind.EDIT,
    "delete": ToolKind.DELETE,
    "move": ToolKind.MOVE,
    "search": ToolKind.SEARCH,
    "execute": ToolKind.EXECUTE,
    "think": ToolKind.THINK,
    "fetch": ToolKind.FETCH,
    "switch_mode": ToolKind.OTHER,
    "other": ToolKind.OTHER,
}
_STATUS = {
    "pending": ToolStatus.PENDING,
    "in_progress": ToolStatus.RUNNING,
    "completed": ToolStatus.COMPLETED,
    "failed": ToolStatus.FAILED,
    "cancelled": ToolStatus.CANCELLED,
}
_TODO_NAMES = frozenset({"todowrite", "todo_write", "write_todos", "update_plan", "todo"})
_SUBAGENT_NAMES = frozenset({"agent", "task", "subagent"})
_PLAN_KEYS = ("todos", "entries", "plan")
_PATH_KEYS = ("file_path", "filePath", "filepath", "path", "fileName", "absolute_path")
_NO_PATHS = frozenset({ToolKind.EXECUTE, ToolKind.MCP, ToolKind.SUBAGENT, ToolKind.TODO})
_EXIT_KEYS = ("exit_code", "exitCode", "exit")
_EXIT_LINE = re.compile(r"^Exit Code: (-?\d+)$", re.MULTILINE)
_EXIT_START = re.compile(r"\AExit code:? (\d+)\b")
# How agents report a command that a cancel killed, as "completed" and without an exit code.
_ABORTED = re.compile(r"Command (?:was )?cancelled by user|User aborted the command")
_NAMED_ID = re.compile(r"\A(\w+?)__\1_\d+_\d+\Z")


def tool_drafts(view: SessionView, quirks: Quirks, update: Json, raw: Any) -> list[AnyDraft]:
    """A tool_call or tool_call_update of a session whose updates are new."""
    call_id = as_text(update.get("toolCallId"))
    known = call_id in view.calls
    call = view.call(call_id)
    if not known:
        view.interrupt()
        if view.turn is not None:
            view.turn.calls += 1
    parent = parent_of(update)
    told = read_call(view, quirks, call, call_id, update)
    drafts: list[AnyDraft] = []
    if update.get("sessionUpdate") == "tool_call":
        drafts.append(Draft(card_of(told), view.id, None, None, parent, raw))
        told = ToolUpdate(
            call_id,
            status=told.status if told.status in FINAL_TOOL else None,
            content=told.content,
            output_delta=told.output_delta,
            output_replace=told.output_replace,
            exit_code=told.exit_code,
            error=told.error,
        )
    drafts.append(Draft(told, view.id, None, None, parent, raw))
    drafts += _plan(view, call, update, parent)
    if told.status in FINAL_TOOL and not call.done:
        call.done = True
        if told.status is ToolStatus.COMPLETED and not told.exit_code:
            agents_own_diff(call.changes, update)
            drafts += [Draft(c, view.id, None, None, parent) for c in call.changes]
        call.changes = []
    return drafts


def parent_of(update: Json) -> str | None:
    """The call of the subagent that did it, where the agent tells."""
    meta = update.get("_meta")
    if not meta:
        return None
    return as_text(as_object(as_object(meta).get("claudeCode")).get("parentToolUseId")) or None


def read_call(
    view: SessionView, quirks: Quirks, call: Call, call_id: str, update: Json
) -> ToolUpdate:
    """All that the message tells of the call; notes what later messages will leave out."""
    source = as_object(update.get("rawInput"))
    told = ToolUpdate(call_id, status=_STATUS.get(as_text(update.get("status"))))
    told.title = as_text(update.get("title")) or None
    told.name = _name(quirks, call, call_id, update)
    call.name = told.name or call.name
    told.kind = _kind(call.name, update.get("kind"))
    call.kind = told.kind or call.kind
    call.title = told.title or call.title
    if source:
        told.input_json = orjson.dumps(source)
    told.command = _command(call, source, told.title)
    _places(told, call, source, update)
    _content(view, quirks, told, call, update)
    if told.paths is None and call.changes and call.kind not in _NO_PATHS:
        told.paths = list(dict.fromkeys(change.path for change in call.changes))
    call.command = told.command or call.command
    call.input_json = told.input_json or call.input_json
    call.paths = told.paths or call.paths
    return told


def _name(quirks: Quirks, call: Call, call_id: str, update: Json) -> str | None:
    meta = as_object(update.get("_meta"))
    name = (
        as_text(update.get("name"))
        or as_text(meta.get("toolName"))
        or as_text(as_object(meta.get("claudeCode")).get("toolName"))
    )
    if name or call.name:
        return name or None
    if quirks.named_ids and (found := _NAMED_ID.match(call_id)):
        return found[1]
    title = as_text(update.get("title"))
    if quirks.named_titles and re.fullmatch(r"\w+", title):
        return title
    return None


def _kind(name: str | None, told: object) -> ToolKind | None:
    kind = _KINDS.get(as_text(told))
    plain = (name or "").lower()
    if kind in (None, ToolKind.OTHER, ToolKind.THINK):
        if plain.startswith(("mcp__", "mcp_")):
            return ToolKind.MCP
        if plain in _TODO_NAMES:
            return ToolKind.TODO
        if plain in _SUBAGENT_NAMES:
            return ToolKind.SUBAGENT
    return kind


def _command(call: Call, source: Json, title: str | None) -> str | None:
    command = source.get("command", source.get("cmd"))
    if isinstance(command, str) and call.kind in (ToolKind.EXECUTE, None):
        return command or None
    if isinstance(command, list):
        return shlex.join(str(word) for word in command)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # foreign JSON
    return title if call.kind is ToolKind.EXECUTE and not source and title else None


def _places(told: ToolUpdate, call: Call, source: Json, update: Json) -> None:
    locations = update.get("locations")
    places = [
        Location(as_text(place.get("path")), number(place.get("line")))
        for place in as_objects(locations)
        if as_text(place.get("path"))
    ]
    if isinstance(locations, list) and places:
        told.locations = places
    if call.kind in _NO_PATHS:
        return
    paths = [place.path for place in places]
    paths += [as_text(source.get(key)) for key in _PATH_KEYS if as_text(source.get(key))]
    told.paths = list(dict.fromkeys(paths)) or None


def _content(view: SessionView, quirks: Quirks, told: ToolUpdate, call: Call, update: Json) -> None:
    raw = update.get("rawOutput")
    meta = as_object(update.get("_meta"))
    blocks, text, has_content = _blocks(view, call, told.tool_call_id, update)
    told.exit_code = exit_code(meta, raw, text, quirks, told.status)
    result = as_object(raw)
    said = as_text(result.get("error")) or as_text(result.get("message"))
    words = raw if isinstance(raw, str) and raw else text
    if call.kind is ToolKind.EXECUTE:
        never_ran = told.status is ToolStatus.FAILED and told.exit_code is None
        if told.status is ToolStatus.COMPLETED and told.exit_code is None:
            told.status = _CANCELLED if _ABORTED.search(words or "") else told.status
        if not never_ran:
            told.output_replace = _output(quirks, raw, text, update)
            words = None
        if others := [b for b in blocks if b.type is not ContentType.TEXT]:
            told.content = others
    elif has_content and (blocks or told.status is not None):
        told.content = blocks or None
    elif isinstance(raw, str) and raw and told.status in FINAL_TOOL and not has_content:
        told.content = [ContentBlock(ContentType.TEXT, text=raw)]
    if told.status is ToolStatus.FAILED:
        told.error = (said or words or "")[:ERROR_CHARS] or None
    delta = as_object(meta.get("terminal_output_delta")).get("data")
    whole = as_object(meta.get("terminal_output")).get("data")
    if isinstance(delta, str) and delta:
        told.output_replace, told.output_delta = None, delta
    elif isinstance(whole, str) and whole:
        told.output_replace = whole


def _blocks(
    view: SessionView, call: Call, call_id: str, update: Json
) -> tuple[list[ContentBlock], str | None, bool]:
    """The content as blocks, and its text; diffs are noted as the changes they will make."""
    if not isinstance(update.get("content"), list):
        return [], None, False
    blocks: list[ContentBlock] = []
    texts: list[str] = []
    changes: list[FileChange] = []
    for item in as_objects(update.get("content")):
        match item.get("type"):
            case "content":
                block = block_of(as_object(item.get("content")))
                blocks.append(block)
                if block.type is ContentType.TEXT and block.text is not None:
                    texts.append(block.text)
            case "diff":
                change = change_of(item, view.cwd, call_id)
                changes.append(change)
                blocks.append(diff_block(change))
            case "terminal":
                terminal = as_text(item.get("terminalId"))
                view.terminals[terminal] = call_id
                blocks.append(ContentBlock(ContentType.TERMINAL, terminal_id=terminal))
            case _:
                continue
    if changes:
        call.changes = changes
    return blocks, "\n".join(texts) if texts else None, True


def _output(quirks: Quirks, raw: object, text: str | None, update: Json) -> str | None:
    """A command's output so far. What a call announces in its content is no output yet."""
    if update.get("sessionUpdate") != "tool_call_update":
        return None
    if isinstance(raw, str) and (raw or quirks.raw_output):
        return raw
    if text is None or (update.get("status") is None and "rawInput" in update):
        return None
    return text


def exit_code(
    meta: Json, raw: object, text: str | None, quirks: Quirks, status: ToolStatus | None
) -> int | None:
    """The exit code wherever it hides; None when nobody told."""
    result = as_object(raw)
    places: Sequence[Json] = (
        as_object(meta.get("terminal_exit")),
        result,
        as_object(result.get("metadata")),
        as_object(result.get("exitStatus")),
        *as_objects(result.get("contents")),
    )
    for place in places:
        for key in _EXIT_KEYS:
            if (code := number(place.get(key))) is not None:
                return code
    if status not in FINAL_TOOL:
        return None
    if quirks.raw_output and text and (found := _EXIT_LINE.search(text)):
        return int(found[1])
    if isinstance(raw, str) and status is ToolStatus.FAILED and (found := _EXIT_START.match(raw)):
        return int(found[1])
    return None


def _plan(view: SessionView, call: Call, update: Json, parent: str | None) -> list[AnyDraft]:
    """A to-do tool's list is a plan, when it clearly is one."""
    if call.kind is not ToolKind.TODO:
        return []
    source = as_object(update.get("rawInput"))
    for key in _PLAN_KEYS:
        plan = plan_of(source.get(key)) if source.get(key) else None
        if plan is not None:
            told = orjson.dumps(source.get(key))
            if told == call.plan:
                return []
            call.plan = told
            return [Draft(plan, view.id, None, None, parent)]
    return []
