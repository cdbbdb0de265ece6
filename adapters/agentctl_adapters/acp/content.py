"""Owns how ACP content becomes ours: content blocks, diffs, plans. Pure; knows no session."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from agentctl.core.events import FileChange, Plan
from agentctl.core.parts import ContentBlock, PlanEntry
from agentctl.core.words import ChangeKind, ContentType, PlanStatus, Priority
from agentctl_adapters.acp.requests import Json, as_object, as_objects, as_text

CONTEXT_LINES = 3
# Comparing is quadratic at worst: larger changed regions are shown as replaced.
COMPARED_LINES = 4000

_PLAN_STATUS = {
    "pending": PlanStatus.PENDING,
    "in_progress": PlanStatus.IN_PROGRESS,
    "completed": PlanStatus.COMPLETED,
    "done": PlanStatus.COMPLETED,
    "cancelled": PlanStatus.CANCELLED,
}
_PRIORITY = {"high": Priority.HIGH, "medium": Priority.MEDIUM, "low": Priority.LOW}
_CHANGE = {
    "add": ChangeKind.CREATE,
    "create": ChangeKind.CREATE,
    "delete": ChangeKind.DELETE,
    "modify": ChangeKind.MODIFY,
    "update": ChangeKind.MODIFY,
}


def block_of(content: Json) -> ContentBlock:
    """A ContentBlock of ACP; an unknown type becomes text that names it."""
    mime = as_text(content.get("mimeType")) or None
    uri = as_text(content.get("uri")) or None
    name = as_text(content.get("name")) or as_text(content.get("title")) or None
    match content.get("type"):
        case "text":
            return ContentBlock(ContentType.TEXT, text=as_text(content.get("text")))
        case "image":
            data = _decoded(content.get("data"))
            return ContentBlock(ContentType.IMAGE, data=data, mime_type=mime, uri=uri)
        case "audio":
            return ContentBlock(
                ContentType.AUDIO, data=_decoded(content.get("data")), mime_type=mime
            )
        case "resource_link":
            return ContentBlock(
                ContentType.RESOURCE_LINK,
                text=as_text(content.get("description")) or None,
                mime_type=mime,
                uri=uri,
                name=name,
                size=size if isinstance(size := content.get("size"), int) else None,
            )
        case "resource":
            resource = as_object(content.get("resource"))
            return ContentBlock(
                ContentType.RESOURCE,
                text=text if isinstance(text := resource.get("text"), str) else None,
                data=_decoded(resource.get("blob")),
                mime_type=as_text(resource.get("mimeType")) or None,
                uri=as_text(resource.get("uri")) or None,
            )
        case kind:
            return ContentBlock(ContentType.TEXT, text=f"[content of unknown type {kind!r}]")


def blocks_of(items: object) -> list[ContentBlock]:
    return [block_of(item) for item in as_objects(items)]


def text_of(blocks: Sequence[ContentBlock]) -> str:
    """The text of a prompt, to recognise its echo."""
    return "\n".join(block.text for block in blocks if block.text)


def _decoded(data: object) -> bytes | None:
    if not isinstance(data, str):
        return None
    try:
        return base64.b64decode(data)
    except (binascii.Error, ValueError):
        return None


def change_of(diff: Json, cwd: str, call_id: str) -> FileChange:
    """A diff of a tool's content as the change it makes once the tool is done."""
    path = as_text(diff.get("path"))
    if cwd and path and not path.startswith(("/", "~")) and path[1:2] != ":":
        path = f"{cwd.rstrip('/')}/{path}"
    old, new = diff.get("oldText"), diff.get("newText")
    change = _CHANGE.get(as_text(as_object(diff.get("_meta")).get("kind")))
    if change is None:
        change = ChangeKind.MODIFY if old else ChangeKind.CREATE
        if old and new is None:
            change = ChangeKind.DELETE
    text, added, removed = unified(path, as_text(old), as_text(new), change)
    return FileChange(
        path, change, additions=added, deletions=removed, diff=text, tool_call_id=call_id
    )


