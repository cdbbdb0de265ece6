"""Owns the answers of clients to approvals and questions; one answer wins.

It refuses to know how an answer reaches an agent.
"""

import dataclasses
from typing import Any, cast

import orjson

from agentctl.core.adapter import QuestionAnswer
from agentctl.core.errors import Invalid, NotFound, Refused
from agentctl.core.events import PermissionRequest
from agentctl.core.parts import Answer
from agentctl.core.words import DecidedBy, Decision, OptionKind, QuestionOutcome
from agentctl.session.base import Base, lasting, page
from agentctl.session.ids import mint
from agentctl.session.permissions import Verdict, deny, option_of, rule_for
from agentctl.session.records import AnswerQuestion, ApprovalRecord, QuestionRecord, Respond
from agentctl.session.session import Session
from agentctl.session.store import load
from agentctl.session.writes import Writes

_ALLOWING = frozenset({OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS})


class ApprovalCalls(Base):
    async def list_approvals(
        self, *, session_id: str = "", open_only: bool = True, after: str = "", limit: int = 100
    ) -> tuple[list[ApprovalRecord], str]:
        """Oldest first when only open ones are asked for, else newest first."""
        if open_only:
            found = [
                approval
                for session in self.sessions.values()
                if not session_id or session.id == session_id
                for approval in session.ledger.approvals.values()
                if approval.request.approval_id > after
            ]
            found.sort(key=lambda record: record.request.approval_id)
            return page(found[: limit + 1], limit, _approval_id)
        docs = await self.deps.journal.docs(
            "approval",
            session_id=session_id or None,
            after_id=after,
            limit=limit + 1,
            newest_first=True,
        )
        return page([load(ApprovalRecord, doc) for doc in docs], limit, _approval_id)

    @lasting
    async def respond(self, answer: Respond) -> ApprovalRecord:
        """Approvals.Respond.

        Raises:
            NotFound: there is no such approval.
            Refused: ALREADY_RESOLVED, somebody was first.
            Invalid: OPTION_NOT_OFFERED, or neither decision nor option was given.
        """
        session, approval = await self._open_approval(answer.approval_id)
        request, record = approval.request, session.record
        verdict = _verdict(request, answer)
        writes = Writes(vital=True)
        if answer.always:
            if answer.decision != "approve" or answer.option_id is not None:
                raise Invalid("always goes with approve alone: nothing else makes a rule of ours.")
            rule = rule_for(request, mint("rule"))
            record.rules.append(dataclasses.replace(rule, created_at=writes.now, revision=1))
            verdict = dataclasses.replace(verdict, rule_id=rule.rule_id)
            writes.touch(record)
        session.ledger.resolve(request.approval_id, verdict, writes)
        await session.commit(writes)
        return approval

    async def _open_approval(self, approval_id: str) -> tuple[Session, ApprovalRecord]:
        for session in self.sessions.values():
            for key, approval in session.ledger.approvals.items():
                if key == approval_id or (len(approval_id) > 3 and key.endswith(approval_id)):
                    return session, approval
        record = await self.fetch(ApprovalRecord, "approval", approval_id)
        if record is None:
            raise NotFound(
                f'there is no approval "{approval_id}". See what waits: agentctl approvals',
                reason="APPROVAL_NOT_FOUND",
            )
        raise Refused(
            f"approval {approval_id} was {record.decision or 'answered'} already"
            f"{f' (by {record.by})' if record.by else ''}.",
            reason="ALREADY_RESOLVED",
        )

    async def list_questions(
        self, *, session_id: str = "", open_only: bool = True, after: str = "", limit: int = 100
    ) -> tuple[list[QuestionRecord], str]:
        """Oldest first when only open ones are asked for, else newest first."""
        if open_only:
            found = [
                question
                for session in self.sessions.values()
                if not session_id or session.id == session_id
                for question in session.ledger.questions.values()
                if question.request.question_id > after
            ]
            found.sort(key=lambda record: record.request.question_id)
            return page(found[: limit + 1], limit, _question_id)
        docs = await self.deps.journal.docs(
            "question",
            session_id=session_id or None,
            after_id=after,
            limit=limit + 1,
            newest_first=True,
        )
        return page([load(QuestionRecord, doc) for doc in docs], limit, _question_id)

    @lasting
    async def answer_question(self, answer: AnswerQuestion) -> QuestionRecord:
        """Questions.Answer: one list of values per question, or the content of a form."""
        session, question = await self._open_question(answer.question_id)
        _check_answers(question, answer)
        given = QuestionAnswer(QuestionOutcome.ANSWERED, answer.answers, answer.content_json)
        return await self._settle_question(session, question, given)

    @lasting
    async def reject_question(self, question_id: str, *, reason: str = "") -> QuestionRecord:
        """Questions.Reject: the agent goes on without an answer."""
        session, question = await self._open_question(question_id)
        answers = (Answer([reason]),) if reason else ()
        given = QuestionAnswer(QuestionOutcome.REJECTED, answers)
        return await self._settle_question(session, question, given)

    async def _settle_question(
        self, session: Session, question: QuestionRecord, given: QuestionAnswer
    ) -> QuestionRecord:
        writes = Writes(vital=True)
        id_ = question.request.question_id
        session.ledger.resolve_question(id_, given, DecidedBy.CLIENT, writes)
        await session.commit(writes)
        return question

    async def _open_question(self, question_id: str) -> tuple[Session, QuestionRecord]:
        for session in self.sessions.values():
            for key, question in session.ledger.questions.items():
                if key == question_id or (len(question_id) > 3 and key.endswith(question_id)):
                    return session, question
        record = await self.fetch(QuestionRecord, "question", question_id)
        if record is None:
            raise NotFound(
                f'there is no question "{question_id}". See what waits: agentctl questions',
                reason="QUESTION_NOT_FOUND",
            )
        raise Refused(
            f"question {question_id} was {record.outcome or 'settled'} already.",
            reason="ALREADY_RESOLVED",
        )


