"""Owns file changes of a patch: what became of each file, and its unified diff. Pure.

Codex gives hunks without a head for an update, and the bare content for a file that comes or goes.
"""

from agentctl.core.events import FileChange
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ChangeKind, ContentType, ToolKind
from agentctl_adapters.common.diffs import unified
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

_KINDS = {"add": ChangeKind.CREATE, "delete": ChangeKind.DELETE, "update": ChangeKind.MODIFY}


def changes_of(source: Json, call: str) -> list[FileChange]:
    """The changes of a fileChange item."""
    return [_change(each, call) for each in as_objects(source.get("changes"))]


def _change(source: Json, call: str) -> FileChange:
    path, text = as_text(source.get("path")), as_text(source.get("diff"))
    kind = as_object(source.get("kind"))
    word = as_text(kind.get("type")) or as_text(source.get("kind"))
    change = FileChange(path, _KINDS.get(word, ChangeKind.MODIFY), tool_call_id=call)
    moved = as_text(kind.get("move_path")) or as_text(kind.get("movePath"))
    if moved and moved != path:
        change.path, change.old_path, change.change = moved, path, ChangeKind.RENAME
    if change.change is ChangeKind.CREATE:
        told = unified(path, "", text, change.change)
    elif change.change is ChangeKind.DELETE:
        told = unified(path, text, "", change.change)
    else:
        told = _headed(path, change.path, text)
    change.diff, change.additions, change.deletions = told
    return change


def _headed(old: str, new: str, hunks: str) -> tuple[str, int, int]:
    added = removed = 0
    inside = False
    for line in hunks.split("\n"):
        inside = inside or line.startswith("@@")
        added += inside and line.startswith("+")
        removed += inside and line.startswith("-")
    if not hunks or hunks.startswith(("--- ", "diff ")):
        return hunks, added, removed
    end = "" if hunks.endswith("\n") else "\n"
    return f"--- {old}\n+++ {new}\n{hunks}{end}", added, removed


def blocks_of(changes: list[FileChange]) -> list[ContentBlock]:
    return [ContentBlock(ContentType.DIFF, path=each.path, diff=each.diff) for each in changes]


def kind_of(changes: list[FileChange]) -> ToolKind:
    """What the patch as a whole does."""
    kinds = {each.change for each in changes}
    if kinds == {ChangeKind.DELETE}:
        return ToolKind.DELETE
    if kinds == {ChangeKind.RENAME}:
        return ToolKind.MOVE
    return ToolKind.EDIT


def title_of(changes: list[FileChange]) -> str:
    names = [each.path.rpartition("/")[2] for each in changes]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"Edit {', '.join(names[:3])}{more}" if names else "Edit files"
