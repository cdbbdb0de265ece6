"""Owns the actions that say something: messages, answers to questions, permissions; and reading it back.

It refuses to know how sessions are made.
"""

from typing import Any, cast

import orjson

from agentctl import v1
from agentctl.core.errors import AgentctlError
from agentctl.gateway.tool import shape
from agentctl.gateway.tool.errors import ToolError, invalid, refusal
from agentctl.gateway.tool.house import Ask, Json
from agentctl.gateway.tool.instance import Instance
from agentctl.gateway.tool.sessions import take_up

PAGE = 1_000


async def send_message(ask: Ask) -> Json:
    instance, session = await ask.session()
    session = await _awake(ask, instance, session)
    question = await _question(instance, session)
    if question is not None:
        return await _answer(ask, instance, session, question)
    try:
        created = await instance.client.runs.create(
            session.session_id, ask.args["message"], if_busy="reject", idempotency_key=ask.key
        )
    except AgentctlError as error:
        if error.reason != "SESSION_BUSY":
            raise
        refused = refusal(error)
        raise ToolError(
            refused.code, refused.message, {**refused.details, **await waiting(instance, session)}
        ) from error
    return await _sent(ask, instance, session, created.run.run_id, created.run)


async def _awake(ask: Ask, instance: Instance, session: v1.Session) -> v1.Session:
    """A terminated session whose state was saved goes on with the next message, as a paused one."""
    if session.phase == v1.SessionPhase.SESSION_PHASE_PAUSED:
        return await take_up(ask, instance, session)
    if session.state != v1.SessionState.SESSION_STATE_CLOSED:
        return session
    if not session.state_saved:
        raise invalid(
            f"Session {session.session_id} is terminated and its state was not saved: create a "
            "new one.",
            "session_id",
            reason="SESSION_CLOSED",
        )
    return await take_up(ask, instance, session)


async def _sent(
    ask: Ask, instance: Instance, session: v1.Session, message_id: str, run: v1.Run
) -> Json:
    answer: Json = {
        "session_id": session.session_id,
        "message_id": message_id,
        "status": "sent",
        "message": f"The message is on its way to session {session.session_id}",
    }
    if not ask.args["wait_for_completion"]:
        if run.state == v1.RunState.RUN_STATE_RUNNING:
            answer["status"] = "delivered"
        return answer
    waited = await instance.client.runs.wait(run.run_id, timeout_ms=ask.left_ms)
    run = waited.run
    if waited.status == v1.WaitStatus.WAIT_STATUS_ACCEPTED:
        raise ToolError(
            "TIMEOUT",
            "The agent is not done in time. It goes on: look with get_status.",
            {
                "session_id": session.session_id,
                "message_id": message_id,
                **await waiting(instance, session),
            },
        )
    if run.state != v1.RunState.RUN_STATE_COMPLETED:
        raise _failed(session, message_id, run)
    done = {"status": "completed", "response": run.output.text}
    return {**answer, **done, "message": "The agent is done"}


def _failed(session: v1.Session, message_id: str, run: v1.Run) -> ToolError:
    outcome = shape.OUTCOMES.get(run.state, "failed")
    timed_out = run.state == v1.RunState.RUN_STATE_TIMED_OUT
    reason = {"reason": run.error.code} if run.error.code else {}
    partly = {"response": run.output.text} if run.output.text else {}
    said = run.error.message or f"The agent's turn was {outcome}."
    return ToolError(
        "TIMEOUT" if timed_out else "SERVER_ERROR",
        said,
        {
            "session_id": session.session_id,
            "message_id": message_id,
            "outcome": outcome,
            **reason,
            **partly,
        },
    )


async def waiting(instance: Instance, session: v1.Session) -> Json:
    """What a session waits for: permission requests and questions that are open."""
    approvals = await instance.client.approvals.list(session_id=session.session_id)
    questions = await instance.client.questions.list(session_id=session.session_id)
    out: Json = {}
    if approvals.approvals:
        out["permission_requests"] = [shape.request(each) for each in approvals.approvals]
    if questions.questions:
        out["questions"] = [shape.question(each) for each in questions.questions]
    return out


# Questions


async def _question(instance: Instance, session: v1.Session) -> v1.QuestionRecord | None:
    """The oldest question that the session waits for, when it waits for nothing else first."""
    if session.state != v1.SessionState.SESSION_STATE_AWAITING:
        return None
    found = (await instance.client.questions.list(session_id=session.session_id)).questions
    return found[-1] if found else None


