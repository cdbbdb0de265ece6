"""Owns the to-do list of the model as a plan, from both families of its tools. Pure.

TodoWrite tells the whole list each time; TaskCreate, TaskUpdate and TaskList one entry or all by id.
"""

from agentctl.core.events import Plan
from agentctl.core.parts import PlanEntry
from agentctl.core.words import PlanStatus
from agentctl_adapters.claude.view import Call
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

_STATUS = {
    "pending": PlanStatus.PENDING,
    "in_progress": PlanStatus.IN_PROGRESS,
    "completed": PlanStatus.COMPLETED,
    "cancelled": PlanStatus.CANCELLED,
}


class Todos:
    """The list of the main conversation, in its order."""

    def __init__(self) -> None:
        self._entries: dict[str, PlanEntry] = {}

    def after(self, call: Call, result: Json) -> Plan | None:
        """The plan once that tool is done; None when it did not change it."""
        match call.name:
            case "TodoWrite":
                todos = result.get("newTodos", call.input.get("todos"))
                entries = [_entry(t, "content") for t in as_objects(todos)]
                self._entries = {str(n): entry for n, entry in enumerate(entries)}
            case "TaskCreate":
                task = as_object(result.get("task"))
                if not as_text(task.get("id")):
                    return None
                self._entries[as_text(task.get("id"))] = _entry(task, "subject")
            case "TaskUpdate":
                if not self._update(call.input, result):
                    return None
            case "TaskList":
                tasks = as_objects(result.get("tasks"))
                listed = {as_text(t.get("id")): _entry(t, "subject") for t in tasks}
                if listed == self._entries:
                    return None
                self._entries = listed
            case _:
                return None
        return Plan([PlanEntry(e.content, e.status) for e in self._entries.values()])

    def _update(self, asked: Json, result: Json) -> bool:
        own = as_text(result.get("taskId")) or as_text(asked.get("taskId"))
        entry = self._entries.get(own)
        if entry is None or result.get("success") is False:
            return False
        status = as_text(as_object(result.get("statusChange")).get("to"))
        if status == "deleted":
            del self._entries[own]
            return True
        entry.status = _STATUS.get(status, entry.status)
        entry.content = as_text(asked.get("subject")) or entry.content
        return True


def _entry(told: Json, words: str) -> PlanEntry:
    status = _STATUS.get(as_text(told.get("status")), PlanStatus.PENDING)
    return PlanEntry(as_text(told.get(words)), status)
