"""Owns what the agent asks of us: every request gets exactly one answer, whoever gives it.

Permissions and questions stay open until somebody answers, the session is cancelled or the agent takes
them back; files and terminals are served at once; the rest is refused. Decides nothing about leave.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import orjson
from anyio.abc import TaskGroup

from agentctl.core.adapter import Launch, PermissionAnswer, QuestionAnswer
from agentctl.core.errors import Invalid
from agentctl.core.ids import NativeRequestId
from agentctl.core.spec import SessionSpec
from agentctl.core.words import QuestionOutcome
from agentctl.transport.jsonrpc import Peer, PeerGone
from agentctl_adapters.acp.failures import (
    BAD_PARAMS,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    REQUEST_CANCELLED,
)
from agentctl_adapters.acp.handshake import ClientCapabilities
from agentctl_adapters.acp.terminal import Terminals, TerminalUnknown
from agentctl_adapters.acp.workspace import FileMissing, FileRefused, Workspace
from agentctl_adapters.common.forms import form_content
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text, request_key

logger = logging.getLogger(__name__)

PERMISSION, ELICITATION = "session/request_permission", "elicitation/create"
CANCELLED_PERMISSION: Json = {"outcome": {"outcome": "cancelled"}}
CANCELLED_QUESTION: Json = {"action": "cancel"}

# A job of the worker that no agent can ask for.
_SETTLED = "\0settled"

Serve = Callable[[Json], Awaitable[Json]]


class UnknownSession(Exception):
    """The agent named a session that we do not know."""


@dataclass(slots=True)
class _Open:
    id: object
    method: str
    session: str
    options: frozenset[str] = frozenset()
    elicitation: str = ""
    schema: Json = field(default_factory=dict[str, Any])

    @property
    def cancelled(self) -> Json:
        return CANCELLED_PERMISSION if self.method == PERMISSION else CANCELLED_QUESTION


class Inbound:
    """The requests of one process.

    `cancelling` holds sessions whose turn was told to end: what they ask now crossed our cancel.
    """

    def __init__(self, launch: Launch, offer: ClientCapabilities) -> None:
        self._offer = offer
        self._open: dict[NativeRequestId, _Open] = {}
        self._waits: dict[NativeRequestId, anyio.CancelScope] = {}
        self._workspaces: dict[str, Workspace] = {}
        self.cancelling: set[str] = set()
        self._peer: Peer | None = None
        self._group: TaskGroup | None = None
        self._jobs: asyncio.Queue[Json] = asyncio.Queue()
        self._terminals = Terminals(launch)
        self._served: Mapping[str, Serve] = self._table()

    def _table(self) -> Mapping[str, Serve]:
        served: dict[str, Serve] = {}
        if self._offer.read_text_file:
            served["fs/read_text_file"] = self._read_file
        if self._offer.write_text_file:
            served["fs/write_text_file"] = self._write_file
        if self._offer.terminal:
            served["terminal/create"] = self._create_terminal
            served["terminal/output"] = self._terminals.output
            served["terminal/wait_for_exit"] = self._terminals.wait_for_exit
            served["terminal/kill"] = self._terminals.kill
            served["terminal/release"] = self._terminals.release
        return served

    async def run(self, peer: Peer) -> None:
        """Serves until cancelled: one worker, in order; only a wait for a process has its own task."""
        self._peer = peer
        async with anyio.create_task_group() as group:
            self._group = group
            self._terminals.group = group
            while True:
                message = await self._jobs.get()
                if message["method"] == "terminal/wait_for_exit":
                    group.start_soon(self._answer, message)
                else:
                    await self._answer(message)
                self._jobs.task_done()

    def on_request(self, message: Json) -> None:
        """Takes note of a request, before its draft goes to the sink. Never waits."""
        method, params = as_text(message["method"]), as_object(message.get("params"))
        session, id_ = as_text(params.get("sessionId")), message["id"]
        if method == PERMISSION:
            offered = {as_text(o.get("optionId")) for o in as_objects(params.get("options"))}
            self._open[request_key(id_)] = _Open(id_, method, session, frozenset(offered))
        elif method == ELICITATION and self._asks(params):
            self._open[request_key(id_)] = _Open(
                id_,
                method,
                session,
                elicitation=as_text(params.get("elicitationId")),
                schema=as_object(params.get("requestedSchema")),
            )
        else:
            self._jobs.put_nowait(message)
        if session in self.cancelling and (request := self._open.pop(request_key(id_), None)):
            self._settle_later(request, request.cancelled)

    def on_cancel(self, params: Json) -> None:
        """`$/cancel_request`: the agent takes a request back, which still gets an answer."""
        key = request_key(params.get("requestId"))
        if (scope := self._waits.get(key)) is not None:
            scope.cancel()
        elif (request := self._open.pop(key, None)) is not None:
            self._settle_later(request, None)

    def on_complete(self, params: Json) -> None:
        """`elicitation/complete`: what the page asked for was given there, before we answered."""
        name = as_text(params.get("elicitationId"))
        for key, request in list(self._open.items()):
            if name and request.elicitation == name:
                del self._open[key]
                self._settle_later(request, {"action": "accept"})

    async def answer_permission(self, key: NativeRequestId, answer: PermissionAnswer) -> None:
        """Answers once; a second answer, or one to a request that is gone, does nothing.

        Raises:
            Invalid: OPTION_NOT_OFFERED; the request stays open.
        """
        request = self._open.get(key)
        if request is None or request.method != PERMISSION:
            return
        option = answer.option_id
        if option is not None and option not in request.options:
            raise Invalid(
                f"the agent did not offer {option!r}; it offered {', '.join(request.options)}",
                reason="OPTION_NOT_OFFERED",
            )
        selected = {"outcome": "selected", "optionId": option}
        await self._settle(key, CANCELLED_PERMISSION if option is None else {"outcome": selected})

    async def answer_question(self, key: NativeRequestId, answer: QuestionAnswer) -> None:
        """Answers once; a second answer does nothing.

        Raises:
            Invalid: the answers do not fit the form; the question stays open.
        """
        request = self._open.get(key)
        if request is None or request.method != ELICITATION:
            return
        await self._settle(key, _elicitation_result(request.schema, answer))

    def cancel_session(self, session: str | None) -> None:
        """Answers every open request of a session (None: of all) as cancelled, soon."""
        for key, request in list(self._open.items()):
            if session is None or request.session == session:
                del self._open[key]
                self._settle_later(request, request.cancelled)

    async def settled(self) -> None:
        """Returns when what was to be answered at once has been."""
        await self._jobs.join()

    def serve_session(self, session: str, spec: SessionSpec) -> None:
        """From here on its files and terminals are those of the spec's directories."""
        self._workspaces[session] = Workspace((spec.workspace, *spec.additional_directories))

    def forget_session(self, session: str) -> None:
        self.cancel_session(session)
        self._workspaces.pop(session, None)
        self._terminals.release_session(session)

    def _asks(self, params: Json) -> bool:
        if params.get("mode") == "url":
            return self._offer.elicitation_url
        return self._offer.elicitation_form and params.get("mode", "form") == "form"

    async def _settle(self, key: NativeRequestId, result: Json) -> None:
        request = self._open.pop(key, None)
        if request is not None and self._peer is not None:
            await self._peer.respond(request.id, result)

    def _settle_later(self, request: _Open, result: Json | None) -> None:
        """Without waiting for the pipe; None: the agent took the request back."""
        self._jobs.put_nowait({"id": request.id, "method": _SETTLED, "result": result})

    async def _answer(self, message: Json) -> None:
        assert self._peer is not None
        method, id_ = as_text(message["method"]), message["id"]
        refuse = partial(self._peer.respond_error, id_)
        try:
            if method == _SETTLED:
                if message["result"] is None:
                    await refuse(REQUEST_CANCELLED, "the request was cancelled")
                else:
                    await self._peer.respond(id_, message["result"])
                return
            serve = self._served.get(method)
            if serve is None:
                await refuse(METHOD_NOT_FOUND, f"agentctl does not serve {method}")
                return
            with anyio.CancelScope() as scope:
                self._waits[request_key(id_)] = scope
                try:
                    await self._serve(serve, message, refuse)
                finally:
                    del self._waits[request_key(id_)]
            if scope.cancelled_caught:
                await refuse(REQUEST_CANCELLED, "the request was cancelled")
        except PeerGone:
            logger.debug("the agent was gone before its %s was answered", method)

    async def _serve(self, serve: Serve, message: Json, refuse: Callable[..., Any]) -> None:
        assert self._peer is not None
        code, said = INTERNAL_ERROR, "internal error"
        try:
            result = await serve(as_object(message.get("params")))
        except FileMissing as error:
            code, said = NOT_FOUND, str(error)
        except UnknownSession as error:
            code, said = BAD_PARAMS, f"unknown session {error}"
        except TerminalUnknown as error:
            code, said = NOT_FOUND, f"unknown terminal {error}"
        except FileRefused as error:
            code, said = BAD_PARAMS, str(error)
        except OSError as error:
            said = error.strerror or str(error)
        except Exception:
            logger.exception("%s of the agent could not be served", message["method"])
            said = "agentctl failed to serve this"
        else:
            with anyio.CancelScope(shield=True):
                await self._peer.respond(message["id"], result)
            return
        await refuse(code, said)

    def _workspace(self, params: Json) -> Workspace:
        session = as_text(params.get("sessionId"))
        workspace = self._workspaces.get(session)
        if workspace is None:
            raise UnknownSession(repr(session))
        return workspace

    async def _read_file(self, params: Json) -> Json:
        read = self._workspace(params).read_text
        line, limit = _count(params, "line"), _count(params, "limit")
        try:
            text = await anyio.to_thread.run_sync(read, as_text(params.get("path")), line, limit)
        except FileMissing:
            # Gemini reads before it makes a file, and takes every error for a failure to make it.
            if not self._offer.write_text_file:
                raise
            text = ""
        return {"content": text}

    async def _write_file(self, params: Json) -> Json:
        write, content = self._workspace(params).write_text, params.get("content")
        if not isinstance(content, str):
            raise FileRefused("content must be a text")
        await anyio.to_thread.run_sync(write, as_text(params.get("path")), content)
        return {}

    async def _create_terminal(self, params: Json) -> Json:
        return await self._terminals.create(params, self._workspace(params))


def _count(params: Json, name: str) -> int | None:
    value = params.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _elicitation_result(schema: Json, answer: QuestionAnswer) -> Json:
    match answer.outcome:
        case QuestionOutcome.ANSWERED:
            if answer.content_json is not None:
                content: Any = orjson.loads(answer.content_json)
                if not isinstance(content, dict):
                    raise Invalid("the content of an answer must be a JSON object")
                return {"action": "accept", "content": content}
            if not schema:
                return {"action": "accept"}
            return {"action": "accept", "content": form_content(schema, answer.answers)}
        case QuestionOutcome.REJECTED:
            return {"action": "decline"}
        case QuestionOutcome.CANCELLED | QuestionOutcome.EXPIRED:
            return CANCELLED_QUESTION
