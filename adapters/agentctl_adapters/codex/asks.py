"""Owns what Codex asks of the user, as permissions and questions, and our answers to it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft, PermissionAnswered, QuestionAnswered
from agentctl.core.events import PermissionRequest, QuestionRequest
from agentctl.core.ids import NativeRequestId
from agentctl.core.parts import Answer, Choice, PermissionDetails, Question
from agentctl.core.words import (
    DecidedBy,
    Decision,
    OptionKind,
    PermissionKind,
    QuestionOutcome,
    ToolKind,
)
from agentctl_adapters.codex import decisions
from agentctl_adapters.codex.decisions import USER_INPUT, Offer
from agentctl_adapters.codex.tools import bare_command, diff_of
from agentctl_adapters.codex.view import Book, Item, Thread
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, as_words

Drafts = Sequence[AnyDraft]
_ALLOWS = frozenset({OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS})


@dataclass(slots=True)
class Ask:
    """A request of the agent that waits for our answer."""

    thread: Thread
    offer: Offer | None = None
    questions: list[str] = field(default_factory=list[str])
    """Names of the questions, in order: answers come by name."""


class Asks:
    """What the agent has asked in one process and nobody has answered yet."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._open: dict[NativeRequestId, Ask] = {}

    def asked(self, key: NativeRequestId, method: str, params: Json, msg: Any) -> Drafts | None:
        """The drafts of a request; None when it asks nothing of the user."""
        if decisions.is_approval(method, params):
            return self._permission(key, method, params, msg)
        if method in (decisions.ELICITATION, USER_INPUT):
            return self._question(key, method, params, msg)
        return None

    def answered(self, key: NativeRequestId, msg: Json) -> Drafts:
        """Our answer, as it goes out."""
        ask = self._open.pop(key, None)
        if ask is None:
            return ()
        result = as_object(msg.get("result"))
        if ask.offer is not None:
            return (_decided(key, ask, ask.offer, result, "error" in msg),)
        return (_told(key, ask, result, "error" in msg),)

    def resolved(self, key: NativeRequestId) -> Drafts:
        """The agent says that it needs no answer any more, before we gave one."""
        ask = self._open.pop(key, None)
        if ask is None:
            return ()
        by, session = DecidedBy.ELSEWHERE, ask.thread.session
        if ask.offer is not None:
            return (PermissionAnswered(key, Decision.CANCELLED, session, by=by),)
        return (QuestionAnswered(key, QuestionOutcome.CANCELLED, session, by=by),)

    def waiting(self, thread: Thread) -> bool:
        """Whether the turn stands still because a person was asked."""
        return any(ask.thread.session == thread.session for ask in self._open.values())

    def _permission(self, key: NativeRequestId, method: str, params: Json, msg: Any) -> Drafts:
        thread = self._book.thread(as_text(params.get("threadId")))
        offer = decisions.offer_of(method, params)
        item = thread.items.get(as_text(params.get("itemId")))
        ask = PermissionRequest("", options=offer.options, native_request_id=key)
        match method:
            case decisions.COMMAND_ASK:
                _command(ask, params)
            case decisions.PATCH_ASK:
                _patch(ask, params, item)
            case decisions.GRANT_ASK:
                _grant(ask, params)
            case _:
                item = _mcp(ask, thread, params)
        ask.tool_call_id = item.id if item is not None else None
        self._open[key] = Ask(thread, offer)
        turn = thread.turn(params.get("turnId"))
        return (thread.draft(ask, turn, msg, key),)

    def _question(self, key: NativeRequestId, method: str, params: Json, msg: Any) -> Drafts:
        thread = self._book.thread(as_text(params.get("threadId")))
        question = QuestionRequest("", native_request_id=key)
        names: list[str] = []
        if method == USER_INPUT:
            for each in as_objects(params.get("questions")):
                names.append(as_text(each.get("id")))
                question.questions.append(_question(each))
            item = as_text(params.get("itemId"))
            question.tool_call_id = item if item in thread.items else None
        else:
            question.message = as_text(params.get("message")) or as_text(params.get("title"))
            question.url = as_text(params.get("url")) or None
            if schema := as_object(params.get("requestedSchema")):
                question.schema_json = orjson.dumps(schema)
                names = list(as_object(schema.get("properties")))
            working = [i for i in thread.items.values() if i.kind == "mcpToolCall"]
            server = params.get("serverName")
            named = [i for i in working if i.told.get("server") == server]
            question.tool_call_id = named[0].id if len(named) == 1 else None
        self._open[key] = Ask(thread, questions=names)
        return (thread.draft(question, thread.turn(params.get("turnId")), msg, key),)


