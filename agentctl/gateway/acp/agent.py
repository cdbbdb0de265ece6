"""Owns the agent's side of ACP v1: its methods, one client, and how that client leaves.

Each request is answered in a task of its own; what depends on order is done as it is received. It
refuses to know how a session is followed (`session`) and how sessions are opened (`opening`).
"""

import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, cast

import anyio

from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError
from agentctl.gateway.acp import params as given
from agentctl.gateway.acp.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    REQUEST_CANCELLED,
    Json,
    Refusal,
    bad,
    refusal,
)
from agentctl.gateway.acp.facts import Facts
from agentctl.gateway.acp.host import Choices, Host
from agentctl.gateway.acp.opening import Opening
from agentctl.gateway.acp.session import OpenSession, Prompt
from agentctl.gateway.acp.wire import Wire
from agentctl.transport.jsonrpc import PeerGone

logger = logging.getLogger(__name__)

PROTOCOL_VERSION = 1

# A client that leaves waits for nothing: what it began is told to end, and that is a call to a local
# daemon; closing sessions ends processes, which takes as long as their stop ladder.
LEAVE_S = 10.0
CLOSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Done:
    """A result, and what comes once it is written."""

    result: Json
    then: Callable[[], None] = field(default=lambda: None)


Work = Callable[[], Awaitable[Done]]
_FAILED = "agentctl failed to serve this: see its log"


