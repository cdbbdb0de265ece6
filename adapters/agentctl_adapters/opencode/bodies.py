"""Owns what our requests say: prompts, answers, MCP servers, ids. Pure but for the clock in an id.

Each prompt names its own message and parts, so that a repeated request runs nothing twice.
"""

import base64
import itertools
import mimetypes
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from agentctl.core.adapter import PermissionAnswer, QuestionAnswer
from agentctl.core.errors import Invalid
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import McpServer, PromptSpec
from agentctl.core.words import ContentType, Decision
from agentctl_adapters.opencode.asks import ALWAYS, ONCE, REJECT

DENIED = "User denied this tool use request"
EXPIRED = "Nobody answered this request in time"
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LETTERS = 14
_counter = itertools.count(1)
Body = dict[str, Any]


def new_id(prefix: str) -> str:
    """An id as the server makes them: it sorts by time."""
    stamp = (time.time_ns() // 1_000_000) * 0x1000 + next(_counter) % 0x1000
    tail = "".join(secrets.choice(_LETTERS) for _ in range(_RANDOM_LETTERS))
    return f"{prefix}_{stamp & 0xFFFFFFFFFFFF:012x}{tail}"


@dataclass(frozen=True, slots=True)
class InForce:
    """What a session has chosen; None leaves it to the server."""

    model: str | None = None
    agent: str | None = None
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One prompt as a request. `sync`: it is answered only when the turn is over."""

    route: str
    body: Body = field(default_factory=dict[str, Any])
    sync: bool = False


def split_model(model: str) -> tuple[str, str]:
    """`provider/model` at its first slash.

    Raises:
        Invalid: it names no provider.
    """
    provider, slash, name = model.partition("/")
    if not slash or not provider or not name:
        raise Invalid(
            f'the model "{model}" names no provider: write it as provider/model',
            reason="INVALID_MODEL",
        )
    return provider, name


def order(prompt: PromptSpec, chosen: InForce, compact_model: str = "") -> Order:
    """The request for a prompt; `compact_model` is the one that writes a summary.

    Raises:
        Invalid: nothing in it, or content that the server cannot be sent.
    """
    if prompt.compact:
        provider, name = split_model(compact_model)
        return Order("summarize", {"providerID": provider, "modelID": name}, sync=True)
    body: Body = {"messageID": new_id("msg"), **_choices(prompt, chosen)}
    if prompt.review or prompt.command is not None:
        command = prompt.command
        body["command"] = command.name if command is not None else "review"
        body["arguments"] = command.arguments if command is not None else _words(prompt)
        if (model := body.pop("model", None)) is not None:
            body["model"] = f"{model['providerID']}/{model['modelID']}"
        files = [part(block) for block in prompt.blocks if block.type is not ContentType.TEXT]
        if files:
            body["parts"] = files
        return Order("command", body, sync=True)
    body["parts"] = [part(block) for block in prompt.blocks]
    if not body["parts"]:
        raise Invalid("the prompt is empty: send some text or a file")
    if prompt.output_schema_json is not None:
        schema = orjson.loads(prompt.output_schema_json)
        body["format"] = {"type": "json_schema", "schema": schema}
    return Order("prompt_async", body)


def _choices(prompt: PromptSpec, chosen: InForce) -> Body:
    told: Body = {}
    if model := prompt.model or chosen.model:
        provider, name = split_model(model)
        told["model"] = {"providerID": provider, "modelID": name}
    if agent := prompt.mode or chosen.agent:
        told["agent"] = agent
    if variant := prompt.effort or chosen.variant:
        told["variant"] = variant
    return told


def _words(prompt: PromptSpec) -> str:
    return " ".join(block.text for block in prompt.blocks if block.text)


def part(block: ContentBlock) -> Body:
    """One part of a prompt."""
    own = {"id": new_id("prt")}
    if block.type is ContentType.TEXT:
        return {**own, "type": "text", "text": block.text or ""}
    if block.text is not None and block.data is None:
        mime = block.mime_type or "text/plain"
        return _file(own, block, mime, _data_url(mime, block.text.encode()))
    if block.data is not None:
        mime = block.mime_type or _guess(block) or "application/octet-stream"
        return _file(own, block, mime, _data_url(mime, block.data))
    url = block.uri or (Path(block.path).as_uri() if block.path and _absolute(block.path) else "")
    if not url:
        raise Invalid(
            f"{block.path or block.name or 'a file'} of the prompt: give an absolute path"
        )
    return _file(own, block, block.mime_type or _guess(block) or "text/plain", url)


def _absolute(path: str) -> bool:
    return Path(path).is_absolute()


def _file(own: Body, block: ContentBlock, mime: str, url: str) -> Body:
    told = {**own, "type": "file", "mime": mime, "url": url}
    name = block.name or (Path(block.path).name if block.path else "")
    return {**told, "filename": name} if name else told


def _guess(block: ContentBlock) -> str | None:
    return mimetypes.guess_type(block.path or block.uri or block.name or "")[0]


def _data_url(mime: str, data: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"


def reply(answer: PermissionAnswer) -> Body:
    """The answer to a permission request.

    A reject without words ends the turn, so that a denial always says something; what is cancelled
    ends with its turn anyway.
    """
    if answer.decision is Decision.APPROVED:
        return {"reply": ALWAYS if answer.option_id == ALWAYS else ONCE}
    words = answer.reason
    if answer.decision is Decision.DENIED:
        words = words or DENIED
    elif answer.decision is Decision.EXPIRED:
        words = words or EXPIRED
    return {"reply": REJECT, "message": words} if words else {"reply": REJECT}


def legacy_reply(body: Body) -> Body:
    """The same for servers that know only the older route."""
    return {"response": body["reply"]}


def answers(answer: QuestionAnswer) -> Body:
    return {"answers": [list(each.values) for each in answer.answers]}


def mcp_config(server: McpServer) -> Body:
    """An MCP server as the server's own configuration has it."""
    if server.transport == "stdio":
        local: Body = {"type": "local", "command": [server.command, *server.args], "enabled": True}
        if server.env:
            local["environment"] = dict(server.env)
        return local
    remote: Body = {"type": "remote", "url": server.url, "enabled": True}
    if server.headers:
        remote["headers"] = dict(server.headers)
    return remote


def rules(asked: Mapping[str, str]) -> list[Body]:
    """Permission rules of one session, from tool -> action."""
    return [
        {"permission": tool, "pattern": "*", "action": action} for tool, action in asked.items()
    ]
