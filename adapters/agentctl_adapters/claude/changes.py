"""Owns the file changes of edits and writes, with the diff that Claude Code gives itself. Pure."""

from agentctl.core.events import FileChange
from agentctl.core.words import ChangeKind
from agentctl_adapters.common.diffs import unified
from agentctl_adapters.common.shapes import Json, as_objects, as_text, as_words, number

# A longer new file is not turned into a diff line by line: its content travels with the tool's input.
OWN_DIFF_CHARS = 200_000


def absolute(path: str, cwd: str) -> str:
    """The path as seen from the working directory, where that is known."""
    if not path or path.startswith(("/", "~")) or path[1:2] == ":" or not cwd:
        return path
    return f"{cwd.rstrip('/')}/{path}"


def of_result(result: Json, call: str, cwd: str) -> FileChange | None:
    """The change that a tool's structured result tells; None when it tells none."""
    path = as_text(result.get("filePath"))
    if not path or not isinstance(result.get("structuredPatch"), list):
        return None
    path = absolute(path, cwd)
    hunks = as_objects(result.get("structuredPatch"))
    if hunks:
        diff, added, removed = _patched(path, hunks)
        return FileChange(path, additions=added, deletions=removed, diff=diff, tool_call_id=call)
    if result.get("type") == "create" or result.get("originalFile") is None:
        content = as_text(result.get("content"))
        change = FileChange(path, ChangeKind.CREATE, tool_call_id=call)
        if len(content) <= OWN_DIFF_CHARS:
            change.diff, change.additions, change.deletions = unified(
                path, "", content, ChangeKind.CREATE
            )
        return change
    return None


def of_input(name: str, source: Json, cwd: str) -> str | None:
    """What an edit that waits for leave would change, as far as its input tells."""
    path = absolute(as_text(source.get("file_path")), cwd)
    edits = as_objects(source.get("edits")) or [source]
    if name not in ("Edit", "MultiEdit") or not path:
        return None
    diffs = [
        unified(path, as_text(edit.get("old_string")), as_text(edit.get("new_string")))[0]
        for edit in edits
    ]
    return "".join(diffs) or None


def _patched(path: str, hunks: list[Json]) -> tuple[str, int, int]:
    out = [f"--- {path}", f"+++ {path}"]
    added = removed = 0
    for hunk in hunks:
        lines = as_words(hunk.get("lines"))
        old, new = _range(hunk, "old"), _range(hunk, "new")
        out.append(f"@@ -{old} +{new} @@")
        out += lines
        added += sum(line.startswith("+") for line in lines)
        removed += sum(line.startswith("-") for line in lines)
    return "\n".join(out) + "\n", added, removed


def _range(hunk: Json, side: str) -> str:
    start, count = number(hunk.get(f"{side}Start")), number(hunk.get(f"{side}Lines"))
    return f"{start or 0},{count or 0}"
