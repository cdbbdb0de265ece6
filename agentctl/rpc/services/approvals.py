"""Owns the services Approvals and Questions, and the rules that answer approvals."""

from agentctl import v1
from agentctl.rpc.calls import Calls, Context
from agentctl.rpc.pages import fitted
from agentctl.rpc.records import approval_message, question_message, rule_message
from agentctl.rpc.requests import answer, need, page_size, page_token, respond, rule
from agentctl.session.api import ApprovalsApi, ManagerApi


class ApprovalsService:
    """Permission requests of agents, and the rules that answer them."""

    def __init__(self, manager: ManagerApi, calls: Calls) -> None:
        self._manager = manager
        self._calls = calls

    async def list(
        self, request: v1.ListApprovalsRequest, context: Context
    ) -> v1.ListApprovalsResponse:
        records, token = await self._manager.list_approvals(
            session_id=request.session_id,
            open_only=not request.include_resolved,
            after=page_token(request, "apr"),
            limit=page_size(request.page_size),
        )
        approvals, token = await fitted(
            map(approval_message, records), token, lambda a: a.approval_id
        )
        return v1.ListApprovalsResponse(approvals=approvals, next_page_token=token)

    async def respond(self, request: v1.RespondRequest, context: Context) -> v1.Approval:
        record = await self._calls.change(self._manager.respond(respond(request)))
        return approval_message(record)

    async def list_rules(
        self, request: v1.ListRulesRequest, context: Context
    ) -> v1.ListRulesResponse:
        if request.session_id:
            rules = (await self._manager.get_session(request.session_id)).rules
        else:
            rules = list(self._manager.standing_rules())
        return v1.ListRulesResponse(rules=[rule_message(each) for each in rules])

    async def put_rule(self, request: v1.PutRuleRequest, context: Context) -> v1.Rule:
        told = rule(request.rule, where="rule")
        put = self._manager.put_rule(request.session_id, told)
        return rule_message(await self._calls.change(put))

    async def delete_rule(
        self, request: v1.DeleteRuleRequest, context: Context
    ) -> v1.DeleteRuleResponse:
        rule_id = need(request.rule_id, "rule_id")
        await self._calls.change(self._manager.delete_rule(request.session_id, rule_id))
        return v1.DeleteRuleResponse()


class QuestionsService:
    """Questions of agents."""

    def __init__(self, manager: ApprovalsApi, calls: Calls) -> None:
        self._manager = manager
        self._calls = calls

    async def list(
        self, request: v1.ListQuestionsRequest, context: Context
    ) -> v1.ListQuestionsResponse:
        records, token = await self._manager.list_questions(
            session_id=request.session_id,
            open_only=not request.include_resolved,
            after=page_token(request, "qst"),
            limit=page_size(request.page_size),
        )
        questions, token = await fitted(
            map(question_message, records), token, lambda q: q.question_id
        )
        return v1.ListQuestionsResponse(questions=questions, next_page_token=token)

    async def answer(
        self, request: v1.AnswerQuestionRequest, context: Context
    ) -> v1.QuestionRecord:
        record = await self._calls.change(self._manager.answer_question(answer(request)))
        return question_message(record)

    async def reject(
        self, request: v1.RejectQuestionRequest, context: Context
    ) -> v1.QuestionRecord:
        question_id = need(request.question_id, "question_id")
        call = self._manager.reject_question(question_id, reason=request.reason)
        return question_message(await self._calls.change(call))
