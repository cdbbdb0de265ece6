"""Owns permission requests and questions as OpenCode shows them, and what its answers mean. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from agentctl.gateway.opencode import ids, words
from agentctl.gateway.opencode.words import Json

ONCE, ALWAYS, REJECT = "once", "always", "reject"
REPLIES = frozenset({ONCE, ALWAYS, REJECT})
DONE = "Done"
"""The one answer to a page that the agent wants opened."""

_KIND_OF_RESOURCE = {"bash": "command", "webfetch": "network", "skill": "skill"}
_ACTIONS = {"edit": "write", "bash": "execute"}


def permission(asked: Json, session_id: str, place: Json | None) -> Json:
    """A permission request. `asked` is the payload of permission_request."""
    details: Json = asked.get("details") or {}
    kind = str(asked.get("tool_kind") or "")
    name = words.permission_name(str(asked.get("tool_name") or ""), kind, str(asked.get("kind")))
    what = str(details.get("command") or details.get("file") or "")
    patterns = [str(each) for each in asked.get("patterns") or ()] or ([what] if what else ["*"])
    given = asked.get("input")
    meta: Json = {
        "toolName": str(asked.get("tool_name") or asked.get("title") or ""),
        "input": given if isinstance(given, dict) else {},
        "requests": _resources(name, what),
        "prefixOptions": [],
    }
    if asked.get("title"):
        meta["description"] = asked["title"]
    for key, value in (("command", "command"), ("filepath", "file"), ("diff", "diff")):
        if details.get(value):
            meta[key] = details[value]
    if details.get("file"):
        meta["filePath"] = details["file"]
    out: Json = {
        "id": ids.permission(str(asked["approval_id"])),
        "sessionID": session_id,
        "permission": name,
        "patterns": patterns,
        "metadata": meta,
        "always": patterns if asked.get("reusable") else [],
    }
    return {**out, "tool": place} if place else out


def _resources(name: str, what: str) -> list[Json]:
    kind = _KIND_OF_RESOURCE.get(name, "file")
    if not what:
        return []
    return [{"resourceType": kind, "action": _ACTIONS.get(name, "read"), "resourcePath": what}]


def replied(resolved: Json, options: Json) -> str:
    """What became of a request, in the three words that clients know."""
    if resolved.get("decision") != "approved":
        return REJECT
    kind = options.get(str(resolved.get("option_id") or ""))
    return ALWAYS if kind == "allow_always" or resolved.get("rule_id") else ONCE


def reply_of(body: Json) -> tuple[str, str] | None:
    """(reply, message) of an answer in either form; None when it is none."""
    told = body.get("body")
    inner = cast(Json, told) if isinstance(told, dict) else body
    reply = inner.get("reply", inner.get("response"))
    if reply not in REPLIES:
        return None
    message = inner.get("message")
    return str(reply), message if isinstance(message, str) else ""


@dataclass(frozen=True, slots=True)
class Field:
    """One question, and how its labels become the agent's own values."""

    view: Json
    values: dict[str, str] = field(default_factory=dict[str, str])
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """A question request: its questions as clients see them. `schema`: the answer is an object."""

    fields: Sequence[Field]
    schema: bool = False
    page: bool = False

    def answers(self, told: Any) -> list[list[str]] | None:
        """The agent's own values for lists of labels; None when they are no answer to this."""
        if not isinstance(told, list):
            return None
        rows = cast("list[Any]", told)
        if len(rows) != len(self.fields):
            return None
        out: list[list[str]] = []
        for asked, row in zip(self.fields, rows, strict=True):
            if not isinstance(row, list) or any(
                not isinstance(v, str) for v in cast("list[Any]", row)
            ):
                return None
            out.append([asked.values.get(label, label) for label in cast("list[str]", row)])
        return out

    def content(self, answers: list[list[str]]) -> Json:
        """The filled-in schema."""
        out: Json = {}
        for asked, values in zip(self.fields, answers, strict=True):
            value = _typed(asked.kind, values)
            if value is not None:
                out[asked.name] = value
        return out


def _typed(kind: str, values: list[str]) -> Any:
    if kind == "array":
        return values
    if not values:
        return None
    text = values[0]
    match kind:
        case "boolean":
            return text.lower() in ("yes", "true", "1")
        case "integer" | "number":
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                return text
        case _:
            return text


def form(asked: Json) -> Form:
    """The questions of a question_request, a form's fields, or the page to open."""
    message = str(asked.get("message") or "")
    questions: list[Json] = asked.get("questions") or []
    if questions:
        alone = len(questions) == 1
        return Form([_question(each, message if alone else "") for each in questions])
    schema = asked.get("schema")
    if isinstance(schema, dict):
        told: Json = cast(Json, schema)
        properties: Json = told.get("properties") or {}
        return Form(
            [_property(name, p or {}, message) for name, p in properties.items()], schema=True
        )
    text = f"{message} {asked.get('url') or ''}".strip()
    options = [{"label": DONE, "description": "I have opened the page."}]
    view = {"question": text, "header": "Open a page", "options": options, "custom": False}
    return Form([Field({**view, "multiple": False})], page=True)


def _question(asked: Json, message: str) -> Field:
    options: list[Json] = asked.get("options") or []
    name = str(asked.get("question") or "")
    # What a form is about stands beside the name of its only field.
    text = message if message and message != name else name
    labels = {str(o.get("name") or o["id"]): str(o["id"]) for o in options}
    view: Json = {
        "question": text,
        "header": str(asked.get("header") or name[:30] or text[:30]),
        "options": [
            {"label": str(o.get("name") or o["id"]), "description": str(o.get("description") or "")}
            for o in options
        ],
        "multiple": bool(asked.get("multiple")),
        "custom": bool(asked.get("custom", not options)),
    }
    return Field(view, labels)


def _property(name: str, told: Json, message: str) -> Field:
    kind = str(told.get("type") or "string")
    items: Json = told.get("items") or {}
    values = [*(told.get("enum") or items.get("enum") or ())]
    choices: list[Json] = [*(told.get("oneOf") or items.get("anyOf") or items.get("oneOf") or ())]
    labels = {str(v): str(v) for v in values}
    labels |= {str(c.get("title") or c.get("const")): str(c.get("const")) for c in choices}
    if kind == "boolean":
        labels = {"Yes": "true", "No": "false"}
    title = str(told.get("title") or name)
    text = str(told.get("description") or "")
    view: Json = {
        "question": " ".join(each for each in (message, text) if each) or title,
        "header": title,
        "options": [{"label": label, "description": ""} for label in labels],
        "multiple": kind == "array",
        "custom": not labels,
    }
    return Field(view, labels, name, kind)


def question(asked: Json, session_id: str, place: Json | None) -> Json:
    """A question request. `asked` is the payload of question_request."""
    out: Json = {
        "id": ids.question(str(asked["question_id"])),
        "sessionID": session_id,
        "questions": [each.view for each in form(asked).fields],
    }
    return {**out, "tool": place} if place else out