class Gateway:
    """One client's ACP agent."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._facts = Facts(host)
        self._opening = Opening(host, self._facts)
        self._initialized = False
        self._running: dict[str, anyio.CancelScope] = {}
        self._prompts: dict[str, tuple[OpenSession, Prompt]] = {}
        self._methods: Mapping[str, Callable[[Json], Awaitable[Done]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_model": self._set_model,
            "session/set_config_option": self._set_option,
        }

    # What is received, in order.

    def receive(self, message: Json | Refusal) -> None:
        """Takes one message; never waits."""
        if isinstance(message, Refusal):
            self._refuse(None, message)
            return
        own, method = message.get("id"), message.get("method")
        if method is None:
            if not self._host.peer.resolve(message):
                logger.debug("an answer to nothing that waits: %r", own)
        elif isinstance(own, bool) or not isinstance(own, int | str | None):
            self._refuse(None, Refusal(INVALID_REQUEST, "an id is a number or a text"))
        elif not isinstance(method, str):
            self._refuse(own, Refusal(INVALID_REQUEST, "method must be a text"))
        elif "id" in message:
            try:
                work = self._work(own, method, message.get("params"))
            except Refusal as error:
                self._refuse(own, error)
            except Exception:  # the edge: what no check foresaw ends one request, not all
                logger.exception("a request of the client could not be read")
                self._refuse(own, Refusal(INTERNAL_ERROR, _FAILED))
            else:
                self._host.group.start_soon(self._answer, own, work)
        else:
            self._notified(method, given.as_object(message.get("params")))

    def _work(self, own: object, method: str, params: object) -> Work:
        """What a request asks for; what the messages after it depend on is done here.

        Raises:
            Refusal: it is not served now, or its params are of the wrong shape.
        """
        if params is not None and not isinstance(params, dict):
            raise bad("params must be an object.", "params")
        told: Json = given.as_object(cast(object, params))
        if method == "initialize":
            self._introduced(told)
        elif not self._initialized:
            raise Refusal(INVALID_REQUEST, "the first request must be initialize")
        if method == "session/prompt":
            return self._prompt(_key(own), told)
        handle = self._methods.get(method)
        if handle is None:
            raise Refusal(METHOD_NOT_FOUND, f"Method not found: {method:.200}", {"method": method})
        if method == "session/fork":  # made twice it would be two
            return lambda: handle(told)
        return lambda: self._host.lasting(lambda: handle(told))

    def _introduced(self, params: Json) -> None:
        """A second introduction counts as well: what the client can may have changed."""
        asked = params.get("protocolVersion")
        if isinstance(asked, bool) or not isinstance(asked, int):
            raise bad("protocolVersion must be a number.", "protocolVersion")
        self._host.capabilities = given.as_object(params.get("clientCapabilities"))
        self._initialized = True

    def _prompt(self, key: str, params: Json) -> Work:
        session = self._opened(params)
        prompt = Prompt(given.prompt(params, session.offers.commands))
        session.prompts.append(prompt)
        self._prompts[key] = session, prompt
        self._opening.prompted(session)

        async def work() -> Done:
            try:
                return Done(await session.prompt(prompt))
            finally:
                self._prompts.pop(key, None)

        return work

    def _notified(self, method: str, params: Json) -> None:
        match method:
            case "session/cancel":
                session = self._opening.sessions.get(given.as_text(params.get("sessionId")))
                if session is not None:
                    self._host.group.start_soon(session.cancel, list(session.prompts))
            case "$/cancel_request":
                key = _key(params.get("requestId"))
                if (found := self._prompts.get(key)) is not None:
                    self._host.group.start_soon(found[0].cancel_one, found[1])
                elif (scope := self._running.get(key)) is not None:
                    scope.cancel()
            case _:
                logger.debug("a notification that is not known: %.200s", method)

    async def _answer(self, own: object, work: Work) -> None:
        peer, key = self._host.peer, _key(own)
        try:
            with anyio.CancelScope() as scope:
                self._running[key] = scope
                done = await work()
                self._running.pop(key, None)
                await peer.respond(own, done.result)
                done.then()
            if scope.cancelled_caught:
                self._refuse(own, Refusal(REQUEST_CANCELLED, "the request was cancelled"))
        except Refusal as error:
            self._refuse(own, error)
        except AgentctlError as error:
            self._refuse(own, refusal(error))
        except PeerGone:
            self._host.gone.set()
        except Exception:
            logger.exception("a request of the client could not be served")
            self._refuse(own, Refusal(INTERNAL_ERROR, _FAILED))
        finally:
            self._running.pop(key, None)

    def _refuse(self, own: object, error: Refusal) -> None:
        async def send() -> None:
            with suppress(PeerGone):
                await self._host.peer.respond_error(
                    own, error.code, error.message, error.data or None
                )

        self._host.group.start_soon(send)

    # Methods.

    async def _initialize(self, params: Json) -> Done:
        """What the daemon and the agent offer; version 1 is the only one that is spoken."""
        facts = await self._facts.learn()
        return Done(
            {
                "protocolVersion": PROTOCOL_VERSION,
                "agentInfo": {
                    "name": "agentctl",
                    "title": facts.title,
                    "version": version("agentctl"),
                },
                "agentCapabilities": facts.capabilities(),
                "authMethods": facts.auth_methods,
            }
        )

    async def _authenticate(self, params: Json) -> Done:
        method = given.text(params, "methodId")
        await self._host.client.agents.authenticate(await self._facts.entry_id(), method)
        return Done({})

    async def _new(self, params: Json) -> Done:
        return self._made(await self._opening.new(params))

    async def _load(self, params: Json) -> Done:
        return self._made(await self._opening.load(params, history=True))

    async def _resume(self, params: Json) -> Done:
        return self._made(await self._opening.load(params, history=False))

    async def _fork(self, params: Json) -> Done:
        return self._made(await self._opening.fork(params))

    @staticmethod
    def _made(session: OpenSession) -> Done:
        result = session.offers.result()
        if session.is_new:
            result["sessionId"] = session.acp_id
        meta = {"agent": session.entry_id, "workspace": session.workspace}
        return Done(result | {"_meta": {"agentctl": meta}}, session.start)

    async def _list(self, params: Json) -> Done:
        return Done(await self._opening.listed(params))

    async def _close(self, params: Json) -> Done:
        session = self._opened(params)
        await self._host.client.sessions.close(session.session_id)
        await self._opening.forget(session)
        return Done({})

    async def _delete(self, params: Json) -> Done:
        await self._opening.delete(given.text(params, "sessionId"))
        return Done({})

    async def _set_mode(self, params: Json) -> Done:
        session, mode = self._opened(params), given.text(params, "modeId")
        await self._host.client.sessions.update(session.session_id, mode=mode)
        return Done({})

    async def _set_model(self, params: Json) -> Done:
        """Not of the specification any more; clients that knew it still call it."""
        session, model = self._opened(params), given.text(params, "modelId")
        await self._host.client.sessions.update(session.session_id, model=model)
        return Done({})

    async def _set_option(self, params: Json) -> Done:
        session = self._opened(params)
        value: Any = params.get("value")
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(value, str):
            raise bad("value must be a text, or a truth value for a switch.", "value")
        chosen = await self._opening.choose(session, given.text(params, "configId"), value)
        return Done({"configOptions": chosen.offers.told_options()})

    def _opened(self, params: Json) -> OpenSession:
        own = given.text(params, "sessionId")
        session = self._opening.sessions.get(own)
        if session is None:
            raise Refusal(
                NOT_FOUND,
                f"Session {own:.100} is not open here: session/new makes one, session/load or"
                " session/resume takes one up.",
                {"reason": "SESSION_NOT_FOUND"},
            )
        return session

    async def leave(self) -> None:
        """The client is gone: what it began is cancelled; its sessions stay to be taken up again."""
        close = self._host.choices.close_on_exit
        with anyio.move_on_after(CLOSE_S if close else LEAVE_S, shield=True):
            async with anyio.create_task_group() as group:
                for session in self._opening.sessions.values():
                    group.start_soon(self._leave, session, close and session.made_here)

    async def _leave(self, session: OpenSession, close: bool) -> None:
        try:
            await session.leave()
            if close:
                await self._host.client.sessions.close(session.session_id)
        except AgentctlError as error:
            logger.warning("session %s was left as it is: %s", session.acp_id, error)


def _key(own: object) -> str:
    """Ids of a number and of a text are two things."""
    return f"{type(own).__name__} {own}"


async def serve(client: AgentCtl, choices: Choices, stdin: int, stdout: int) -> None:
    """Serves one ACP client until its end of standard input, SIGTERM or SIGINT.

    Args:
        client: of a daemon that runs.
        choices: what the user of the command chose.
        stdin: a descriptor that does not block; it is closed at the end. So is `stdout`.
    """
    wire = Wire(stdin, stdout)
    try:
        async with anyio.create_task_group() as group:
            host = Host(client, wire, group, choices)
            gateway = Gateway(host)
            async with anyio.create_task_group() as ends:
                ends.start_soon(_stop_on_signal, ends.cancel_scope)
                ends.start_soon(_stop_when_gone, host, ends.cancel_scope)
                async for messages in wire.messages():
                    for message in messages:
                        gateway.receive(message)
                ends.cancel_scope.cancel()
            await gateway.leave()
            group.cancel_scope.cancel()
    finally:
        wire.close()


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            logger.info("leaving on %s", signal.Signals(number).name)
            scope.cancel()
            return


async def _stop_when_gone(host: Host, scope: anyio.CancelScope) -> None:
    await host.gone.wait()
    scope.cancel()
