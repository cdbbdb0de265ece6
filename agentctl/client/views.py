"""Owns the two other views of the event stream: the App SDK's dotted families and the OpenClaw
tool's `agent.*` events. One table each, over the JSON form of an event; it knows no wire.
"""

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, cast

from agentctl.client.times import iso

Json = dict[str, Any]
Event = Mapping[str, Any]
"""An event in its JSON form, as `rpc/jsonview` makes it."""

_SESSION = {
    "created": "session.created",
    "forked": "session.created",
    "compacted": "session.compacted",
}
_TOOL_END = {
    "completed": "tool.call.completed",
    "failed": "tool.call.failed",
    "cancelled": "tool.call.failed",
}


def _assistant(family: str) -> Callable[[Json], list[str]]:
    # The user's own words are in run_status; they never come back as the assistant's.
    return lambda data: [] if data.get("role") == "user" else [family]


def _tool_update(data: Json) -> list[str]:
    return [_TOOL_END.get(data.get("status", ""), "tool.call.delta")]


def _tool_call(data: Json) -> list[str]:
    end = _TOOL_END.get(data.get("status", ""))
    return ["tool.call.started", end] if end else ["tool.call.started"]


def _git(data: Json) -> list[str]:
    state = {"branch", "head", "dirty"} & data.keys()
    pull = "pull_request_url" in data
    return (["git.branch"] if state or not pull else []) + (["git.pr"] if pull else [])


APP_SDK: Mapping[str, Callable[[Json], list[str]]] = {
    "agent_status": lambda data: [],
    "session_status": lambda data: [_SESSION.get(data.get("status", ""), "session.updated")],
    "session_options": lambda data: ["session.updated"],
    "run_status": lambda data: [f"run.{data['status']}"],
    "message_chunk": _assistant("assistant.delta"),
    "message": _assistant("assistant.message"),
    "reasoning": lambda data: ["thinking.delta"],
    "tool_call": _tool_call,
    "tool_update": _tool_update,
    "file_change": lambda data: ["git.diff"],
    "plan": lambda data: ["thinking.delta"],
    "task": lambda data: ["task.updated"],
    "permission_request": lambda data: ["approval.requested"],
    "permission_resolved": lambda data: ["approval.resolved"],
    "question_request": lambda data: ["question.requested"],
    "question_resolved": lambda data: ["question.answered"],
    "context_window": lambda data: [],
    "artifact": lambda data: [f"artifact.{data['action']}"],
    "git": _git,
    "rate_limit": lambda data: [],
    "error": lambda data: [],
    "log": lambda data: [],
    "complete": lambda data: [f"run.{data['outcome']}"],
}
"""Our type -> the families that it becomes, given its payload. An empty list: it has none there."""

_ENVELOPE = {
    "run_id": "runId",
    "session_id": "sessionId",
    "session_key": "sessionKey",
    "task_id": "taskId",
    "agent_id": "agentId",
}
_IN_DATA = {"after_run_id": "afterRunId", "parent_tool_call_id": "parentToolCallId"}
_FOREIGN = frozenset({"input", "schema", "detail"})
"""Payload fields that hold JSON of an agent: their keys are not ours to rename."""


def app_sdk(event: Event) -> list[Json]:
    """The OpenClawEvents of one event: none, one, or two with the same cursor as `id`."""
    data: Json = event["data"]
    out: list[Json] = []
    for family in APP_SDK.get(event["type"], lambda data: [])(data):
        view: Json = {
            "version": 1,
            "id": event.get("cursor", ""),
            "ts": event["ts"],
            "type": family,
        }
        view |= {name: event[ours] for ours, name in _ENVELOPE.items() if ours in event}
        foreign = _FOREIGN | {"content"} if event["type"] == "question_resolved" else _FOREIGN
        view["data"] = _camel(data, foreign) | {
            name: event[ours] for ours, name in _IN_DATA.items() if ours in event
        }
        if "raw" in event:
            view["raw"] = event["raw"]
        out.append(view)
    return out


