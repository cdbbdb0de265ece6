"""Owns what an agent asks of the user, as ACP requests to the client, and the client's answers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agentctl.core.events import PermissionRequest, QuestionRequest
from agentctl.core.parts import PermissionOption, Question
from agentctl.core.words import OptionKind, PermissionKind
from agentctl.gateway.acp.content import diffs, text_of
from agentctl.gateway.acp.errors import Json, loads
from agentctl.gateway.acp.params import as_object, as_text
from agentctl.gateway.acp.tools import KINDS

PERMISSION, ELICITATION = "session/request_permission", "elicitation/create"
APPROVE, DENY, SKIP = "agentctl:approve", "agentctl:deny", "agentctl:skip"
_FLAT = frozenset({"string", "number", "integer", "boolean", "array"})


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to make. `choices`: option ids are the values of the one question that is asked."""

    method: str
    params: Json
    options: frozenset[str] = frozenset()
    choices: bool = False
    questions: Sequence[Question] = field(default_factory=list[Question])
    schema: bool = False
    url: bool = False


def permission(session: str, ask: PermissionRequest, shown: Json) -> Ask:
    """The card as the client knows it, with what the request adds."""
    call: Json = {
        "toolCallId": ask.tool_call_id or ask.approval_id,
        "title": ask.title or shown.get("title") or ask.tool_name or "The agent asks for leave",
        "kind": _kind(ask),
        "status": "pending",
    }
    raw: Any = loads(ask.input_json) if ask.input_json else None
    details = ask.details
    if raw is None and details is not None and details.command:
        raw = {"command": details.command}
    raw = shown.get("rawInput") if raw is None else raw
    if raw is not None:
        call["rawInput"] = raw
    content: list[Json] = []
    if ask.document:
        content.append({"type": "content", "content": text_of(ask.document)})
    if details is not None:
        file = details.file or next(iter(ask.patterns), "")
        if details.diff and file:
            content += diffs(file, details.diff)
        if details.file:
            call["locations"] = [{"path": details.file}]
        if details.reason:
            content.append({"type": "content", "content": text_of(details.reason)})
    if content:
        call["content"] = content
    if places := shown.get("locations"):
        call.setdefault("locations", places)
    if ask.tool_name:
        call["_meta"] = {"toolName": ask.tool_name}
    options = _options(ask.options)
    params: Json = {
        "sessionId": session,
        "toolCall": call,
        "options": options,
        "_meta": {"agentctl": {"approvalId": ask.approval_id, "kind": ask.kind.value}},
    }
    return Ask(PERMISSION, params, frozenset(each["optionId"] for each in options))


def _kind(ask: PermissionRequest) -> str:
    if ask.kind in (PermissionKind.PLAN, PermissionKind.MODE):
        return "switch_mode"
    return KINDS.get(ask.tool_kind, ask.tool_kind.value) if ask.tool_kind else "other"


def _options(options: Sequence[PermissionOption]) -> list[Json]:
    """As offered. A kind that ACP has no word for comes last, so that no policy of a client takes it."""
    if not options:
        return [_choice(APPROVE, "Allow", "allow_once"), _choice(DENY, "Deny", "reject_once")]
    known = [each for each in options if each.kind is not OptionKind.OTHER]
    rejects = any(each.kind.value.startswith("reject") for each in known)
    kind = "allow_once" if known and not rejects else "reject_once"
    others = [each for each in options if each.kind is OptionKind.OTHER]
    return [_choice(each.option_id, each.name, each.kind.value) for each in known] + [
        _choice(each.option_id, each.name, kind) for each in others
    ]


def _choice(own: str, name: str, kind: str) -> Json:
    return {"optionId": own, "name": name or own, "kind": kind}


def picked(ask: Ask, result: object) -> str | None:
    """The option that the client picked; None when it cancelled the request or picked none of it."""
    outcome = as_object(as_object(result).get("outcome"))
    option = as_text(outcome.get("optionId"))
    chosen = outcome.get("outcome") == "selected" and option in ask.options
    return option if chosen else None


