"""Owns permission requests and questions as drafts: asked, answered by whom, taken back. Pure.

A child session's requests stand on its root's session. One reject of ours rejects all that the session
still asks, and one always answers what it covers: those answers are the server's own. What an abort
leaves listed is known here and not asked again.
"""

from dataclasses import dataclass
from typing import Any, cast

import orjson

from agentctl.core.adapter import AnyDraft, Draft, PermissionAnswered, QuestionAnswered
from agentctl.core.events import PermissionRequest, QuestionRequest
from agentctl.core.ids import NativeRequestId
from agentctl.core.parts import Answer, Choice, PermissionDetails, PermissionOption, Question
from agentctl.core.words import (
    DecidedBy,
    Decision,
    OptionKind,
    PermissionKind,
    QuestionOutcome,
    ToolKind,
)
from agentctl_adapters.opencode.shapes import (
    Json,
    as_object,
    as_objects,
    as_text,
    as_texts,
    session_of,
)
from agentctl_adapters.opencode.tools import Tools
from agentctl_adapters.opencode.view import Book, SessionView

Drafts = list[AnyDraft]
ASKS_KEPT = 4096
ONCE, ALWAYS, REJECT = "once", "always", "reject"
OPTIONS = (
    (ONCE, "Allow once", OptionKind.ALLOW_ONCE),
    (ALWAYS, "Always allow", OptionKind.ALLOW_ALWAYS),
    (REJECT, "Reject", OptionKind.REJECT_ONCE),
)
_TITLES = {
    "external_directory": "Access outside the workspace",
    "doom_loop": "Go on although the same call repeats",
}


@dataclass(slots=True, eq=False)
class _Ask:
    view: SessionView
    question: bool
    open: bool = True
    call: str = ""
    ours: Json | None = None


