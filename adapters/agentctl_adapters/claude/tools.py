"""Owns the tool calls of Claude Code as cards, and their results: status, output, changes, plans. Pure.

A call is a block of an `assistant` frame; its result is a block of a `user` frame, beside which the
structured result stands. The model's own text of a result is used only where there is no such.
"""

import re
from collections.abc import Sequence
from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import FileChange, Plan, ToolCall, ToolUpdate
from agentctl.core.parts import ContentBlock, Location
from agentctl.core.words import ContentType, ToolKind, ToolStatus
from agentctl_adapters.claude import changes
from agentctl_adapters.claude.content import blocks_of
from agentctl_adapters.claude.todos import Todos
from agentctl_adapters.claude.view import Call, View
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, number

ERROR_CHARS = 4_000

_KINDS = {
    ToolKind.EXECUTE: ("Bash", "BashOutput", "KillShell", "KillBash", "PowerShell", "Monitor"),
    ToolKind.READ: ("Read", "NotebookRead", "TaskOutput", "ReadMcpResourceTool"),
    ToolKind.EDIT: ("Edit", "MultiEdit", "Write", "NotebookEdit"),
    ToolKind.SEARCH: ("Glob", "Grep", "LS", "LSP", "ToolSearch"),
    ToolKind.FETCH: ("WebFetch", "WebSearch"),
    ToolKind.SUBAGENT: ("Agent", "Task", "Workflow"),
    ToolKind.TODO: ("TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_TITLES = ("description", "command", "pattern", "url", "query", "subject", "skill")
_PATHS = ("file_path", "notebook_path", "path")
_WITH_PATHS = frozenset({ToolKind.READ, ToolKind.EDIT, ToolKind.SEARCH})
_NO_OUTPUT = "(Bash completed with no output)"
_EXIT_CODE = re.compile(r"\A(?:Error: )?Exit code (-?\d+)\n?")
_REJECTED = "User rejected tool use"


def kind_of(name: str) -> ToolKind:
    return ToolKind.MCP if name.startswith("mcp__") else _KIND_OF.get(name, ToolKind.OTHER)


def title_of(name: str, kind: ToolKind, source: Json, cwd: str) -> str:
    """What a person reads on the card."""
    if kind in _WITH_PATHS and (paths := paths_of(kind, source, cwd)):
        return f"{name} {paths[0]}"
    said = next((as_text(source.get(key)) for key in _TITLES if as_text(source.get(key))), "")
    return said or name


def paths_of(kind: ToolKind, source: Json, cwd: str) -> list[str]:
    if kind not in _WITH_PATHS:
        return []
    found = [changes.absolute(as_text(source.get(key)), cwd) for key in _PATHS]
    return [path for path in found if path]


def command_of(name: str, source: Json) -> str | None:
    return as_text(source.get("command")) or None if kind_of(name) is ToolKind.EXECUTE else None


class Tools:
    """The calls of one process."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._todos = Todos()

    def called(self, block: Json, parent: str | None, msg: Json) -> Sequence[AnyDraft]:
        """A tool_use block: the tool starts, or asks for leave next."""
        view = self._view
        own, name = as_text(block.get("id")), as_text(block.get("name"))
        source = as_object(block.get("input"))
        kind = kind_of(name)
        call = Call(own, name, kind, view.turn_of(parent), parent, source)
        call.command = command_of(name, source)
        view.add_call(call)
        card = ToolCall(
            own,
            name=name,
            title=_meta_title(msg, own) or title_of(name, kind, source, view.cwd),
            kind=kind,
            status=ToolStatus.RUNNING,
            input_json=orjson.dumps(source) if source else None,
            command=call.command,
            paths=paths_of(kind, source, view.cwd),
        )
        line = number(source.get("offset")) if kind is ToolKind.READ else None
        card.locations = [Location(path, line) for path in card.paths]
        drafts: list[AnyDraft] = [self._draft(card, call, msg)]
        if name == "ExitPlanMode" and (document := as_text(source.get("plan"))):
            drafts.append(self._draft(Plan(document=document), call, msg))
        return drafts

    def ended(self, block: Json, parent: str | None, msg: Json) -> Sequence[AnyDraft]:
        """A tool_result block."""
        view = self._view
        own = as_text(block.get("tool_use_id"))
        call = view.calls.get(own)
        if call is None:
            call = Call(own, "", ToolKind.OTHER, view.turn_of(parent), parent)
            view.add_call(call)
        told = msg.get("tool_use_result")
        result = as_object(told)
        update = ToolUpdate(own, status=_status(block, told, own, msg))
        if _goes_on(result) and update.status is ToolStatus.COMPLETED:
            call.background = True
            return [self._draft(ToolUpdate(own, background=True), call, msg)]
        call.done = True
        self._output(update, call, block, result)
        drafts: list[AnyDraft] = [self._draft(update, call, msg)]
        if update.status is not ToolStatus.COMPLETED:
            return drafts
        if (change := changes.of_result(result, own, view.cwd)) is not None:
            drafts.insert(0, self._draft(_diff_of(own, change), call, msg))
            drafts.append(self._draft(change, call, msg))
        if parent is None and (plan := self._todos.after(call, result)) is not None:
            drafts.append(self._draft(plan, call, msg))
        return drafts

    def outlive(self, msg: Json) -> list[AnyDraft]:
        """The turn ends: what a subagent in the background still runs goes on without it."""
        return [
            self._draft(ToolUpdate(call.id, background=True), call, msg)
            for call in self._view.calls.values()
            if not call.done and not call.background and self._view.is_background(call.parent)
        ]

    def _output(self, update: ToolUpdate, call: Call, block: Json, result: Json) -> None:
        blocks = blocks_of(block.get("content"))
        text = "\n".join(b.text for b in blocks if b.text)
        failed = update.status is not ToolStatus.COMPLETED
        if call.kind is ToolKind.EXECUTE:
            found = _EXIT_CODE.match(text) if failed else None
            if found is not None:
                update.exit_code = int(found[1])
                update.output_replace = text[found.end() :] or None
            elif not failed:
                update.output_replace = _shell_output(result, text) or None
            if size := number(result.get("persistedOutputSize")):
                update.output_size, update.truncated = size, True
            images = [b for b in blocks if b.type is not ContentType.TEXT]
            update.content = images or None
        elif call.summary:
            update.content = [ContentBlock(ContentType.TEXT, text=call.summary)]
        elif blocks and call.kind is not ToolKind.EDIT and not failed:
            update.content = blocks
        if failed:
            update.error = text[:ERROR_CHARS] or None

    def _draft(self, payload: Any, call: Call, msg: Json) -> Draft:
        return Draft(payload, self._view.session, call.turn, None, call.parent, msg)


def _diff_of(own: str, change: FileChange) -> ToolUpdate:
    block = ContentBlock(ContentType.DIFF, path=change.path, diff=change.diff)
    return ToolUpdate(own, content=[block])


def _meta_title(msg: Json, own: str) -> str:
    """The words that a server of tools has for its tool."""
    for meta in as_objects(msg.get("tool_use_meta")):
        if meta.get("id") == own and as_text(meta.get("display_name")):
            return as_text(meta.get("display_name"))
    return ""


def _status(block: Json, told: object, own: str, msg: Json) -> ToolStatus:
    metas = as_objects(msg.get("tool_result_meta"))
    meta = next((m for m in metas if m.get("id") == own), None) or {}
    if block.get("is_error"):
        never_ran = bool(meta.get("non_execution_kind")) or told == _REJECTED
        return ToolStatus.CANCELLED if never_ran else ToolStatus.FAILED
    if as_object(told).get("interrupted") is True:
        return ToolStatus.CANCELLED
    return ToolStatus.COMPLETED


def _goes_on(result: Json) -> bool:
    """Whether the agent keeps it running: its real end comes with a task's notification."""
    return bool(
        result.get("backgroundTaskId")
        or result.get("isAsync")
        or result.get("status") == "async_launched"
    )


def _shell_output(result: Json, text: str) -> str:
    if "stdout" not in result:
        return "" if text == _NO_OUTPUT else text
    out, err = as_text(result.get("stdout")), as_text(result.get("stderr"))
    return f"{out}\n{err}" if out and err and not out.endswith("\n") else out + err
