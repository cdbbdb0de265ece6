"""Owns one live ACP agent: its handshake, its sessions and every call that we make of it.

What the agent says is not its business (the translator reads that), nor when it is started or ended
(`adapter`). It remembers which methods the agent does not know, whatever it had claimed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentctl.core.adapter import (
    AgentInfo,
    Feature,
    Launch,
    NativeSession,
    PermissionAnswer,
    Progress,
    QuestionAnswer,
)
from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    Invalid,
    Unsupported,
)
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.spec import Command, PromptSpec, SessionSpec
from agentctl.transport.jsonrpc import PeerGone, RpcError
from agentctl_adapters.acp import requests
from agentctl_adapters.acp.choices import SET_MODEL, Call, SessionChoices, listed
from agentctl_adapters.acp.failures import (
    BAD_PARAMS,
    INTERNAL_ERROR,
    words_of,
    wrong_version,
)
from agentctl_adapters.acp.handshake import PROTOCOL_VERSION, read_handshake
from agentctl_adapters.acp.inbound import Inbound
from agentctl_adapters.acp.link import Link, session_of
from agentctl_adapters.acp.loading import Loading
from agentctl_adapters.acp.outbound import Calls
from agentctl_adapters.common.failures import command_line
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

logger = logging.getLogger(__name__)

# New sessions start the user's MCP servers, which may be downloaded by npx first.
SESSION_TIMEOUT_S = 180.0
# A person logs in with a browser meanwhile.
AUTHENTICATE_TIMEOUT_S = 900.0
# An agent that does not read holds up no cancel and no answer: they stay queued, in order.
WRITE_TIMEOUT_S = 2.0
# Good manners are worth no more: the process is ended next, whatever it answers.
GOODBYE_TIMEOUT_S = 2.0
# An agent that pages for ever is not followed.
MAX_LIST_PAGES = 200

_FEATURE_OF = {
    "session/fork": Feature.FORK,
    "session/list": Feature.LIST,
    "session/close": Feature.CLOSE,
    "session/delete": Feature.DELETE,
}


@dataclass(slots=True)
class _Session:
    choices: SessionChoices = field(default_factory=SessionChoices)
    prompts: set[asyncio.Future[Any]] = field(default_factory=set[asyncio.Future[Any]])
    opened: bool = False


class AcpConnection:
    """A core.adapter.Connection. Made by adapter.connect()."""

    def __init__(self, launch: Launch, link: Link, inbound: Inbound, progress: Progress) -> None:
        self._launch = launch
        self._link = link
        self._inbound = inbound
        self._entry = launch.entry
        self._calls = Calls(launch, link)
        self._sessions: dict[str, _Session] = {}
        self._loading = Loading(launch.entry, self._calls, link, progress)
        self._said_goodbye = False

    @property
    def info(self) -> AgentInfo:
        unknown = {_FEATURE_OF.get(method, "") for method in self._calls.unknown_methods}
        if not self._resume_methods():
            unknown.add(Feature.RESUME)
        process = self._link.process
        return AgentInfo(
            name=self._calls.agent.name,
            version=self._calls.agent.version,
            features=self._calls.agent.features - unknown,
            auth_methods=self._calls.agent.choices,
            pid=None if process is None else process.pid,
        )

    async def handshake(self, params: Json) -> None:
        """initialize; the caller sets the deadline.

        Raises:
            AgentFailed: it died, refused, or speaks another version of ACP.
        """
        try:
            result = await self._link.peer.request("initialize", params)
        except PeerGone as error:
            await self._link.buried()
            raise self._calls.dead("before it answered initialize") from error
        except RpcError as error:
            raise AgentFailed(
                f"{self._entry.id} refused initialize ({words_of(error)}): check that this command"
                f" starts an ACP agent: {command_line(self._launch)}",
                metadata={"entry": self._entry.id, "code": str(error.code)},
            ) from error
        agent = self._calls.agent = read_handshake(result, self._launch.argv)
        if agent.protocol_version != PROTOCOL_VERSION:
            raise wrong_version(self._launch, agent.protocol_version, agent.version)

    def on_notification(self, message: Json) -> None:
        """Sees what the agent notifies, before its draft goes out; keeps what calls depend on."""
        if message["method"] == "session/update":
            self._loading.heard += 1
            # For every chunk of text: plain look-ups, and no more when it is none of these.
            try:
                update = message["params"]["update"]
                if update["sessionUpdate"] not in _CHOICE_UPDATES:
                    return
            except (KeyError, IndexError, TypeError):
                return
            self._session(session_of(message)).choices.absorb_update(update)
        elif message["method"] == "$/cancel_request":
            self._inbound.on_cancel(as_object(message.get("params")))
        elif message["method"] == "elicitation/complete":
            self._inbound.on_complete(as_object(message.get("params")))

    async def new_session(self, spec: SessionSpec) -> NativeSessionId:
        params = requests.session_params(spec, self.info.features)
        result = await self._calls.call("session/new", params, SESSION_TIMEOUT_S)
        return await self._opened(self._identity("session/new", result), result, spec)

    async def resume_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        """session/resume where offered, else session/load. What fails is never made anew."""
        methods = self._resume_methods()
        if not methods:
            raise Unsupported(f"{self._entry.id} cannot resume sessions: start a new one")
        params = requests.session_params(spec, self.info.features, sessionId=native)
        self._inbound.serve_session(native, spec)
        try:
            result = await self._reopen(native, methods, params, spec.native_created_at)
        except AgentctlError:
            await self._forget(native)
            raise
        told = as_text(result.get("sessionId"))
        if told and told != native:
            raise AgentFailed(
                f"{self._entry.id} opened another session ({told}) instead of {native}: the old one"
                " is not there any more, start a new one"
            )
        return await self._opened(native, result, spec)

    async def fork_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        self._need(Feature.FORK, "fork sessions")
        params = requests.session_params(spec, self.info.features, sessionId=native)
        result = await self._calls.call("session/fork", params, SESSION_TIMEOUT_S)
        return await self._opened(self._identity("session/fork", result), result, spec)

    async def list_sessions(self, cwd: str | None) -> Sequence[NativeSession]:
        self._need(Feature.LIST, "list its sessions")
        found: list[NativeSession] = []
        params: Json = {} if cwd is None else {"cwd": cwd}
        for _ in range(MAX_LIST_PAGES):
            result = await self._calls.call("session/list", params)
            rows = as_objects(result.get("sessions"))
            found += [requests.native_session(row) for row in rows if as_text(row.get("sessionId"))]
            cursor = as_text(result.get("nextCursor"))
            if not cursor or cursor == params.get("cursor"):
                break
            params = {**params, "cursor": cursor}
        return found

    async def close_session(self, native: NativeSessionId) -> None:
        """Answers what is open of it, then session/close; forgotten here in any case."""
        try:
            await self._forget(native)
            self._need(Feature.CLOSE, "close one session alone")
            await self._calls.call("session/close", {"sessionId": native})
        finally:
            self._sessions.pop(native, None)

    async def delete_session(self, native: NativeSessionId) -> None:
        self._need(Feature.DELETE, "delete its sessions")
        await self._forget(native)
        await self._calls.call("session/delete", {"sessionId": native})
        self._sessions.pop(native, None)

    async def prompt(self, native: NativeSessionId, prompt: PromptSpec) -> None:
        session = self._session(native)
        if prompt.compact:
            prompt = self._compaction(session.choices)
        blocks = requests.prompt_blocks(prompt, self.info.features)
        await self._choose(native, prompt.model, prompt.mode, {})
        if prompt.effort:
            await self.set_option(native, "thought_level", prompt.effort)
        with self._calls.alive("before it took the prompt"):
            params: Json = {"sessionId": native, "prompt": blocks}
            _, answer = self._link.peer.start_request("session/prompt", params)
            # The translator reads the answer; here it only tells that the turn is over.
            session.prompts.add(answer)
            self._inbound.cancelling.discard(native)
            answer.add_done_callback(lambda turn: self._turn_over(native, turn))
            await self._link.peer.flush()
            if answer.done() and isinstance(failure := answer.exception(), PeerGone):
                raise failure

    async def steer(self, native: NativeSessionId, prompt: PromptSpec) -> bool:
        raise Unsupported(f"{self._entry.id} takes no words into a running turn: queue the prompt")

    async def cancel(self, native: NativeSessionId) -> None:
        if any(not turn.done() for turn in self._session(native).prompts):
            self._inbound.cancelling.add(native)
        with self._calls.alive("before it was told"), anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._link.peer.notify("session/cancel", {"sessionId": native})
        self._inbound.cancel_session(native)

    async def answer_permission(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        with self._calls.alive("before it got the answer"), anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._inbound.answer_permission(request, answer)

    async def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        with self._calls.alive("before it got the answer"), anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._inbound.answer_question(request, answer)

    async def set_model(self, native: NativeSessionId, model: str) -> None:
        choices = self._session(native).choices
        await self._make(choices, choices.set_model(native, model))

    async def set_mode(self, native: NativeSessionId, mode: str) -> None:
        choices = self._session(native).choices
        await self._make(choices, choices.set_mode(native, mode))

    async def set_option(self, native: NativeSessionId, option: str, value: str) -> None:
        choices = self._session(native).choices
        await self._make(choices, choices.set_option(native, option, value))

    async def authenticate(self, method: str) -> None:
        """Only ever on request: agents write the choice into the user's settings."""
        known = {each.id: each for each in self._calls.agent.auth_methods}
        if method not in known:
            names = listed(tuple(known)) or "none"
            raise Invalid(f"{self._entry.id} has no login {method!r}; it has: {names}")
        if known[method].run:
            raise Unsupported(
                f"this login happens in a terminal: type `{' '.join(known[method].run)}`"
            )
        await self._calls.call("authenticate", {"methodId": method}, AUTHENTICATE_TIMEOUT_S)

    async def goodbye(self) -> None:
        if self._said_goodbye or self._link.death.known:
            return
        self._said_goodbye = True
        with anyio.move_on_after(GOODBYE_TIMEOUT_S, shield=True):
            try:
                await self._take_leave()
            except (PeerGone, AgentctlError) as error:
                logger.debug("%s did not take the goodbye: %s", self._entry.id, error)

    async def _take_leave(self) -> None:
        running: list[asyncio.Future[Any]] = []
        for native, session in self._sessions.items():
            if turns := [prompt for prompt in session.prompts if not prompt.done()]:
                running += turns
                await self._link.peer.notify("session/cancel", {"sessionId": native})
        self._inbound.cancel_session(None)
        await self._inbound.settled()
        if running:
            await asyncio.wait(running)
        if Feature.CLOSE in self.info.features:
            for native in [name for name, session in self._sessions.items() if session.opened]:
                await self._link.peer.request("session/close", {"sessionId": native})

    async def _forget(self, native: NativeSessionId) -> None:
        self._inbound.forget_session(native)
        with anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._inbound.settled()

    def _turn_over(self, native: NativeSessionId, turn: asyncio.Future[Any]) -> None:
        self._session(native).prompts.discard(turn)
        self._inbound.cancelling.discard(native)

    def _session(self, native: str) -> _Session:
        return self._sessions.setdefault(native, _Session())

    def _resume_methods(self) -> list[str]:
        if not (self._entry.can_recover and self._entry.resume_via_acp):
            return []
        offered = {
            "session/resume": self._calls.agent.resumes,
            "session/load": self._calls.agent.loads,
        }
        return [
            name for name, yes in offered.items() if yes and name not in self._calls.unknown_methods
        ]

    async def _reopen(
        self, native: NativeSessionId, methods: list[str], params: Json, made_at: int | None
    ) -> Json:
        for method in methods:
            loads = method == "session/load"
            if loads:
                await self._loading.wait(native, made_at)
            try:
                result = await self._calls.call(method, params, SESSION_TIMEOUT_S)
            except Unsupported:
                if method == methods[-1]:
                    raise
                continue
            if loads:
                await self._loading.replayed()
            return result
        raise AssertionError("one method at least")

    def _identity(self, method: str, result: Json) -> NativeSessionId:
        identity = result.get("sessionId")
        if not isinstance(identity, str) or not identity:
            raise AgentFailed(f"{self._entry.id} answered {method} without a session id")
        return NativeSessionId(identity)

    async def _opened(
        self, native: NativeSessionId, result: Json, spec: SessionSpec
    ) -> NativeSessionId:
        session = self._session(native)
        session.opened = True
        session.choices.absorb_result(result)
        self._inbound.serve_session(native, spec)
        self._loading.opened(native)
        await self._choose(native, spec.model, spec.mode, spec.options)
        return native

    async def _choose(
        self,
        native: NativeSessionId,
        model: str | None,
        mode: str | None,
        options: Mapping[str, str],
    ) -> None:
        choices = self._session(native).choices
        if model and (call := choices.set_model(native, model)) is not None:
            try:
                await self._make(choices, call)
            except Unsupported:
                # The model already went into argv; an agent without a choice has no other.
                if call.listed or not self._entry.model_flag:
                    raise
        if mode:
            await self.set_mode(native, mode)
        for name, value in options.items():
            await self.set_option(native, name, value)

    async def _make(self, choices: SessionChoices, call: Call | None) -> None:
        if call is None:
            return
        try:
            result = await self._calls.request(call.method, call.params)
        except RpcError as error:
            if error.code not in (BAD_PARAMS, INTERNAL_ERROR):
                raise self._calls.refused(call.method, error) from error
            reason = "INVALID_MODEL" if call.method == SET_MODEL else None
            known = (
                f"; it has {listed(choices.models.ids)}" if reason and choices.models.ids else ""
            )
            raise Invalid(
                f"{self._entry.id} refused {call.method}: {words_of(error)}{known}", reason=reason
            ) from error
        choices.chosen(call)
        choices.absorb_result(result)

    def _compaction(self, choices: SessionChoices) -> PromptSpec:
        command = choices.compact_command()
        if command is None:
            raise Unsupported(f"{self._entry.id} offers no command that shortens its context")
        return PromptSpec(command=Command(command))

    def _need(self, feature: str, what: str) -> None:
        if feature not in self.info.features:
            raise Unsupported(f"{self._entry.id} cannot {what}")


_CHOICE_UPDATES = ("current_mode_update", "config_option_update", "available_commands_update")