class Asks:
    """What every session of one server asked."""

    def __init__(self, book: Book, tools: Tools) -> None:
        self._book = book
        self._tools = tools
        self._asks: dict[str, _Ask] = {}

    def permission(self, properties: Json, raw: Any) -> Drafts:
        """permission.asked, the older permission.updated, or an item of GET /permission."""
        own, view = as_text(properties.get("id")), self._view(properties)
        if not own or view is None or own in self._asks:
            return []
        tool = as_object(properties.get("tool"))
        call_id = as_text(tool.get("callID")) or as_text(properties.get("callID"))
        self._remember(own, _Ask(view, question=False, call=call_id))
        name = as_text(properties.get("permission")) or as_text(properties.get("type"))
        patterns = properties.get("patterns", properties.get("pattern"))
        metadata = as_object(properties.get("metadata"))
        call = view.calls.get(call_id)
        diff = as_text(metadata.get("diff")) or None
        if diff is not None and call_id:
            view.find_call(call_id).asked_diff = diff
        source = as_object(metadata.get("input")) or metadata
        command = as_text(source.get("command")) or None
        file = as_text(metadata.get("filepath")) or as_text(source.get("filePath")) or None
        ask = PermissionRequest(
            "",
            tool_call_id=call_id or None,
            tool_name=call.name if call is not None and call.name else name or None,
            action=name or None,
            patterns=as_texts(patterns),
            input_json=orjson.dumps(dict(metadata), default=str) if metadata else None,
            details=PermissionDetails(command, file, diff=diff),
            options=[PermissionOption(*option) for option in OPTIONS],
            reusable=True,
            native_request_id=own,
        )
        ask.tool_kind = self._tools.kind_of(ask.tool_name or name)
        ask.kind = _kind(name, ask.tool_kind)
        ask.title = as_text(properties.get("title")) or _title(name, command, file, ask.patterns)
        view.root.cascade = False
        return [self._draft(view, own, ask, raw)]

    def question(self, properties: Json, raw: Any) -> Drafts:
        """question.asked, or an item of GET /question."""
        own, view = as_text(properties.get("id")), self._view(properties)
        if not own or view is None or own in self._asks:
            return []
        call_id = as_text(as_object(properties.get("tool")).get("callID"))
        self._remember(own, _Ask(view, question=True, call=call_id))
        ask = QuestionRequest(
            "",
            questions=[_question(item) for item in as_objects(properties.get("questions"))],
            tool_call_id=call_id or None,
            native_request_id=own,
        )
        return [self._draft(view, own, ask, raw)]

    def answering(self, own: str, body: Json) -> None:
        """Our answer to a request goes out; it counts when the server took it."""
        ask = self._asks.get(own)
        if ask is not None:
            ask.ours = body

    def answered(self, own: str, ok: bool) -> Drafts:
        """The server took our answer, or did not know the request any more."""
        ask = self._asks.get(own)
        if ask is None or ask.ours is None:
            return []
        if not ok:
            ask.ours = None
            return []
        return self._resolve(own, ask, ask.ours)

    def replied(self, properties: Json) -> Drafts:
        """permission.replied, question.replied or question.rejected."""
        own = as_text(properties.get("requestID")) or as_text(properties.get("permissionID"))
        ask = self._asks.get(own or as_text(properties.get("id")))
        if ask is None:
            return []
        return self._resolve(own or as_text(properties.get("id")), ask, properties)

    def unanswered(self, session: str) -> list[tuple[str, bool]]:
        """What the server still lists of a session and its children, as (id, is a question).

        An abort leaves them listed: each has to be rejected before the next prompt.
        """
        root = self._book.view(session).root
        return [
            (own, ask.question)
            for own, ask in self._asks.items()
            if ask.open and ask.view.root is root
        ]

    def still_listed(self, listed: set[str], views: set[str], *, questions: bool) -> Drafts:
        """A refetch: what is not listed any more was answered while nobody listened."""
        drafts: Drafts = []
        for own, ask in self._asks.items():
            if ask.open and ask.question is questions and own not in listed:
                if views and ask.view.id not in views:
                    continue
                drafts += self._lost(own, ask)
        return drafts

    def _lost(self, own: str, ask: _Ask) -> Drafts:
        """Answered unseen: what became of its tool tells how."""
        ask.open = False
        request, session, by = NativeRequestId(own), ask.view.root.native, DecidedBy.ELSEWHERE
        call = ask.view.calls.get(ask.call)
        done, failed = call is not None and call.done, call is not None and call.failed
        if ask.question:
            outcome = QuestionOutcome.CANCELLED
            if done:
                outcome = QuestionOutcome.REJECTED if failed else QuestionOutcome.ANSWERED
            return [QuestionAnswered(request, outcome, session, by=by)]
        decision = Decision.CANCELLED
        if done or (call is not None and call.ran):
            decision = Decision.DENIED if failed else Decision.APPROVED
        return [PermissionAnswered(request, decision, session, by=by)]

    def _resolve(self, own: str, ask: _Ask, told: Json) -> Drafts:
        if not ask.open:
            return []
        ask.open = False
        root = ask.view.root
        by = DecidedBy.ELSEWHERE
        if ask.ours is not None:
            by = DecidedBy.CLIENT
        elif root.cascade:
            by = DecidedBy.AGENT
        request = NativeRequestId(own)
        if ask.question:
            return [_question_answer(request, root, told, by)]
        reply = as_text(told.get("reply")) or as_text(told.get("response"))
        if by is DecidedBy.CLIENT and reply in (ALWAYS, REJECT):
            root.cascade = True
        reason = as_text((ask.ours or told).get("message")) or None
        decision = Decision.APPROVED if reply in (ONCE, ALWAYS) else Decision.DENIED
        option = reply if reply in (ONCE, ALWAYS, REJECT) else None
        return [PermissionAnswered(request, decision, root.native, option, by, reason)]

    def _view(self, properties: Json) -> SessionView | None:
        session = session_of(properties)
        return self._book.view(session) if session else None

    def _draft(
        self, view: SessionView, own: str, ask: PermissionRequest | QuestionRequest, raw: Any
    ) -> Draft:
        root = view.root.native
        return Draft(ask, root, None, NativeRequestId(own), view.parent_call, raw)

    def _remember(self, own: str, ask: _Ask) -> None:
        if len(self._asks) >= ASKS_KEPT:
            self._asks = {key: ask for key, ask in self._asks.items() if ask.open}
        self._asks[own] = ask


def _question_answer(
    request: NativeRequestId, root: SessionView, told: Json, by: DecidedBy
) -> QuestionAnswered:
    answers = told.get("answers")
    if not isinstance(answers, list):
        return QuestionAnswered(request, QuestionOutcome.REJECTED, root.native, by=by)
    given = [Answer(as_texts(values)) for values in cast(list[Any], answers)]
    return QuestionAnswered(request, QuestionOutcome.ANSWERED, root.native, given, by=by)


def _question(item: Json) -> Question:
    custom, multiple = item.get("custom"), item.get("multiple")
    choices = [
        Choice(label, label, as_text(option.get("description")) or None)
        for option in as_objects(item.get("options"))
        if (label := as_text(option.get("label")))
    ]
    return Question(
        as_text(item.get("question")),
        as_text(item.get("header")) or None,
        choices,
        multiple if isinstance(multiple, bool) else None,
        custom if isinstance(custom, bool) else None,
    )


def _kind(name: str, tool: ToolKind) -> PermissionKind:
    if name == "doom_loop":
        return PermissionKind.OTHER
    if tool is ToolKind.MCP:
        return PermissionKind.MCP
    return PermissionKind.TOOL


def _title(name: str, command: str | None, file: str | None, patterns: list[str]) -> str:
    what = command or file or ", ".join(patterns)
    how = _TITLES.get(name, name)
    return f"{how}: {what}" if what else how
