"""Owns the routes of permission requests and questions."""

from typing import Any

import orjson

from agentctl import v1
from agentctl.core.errors import AgentctlError, Invalid, NotFound
from agentctl.gateway.opencode import asks, ids
from agentctl.gateway.opencode.context import Call, Handler, Rooms
from agentctl.gateway.opencode.errors import no_permission, no_question, plain
from agentctl.gateway.opencode.roster import directory_of
from agentctl.gateway.opencode.words import Json
from agentctl.rpc.jsonview import to_dict

PAGE = 1000
_GONE = ("ALREADY_RESOLVED", "APPROVAL_NOT_FOUND", "QUESTION_NOT_FOUND", "RUN_FINISHED")


def _is_gone(error: AgentctlError) -> bool:
    return isinstance(error, NotFound) or error.reason in _GONE


async def _shown(rooms: Rooms, call: Call, records: Any) -> list[tuple[Any, str, Json | None]]:
    """(record, session as clients know it, its tool) of the requests that a client may see."""
    wanted = await call.directory() if call.query("directory") else ""
    out: list[tuple[Any, str, Json | None]] = []
    for record in records:
        session = await rooms.client.sessions.get(record.session_id)
        if wanted and directory_of(session) != wanted:
            continue
        known = rooms.pump.known(record.session_id)
        turn = known.turns.get(record.run_id) if known else None
        call_id = str(record.request.tool_call_id)
        place = turn.place_of(call_id) if turn and call_id else None
        out.append((record, rooms.roster.learn(session), place))
    return out


async def permissions(call: Call) -> list[Json]:
    page = await call.rooms.client.approvals.list(page_size=PAGE)
    rows = await _shown(call.rooms, call, page.approvals)
    return [asks.permission(to_dict(each.request), own, place) for each, own, place in rows]


async def questions(call: Call) -> list[Json]:
    page = await call.rooms.client.questions.list(page_size=PAGE)
    rows = await _shown(call.rooms, call, page.questions)
    return [asks.question(to_dict(each.request), own, place) for each, own, place in rows]


async def reply_permission(call: Call) -> bool:
    told = asks.reply_of(await call.body())
    if told is None:
        raise plain(400, "Invalid permission reply")
    await reply(call.rooms, call.path("request"), *told)
    return True


async def reply(rooms: Rooms, own: str, word: str, message: str) -> None:
    """Answers a request; a rejection rejects the session's other ones too.

    One that says nothing ends the turn, as OpenCode's does; with words the agent is told them and goes on.

    Raises:
        HttpError: it is answered already, or there was none.
    """
    approval_id = ids.approval(own)
    if not own.startswith("per_") or not approval_id.removeprefix("apr_"):
        raise no_permission(own)
    try:
        record = await _open_approval(rooms, approval_id)
        if record is None:
            raise no_permission(own)
        await _respond(rooms, record, word, message)
    except AgentctlError as error:
        if _is_gone(error):
            raise no_permission(own) from None
        raise
    if word == asks.REJECT:
        await _reject_others(rooms, record.session_id)


async def _open_approval(rooms: Rooms, approval_id: str) -> v1.Approval | None:
    page = await rooms.client.approvals.list(page_size=PAGE)
    return next((each for each in page.approvals if each.approval_id == approval_id), None)


async def _respond(rooms: Rooms, record: v1.Approval, word: str, message: str) -> None:
    respond = rooms.client.approvals.respond
    reason = message or None
    match word:
        case asks.REJECT if record.HasField("run_id") and not message:
            await rooms.client.runs.cancel(record.run_id)
        case asks.REJECT:
            await respond(record.approval_id, "deny", reason=reason)
        case asks.ALWAYS if record.request.reusable:
            await respond(record.approval_id, "approve", reason=reason, always=True)
        case asks.ALWAYS:
            kind = v1.OptionKind.OPTION_KIND_ALLOW_ALWAYS
            options = [each for each in record.request.options if each.kind == kind]
            if not options:
                raise Invalid("this request cannot be allowed for always: allow it once.")
            await respond(record.approval_id, option_id=options[0].option_id, reason=reason)
        case _:
            await respond(record.approval_id, "approve", reason=reason)


async def _reject_others(rooms: Rooms, session_id: str) -> None:
    page = await rooms.client.approvals.list(session_id=session_id, page_size=PAGE)
    for each in page.approvals:
        try:
            await rooms.client.approvals.respond(each.approval_id, "deny")
        except AgentctlError as error:
            if not _is_gone(error):
                raise


async def _open_question(rooms: Rooms, own: str) -> v1.QuestionRecord:
    page = await rooms.client.questions.list(page_size=PAGE)
    wanted = ids.our_question(own)
    for each in page.questions:
        if own.startswith("que_") and each.question_id == wanted:
            return each
    raise no_question(own)


async def reply_question(call: Call) -> bool:
    own, body = call.path("request"), await call.body()
    told = body.get("answers")
    if not isinstance(told, list):
        raise plain(400, "Invalid question reply")
    record = await _open_question(call.rooms, own)
    form = asks.form(to_dict(record.request))
    answers = form.answers(told)
    if answers is None:
        raise plain(400, "Invalid question reply")
    client = call.rooms.client.questions
    try:
        if form.schema:
            await client.answer(
                record.question_id, content_json=orjson.dumps(form.content(answers))
            )
        else:
            await client.answer(record.question_id, [] if form.page else answers)
    except AgentctlError as error:
        if _is_gone(error):
            raise no_question(own) from None
        raise
    return True


async def reject_question(call: Call) -> bool:
    own = call.path("request")
    record = await _open_question(call.rooms, own)
    try:
        await call.rooms.client.questions.reject(record.question_id)
    except AgentctlError as error:
        if _is_gone(error):
            raise no_question(own) from None
        raise
    return True


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/permission", permissions),
    ("POST", "/permission/{request}/reply", reply_permission),
    ("GET", "/question", questions),
    ("POST", "/question/{request}/reply", reply_question),
    ("POST", "/question/{request}/reject", reject_question),
]