def diff_block(change: FileChange) -> ContentBlock:
    return ContentBlock(ContentType.DIFF, path=change.path, diff=change.diff)


def agents_own_diff(changes: Sequence[FileChange], update: Json) -> None:
    """Where the agent tells the real diff beside a fragment (OpenCode), that one counts."""
    metadata = as_object(as_object(update.get("rawOutput")).get("metadata"))
    told = as_object(metadata.get("filediff"))
    patch, added, removed = (told.get(k) for k in ("patch", "additions", "deletions"))
    if not isinstance(patch, str) or not patch:
        return
    for change in changes:
        if change.path == told.get("file"):
            change.diff = patch
            change.additions = added if isinstance(added, int) else change.additions
            change.deletions = removed if isinstance(removed, int) else change.deletions


def unified(
    path: str, old: str, new: str, change: ChangeKind = ChangeKind.MODIFY
) -> tuple[str, int, int]:
    """A unified diff, and how many lines it adds and removes."""
    a, b = _lines(old), _lines(new)
    before = "/dev/null" if change is ChangeKind.CREATE else path
    after = "/dev/null" if change is ChangeKind.DELETE else path
    out = [f"--- {before}", f"+++ {after}"]
    added = removed = 0
    for group in _hunks(a, b):
        first, last = group[0], group[-1]
        out.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [f" {line}" for line in a[i1:i2]]
                continue
            out += [f"-{line}" for line in a[i1:i2]]
            out += [f"+{line}" for line in b[j1:j2]]
            removed += i2 - i1
            added += j2 - j1
    return ("\n".join(out) + "\n" if added or removed else ""), added, removed


def _lines(text: str) -> list[str]:
    """Lines without their ends; the last says when it has none. Only \\n ends a line."""
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += "\n\\ No newline at end of file"
    else:
        lines.pop()
    return lines


_Op = tuple[str, int, int, int, int]


def _hunks(a: list[str], b: list[str]) -> Iterator[list[_Op]]:
    start, least = 0, min(len(a), len(b))
    while start < least and a[start] == b[start]:
        start += 1
    end = 0
    while end < least - start and a[-1 - end] == b[-1 - end]:
        end += 1
    lead, trail = min(start, CONTEXT_LINES), min(end, CONTEXT_LINES)
    a_mid = a[start - lead : len(a) - end + trail]
    b_mid = b[start - lead : len(b) - end + trail]
    at = start - lead
    if len(a_mid) + len(b_mid) <= COMPARED_LINES:
        matcher = SequenceMatcher(None, a_mid, b_mid, autojunk=False)
        groups: Iterator[list[_Op]] = iter(
            [[(*op,) for op in group] for group in matcher.get_grouped_opcodes(CONTEXT_LINES)]
        )
    else:
        n, m = len(a_mid) - trail, len(b_mid) - trail
        whole: list[_Op] = [
            ("equal", 0, lead, 0, lead),
            ("replace", lead, n, lead, m),
            ("equal", n, n + trail, m, m + trail),
        ]
        groups = iter([whole] if n > lead or m > lead else [])
    for group in groups:
        yield [(tag, i1 + at, i2 + at, j1 + at, j2 + at) for tag, i1, i2, j1, j2 in group]


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + 1 if length else start},{length}"


def plan_of(entries: object) -> Plan | None:
    """A plan from any list that has the shape of one; None when it has not."""
    items = as_objects(entries)
    if not isinstance(entries, list) or len(items) != len(entries):  # pyright: ignore[reportUnknownArgumentType]  # foreign JSON
        return None
    plan = Plan()
    for item in items:
        words = next(
            (
                as_text(item.get(k))
                for k in ("content", "description", "step", "title", "text")
                if as_text(item.get(k))
            ),
            "",
        )
        if not words:
            return None
        status = _PLAN_STATUS.get(as_text(item.get("status")), PlanStatus.PENDING)
        plan.entries.append(PlanEntry(words, status, _PRIORITY.get(as_text(item.get("priority")))))
    return plan