def _command(ask: PermissionRequest, params: Json) -> None:
    command = bare_command(as_text(params.get("command")))
    network = as_object(params.get("networkApprovalContext"))
    reason = as_text(params.get("reason")) or None
    ask.tool_name, ask.tool_kind = "exec_command", ToolKind.EXECUTE
    ask.action = as_text(params.get("kind")) or "command"
    ask.title = command or None
    if network:
        ask.action = "network"
        ask.title = f"Reach {as_text(network.get('host'))} ({as_text(network.get('protocol'))})"
    elif ask.action == "writeStdin":
        ask.title = f"Write to the running command: {command}"
    facts = ("command", "cwd", "reason", "networkApprovalContext", "additionalPermissions")
    told = {name: params[name] for name in facts if params.get(name) is not None}
    ask.input_json = orjson.dumps({**told, "command": command})
    ask.details = PermissionDetails(command or None, reason=reason)
    ask.reusable = True if command and not network else None
    rule = as_words(params.get("proposedExecpolicyAmendment"))
    ask.patterns = [" ".join(rule)] if rule else []


def _patch(ask: PermissionRequest, params: Json, item: Item | None) -> None:
    file, diff = diff_of(item)
    reason, root = as_text(params.get("reason")), as_text(params.get("grantRoot"))
    ask.tool_name, ask.tool_kind, ask.action = "apply_patch", ToolKind.EDIT, "patch"
    ask.title = f"Edit {file}" if file else "Edit files"
    changes = item.told.get("changes") if item is not None else None
    ask.input_json = orjson.dumps({"changes": changes, "grantRoot": root or None})
    ask.patterns = [root] if root else []
    ask.details = PermissionDetails(file=file, reason=reason or None, diff=diff)
    ask.reusable = True if file else None


def _grant(ask: PermissionRequest, params: Json) -> None:
    ask.kind, ask.action = PermissionKind.ENVIRONMENT, "permissions"
    reason = as_text(params.get("reason"))
    ask.title = reason or "More rights for the sandbox"
    ask.input_json = orjson.dumps(params.get("permissions"))
    ask.details = PermissionDetails(reason=reason or None)


def _mcp(ask: PermissionRequest, thread: Thread, params: Json) -> Item | None:
    meta = as_object(params.get("_meta"))
    server, tool = as_text(params.get("serverName")), as_text(meta.get("tool_name"))
    ask.kind, ask.tool_kind = PermissionKind.MCP, ToolKind.MCP
    ask.tool_name = f"mcp__{server}__{tool}" if tool else None
    ask.action = as_text(meta.get("codex_approval_kind")) or None
    ask.title = as_text(params.get("message")) or f"{server}: {tool}"
    ask.input_json = orjson.dumps(meta.get("tool_params"))
    ask.details = PermissionDetails(reason=as_text(meta.get("tool_description")) or None)
    for item in thread.items.values():
        told = item.told
        if item.kind == "mcpToolCall" and (told.get("server"), told.get("tool")) == (server, tool):
            return item
    return None


def _question(source: Json) -> Question:
    options = as_objects(source.get("options"))
    return Question(
        as_text(source.get("question")),
        header=as_text(source.get("header")) or None,
        options=[
            Choice(as_text(o.get("label")), description=as_text(o.get("description")) or None)
            for o in options
        ],
        custom=True if source.get("isOther") is True or not options else None,
    )


def _decided(
    key: NativeRequestId, ask: Ask, offer: Offer, result: Json, refused: bool
) -> PermissionAnswered:
    session = ask.thread.session
    option = next((o for o in offer.options if offer.results[o.option_id] == result), None)
    if option is None and not refused:
        word = as_text(result.get("decision")) or as_text(result.get("action"))
        option = next((o for o in offer.options if o.option_id == word), None)
    if option is None or option.option_id == decisions.CANCEL:
        return PermissionAnswered(key, Decision.CANCELLED, session)
    allowed = option.kind in _ALLOWS
    decision = Decision.APPROVED if allowed else Decision.DENIED
    return PermissionAnswered(key, decision, session, option.option_id)


def _told(key: NativeRequestId, ask: Ask, result: Json, refused: bool) -> QuestionAnswered:
    session = ask.thread.session
    if refused:
        return QuestionAnswered(key, QuestionOutcome.CANCELLED, session)
    if "answers" in result:
        answers = as_object(result.get("answers"))
        if not answers:
            return QuestionAnswered(key, QuestionOutcome.REJECTED, session)
        given = [Answer(as_words(as_object(answers.get(q)).get("answers"))) for q in ask.questions]
        return QuestionAnswered(key, QuestionOutcome.ANSWERED, session, given)
    match result.get("action"):
        case "accept":
            content = result.get("content")
            told = orjson.dumps(content) if isinstance(content, dict) else None
            return QuestionAnswered(key, QuestionOutcome.ANSWERED, session, content_json=told)
        case "decline":
            return QuestionAnswered(key, QuestionOutcome.REJECTED, session)
        case _:
            return QuestionAnswered(key, QuestionOutcome.CANCELLED, session)
