"""Owns what an ACP agent asks of the user: permissions and elicitations, and our answers. Pure."""

from typing import Any

import orjson

from agentctl.core.adapter import AnyDraft, Draft, PermissionAnswered, QuestionAnswered
from agentctl.core.events import PermissionRequest, QuestionRequest, ToolUpdate
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import (
    Answer,
    Choice,
    PermissionDetails,
    PermissionOption,
    Question,
)
from agentctl.core.words import (
    DecidedBy,
    Decision,
    OptionKind,
    PermissionKind,
    QuestionOutcome,
    ToolKind,
    ToolStatus,
)
from agentctl_adapters.acp.calls import parent_of, read_call
from agentctl_adapters.acp.errors import words_of
from agentctl_adapters.acp.quirks import Quirks
from agentctl_adapters.acp.view import Call, SessionView
from agentctl_adapters.common.cards import card_of
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

_OPTION_KINDS = {kind.value: kind for kind in OptionKind if kind is not OptionKind.OTHER}
_REASONS = ("justification", "reason", "description")
_MODE_TOOLS = frozenset({"enter_plan_mode", "exit_plan_mode"})
_ALLOWS = frozenset({OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS})


def permission_drafts(
    view: SessionView, quirks: Quirks, request: NativeRequestId, params: Json, raw: Any
) -> tuple[list[AnyDraft], dict[str, OptionKind]]:
    """The card that waits, then the request; and what was offered, to understand the answer."""
    source = as_object(params.get("toolCall"))
    call_id = as_text(source.get("toolCallId")) or None
    parent = parent_of(source)
    options = [_option(option) for option in as_objects(params.get("options"))]
    ask = PermissionRequest("", tool_call_id=call_id, options=options, native_request_id=request)
    drafts: list[AnyDraft] = []
    if call_id is not None:
        known = call_id in view.calls
        call = view.call(call_id)
        told = read_call(view, quirks, call, call_id, source)
        if view.live:
            view.interrupt()
            # Outside of any prompt there is no tool: the agent asks for itself.
            drafts += _waiting_card(view, known, told, parent)
        else:
            del view.calls[call_id]
            ask.tool_call_id = None
        _describe(ask, call, source)
    if not view.live and ask.kind is PermissionKind.TOOL:
        ask.kind = PermissionKind.OTHER
    drafts.append(Draft(ask, view.id, None, request, parent, raw))
    return drafts, {option.option_id: option.kind for option in options}


def _waiting_card(
    view: SessionView, known: bool, told: ToolUpdate, parent: str | None
) -> list[AnyDraft]:
    if not known:
        card = card_of(told, ToolStatus.AWAITING_APPROVAL)
        update = ToolUpdate(told.tool_call_id, content=told.content)
        if view.turn is not None:
            view.turn.calls += 1
        return [
            Draft(card, view.id, None, None, parent),
            Draft(update, view.id, None, None, parent),
        ]
    # The request words title and input anew; the card keeps the tool's own.
    update = ToolUpdate(told.tool_call_id, content=told.content)
    return [Draft(update, view.id, None, None, parent)]


def _describe(ask: PermissionRequest, call: Call, source: Json) -> None:
    """What is asked for; what the request leaves out its tool has told before."""
    ask.title = call.title
    ask.tool_name = call.name
    ask.tool_kind = call.kind
    ask.action = as_text(source.get("kind")) or None
    ask.input_json = call.input_json
    wants = as_object(source.get("rawInput"))
    reason = next((as_text(wants.get(k)) for k in _REASONS if as_text(wants.get(k))), None)
    # A request with an input of its own is not for a command that was told before.
    command = call.command if not wants or "command" in wants or "cmd" in wants else None
    file = call.paths[0] if call.paths else None
    diff = call.changes[0].diff if call.changes else None
    if command or file or reason or diff:
        ask.details = PermissionDetails(command, file, reason, diff)
    ask.reusable = True if command or file else None
    if source.get("kind") == "switch_mode" or call.name in _MODE_TOOLS:
        plans = "plan" in wants or call.name == "exit_plan_mode"
        ask.kind = PermissionKind.PLAN if plans else PermissionKind.MODE
        ask.document = as_text(wants.get("plan")) or None
    elif call.kind is ToolKind.MCP:
        ask.kind = PermissionKind.MCP


def _option(option: Json) -> PermissionOption:
    kind = _OPTION_KINDS.get(as_text(option.get("kind")), OptionKind.OTHER)
    name = as_text(option.get("name")) or as_text(option.get("optionId"))
    return PermissionOption(as_text(option.get("optionId")), name, kind)


