"""Owns the requests to one client about one session: asked once, taken back when others answer them.

What is asked and what an answer means is decided in `asks`; the daemon decides what an answer does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from agentctl.core.errors import AgentctlError
from agentctl.core.events import (
    Event,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
)
from agentctl.gateway.acp import asks
from agentctl.gateway.acp.errors import Json
from agentctl.gateway.acp.host import Host
from agentctl.rpc.mirror import read
from agentctl.transport.jsonrpc import PeerGone, RpcError

logger = logging.getLogger(__name__)

# A client that cancels its turn may answer what is open first: its cancel is then right behind.
CANCEL_COMES_S = 0.3


@dataclass(slots=True, eq=False)
class _Open:
    request_id: int
    future: asyncio.Future[object]
    ask: asks.Ask
    turn_cancelled: anyio.Event = field(default_factory=anyio.Event)


class Asking:
    """What one session asks of the client. `group` runs the waits; it is set before any is begun."""

    def __init__(self, host: Host, acp_id: str) -> None:
        self.group: TaskGroup | None = None
        self._host = host
        self._acp_id = acp_id
        self._open: dict[str, _Open] = {}
        self._seen: set[str] = set()

    def settled(self, events: Sequence[Event]) -> None:
        """These are here already: what they resolve is not asked any more."""
        for event in events:
            match event.payload:
                case PermissionResolved(approval_id=own) | QuestionResolved(question_id=own):
                    if own not in self._open:
                        self._seen.add(own)
                case _:
                    pass

    async def ask_open(self, session_id: str) -> None:
        """Asks what was open before this client came."""
        client = self._host.client
        for approval in (await client.approvals.list(session_id=session_id)).approvals:
            self.permission(read(PermissionRequest, approval.request), {})
        for record in (await client.questions.list(session_id=session_id)).questions:
            self.question(read(QuestionRequest, record.request))

    def permission(self, payload: PermissionRequest, shown: Json) -> None:
        """Asks for leave; `shown` is the tool as the client knows it."""
        ask = asks.permission(self._acp_id, payload, shown)
        self._begin(payload.approval_id, ask, self._decide)

    def question(self, payload: QuestionRequest) -> None:
        """Asks a question, or rejects it where the client has no way to be asked."""
        host = self._host
        form, url = host.can_ask("form"), host.can_ask("url")
        ask = asks.question(self._acp_id, payload, form=form, url=url)
        if ask is not None:
            self._begin(payload.question_id, ask, self._reply)
        elif payload.question_id not in self._seen and self.group is not None:
            self._seen.add(payload.question_id)
            reason = "The client has no way to show this question; answer it without the user."
            logger.warning("question %s: %s", payload.question_id, reason)
            self.group.start_soon(self._reject, payload.question_id, reason)

    async def withdraw(self, own: str) -> None:
        """It was answered elsewhere, or is void."""
        waiting = self._open.pop(own, None)
        if waiting is not None:
            waiting.future.cancel()
            params = {"requestId": waiting.request_id}
            await self._host.peer.notify("$/cancel_request", params)

    def withdraw_all(self) -> None:
        """Forgets what is open: an answer that still comes means nothing."""
        for waiting in self._open.values():
            waiting.future.cancel()
        self._open.clear()

    def cancelled(self) -> None:
        """The client cancels the turn: what it answers as cancelled now is no denial."""
        for waiting in self._open.values():
            waiting.turn_cancelled.set()

    def _begin(
        self, own: str, ask: asks.Ask, then: Callable[[str, _Open, object], Awaitable[None]]
    ) -> None:
        if own in self._seen or self.group is None:
            return
        self._seen.add(own)
        request_id, future = self._host.peer.start_request(ask.method, ask.params)
        waiting = self._open[own] = _Open(request_id, future, ask)
        self.group.start_soon(self._wait, own, waiting, then)

    async def _wait(
        self, own: str, waiting: _Open, then: Callable[[str, _Open, object], Awaitable[None]]
    ) -> None:
        await asyncio.wait({waiting.future})
        if waiting.future.cancelled():
            return
        try:
            result: object = waiting.future.result()
        except RpcError as error:
            logger.warning("the client did not answer %s: %s", waiting.ask.method, error)
            result = None
        except PeerGone:
            self._host.gone.set()
            return
        try:
            await then(own, waiting, result)
        except AgentctlError as error:
            level = logging.DEBUG if error.reason == "ALREADY_RESOLVED" else logging.WARNING
            logger.log(level, "the answer to %s was not taken: %s", own, error)

    async def _decide(self, own: str, waiting: _Open, result: object) -> None:
        option = asks.picked(waiting.ask, result)
        if option is None:
            with anyio.move_on_after(CANCEL_COMES_S):
                await waiting.turn_cancelled.wait()
            if waiting.turn_cancelled.is_set() or own not in self._open:
                return
        self._open.pop(own, None)
        respond = self._host.client.approvals.respond
        if option == asks.APPROVE:
            await respond(own, "approve")
        elif option == asks.DENY:
            await respond(own, "deny")
        elif option is None:
            await respond(own, "deny", reason="The user dismissed this request.")
        else:
            await respond(own, option_id=option)

    async def _reply(self, own: str, waiting: _Open, result: object) -> None:
        answer = asks.answered(waiting.ask, result)
        if answer is None:
            with anyio.move_on_after(CANCEL_COMES_S):
                await waiting.turn_cancelled.wait()
            if waiting.turn_cancelled.is_set() or own not in self._open:
                return
        self._open.pop(own, None)
        questions = self._host.client.questions
        if answer is None:
            await questions.reject(own, reason="The user did not answer this question.")
        else:
            await questions.answer(own, answer.values, content_json=answer.content_json)

    async def _reject(self, own: str, reason: str) -> None:
        try:
            await self._host.client.questions.reject(own, reason=reason)
        except AgentctlError as error:
            logger.debug("question %s was not rejected: %s", own, error)