def _camel(value: Any, foreign: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_camel(each, foreign) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    named = cast(Json, value)
    return {
        camel_name(name): each if name in foreign else _camel(each, foreign)
        for name, each in named.items()
    }


def camel_name(name: str) -> str:
    """A name of ours as the App SDK writes it: run_id is runId."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


_ACTIONS = {
    "execute": "execute_command",
    "edit": "modify_file",
    "delete": "delete_file",
    "move": "move_file",
    "read": "read_file",
    "search": "search",
    "fetch": "fetch_url",
}
_OUTCOMES = {"completed": "success", "cancelled": "cancelled"}
_BETWEEN_CHUNKS = frozenset(
    {"context_window", "reasoning", "log", "agent_status", "session_options", "rate_limit", "git"}
)


class ToolView:
    """Makes `agent.*` events. It remembers, for each session, open text and what tools are."""

    TABLE: Mapping[str, str] = {
        "message_chunk": "agent.message",
        "message": "agent.message",
        "tool_call": "agent.file_opened",
        "tool_update": "agent.command_run",
        "file_change": "agent.file_changed",
        "permission_request": "agent.permission_request",
        "question_request": "agent.message",
        "plan": "agent.progress",
        "complete": "agent.complete",
        "error": "agent.error",
    }
    """Our type -> the event it becomes; a tool_update also opens files that it names later."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def feed(self, event: Event) -> list[Json]:
        """The tool's events of one event, in order."""
        session_id = event.get("session_id")
        if not session_id:
            return []
        session = self._sessions.setdefault(session_id, _Session())
        out: list[Json] = []
        for kind, fields in session.feed(event):
            out.append(
                {"type": kind, "session_id": session_id, **fields, "timestamp": iso(event["ts"])}
            )
        if event["type"] == "session_status" and event["data"].get("status") == "closed":
            del self._sessions[session_id]
        return out

    def speaking(self, session_id: str) -> bool:
        """Whether text of a session waits for its end."""
        session = self._sessions.get(session_id)
        return session is not None and session.speaking

    def flush(self) -> list[Json]:
        """The text that was still open when the stream ended."""
        out: list[Json] = []
        for session_id, session in self._sessions.items():
            stamp = session.stamp
            out.extend(
                {"type": kind, "session_id": session_id, **fields, "timestamp": stamp}
                for kind, fields in session.end_text()
            )
        return out


Row = tuple[str, Json]


MAX_TEXT = 256 * 1024
"""Characters after which an open text is told as a message of its own: readers take no endless one."""


class _Told:
    """What was told of one message: enough to know it again, and how it begins."""

    def __init__(self) -> None:
        self._digest = sha256()
        self._head = ""

    def add(self, text: str) -> str:
        """Notes a further piece; returns how the whole begins."""
        self._digest.update(text.encode("utf-8", "surrogatepass"))
        self._head += text[: MAX_TEXT - len(self._head)]
        return self._head

    def says(self, text: str) -> bool:
        return sha256(text.encode("utf-8", "surrogatepass")).digest() == self._digest.digest()


class _Session:
    def __init__(self) -> None:
        self.stamp = ""
        self._open_id = ""
        self._text: list[str] = []
        self._size = 0
        self._told: dict[str, _Told] = {}
        self._last = ""
        self._tools: dict[str, Json] = {}

    @property
    def speaking(self) -> bool:
        return bool(self._text)

    def feed(self, event: Event) -> Iterator[Row]:
        kind, data = event["type"], cast(Json, event["data"])
        self.stamp = iso(event["ts"])
        speaks = kind in ("message_chunk", "message")
        if speaks and (data.get("role") != "assistant" or "parent_tool_call_id" in event):
            return
        if not speaks and kind not in _BETWEEN_CHUNKS:
            yield from self.end_text()
        match kind:
            case "message_chunk":
                yield from self._piece(data)
            case "message":
                yield from self._whole(data)
            case "tool_call" | "tool_update":
                yield from self._tool(data)
            case "file_change":
                added, removed = counts(data)
                fields = {"path": data["path"], "additions": added, "deletions": removed}
                yield "agent.file_changed", fields
            case "permission_request":
                yield "agent.permission_request", permission(data)
            case "question_request":
                yield "agent.message", {"content": question(data)}
            case "plan":
                yield from _progress(data)
            case "complete":
                yield self._end(data)
            case "error":
                fields = {"error": data["message"], "recoverable": data["recoverable"]}
                yield "agent.error", fields
            case _:
                pass

    def _piece(self, data: Json) -> Iterator[Row]:
        if data["message_id"] != self._open_id:
            yield from self.end_text()
            self._open_id = data["message_id"]
        text: str = data.get("text", "")
        self._text.append(text)
        self._size += len(text)
        if self._size >= MAX_TEXT:
            yield from self.end_text()

    def _end(self, data: Json) -> Row:
        outcome = _OUTCOMES.get(data["outcome"], "failed")
        why = data.get("error", {}).get("message", "") if outcome == "failed" else ""
        row = "agent.complete", {"summary": self._last or why, "outcome": outcome}
        self._last, self._told = "", {}
        self._tools = {k: each for k, each in self._tools.items() if "ended" not in each}
        return row

    def end_text(self) -> Iterator[Row]:
        text = "".join(self._text)
        if text:
            self._last = self._told.setdefault(self._open_id, _Told()).add(text)
            yield "agent.message", {"content": text}
        self._open_id, self._text, self._size = "", [], 0

    def _whole(self, data: Json) -> Iterator[Row]:
        message_id = data["message_id"]
        if message_id != self._open_id:
            yield from self.end_text()
        self._open_id, self._text, self._size = "", [], 0
        if data.get("retracted"):
            return
        text = "".join(block.get("text", "") for block in data["content"])
        told = self._told.get(message_id)
        if text and (told is None or not told.says(text)):
            self._told[message_id] = told = _Told()
            self._last = told.add(text)
            yield "agent.message", {"content": text}

    def _tool(self, data: Json) -> Iterator[Row]:
        tool = self._tools.setdefault(data["tool_call_id"], {"opened": set[str]()})
        tool |= {name: data[name] for name in ("kind", "command", "exit_code") if name in data}
        if tool.get("kind") == "read":
            named = data.get("paths") or [each["path"] for each in data.get("locations", ())]
            for path in named:
                if path not in tool["opened"]:
                    tool["opened"].add(path)
                    yield "agent.file_opened", {"path": path}
        final = data.get("status") in _TOOL_END and not tool.get("ended")
        if final:
            tool["ended"] = True
        if final and tool.get("kind") == "execute":
            fields = {"command": tool.get("command") or data.get("title", "")}
            if "exit_code" in tool:
                fields["exit_code"] = tool["exit_code"]
            yield "agent.command_run", fields


def counts(data: Json) -> tuple[int, int]:
    """Lines added and removed by a file_change: as told, else as its diff shows, else 0."""
    lines = [
        line for line in data.get("diff", "").split("\n") if not line.startswith(("+++", "---"))
    ]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return data.get("additions", added), data.get("deletions", removed)


def permission(data: Json) -> Json:
    """A permission request in the tool's fields."""
    told = data.get("details", {})
    action = _ACTIONS.get(data.get("tool_kind", "")) or data.get("action") or data.get("kind", "")
    return {
        "request_id": data["approval_id"],
        "action": action,
        "details": {name: told[name] for name in ("command", "file", "reason") if name in told},
    }


def question(data: Json) -> str:
    """A question of an agent as a message that a person, or another agent, can answer."""
    lines = [data["message"]] if data.get("message") else []
    for each in data.get("questions", ()):
        lines.append(each["question"])
        lines += [f"- {option.get('name') or option['id']}" for option in each.get("options", ())]
    if data.get("url"):
        lines.append(data["url"])
    return "\n".join(lines)


def _progress(data: Json) -> Iterator[Row]:
    entries: list[Json] = data.get("entries", [])
    if not entries:
        if document := data.get("document", "").strip():
            yield "agent.progress", {"task": document.split("\n", 1)[0].lstrip("# ")}
        return
    done = sum(entry["status"] == "completed" for entry in entries)
    current = next((e for e in entries if e["status"] == "in_progress"), None)
    current = current or next((e for e in entries if e["status"] == "pending"), entries[-1])
    yield (
        "agent.progress",
        {
            "task": current["content"],
            "percent": done * 100 // len(entries),
        },
    )