def permission_answer(
    request: NativeRequestId,
    session: NativeSessionId,
    offered: dict[str, OptionKind],
    answer: Json,
) -> PermissionAnswered:
    """What we answered. Only an offered allow option is an approval."""
    if "error" in answer:
        reason = words_of(as_object(answer.get("error"))) or None
        return PermissionAnswered(request, Decision.CANCELLED, session, reason=reason)
    outcome = as_object(as_object(answer.get("result")).get("outcome"))
    if outcome.get("outcome") != "selected":
        return PermissionAnswered(request, Decision.CANCELLED, session)
    option = as_text(outcome.get("optionId"))
    decision = Decision.APPROVED if offered.get(option) in _ALLOWS else Decision.DENIED
    reason = None if option in offered else "The option was not offered."
    return PermissionAnswered(request, decision, session, option_id=option, reason=reason)


def question_draft(
    session: NativeSessionId | None, request: NativeRequestId, params: Json, raw: Any
) -> Draft:
    """An elicitation: a form, told as questions where its schema is flat, or a page to open."""
    ask = QuestionRequest(
        "",
        message=as_text(params.get("message")) or None,
        url=as_text(params.get("url")) or None,
        tool_call_id=as_text(params.get("toolCallId")) or None,
        native_request_id=request,
    )
    schema = as_object(params.get("requestedSchema"))
    if schema:
        ask.schema_json = orjson.dumps(schema)
        ask.questions = form_questions(schema)
        choices = [question for question in ask.questions if question.options]
        if len(choices) == 1 and ask.message and choices[0].question == choices[0].header:
            choices[0].question = ask.message
    return Draft(ask, session, None, request, None, raw)


def form_questions(schema: Json) -> list[Question]:
    """One question per property, in their order; [] when one of them is not flat."""
    questions: list[Question] = []
    for name, rules in as_object(schema.get("properties")).items():
        question = _question(name, as_object(rules))
        if question is None:
            return []
        questions.append(question)
    return questions


def _question(name: str, rules: Json) -> Question | None:
    words = as_text(rules.get("description")) or as_text(rules.get("title")) or name
    header = as_text(rules.get("title")) or name
    match rules.get("type"):
        case "array":
            choices = _choices(as_object(rules.get("items")))
            return Question(words, header, choices, multiple=True) if choices else None
        case "boolean":
            return Question(words, header, [Choice("true", "Yes"), Choice("false", "No")])
        case "string" | "number" | "integer":
            choices = _choices(rules)
            return Question(words, header, choices, custom=None if choices else True)
        case _:
            return None


def _choices(rules: Json) -> list[Choice]:
    named = as_objects(rules.get("oneOf")) or as_objects(rules.get("anyOf"))
    if named:
        return [
            Choice(str(option["const"]), as_text(option.get("title")) or None)
            for option in named
            if "const" in option
        ]
    values = rules.get("enum")
    if not isinstance(values, list):
        return []
    names = rules.get("enumNames")
    titles: list[Any] = list(names) if isinstance(names, list) else []  # pyright: ignore[reportUnknownArgumentType]  # foreign JSON
    titles += [None] * (len(values) - len(titles))  # pyright: ignore[reportUnknownArgumentType]  # foreign JSON
    return [
        Choice(str(value), as_text(title) or None)  # pyright: ignore[reportUnknownArgumentType]  # foreign JSON
        for value, title in zip(values, titles, strict=False)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # foreign JSON
    ]


def question_answer(
    request: NativeRequestId,
    session: NativeSessionId | None,
    properties: list[str],
    answer: Json,
) -> QuestionAnswered:
    """What we answered: accept with content, decline, or cancel."""
    result = as_object(answer.get("result"))
    match result.get("action"):
        case "accept":
            content = as_object(result.get("content"))
            given = QuestionAnswered(request, QuestionOutcome.ANSWERED, session)
            if content:
                given.content_json = orjson.dumps(content)
                given.answers = [Answer(_values(content.get(name))) for name in properties] or None
            return given
        case "decline":
            return QuestionAnswered(request, QuestionOutcome.REJECTED, session)
        case _:
            return QuestionAnswered(request, QuestionOutcome.CANCELLED, session)


def _values(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, list):
        return [str(item) for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # foreign JSON
    return [str(value)]


def taken_back(
    request: NativeRequestId, session: NativeSessionId | None, is_question: bool
) -> AnyDraft:
    """The agent cancelled its own request."""
    if is_question:
        return QuestionAnswered(request, QuestionOutcome.CANCELLED, session, by=DecidedBy.AGENT)
    return PermissionAnswered(request, Decision.CANCELLED, session, by=DecidedBy.AGENT)
