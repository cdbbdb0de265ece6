"""Owns what the body of a request asks for: the prompt, the agent, the model. Pure."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import orjson

from agentctl import v1
from agentctl.gateway.opencode.errors import HttpError, plain
from agentctl.gateway.opencode.words import KINDS, Json

_TEXT_KEYS = ("parts", "prompt", "message")


@dataclass(frozen=True, slots=True)
class Choice:
    """Who is meant, as far as a body says: an agent's name, a provider and its model."""

    agent: str = ""
    provider: str = ""
    model: str = ""
    variant: str = ""

    @property
    def told(self) -> bool:
        return bool(self.agent or self.provider)


def choice(body: Json) -> Choice:
    """Reads `agent`, `model` (object or `provider/model`), `providerID`, `modelID` and `variant`.

    Raises:
        HttpError: one of them has a wrong type.
    """
    told = body.get("model")
    provider, model = _text(body, "providerID"), _text(body, "modelID")
    variant = _text(body, "variant")
    if isinstance(told, str):
        provider, slash, model = told.partition("/")
        if not slash:
            provider, model = "", told
    elif isinstance(told, dict):
        inner = cast(Json, told)
        provider = _text(inner, "providerID")
        model = _text(inner, "modelID") or _text(inner, "id")
        variant = variant or _text(inner, "variant")
    elif told is not None:
        raise plain(400, "model must be provider/model, or an object with providerID and modelID")
    return Choice(_text(body, "agent"), provider, model, "" if variant == "default" else variant)


def _text(body: Json, key: str) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise plain(400, f"{key} must be a string")
    return value


def content(body: Json) -> list[v1.ContentBlock]:
    """The prompt of a body: `parts`, `prompt` or `message`, each a text or a list of parts.

    Raises:
        HttpError: there is none, or a part cannot be taken.
    """
    told = next((body[key] for key in _TEXT_KEYS if body.get(key)), None)
    parts: Iterable[Any] = [told] if isinstance(told, str | dict) else told or ()
    if not isinstance(parts, list | tuple):
        raise plain(400, "parts must be a list")
    blocks = [block for part in cast("list[Any]", parts) if (block := _block(part)) is not None]
    if not any(block.text.strip() or not _is_text(block) for block in blocks):
        raise plain(400, "No message content")
    return blocks


def _is_text(block: v1.ContentBlock) -> bool:
    return block.type == v1.ContentType.CONTENT_TYPE_TEXT


def _block(part: Any) -> v1.ContentBlock | None:
    if isinstance(part, str):
        return v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text=part)
    if not isinstance(part, dict):
        raise plain(400, "each part must be a text or an object")
    told = cast(Json, part)
    match told.get("type"):
        case "text":
            text = told.get("text")
            if not isinstance(text, str):
                raise plain(400, "a text part needs a text")
            return v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text=text)
        case "file":
            return _file(told)
        case "agent":
            return None
        case kind:
            raise plain(400, f"parts of type {kind} are not supported: send text and file parts")


def _file(part: Json) -> v1.ContentBlock:
    url = part.get("url")
    if not isinstance(url, str) or not url:
        raise plain(400, "a file part needs a url")
    mime = str(part.get("mime") or "")
    name = str(part.get("filename") or "") or None
    if url.startswith("data:"):
        return _embedded(url, mime, name)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise plain(400, "the url of a file part cannot be read") from None
    kind = v1.ContentType.CONTENT_TYPE_RESOURCE_LINK
    path = unquote(parts.path) if parts.scheme == "file" else ""
    shown = name or path.rpartition("/")[2] or url
    return v1.ContentBlock(type=kind, uri=url, name=shown, mime_type=mime or None)


def _embedded(url: str, mime: str, name: str | None) -> v1.ContentBlock:
    head, comma, tail = url.removeprefix("data:").partition(",")
    told = head.partition(";")[0]
    mime = mime or told or "text/plain"
    try:
        data = (
            base64.b64decode(tail, validate=True)
            if head.endswith(";base64")
            else unquote_to_bytes(tail)
        )
    except (binascii.Error, ValueError):
        comma = ""
        data = b""
    if not comma:
        raise plain(400, "the data URL of a file part cannot be read")
    family = mime.partition("/")[0]
    if family in ("image", "audio"):
        kind = (
            v1.ContentType.CONTENT_TYPE_IMAGE
            if family == "image"
            else v1.ContentType.CONTENT_TYPE_AUDIO
        )
        return v1.ContentBlock(type=kind, data=data, mime_type=mime, name=name)
    kind = v1.ContentType.CONTENT_TYPE_RESOURCE
    uri = f"file:///{name}" if name else None
    if family == "text" or mime == "application/json":
        text = data.decode("utf-8", "replace")
        return v1.ContentBlock(type=kind, text=text, mime_type=mime, name=name, uri=uri)
    return v1.ContentBlock(type=kind, data=data, mime_type=mime, name=name, uri=uri)


def output_schema(body: Json) -> bytes | None:
    """The JSON schema that the answer must meet."""
    told = body.get("format")
    if not isinstance(told, dict) or cast(Json, told).get("type") != "json_schema":
        return None
    return orjson.dumps(cast(Json, told).get("schema") or {})


def refuse_unkept(body: Json) -> None:
    """Refuses what would be a promise that nobody keeps.

    Raises:
        HttpError: it asks for such a thing.
    """
    if body.get("noReply") is True:
        raise plain(400, "noReply is not supported: every prompt is answered")
    tools = body.get("tools")
    if isinstance(tools, dict) and False in cast(Json, tools).values():
        raise plain(
            400, "tools cannot be switched off for a prompt: give the session rules instead"
        )
    if body.get("system"):
        raise plain(400, "system is not supported: the agent has a system prompt of its own")


def rules(body: Json, directory: str) -> tuple[list[v1.Rule], str]:
    """(rules, policy) of `permission` in a body. The last of theirs wins, the first of ours does.

    Raises:
        HttpError: it is no list of rules.
    """
    told: Any = body.get("permission") or []
    if not isinstance(told, list):
        raise plain(400, "permission must be a list of rules")
    made: list[v1.Rule] = []
    policy = ""
    for each in reversed(cast("list[Any]", told)):
        if not isinstance(each, dict):
            raise plain(400, "permission must be a list of rules")
        rule = cast(Json, each)
        name, pattern = str(rule.get("permission") or ""), str(rule.get("pattern") or "*")
        decision = v1.Policy.Value(f"POLICY_{_action(rule)}")
        if name == "*" and pattern == "*":
            policy = policy or str(rule["action"])
            if policy == rule["action"]:
                break
        elif kind := KINDS.get(name):
            made.append(_rule(kind, name, pattern, decision, directory))
    return made, policy


def _action(rule: Json) -> str:
    action = str(rule.get("action") or "")
    if action not in ("ask", "allow", "deny"):
        raise plain(400, "the action of a permission rule is ask, allow or deny")
    return action.upper()


def _rule(
    kind: str, name: str, pattern: str, decision: "v1.Policy.ValueType", directory: str
) -> v1.Rule:
    number = v1.ToolKind.Value(f"TOOL_KIND_{kind.upper()}")
    rule = v1.Rule(kind=number, decision=decision)
    if pattern in ("*", "**"):
        return rule
    if name == "bash":
        rule.command_pattern = pattern
    else:
        rule.path_pattern = pattern if pattern.startswith("/") else f"{directory}/{pattern}"
    return rule


__all__ = ["Choice", "HttpError", "choice", "content", "output_schema", "refuse_unkept", "rules"]
