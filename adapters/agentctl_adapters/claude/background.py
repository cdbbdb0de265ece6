"""Owns the work that Claude Code declares beside its answer: subagents, shells, monitors. Pure.

A shell in the foreground declares itself too, once it is slow; that one is no more than its tool.
"""

import re
from collections.abc import Sequence

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import Task as TaskEvent
from agentctl.core.events import ToolUpdate
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, TaskKind, TaskStatus, ToolKind, ToolStatus
from agentctl_adapters.claude.view import Task, View
from agentctl_adapters.common.shapes import Json, as_object, as_text

_KINDS = {
    "local_agent": TaskKind.SUBAGENT,
    "remote_agent": TaskKind.SUBAGENT,
    "in_process_teammate": TaskKind.SUBAGENT,
    "local_workflow": TaskKind.SUBAGENT,
    "local_bash": TaskKind.SHELL,
    "monitor_mcp": TaskKind.MONITOR,
    "monitor": TaskKind.MONITOR,
}
_EXIT_CODE = re.compile(r"exit code (-?\d+)")
_ENDS = {
    "completed": (TaskStatus.COMPLETED, ToolStatus.COMPLETED),
    "failed": (TaskStatus.FAILED, ToolStatus.FAILED),
    "killed": (TaskStatus.CANCELLED, ToolStatus.CANCELLED),
    "stopped": (TaskStatus.CANCELLED, ToolStatus.CANCELLED),
}


def started(view: View, msg: Json) -> Sequence[AnyDraft]:
    """task_started."""
    own = as_text(msg.get("task_id"))
    kind = as_text(msg.get("task_type"))
    title = as_text(msg.get("description")) or None
    task = Task(own, as_text(msg.get("tool_use_id")) or None, kind, title)
    view.add_task(task)
    if kind == "local_bash" and msg.get("is_backgrounded") is False:
        return ()
    return (_told(view, task, TaskStatus.RUNNING, msg),)


def updated(view: View, msg: Json) -> Sequence[AnyDraft]:
    """task_updated: a patch of its status, or the news that it runs in the background now."""
    task = view.tasks.get(as_text(msg.get("task_id")))
    patch = as_object(msg.get("patch"))
    if task is None:
        return ()
    if patch.get("is_backgrounded") is True and not task.shown:
        return (_told(view, task, TaskStatus.RUNNING, msg),)
    return _ended(view, task, as_text(patch.get("status")), msg)


def notified(view: View, msg: Json) -> Sequence[AnyDraft]:
    """task_notification: the end, and the clean words of what came of it."""
    own, call_id = as_text(msg.get("task_id")), as_text(msg.get("tool_use_id"))
    status = as_text(msg.get("status"))
    task = view.tasks.get(own)
    drafts: list[AnyDraft] = [*_ended(view, task, status, msg)] if task is not None else []
    call = view.calls.get(call_id or (task.call if task is not None else None) or "")
    if call is None or status not in _ENDS:
        return drafts
    summary = as_text(msg.get("summary"))
    if not call.background:
        call.summary = summary if call.kind is ToolKind.SUBAGENT else ""
        return drafts
    update = ToolUpdate(call.id, status=_ENDS[status][1])
    if status == "failed":
        update.error = summary or None
    if call.kind is ToolKind.SUBAGENT and summary and status == "completed":
        update.content = [ContentBlock(ContentType.TEXT, text=summary)]
    elif found := _EXIT_CODE.search(summary):
        update.exit_code = int(found[1])
    call.background = False
    call.done = True
    drafts.append(Draft(update, view.session, call.turn, None, call.parent, msg))
    return drafts


def _ended(view: View, task: Task, status: str, msg: Json) -> Sequence[AnyDraft]:
    if task.done or status not in _ENDS:
        return ()
    task.done = True
    return (_told(view, task, _ENDS[status][0], msg),) if task.shown else ()


def _told(view: View, task: Task, status: TaskStatus, msg: Json) -> Draft:
    task.shown = True
    event = TaskEvent(task.id, task.call, _KINDS.get(task.kind), task.title, status)
    call = view.calls.get(task.call or "")
    turn = call.turn if call is not None else view.current
    return Draft(event, view.session, turn, None, call.parent if call is not None else None, msg)