def question(session: str, ask: QuestionRequest, *, form: bool, url: bool) -> Ask | None:
    """The request for it; None when this client cannot be asked it.

    Args:
        form: the client shows forms (elicitation).
        url: it opens pages.
    """
    message = ask.message or next((each.question for each in ask.questions), "The agent asks")
    base: Json = {"sessionId": session, "message": message}
    if ask.tool_call_id:
        base["toolCallId"] = ask.tool_call_id
    if ask.url is not None:
        page = {"mode": "url", "elicitationId": ask.question_id, "url": ask.url}
        return Ask(ELICITATION, base | page, url=True) if url else None
    if form:
        schema = _own_schema(ask)
        if schema is not None:
            return Ask(ELICITATION, base | {"mode": "form", "requestedSchema": schema}, schema=True)
        if ask.questions:
            asked = {"mode": "form", "requestedSchema": _schema(ask.questions)}
            return Ask(ELICITATION, base | asked, questions=ask.questions)
    if len(ask.questions) == 1 and ask.questions[0].options and not ask.questions[0].multiple:
        return _as_choices(session, ask, ask.questions[0], message)
    return None


def _own_schema(ask: QuestionRequest) -> Json | None:
    """The agent's schema, where it is as flat as ACP's forms are."""
    schema = as_object(loads(ask.schema_json)) if ask.schema_json else {}
    properties = as_object(schema.get("properties"))
    flat = all(as_object(rules).get("type") in _FLAT for rules in properties.values())
    return {"type": "object", **schema} if properties and flat else None


def _schema(questions: Sequence[Question]) -> Json:
    """A field for each question; one that takes a free answer beside its choices has two."""
    properties: Json = {}
    required: list[str] = []
    for n, each in enumerate(questions, 1):
        properties[_name(n)] = _property(each)
        if each.options and each.custom:
            properties[_other(n)] = {"type": "string", "title": "Something else"}
        else:
            required.append(_name(n))
    return {"type": "object", "properties": properties, "required": required}


def _name(number: int) -> str:
    return f"answer_{number}"


def _other(number: int) -> str:
    return f"answer_{number}_other"


def _property(asked: Question) -> Json:
    made: Json = {"title": asked.header or asked.question, "description": asked.question}
    choices = [{"const": each.id, "title": each.name or each.id} for each in asked.options]
    if asked.multiple and choices:
        return {"type": "array", "items": {"anyOf": choices}, **made}
    return {"type": "string", **made, **({"oneOf": choices} if choices else {})}


def _as_choices(session: str, ask: QuestionRequest, asked: Question, message: str) -> Ask:
    options = [_choice(each.id, each.name or each.id, "allow_once") for each in asked.options]
    options.append(_choice(SKIP, "Do not answer", "reject_once"))
    call: Json = {
        "toolCallId": ask.tool_call_id or ask.question_id,
        "title": asked.question or message,
        "kind": "other",
        "status": "pending",
    }
    meta = {"agentctl": {"questionId": ask.question_id}}
    params: Json = {"sessionId": session, "toolCall": call, "options": options, "_meta": meta}
    return Ask(PERMISSION, params, frozenset(o["optionId"] for o in options), choices=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes to Questions.Answer."""

    values: list[list[str]] = field(default_factory=list[list[str]])
    content_json: bytes | None = None


def answered(ask: Ask, result: object) -> Answer | None:
    """The client's answer; None when it declined or cancelled."""
    if ask.choices:
        option = picked(ask, result)
        return None if option is None or option == SKIP else Answer([[option]])
    told = as_object(result)
    if told.get("action") != "accept":
        return None
    content = as_object(told.get("content"))
    if ask.questions:
        return Answer([_given(content, each, n) for n, each in enumerate(ask.questions, 1)])
    return Answer(content_json=orjson.dumps(content))


def _given(content: Json, asked: Question, number: int) -> list[str]:
    picked, other = _values(content.get(_name(number))), _values(content.get(_other(number)))
    return [*picked, *other] if asked.multiple else other or picked


def _values(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, list):
        return [str(each) for each in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  foreign JSON
    return [str(value).lower() if isinstance(value, bool) else str(value)]
