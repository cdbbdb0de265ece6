"""Owns what Claude Code asks of a person, can_use_tool, and what we answer. Pure.

Tools and plans are approvals; AskUserQuestion is a question. The agent's suggestions mix rules,
directories and modes: at most its one rule is offered, and only for this session.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agentctl.core.adapter import (
    AnyDraft,
    Draft,
    PermissionAnswer,
    PermissionAnswered,
    QuestionAnswer,
    QuestionAnswered,
)
from agentctl.core.errors import Invalid
from agentctl.core.events import PermissionRequest, QuestionRequest
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import Answer, Choice, PermissionDetails, PermissionOption, Question
from agentctl.core.words import (
    DecidedBy,
    Decision,
    OptionKind,
    PermissionKind,
    QuestionOutcome,
    ToolKind,
)
from agentctl_adapters.claude import changes, tools
from agentctl_adapters.claude.view import Ask, View
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

ALLOW, ALWAYS, REJECT, ACCEPT_EDITS = "allow", "allow_always", "reject", "accept_edits"
DENIED = "User denied this tool use request"
NOT_ANSWERED = "The user did not answer."
CANCELLED = "The request was cancelled."
EXPIRED = "Nobody answered in time."


def asked(view: View, key: NativeRequestId, msg: Json) -> Sequence[AnyDraft]:
    """A can_use_tool request as an approval or a question."""
    request = as_object(msg.get("request"))
    call_id = as_text(request.get("tool_use_id")) or None
    call = view.calls.get(call_id or "")
    parent = call.parent if call is not None else _parent(view, request)
    turn = call.turn if call is not None else view.turn_of(parent)
    source = as_object(request.get("input"))
    ask = view.asks[key] = Ask(key, call_id, msg if request.get("agent_id") else None)
    if request.get("tool_name") == "AskUserQuestion":
        ask.questions = questions_of(source)
        payload: Any = QuestionRequest(
            "", questions=ask.questions, tool_call_id=call_id, native_request_id=key
        )
    else:
        payload = _permission(view, key, request, source)
        ask.always = any(o.option_id == ALWAYS for o in payload.options)
    return (Draft(payload, view.session, turn, key, parent, msg),)


def _parent(view: View, request: Json) -> str | None:
    """The call of the subagent that asks, when its own tool was not heard of."""
    task = view.tasks.get(as_text(request.get("agent_id")))
    return task.call if task is not None else None


def _permission(view: View, key: NativeRequestId, request: Json, source: Json) -> PermissionRequest:
    name = as_text(request.get("tool_name"))
    kind = tools.kind_of(name)
    ask = PermissionRequest("", native_request_id=key, tool_name=name, tool_kind=kind)
    ask.tool_call_id = as_text(request.get("tool_use_id")) or None
    ask.input_json = orjson.dumps(source)
    ask.action = as_text(request.get("description")) or None
    shown = as_text(request.get("display_name"))
    ask.title = shown if kind is ToolKind.MCP and shown else None
    ask.title = ask.title or tools.title_of(name, kind, source, view.cwd)
    command = tools.command_of(name, source)
    paths = tools.paths_of(kind, source, view.cwd)
    file = paths[0] if paths else None
    if file is None and command is None:
        file = as_text(request.get("blocked_path")) or None
    reason = as_text(request.get("decision_reason")) or None
    diff = changes.of_input(name, source, view.cwd)
    if command or file or reason or diff:
        ask.details = PermissionDetails(command, file, reason, diff)
    rules = suggested_rules(request)
    ask.patterns = [pattern_of(rule) for rule in rules]
    ask.options = _options(ask.patterns)
    if kind is ToolKind.MCP:
        ask.kind = PermissionKind.MCP
    elif name == "ExitPlanMode":
        ask.kind = PermissionKind.PLAN
        ask.document = as_text(source.get("plan")) or None
        ask.title = "Leave plan mode and carry out the plan"
        ask.options = _plan_options()
    elif name == "EnterPlanMode":
        ask.kind = PermissionKind.MODE
    return ask


def _options(patterns: list[str]) -> list[PermissionOption]:
    options = [PermissionOption(ALLOW, "Allow once", OptionKind.ALLOW_ONCE)]
    if patterns:
        name = f"Allow {', '.join(patterns)} for this session"
        options.append(PermissionOption(ALWAYS, name, OptionKind.ALLOW_ALWAYS))
    return [*options, PermissionOption(REJECT, "Deny", OptionKind.REJECT_ONCE)]


def _plan_options() -> list[PermissionOption]:
    return [
        PermissionOption(ALLOW, "Carry it out, ask before edits", OptionKind.ALLOW_ONCE),
        PermissionOption(ACCEPT_EDITS, "Carry it out, accept edits", OptionKind.ALLOW_ALWAYS),
        PermissionOption(REJECT, "Keep planning", OptionKind.REJECT_ONCE),
    ]


def suggested_rules(request: Json) -> list[Json]:
    """The rules of the one suggestion that is a rule to allow; modes and directories are left out."""
    for suggestion in as_objects(request.get("permission_suggestions")):
        if suggestion.get("type") == "addRules" and suggestion.get("behavior") == "allow":
            return as_objects(suggestion.get("rules"))
    return []


def pattern_of(rule: Json) -> str:
    name, content = as_text(rule.get("toolName")), as_text(rule.get("ruleContent"))
    return f"{name}({content})" if content else name


def questions_of(source: Json) -> list[Question]:
    return [
        Question(
            as_text(each.get("question")),
            as_text(each.get("header")) or None,
            [
                Choice(
                    as_text(option.get("label")),
                    as_text(option.get("label")),
                    as_text(option.get("description")) or None,
                )
                for option in as_objects(each.get("options"))
            ],
            multiple=True if each.get("multiSelect") is True else None,
            custom=True,
        )
        for each in as_objects(source.get("questions"))
    ]


def answered(view: View, response: Json) -> Sequence[AnyDraft]:
    """Our control_response, when it answers something that is open."""
    key = NativeRequestId(as_text(response.get("request_id")))
    ask = view.asks.pop(key, None)
    if ask is None:
        return ()
    if response.get("subtype") == "error":
        given, reason = {}, as_text(response.get("error")) or None
    else:
        given = as_object(response.get("response"))
        reason = as_text(given.get("message")) or None
    allowed = given.get("behavior") == "allow"
    if ask.questions is not None:
        return (_question_answered(view.session, ask, given, allowed),)
    decision = Decision.APPROVED if allowed else Decision.DENIED
    option = ALLOW if allowed else REJECT
    if allowed and given.get("updatedPermissions"):
        option = ALWAYS if ask.always else ACCEPT_EDITS
    answer = PermissionAnswered(key, decision, view.session, option)
    answer.reason = None if allowed else reason
    return (answer,)


def _question_answered(
    session: NativeSessionId, ask: Ask, given: Json, allowed: bool
) -> QuestionAnswered:
    answers = as_object(as_object(given.get("updatedInput")).get("answers"))
    if not allowed or not answers:
        return QuestionAnswered(ask.request, QuestionOutcome.REJECTED, session)
    told = [_values(q, as_text(answers.get(q.question))) for q in ask.questions or []]
    return QuestionAnswered(ask.request, QuestionOutcome.ANSWERED, session, told)


def _values(question: Question, given: str) -> Answer:
    if not given:
        return Answer()
    labels = {choice.id for choice in question.options}
    several = given.split(", ")
    if question.multiple and all(each in labels for each in several):
        return Answer(several)
    return Answer([given])


def taken_back(view: View, key: NativeRequestId) -> Sequence[AnyDraft]:
    """The agent no longer waits for an answer."""
    ask = view.asks.pop(key, None)
    if ask is None:
        return ()
    if ask.questions is not None:
        outcome = QuestionOutcome.CANCELLED
        return (QuestionAnswered(key, outcome, view.session, by=DecidedBy.AGENT),)
    return (PermissionAnswered(key, Decision.CANCELLED, view.session, by=DecidedBy.AGENT),)


def asked_again(view: View) -> list[AnyDraft]:
    """The turn is over, a subagent in the background still waits: from now on outside of any run."""
    waiting = [(key, ask.message) for key, ask in view.asks.items() if ask.message is not None]
    return [draft for key, message in waiting for draft in asked(view, key, message)]


def outlives(request: Json, result: Json) -> bool:
    """Whether a request that is open when the turn ends goes on waiting."""
    cut = as_text(result.get("terminal_reason")).startswith("aborted")
    return bool(request.get("agent_id")) and not cut


def dropped(view: View, call: str) -> list[AnyDraft]:
    """A tool that still waited for leave has ended: whatever it asked, nobody waits any more."""
    keys = [key for key, ask in view.asks.items() if ask.call == call]
    return [draft for key in keys for draft in taken_back(view, key)]


def permission_reply(request: Json, answer: PermissionAnswer) -> Json:
    """What answers a can_use_tool request that is an approval.

    Raises:
        Invalid: OPTION_NOT_OFFERED, or an input that is no object.
    """
    plan = request.get("tool_name") == "ExitPlanMode"
    offered = (
        _plan_options() if plan else _options([pattern_of(r) for r in suggested_rules(request)])
    )
    names = [option.option_id for option in offered]
    option = answer.option_id
    if option is not None and option not in names:
        raise Invalid(
            f"the agent did not offer {option!r}; it offered {', '.join(names)}",
            reason="OPTION_NOT_OFFERED",
        )
    if option is None or option == REJECT:
        return {"behavior": "deny", "message": _denial(answer)}
    reply: Json = {"behavior": "allow", "updatedInput": _input(request, answer)}
    if option == ALWAYS:
        rules = suggested_rules(request)
        update = {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}
        reply["updatedPermissions"] = [update]
    elif option == ACCEPT_EDITS:
        mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
        reply["updatedPermissions"] = [mode]
    return reply


def _input(request: Json, answer: PermissionAnswer) -> Json:
    if answer.updated_input_json is None:
        return as_object(request.get("input"))
    updated: object = orjson.loads(answer.updated_input_json)
    if not isinstance(updated, dict):
        raise Invalid("the updated input of a tool must be a JSON object")
    return as_object(updated)  # pyright: ignore[reportUnknownArgumentType]  # foreign JSON


def _denial(answer: PermissionAnswer) -> str:
    if answer.reason:
        return answer.reason
    words: Mapping[Decision, str] = {Decision.CANCELLED: CANCELLED, Decision.EXPIRED: EXPIRED}
    return words.get(answer.decision, DENIED)


def question_reply(request: Json, answer: QuestionAnswer) -> Json:
    """What answers AskUserQuestion: its input with the answers, by the question's words.

    Raises:
        Invalid: the content of the answer is no object.
    """
    source = as_object(request.get("input"))
    if answer.outcome is not QuestionOutcome.ANSWERED:
        said = CANCELLED if answer.outcome is QuestionOutcome.CANCELLED else NOT_ANSWERED
        return {"behavior": "deny", "message": said}
    if answer.content_json is not None:
        content: object = orjson.loads(answer.content_json)
        if not isinstance(content, dict):
            raise Invalid("the content of an answer must be a JSON object")
        answers: Json = as_object(content)  # pyright: ignore[reportUnknownArgumentType]  # foreign JSON
    else:
        asked_for = [question.question for question in questions_of(source)]
        given = [", ".join(each.values) for each in answer.answers]
        answers = dict(zip(asked_for, given, strict=False))
    return {"behavior": "allow", "updatedInput": {**source, "answers": answers}}
