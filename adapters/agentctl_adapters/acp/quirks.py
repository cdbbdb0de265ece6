"""Owns what is peculiar to one ACP agent, by its agentInfo.name: only what was measured on it.

Above all: text that the agent itself speaks through the model's mouth. Everything else about agents is
handled by shape, for all of them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import Error, Log, MessageChunk, RateLimit
from agentctl.core.words import LogStream, Role
from agentctl_adapters.acp import offers
from agentctl_adapters.acp.errors import error_of_text
from agentctl_adapters.acp.view import SessionView
from agentctl_adapters.common.shapes import Json, as_object, as_text

Speech = Callable[[SessionView, str, Json], Sequence[AnyDraft] | None]
"""Drafts when the text is the agent's own word, None when it is the model's."""

_MODE_UPDATE = "[MODE_UPDATE] "
_ATTEMPT = re.compile(r"(\d+)/\d+")


@dataclass(frozen=True, slots=True)
class Quirks:
    """`speech` looks at each text chunk; the flags say what a shape alone cannot."""

    speech: Speech | None = None
    session_usage: bool = False
    """The result's usage is of the whole session."""
    request_usage: bool = False
    """The result's usage is of the last model request only."""
    raw_output: bool = False
    """rawOutput of a command is its output, content a report about it."""
    named_ids: bool = False
    """A tool call's id begins with the tool's name."""
    named_titles: bool = False
    """The first title of a tool call is the tool's name."""


def quirks_of(info: object) -> Quirks:
    """By agentInfo of the handshake; an agent that was not measured has none."""
    told = as_object(info)
    match as_text(told.get("name")):
        case "gemini-cli":
            return Quirks(speech=_gemini, named_ids=True)
        case "qwen-code":
            return Quirks(raw_output=True)
        case "Copilot":
            return Quirks(speech=_copilot, session_usage=True)
        case "OpenCode":
            return Quirks(request_usage=True, named_titles=True)
        case "@agentclientprotocol/codex-acp":
            return Quirks(speech=_codex)
        case _:
            return Quirks()


def _gemini(view: SessionView, text: str, _update: Json) -> Sequence[AnyDraft] | None:
    if not text.startswith(_MODE_UPDATE):
        return None
    options = offers.news(view, offers.mode(view, text[len(_MODE_UPDATE) :].strip()))
    return [Draft(options, view.id)] if options is not None else []


def _copilot(view: SessionView, text: str, _update: Json) -> Sequence[AnyDraft] | None:
    if not text.startswith(("Info: ", "Warning: ", "Error: ")) or not view.live:
        return None
    if text.startswith("Error: "):
        return _failed(view, text.removeprefix("Error: "))
    if text.startswith("Info: ") and "etrying" in text:
        return [retry(view, text.removeprefix("Info: "))]
    return [Draft(Log(LogStream.NOTE, text), view.id)]


def _codex(view: SessionView, text: str, update: Json) -> Sequence[AnyDraft] | None:
    if "messageId" in update or not view.live:
        return None
    if text.startswith("Warning: "):
        return [Draft(Log(LogStream.NOTE, text.strip()), view.id)]
    if view.thread_status == "systemError":
        return _failed(view, text)
    return [Draft(MessageChunk("", Role.SYSTEM, text), view.id)]


def _failed(view: SessionView, text: str) -> Sequence[AnyDraft]:
    error = error_of_text(text.strip())
    if view.turn is not None:
        view.turn.soft = error
    return [Draft(Error(error.code, error.message), view.id)]


def retry(view: SessionView, message: str, attempt: int | None = None) -> Draft:
    """The agent asks its model again."""
    if view.turn is not None and attempt is None:
        view.turn.retries += 1
        attempt = view.turn.retries
    return Draft(RateLimit(message=message, attempt=attempt), view.id)


def codex_status(view: SessionView, update: Json) -> Sequence[AnyDraft]:
    """codex-acp hides its thread's state and its retries in a session_info_update."""
    codex = as_object(as_object(update.get("_meta")).get("codex"))
    status = as_text(as_object(codex.get("threadStatus")).get("type"))
    view.thread_status = status or view.thread_status
    error = as_object(codex.get("error"))
    message = as_text(error.get("message"))
    if not message or not view.live:
        return []
    details = as_text(error.get("additionalDetails"))
    words = f"{message}: {details}" if details else message
    if error.get("willRetry") is not True:
        return [Draft(Error(error_of_text(words).code, words), view.id)]
    found = _ATTEMPT.search(message)
    return [retry(view, words, int(found[1]) if found else None)]
