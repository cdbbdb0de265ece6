"""Owns file changes as drafts: each applied change once, with the diff that the server gave. Pure.

An edit tells its diff with its result. A write tells none: the diff of its permission request, of its
own content (a new file), or of the user message's summary stands in; that summary comes after each step,
and once more just after the idle. It also tells what shell commands changed.
"""

import difflib
from typing import Any

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import FileChange
from agentctl.core.words import ChangeKind
from agentctl_adapters.opencode.shapes import Json, as_object, as_objects, as_text, number
from agentctl_adapters.opencode.view import Call, Message, SessionView, Turn

_KINDS = {
    "added": ChangeKind.CREATE,
    "add": ChangeKind.CREATE,
    "create": ChangeKind.CREATE,
    "deleted": ChangeKind.DELETE,
    "delete": ChangeKind.DELETE,
    "modified": ChangeKind.MODIFY,
    "update": ChangeKind.MODIFY,
    "renamed": ChangeKind.RENAME,
    "move": ChangeKind.RENAME,
}
_HEADS = ("+++", "---")
# A longer new file is not turned into a diff line by line; its summary tells it.
OWN_DIFF_CHARS = 200_000


def of_tool(message: Message, call: Call, state: Json) -> list[FileChange]:
    """The changes of an edit that is done; a diff that is still to come is waited for."""
    turn = message.turn
    found = _told(call, state)
    ready: list[FileChange] = []
    for change in found:
        if turn is not None:
            turn.by_tools.add(change.path)
        if change.diff is None and turn is not None and turn.snapshots and not turn.over:
            turn.pending[change.path] = change
        else:
            ready.append(change)
    return ready


def of_summary(view: SessionView, message: Message, diffs: list[Json], raw: Any) -> list[AnyDraft]:
    """The summary of a user message: what its turn has changed so far, file by file."""
    turn = message.turn
    if turn is None or not diffs:
        return []
    drafts: list[AnyDraft] = []
    for told in diffs:
        change = _summed(view, turn, told)
        if change is None:
            continue
        key = turn.key if turn.over else None
        drafts.append(Draft(change, view.root.native, key, None, view.parent_call, raw))
    return drafts


def _summed(view: SessionView, turn: Turn, told: Json) -> FileChange | None:
    file = as_text(told.get("file")) or as_text(told.get("path"))
    if not file:
        return None
    path = _known_path(turn, file) or _absolute(view, turn, file)
    diff = as_text(told.get("patch")) or as_text(told.get("diff")) or None
    waited = turn.pending.pop(path, None)
    if waited is None:
        if path in turn.by_tools or (path in turn.changed and turn.changed[path] == diff):
            return None
        waited = FileChange(path)
    turn.changed[path] = diff
    waited.change = _KINDS.get(as_text(told.get("status")), waited.change)
    waited.diff = diff
    waited.additions = number(told.get("additions"))
    waited.deletions = number(told.get("deletions"))
    return waited


def _known_path(turn: Turn, file: str) -> str | None:
    """The full path of a file that the summary names from the root of the work tree."""
    known = {*turn.pending, *turn.by_tools}
    return next((path for path in known if path == file or path.endswith(f"/{file}")), None)


def _absolute(view: SessionView, turn: Turn, file: str) -> str:
    if file.startswith("/"):
        return file
    root = turn.last.root if turn.last is not None else ""
    if root in ("", "/"):
        root = view.directory
    return f"{root.rstrip('/')}/{file}" if root else file


def _told(call: Call, state: Json) -> list[FileChange]:
    metadata = as_object(state.get("metadata"))
    source = as_object(state.get("input"))
    files = as_objects(metadata.get("files"))
    if files:
        return [c for told in files if (c := _patched(call, told)) is not None]
    diffs = [as_object(metadata.get("filediff"))]
    diffs += [
        as_object(as_object(result.get("metadata", result)).get("filediff"))
        for result in as_objects(metadata.get("results"))
    ]
    changes = [
        _change(call, as_text(told.get("file")), told, as_text(metadata.get("diff")))
        for told in diffs
        if told.get("file")
    ]
    if changes:
        return changes
    path = as_text(metadata.get("filepath")) or as_text(source.get("filePath"))
    if not path:
        return []
    diff = as_text(metadata.get("diff")) or call.asked_diff
    change = FileChange(path, tool_call_id=call.id)
    new = metadata.get("exists") is False
    if new:
        change.change = ChangeKind.CREATE
    content = source.get("content")
    if not diff and new and isinstance(content, str) and len(content) <= OWN_DIFF_CHARS:
        diff = _new_file(path, content)
    return [_with_diff(change, diff or None)]


def _change(call: Call, path: str, told: Json, diff: str) -> FileChange:
    change = FileChange(path, tool_call_id=call.id)
    change = _with_diff(change, as_text(told.get("patch")) or diff or call.asked_diff)
    change.additions = _or(number(told.get("additions")), change.additions)
    change.deletions = _or(number(told.get("deletions")), change.deletions)
    return change


def _patched(call: Call, told: Json) -> FileChange | None:
    """One file of a patch that changes several."""
    path = as_text(told.get("filePath")) or as_text(told.get("file")) or as_text(told.get("path"))
    if not path:
        return None
    change = _change(call, path, told, as_text(told.get("diff")))
    change.change = _KINDS.get(as_text(told.get("type")), change.change)
    moved = as_text(told.get("movePath"))
    if moved:
        change.old_path, change.path, change.change = path, moved, ChangeKind.RENAME
    return change


def _with_diff(change: FileChange, diff: str | None) -> FileChange:
    if not diff:
        return change
    change.diff = diff
    lines = diff.split("\n")
    change.additions = sum(x.startswith("+") and not x.startswith(_HEADS) for x in lines)
    change.deletions = sum(x.startswith("-") and not x.startswith(_HEADS) for x in lines)
    if "@@ -0,0 " in diff:
        change.change = ChangeKind.CREATE
    return change


def _new_file(path: str, content: str) -> str:
    lines = difflib.unified_diff([], content.splitlines(keepends=True), "/dev/null", path)
    missing = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else f"{line}{missing}" for line in lines)


def _or(told: int | None, counted: int | None) -> int | None:
    return counted if told is None else told
