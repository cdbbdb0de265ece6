"""Owns how ACP content becomes ours: content blocks, diffs, plans. Pure; knows no session."""

from collections.abc import Sequence

from agentctl.core.events import FileChange, Plan
from agentctl.core.parts import ContentBlock, PlanEntry
from agentctl.core.words import ChangeKind, ContentType, PlanStatus, Priority
from agentctl_adapters.common.diffs import unified
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, decoded

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
            data = decoded(content.get("data"))
            return ContentBlock(ContentType.IMAGE, data=data, mime_type=mime, uri=uri)
        case "audio":
            return ContentBlock(
                ContentType.AUDIO, data=decoded(content.get("data")), mime_type=mime
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
                data=decoded(resource.get("blob")),
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
