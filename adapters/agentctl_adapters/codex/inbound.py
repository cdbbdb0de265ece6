"""Owns what Codex asks of us: every request gets exactly one answer, whoever gives it.

Approvals and questions stay open until somebody answers, their turn ends, the session is cancelled or
Codex takes them back; what needs nobody is answered at once, the rest is refused. Decides nothing.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from agentctl.core.adapter import PermissionAnswer, QuestionAnswer
from agentctl.core.errors import Invalid
from agentctl.core.ids import NativeRequestId
from agentctl.core.words import Decision, QuestionOutcome
from agentctl.transport.jsonrpc import Peer, PeerGone
from agentctl_adapters.codex import decisions
from agentctl_adapters.codex.calls import METHOD_NOT_FOUND
from agentctl_adapters.codex.decisions import ELICITATION, USER_INPUT, Offer
from agentctl_adapters.common.forms import form_content
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, request_key

logger = logging.getLogger(__name__)

NO_TOOL = "agentctl offers no such tool"
VERIFICATION = "openai/userVerification"


@dataclass(slots=True)
class _Open:
    id: object
    method: str
    thread: str
    turn: str
    params: Json
    offer: Offer | None = None

    @property
    def cancelled(self) -> Json:
        if self.offer is not None:
            return self.offer.cancelled
        return (
            {"answers": {}} if self.method == USER_INPUT else {"action": "cancel", "content": None}
        )


@dataclass(slots=True)
class Inbound:
    """The requests of one process. `cancelling` holds threads whose turn was told to end."""

    peer: Peer | None = None
    cancelling: set[str] = field(default_factory=set[str])
    _open: dict[NativeRequestId, _Open] = field(default_factory=dict[NativeRequestId, _Open])

    def on_request(self, message: Json) -> None:
        """Takes note of a request, before its draft goes to the sink. Never waits."""
        method, params = as_text(message["method"]), as_object(message.get("params"))
        request = _Open(
            message["id"],
            method,
            as_text(params.get("threadId")),
            as_text(params.get("turnId")),
            params,
        )
        if decisions.is_approval(method, params):
            request.offer = decisions.offer_of(method, params)
        elif method not in (ELICITATION, USER_INPUT):
            self._serve(request)
            return
        self._open[request_key(message["id"])] = request
        if request.thread in self.cancelling or params.get("mode") == VERIFICATION:
            self._drop(lambda each: each is request)

    def on_resolved(self, params: Json) -> None:
        """`serverRequest/resolved`: Codex needs no answer any more."""
        self._open.pop(request_key(params.get("requestId")), None)

    def turn_over(self, thread: str, turn: str) -> None:
        """Its turn has ended: Codex ignores the answer, and still gets one."""
        self._drop(lambda each: each.thread == thread and each.turn in ("", turn))

    def cancel(self, threads: set[str] | None) -> None:
        """Answers every open request of these threads (None: of all) as cancelled."""
        self._drop(lambda each: threads is None or each.thread in threads)

    async def answer_permission(self, key: NativeRequestId, answer: PermissionAnswer) -> None:
        """Answers once; a second answer, or one to a request that is gone, does nothing.

        Raises:
            Invalid: OPTION_NOT_OFFERED; the request stays open.
        """
        request = self._open.get(key)
        if request is None or request.offer is None:
            return
        results, option = request.offer.results, answer.option_id
        if option is not None and option not in results:
            raise Invalid(
                f"the agent did not offer {option!r}; it offered {', '.join(results)}",
                reason="OPTION_NOT_OFFERED",
            )
        if option is None and answer.decision in (Decision.DENIED, Decision.EXPIRED):
            option = decisions.DECLINE
        result = request.offer.cancelled if option is None else results[option]
        await self._settle(key, result)

    async def answer_question(self, key: NativeRequestId, answer: QuestionAnswer) -> None:
        """Answers once; a second answer does nothing.

        Raises:
            Invalid: the answers do not fit the form; the question stays open.
        """
        request = self._open.get(key)
        if request is None or request.offer is not None:
            return
        told = _answers if request.method == USER_INPUT else _elicited
        await self._settle(key, told(request.params, answer))

    async def _settle(self, key: NativeRequestId, result: Json) -> None:
        request = self._open.pop(key, None)
        if request is not None and self.peer is not None:
            await self.peer.respond(request.id, result)

    def _drop(self, which: Callable[[_Open], bool]) -> None:
        for key, request in [(k, r) for k, r in self._open.items() if which(r)]:
            del self._open[key]
            self._send(request.id, request.cancelled)

    def _serve(self, request: _Open) -> None:
        served: Mapping[str, Callable[[], Json]] = {
            "item/tool/call": lambda: {
                "contentItems": [{"type": "inputText", "text": NO_TOOL}],
                "success": False,
            },
            "currentTime/read": lambda: {"currentTimeAt": int(time.time())},
        }
        answer = served.get(request.method)
        if answer is not None:
            self._send(request.id, answer())
        else:
            self._send(request.id, None, f"agentctl does not serve {request.method}")

    def _send(self, id_: object, result: Any, refusal: str = "") -> None:
        """Queues the answer: the pipe is not waited for."""
        if self.peer is None:
            return
        try:
            if refusal:
                self.peer.queue_error(id_, METHOD_NOT_FOUND, refusal)
            else:
                self.peer.queue_result(id_, result)
        except PeerGone:
            logger.debug("Codex was gone before its request was answered")


def _answers(params: Json, answer: QuestionAnswer) -> Json:
    """The answer to request_user_input: values by the name of each question."""
    if answer.outcome is not QuestionOutcome.ANSWERED:
        return {"answers": {}}
    names = [as_text(each.get("id")) for each in as_objects(params.get("questions"))]
    if answer.content_json is not None:
        content = as_object(orjson.loads(answer.content_json))
        given = {name: _values(content[name]) for name in names if name in content}
    else:
        if len(answer.answers) > len(names):
            raise Invalid(f"{len(answer.answers)} answers were given to {len(names)} questions")
        pairs = zip(names, answer.answers, strict=False)
        given = {name: list(told.values) for name, told in pairs if told.values}
    return {"answers": {name: {"answers": values} for name, values in given.items()}}


def _values(value: Any) -> list[str]:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [item if isinstance(item, str) else orjson.dumps(item).decode() for item in items]


def _elicited(params: Json, answer: QuestionAnswer) -> Json:
    match answer.outcome:
        case QuestionOutcome.ANSWERED:
            if answer.content_json is not None:
                content: Any = orjson.loads(answer.content_json)
                if not isinstance(content, dict):
                    raise Invalid("the content of an answer must be a JSON object")
                return {"action": "accept", "content": content}
            schema = as_object(params.get("requestedSchema"))
            content = form_content(schema, answer.answers) if schema else None
            return {"action": "accept", "content": content}
        case QuestionOutcome.REJECTED:
            return {"action": "decline", "content": None}
        case QuestionOutcome.CANCELLED | QuestionOutcome.EXPIRED:
            return {"action": "cancel", "content": None}