def _approval_id(record: ApprovalRecord) -> str:
    return record.request.approval_id


def _question_id(record: QuestionRecord) -> str:
    return record.request.question_id


def _offered(request: PermissionRequest) -> str:
    return ", ".join(option.option_id for option in request.options) or "none"


def _verdict(request: PermissionRequest, answer: Respond) -> Verdict:
    """What a client's answer comes to; only what was offered, and unknown never means allow."""
    if answer.option_id is not None:
        option = next((o for o in request.options if o.option_id == answer.option_id), None)
        if option is None:
            raise Invalid(
                f'"{answer.option_id}" was not offered. Offered are: {_offered(request)}.',
                reason="OPTION_NOT_OFFERED",
            )
        decision = Decision.APPROVED if option.kind in _ALLOWING else Decision.DENIED
        return Verdict(
            decision,
            option.option_id,
            DecidedBy.CLIENT,
            answer.reason,
            updated_input_json=answer.updated_input_json,
        )
    if answer.decision == "approve":
        once = option_of(request, OptionKind.ALLOW_ONCE)
        if once is None:
            raise Invalid(
                "the agent offers no way to allow this once. Pick one of its options with "
                f"--option: {_offered(request)}.",
                reason="OPTION_NOT_OFFERED",
            )
        return Verdict(
            Decision.APPROVED,
            once.option_id,
            DecidedBy.CLIENT,
            answer.reason,
            updated_input_json=answer.updated_input_json,
        )
    if answer.decision == "deny":
        return deny(request, DecidedBy.CLIENT, answer.reason)
    raise Invalid("say approve, deny, or one of the offered options.")


def _check_form(schema_json: bytes, answer: AnswerQuestion) -> None:
    """The outline of an answer to a form; whether each value fits is the agent's business."""
    try:
        schema: Any = orjson.loads(schema_json)
        fields = list(cast("dict[str, Any]", schema["properties"]))
    except (orjson.JSONDecodeError, KeyError, TypeError):
        # It was too long to be kept whole, or is none of the common kind.
        schema, fields = {}, list[str]()
    if answer.content_json is None:
        if fields and len(answer.answers) > len(fields):
            raise Invalid(
                f"{len(answer.answers)} answers came for {len(fields)} fields. The fields are: "
                f"{', '.join(fields)}."
            )
        given = fields[: len(answer.answers)]
    else:
        content: Any = orjson.loads(answer.content_json)
        if not isinstance(content, dict):
            raise Invalid("the filled-in form is a JSON object: give one value for each field.")
        given = list(cast("dict[str, Any]", content))
    missing = [name for name in schema.get("required") or () if name not in given]
    if missing:
        raise Invalid(
            f"the form has no {', '.join(missing)}. Fill that in, or reject the question."
        )


def _check_answers(question: QuestionRecord, answer: AnswerQuestion) -> None:
    request = question.request
    if request.schema_json is not None:
        _check_form(request.schema_json, answer)
    if answer.content_json is not None or not request.questions:
        return
    if len(answer.answers) != len(request.questions):
        raise Invalid(
            f"{len(request.questions)} answers are wanted, {len(answer.answers)} came. Answer each "
            "question in its order."
        )
    for asked, given in zip(request.questions, answer.answers, strict=True):
        known = {choice.id for choice in asked.options} | {c.name for c in asked.options}
        strange = [value for value in given.values if value not in known]
        if asked.options and not asked.custom and strange:
            raise Invalid(
                f'"{strange[0]}" is no answer to "{asked.question}". Offered are: '
                f"{', '.join(choice.id for choice in asked.options)}."
            )
        if len(given.values) > 1 and not asked.multiple:
            raise Invalid(f'one answer is wanted to "{asked.question}", {len(given.values)} came.')