async def _answer(
    ask: Ask, instance: Instance, session: v1.Session, question: v1.QuestionRecord
) -> Json:
    said: str = ask.args["message"]
    questions = instance.client.questions
    asked = question.request.questions
    if question.request.HasField("schema_json") and not asked:
        await questions.answer(question.question_id, content_json=_form(said))
    else:
        lines = [said] if len(asked) < 2 else [each.strip() for each in said.splitlines()]
        if len(asked) != len(lines) and len(asked) > 1:
            raise invalid(
                f"The agent asks {len(asked)} questions: answer each on a line of its own.",
                "message",
                questions=[shape.question(question)],
            )
        answers = [[_choice(each, line)] for each, line in zip(asked, lines, strict=False)]
        await questions.answer(question.question_id, answers)
    run = v1.Run(run_id=question.run_id, state=v1.RunState.RUN_STATE_RUNNING)
    if not question.run_id:
        return {
            "session_id": session.session_id,
            "message_id": question.question_id,
            "status": "delivered",
            "message": "The question is answered",
        }
    return await _sent(ask, instance, session, question.question_id, run)


def _form(said: str) -> bytes:
    try:
        told: Any = orjson.loads(said)
    except orjson.JSONDecodeError:
        told = None
    if not isinstance(told, dict):
        raise invalid("The agent asks for a form: answer with a JSON object.", "message")
    return orjson.dumps(cast(dict[str, Any], told))


def _choice(question: v1.Question, line: str) -> str:
    """The option that a line names, by id, name or number; else the line itself."""
    wanted = line.strip().casefold()
    for number, option in enumerate(question.options, 1):
        if wanted in (option.id.casefold(), option.name.casefold(), str(number)):
            return option.id
    return line.strip()


# Messages


async def get_messages(ask: Ask) -> Json:
    args = ask.args
    instance, session = await ask.session()
    rows, total = await messages(
        instance, session, limit=args["limit"], since=args["since"], role=args["role"]
    )
    return {"session_id": session.session_id, "messages": rows, "total": total}


async def messages(
    instance: Instance,
    session: v1.Session,
    *,
    limit: int | None,
    since: int | None = None,
    role: str | None = None,
) -> tuple[list[Json], int]:
    """The newest messages in their order, all of them without a limit; and how many there are."""
    rows: list[Json] = []
    token, total = "", 0
    while True:
        size = PAGE if limit is None else limit - len(rows)
        page = await instance.client.sessions.messages(
            session.session_id,
            role=shape.ROLE_OF[role] if role else None,
            since=since,
            from_journal=True,
            page_size=size,
            page_token=token,
        )
        total = total or page.total
        found = shape.messages(page)
        rows = [*found, *rows]
        token = page.next_page_token
        if not token or (limit is not None and len(rows) >= limit):
            return rows[-limit:] if limit is not None else rows, max(total, len(rows))


# Permissions


async def approve_permission(ask: Ask) -> Json:
    args = ask.args
    if not ask.house.config.features.permission_approval:
        raise ToolError(
            "PERMISSION_DENIED",
            "Permissions are not answered through this tool (features.permission_approval is "
            "off): requests are denied at once.",
        )
    instance, session = await ask.session()
    approvals = instance.client.approvals
    await _check(instance, session, args["request_id"])
    verdict = "approve" if args["approved"] else "deny"
    answered = await approvals.respond(args["request_id"], verdict, reason=args["reason"])
    approved = answered.decision == v1.Decision.DECISION_APPROVED
    return {
        "request_id": answered.approval_id,
        "status": "approved" if approved else "denied",
        "message": f"Request {answered.approval_id} is {'approved' if approved else 'denied'}",
    }


async def _check(instance: Instance, session: v1.Session, request_id: str) -> None:
    """A request of another session is none of this one's."""
    token = ""
    while True:
        page = await instance.client.approvals.list(
            session_id=session.session_id, include_resolved=True, page_size=PAGE, page_token=token
        )
        if any(each.approval_id == request_id for each in page.approvals):
            return
        token = page.next_page_token
        if not token:
            break
    raise invalid(
        f"Session {session.session_id} has no permission request {request_id}.",
        "request_id",
        reason="APPROVAL_NOT_FOUND",
    )
