"""Owns the twelve actions as data: their parameters, defaults and limits; and reading a request.

Pure. It refuses to know what an action does. The table makes the JSON schema that clients read, so
that what is told and what is checked are one thing.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentctl.gateway.tool.errors import ToolError, invalid

Json = dict[str, Any]

CONNECT_MS = 5_000
CREATE_MS = 10_000
LIMIT = 50
MAX_LIMIT = 1_000
# A day: longer waits are better made of several calls.
MAX_MS = 86_400_000

SHOWN = 80
"""Characters of a name that is none: a request may hold millions, and all are compared."""

STATUSES = ("active", "paused", "completed", "failed")
ROLES = ("user", "agent", "system")
FORMATS = ("json", "markdown")


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter. `kind` is string, boolean, integer or timestamp."""

    name: str
    about: str
    kind: str = "string"
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    most: int = 0

    def schema(self) -> Json:
        out: Json = {"type": "string" if self.kind == "timestamp" else self.kind}
        if self.kind == "timestamp":
            out["format"] = "date-time"
        if self.choices:
            out["enum"] = list(self.choices)
        if self.kind == "string" and self.required and not self.choices:
            out["minLength"] = 1
        if self.most:
            out |= {"minimum": 1, "maximum": self.most}
        if self.default is not None:
            out["default"] = self.default
        return {**out, "description": self.about}


