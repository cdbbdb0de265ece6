"""Owns the calls of Runs, Approvals and Questions in Python's terms; knows no wire names of enums.

Every method raises AgentctlError. A word may be given as the StrEnum or as text.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from agentctl import v1
from agentctl.client.channel import Connection
from agentctl.client.stream import Subscription
from agentctl.rpc.enums import number

if TYPE_CHECKING:
    from agentctl.client.event import Event


def run_input(what: str | Sequence[v1.ContentBlock] | v1.RunInput) -> v1.RunInput:
    """A prompt of text, of content blocks, or an input that is complete already."""
    if isinstance(what, v1.RunInput):
        return what
    if isinstance(what, str):
        return v1.RunInput(
            blocks=[v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text=what)]
        )
    return v1.RunInput(blocks=what)


class Runs:
    """Prompts and the turns that answer them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self,
        session_id: str,
        input: str | Sequence[v1.ContentBlock] | v1.RunInput,  # noqa: A002  the API's own word
        *,
        if_busy: str = "",
        timeout_ms: int | None = None,
        model: str | None = None,
        mode: str | None = None,
        effort: str | None = None,
        output_schema_json: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str = "",
    ) -> v1.CreateRunResponse:
        request = v1.CreateRunRequest(
            session_id=session_id,
            input=run_input(input),
            if_busy=number(v1.IfBusy, if_busy, field="if_busy"),
            timeout_ms=timeout_ms,
            model=model,
            mode=mode,
            effort=effort,
            output_schema_json=output_schema_json,
            labels=labels,
            idempotency_key=idempotency_key,
        )
        return await self._connection.unary("Runs/Create", request, v1.CreateRunResponse)

    async def get(self, run_id: str) -> v1.Run:
        return await self._connection.unary("Runs/Get", v1.GetRunRequest(run_id=run_id), v1.Run)

    async def list(
        self,
        *,
        session_id: str = "",
        states: Sequence[str] = (),
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListRunsResponse:
        request = v1.ListRunsRequest(
            session_id=session_id,
            states=[number(v1.RunState, word, field="states") for word in states],
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.unary("Runs/List", request, v1.ListRunsResponse)

    async def wait(self, run_id: str, *, timeout_ms: int | None = None) -> v1.WaitRunResponse:
        """Waits for the end of a run; status `accepted` when `timeout_ms` was up first."""
        request = v1.WaitRunRequest(run_id=run_id, timeout_ms=timeout_ms)
        return await self._connection.unary("Runs/Wait", request, v1.WaitRunResponse)

    async def events(self, run_id: str, *, after: str = "") -> "AsyncIterator[Event]":
        """Its events after a cursor, as `Run.events` gives them; ends after its last one."""
        from agentctl.client.event import Event  # with its views it costs the command line 10 ms

        request = v1.SubscribeRequest(after=after, runs=[run_id], follow=True)
        async with aclosing(Subscription(self._connection, request).batches()) as batches:
            async for batch in batches:
                for event in batch.events:
                    yield Event(event)

    async def cancel(
        self,
        run_id: str = "",
        *,
        session_id: str = "",
        drop_queue: bool = False,
        force: bool = False,
    ) -> v1.CancelRunResponse:
        request = v1.CancelRunRequest(
            run_id=run_id, session_id=session_id, drop_queue=drop_queue, force=force
        )
        return await self._connection.unary("Runs/Cancel", request, v1.CancelRunResponse)


class Approvals:
    """Permission requests of agents, and the rules that answer them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        session_id: str = "",
        include_resolved: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListApprovalsResponse:
        request = v1.ListApprovalsRequest(
            session_id=session_id,
            include_resolved=include_resolved,
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.unary("Approvals/List", request, v1.ListApprovalsResponse)

    async def respond(
        self,
        approval_id: str,
        decision: str = "",
        *,
        option_id: str | None = None,
        reason: str | None = None,
        updated_input_json: bytes | None = None,
        always: bool = False,
    ) -> v1.Approval:
        """Answers with a decision (approve, deny) or with exactly one offered option."""
        request = v1.RespondRequest(
            approval_id=approval_id,
            decision=number(v1.Verdict, decision, field="decision"),
            option_id=option_id,
            reason=reason,
            updated_input_json=updated_input_json,
            always=always,
        )
        return await self._connection.unary("Approvals/Respond", request, v1.Approval)

    async def list_rules(self, session_id: str = "") -> v1.ListRulesResponse:
        """Rules of a session alone; without one, those of all sessions."""
        request = v1.ListRulesRequest(session_id=session_id)
        return await self._connection.unary("Approvals/ListRules", request, v1.ListRulesResponse)

    async def put_rule(self, session_id: str, rule: v1.Rule) -> v1.Rule:
        """Makes a rule, or replaces the one whose id it has; session "" means all sessions."""
        request = v1.PutRuleRequest(session_id=session_id, rule=rule)
        return await self._connection.unary("Approvals/PutRule", request, v1.Rule)

    async def delete_rule(self, session_id: str, rule_id: str) -> v1.DeleteRuleResponse:
        request = v1.DeleteRuleRequest(session_id=session_id, rule_id=rule_id)
        return await self._connection.unary("Approvals/DeleteRule", request, v1.DeleteRuleResponse)


class Questions:
    """Questions of agents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        session_id: str = "",
        include_resolved: bool = False,
        page_size: int = 0,
        page_token: str = "",
    ) -> v1.ListQuestionsResponse:
        request = v1.ListQuestionsRequest(
            session_id=session_id,
            include_resolved=include_resolved,
            page_size=page_size,
            page_token=page_token,
        )
        return await self._connection.unary("Questions/List", request, v1.ListQuestionsResponse)

    async def answer(
        self,
        question_id: str,
        answers: Sequence[Sequence[str]] = (),
        *,
        content_json: bytes | None = None,
    ) -> v1.QuestionRecord:
        """Answers each of its questions with a list of values, or with the filled-in schema."""
        request = v1.AnswerQuestionRequest(
            question_id=question_id,
            answers=[v1.Answer(values=values) for values in answers],
            content_json=content_json,
        )
        return await self._connection.unary("Questions/Answer", request, v1.QuestionRecord)

    async def reject(self, question_id: str, *, reason: str | None = None) -> v1.QuestionRecord:
        request = v1.RejectQuestionRequest(question_id=question_id, reason=reason)
        return await self._connection.unary("Questions/Reject", request, v1.QuestionRecord)