@dataclass(frozen=True, slots=True)
class Action:
    name: str
    about: str
    params: tuple[Param, ...]

    def schema(self) -> Json:
        """The JSON schema of a request for this action."""
        named = {"action": {"type": "string", "const": self.name, "description": self.about}}
        return {
            "type": "object",
            "title": self.name,
            "description": self.about,
            "properties": {**named, **{each.name: each.schema() for each in self.params}},
            "required": ["action", *(each.name for each in self.params if each.required)],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was read: every parameter of its action, None where absent."""

    action: str
    args: Mapping[str, Any]


def _flag(name: str, about: str, default: bool) -> Param:
    return Param(name, about, "boolean", default=default)


def _timeout(about: str, default: int | None = None) -> Param:
    return Param("timeout_ms", about, "integer", default=default, most=MAX_MS)


_INSTANCE = Param("instance", "Which server; default: the default one.")
_ANY_INSTANCE = Param("instance", "Which server; default: all.")
_SESSION = Param("session_id", "The session.", required=True)
_LIMIT = Param("limit", "At most so many.", "integer", default=LIMIT, most=MAX_LIMIT)

_ACTIONS = (
    Action(
        "connect",
        "Connects to a server.",
        (
            Param(
                "url", "An OpenCode URL (http…) or a daemon (unix:PATH, HOST:PORT).", required=True
            ),
            Param("name", "A name for it; default: made from the URL."),
            Param("auth_token", "The token or password that it wants."),
            _timeout("How long to try, in ms.", CONNECT_MS),
        ),
    ),
    Action(
        "disconnect",
        "Closes the connection to a server; its sessions go on there.",
        (_ANY_INSTANCE,),
    ),
    Action(
        "create_session",
        "Starts a coding agent in a project, or takes its last session up again.",
        (
            _INSTANCE,
            Param("project", "Its directory, absolute or under the workspace root.", required=True),
            Param("message", "A first instruction, sent at once."),
            Param("model", "The model, as provider/model."),
            Param("agent", "Which agent; default: `default`."),
            Param("session_name", "A name for people."),
            _flag("resume", "Take up the last session of the project.", False),
            _timeout("How long the start may take, in ms.", CREATE_MS),
        ),
    ),
    Action(
        "list_sessions",
        "Lists sessions, the newest first.",
        (
            _ANY_INSTANCE,
            Param("project", "Only those of this directory."),
            Param("status", "Only those with this status.", choices=STATUSES),
            _LIMIT,
        ),
    ),
    Action(
        "attach_session",
        "Looks at a session, wakes it when it is paused, and subscribes to its events.",
        (
            _SESSION,
            _flag("subscribe", "Whether its events are wanted.", True),
            _timeout("How long it may take, in ms."),
        ),
    ),
    Action(
        "send_message",
        "Sends an instruction, or the answer to a question that the agent asked.",
        (
            _SESSION,
            Param("message", "What to do.", required=True),
            _flag("wait_for_completion", "Answer only when the agent is done.", False),
            _timeout("How long to wait for that, in ms; the agent goes on after it."),
        ),
    ),
    Action("get_status", "What a session does, what it used, and since when.", (_SESSION,)),
    Action(
        "get_messages",
        "The newest messages of a session, in their order.",
        (
            _SESSION,
            _LIMIT,
            Param("since", "Only those at or after this time (ISO 8601).", "timestamp"),
            Param("role", "Only those of this role.", choices=ROLES),
        ),
    ),
    Action(
        "terminate_session",
        "Stops a session and its agent.",
        (
            _SESSION,
            Param("reason", "Why; kept in its log."),
            _flag("save_state", "Whether it can be taken up again later.", True),
        ),
    ),
    Action(
        "export_session",
        "A whole session as JSON or Markdown.",
        (
            _SESSION,
            Param("format", "In which form.", default="json", choices=FORMATS),
            _flag("include_messages", "With its messages.", True),
            _flag("include_files", "With the changed files as they are now.", False),
            _flag("include_stats", "With tokens and costs.", True),
        ),
    ),
    Action(
        "get_stats",
        "Tokens and costs of a session, of a server or of all.",
        (Param("session_id", "Only this session; default: totals."), _ANY_INSTANCE),
    ),
    Action(
        "approve_permission",
        "Answers a permission request of an agent.",
        (
            _SESSION,
            Param("request_id", "The request.", required=True),
            Param("approved", "Yes or no.", "boolean", required=True),
            Param("reason", "Why; the agent is told."),
        ),
    ),
)
ACTIONS: Mapping[str, Action] = {each.name: each for each in _ACTIONS}


def read(request: Mapping[str, Any]) -> Call:
    """Reads a request. A null is an absent parameter.

    Raises:
        ToolError: INVALID_PARAMETERS; `details.parameters` names each that is wrong.
    """
    told = {name: value for name, value in request.items() if value is not None}
    name = told.pop("action", None)
    if name is None:
        raise invalid(f"action is missing: use one of {', '.join(ACTIONS)}.", "action")
    action = ACTIONS.get(name) if isinstance(name, str) else None
    if action is None:
        raise invalid(
            f"There is no action {name!r:.{SHOWN}}{_near(str(name), ACTIONS)}; there are: "
            f"{', '.join(ACTIONS)}.",
            "action",
        )
    wrong: dict[str, str] = {}
    args: Json = {}
    for param in action.params:
        value = told.pop(param.name, None)
        if value is None and param.required:
            wrong[param.name] = "is missing"
        args[param.name] = param.default if value is None else _value(param, value, wrong)
    known = [each.name for each in action.params]
    for extra in (str(each)[:SHOWN].encode("utf-8", "replace").decode() for each in told):
        wrong[extra] = f"is no parameter of {action.name}{_near(extra, known)}"
    if wrong:
        raise _refuse(action, wrong)
    return Call(action.name, args)


def _refuse(action: Action, wrong: Mapping[str, str]) -> ToolError:
    told = "; ".join(f"{name} {why}" for name, why in wrong.items())
    return invalid(f"{action.name}: {told}.", *wrong, action=action.name)


def _near(name: str, known: Mapping[str, Any] | list[str]) -> str:
    near = difflib.get_close_matches(name[:SHOWN], list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _value(param: Param, value: Any, wrong: dict[str, str]) -> Any:
    match param.kind:
        case "boolean":
            if isinstance(value, bool):
                return value
            wrong[param.name] = "must be true or false"
        case "integer":
            return _integer(param, value, wrong)
        case "timestamp":
            return _time(param, value, wrong)
        case _:
            if not isinstance(value, str):
                wrong[param.name] = "must be a string"
            elif param.choices and value not in param.choices:
                wrong[param.name] = f"must be one of {', '.join(param.choices)}"
            elif not value.strip():
                wrong[param.name] = "is empty"
            elif "\0" in value or not _is_text(value):
                wrong[param.name] = "holds what is no text"
            else:
                return value
    return None


def _is_text(value: str) -> bool:
    """Whether UTF-8 can hold it: JSON may name half a character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(param: Param, value: Any, wrong: dict[str, str]) -> int | None:
    whole = not isinstance(value, bool) and isinstance(value, int | float) and value == value // 1
    if not whole or not 1 <= value <= param.most:
        wrong[param.name] = f"must be a whole number from 1 to {param.most}"
        return None
    return int(value)


def _time(param: Param, value: Any, wrong: dict[str, str]) -> int | None:
    """Unix ms."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        wrong[param.name] = "must be an ISO 8601 time, as 2026-02-12T07:45:00Z"
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def schema() -> Json:
    """The input schema of the whole tool.

    Flat on top, because models' APIs refuse a union there; `$defs` has each action by itself, and
    `discriminator` says which of them a request is.
    """
    flat: Json = {}
    for action in ACTIONS.values():
        for param in action.params:
            seen = flat.setdefault(param.name, {**param.schema(), "description": ""})
            seen["description"] = f"{seen['description']} {action.name}: {param.about}".strip()
            if seen.get("default") != param.default:
                seen.pop("default", None)
    about = " ".join(f"{each.name}: {each.about}" for each in ACTIONS.values())
    return {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(ACTIONS), "description": about},
            **flat,
        },
        "required": ["action"],
        "discriminator": {
            "propertyName": "action",
            "mapping": {name: f"#/$defs/{name}" for name in ACTIONS},
        },
        "$defs": {name: each.schema() for name, each in ACTIONS.items()},
    }
