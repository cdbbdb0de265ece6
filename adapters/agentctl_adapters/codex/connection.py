"""Owns one live app-server: its handshake, its threads and every call that we make of it.

What the agent says is not its business (the translator reads that), nor when it is started or ended
(`adapter`). One process serves many sessions, so nothing here waits for one of them while others could go
on.
"""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import anyio
from anyio.abc import TaskGroup

from agentctl.core.adapter import (
    AgentInfo,
    Draft,
    Feature,
    Launch,
    NativeSession,
    PermissionAnswer,
    QuestionAnswer,
)
from agentctl.core.errors import AgentFailed, Invalid, Refused, Unsupported
from agentctl.core.events import Error
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.spec import PromptSpec, SessionSpec
from agentctl.core.toolspace import ToolOffer
from agentctl.transport.jsonrpc import PeerGone, RpcError
from agentctl_adapters.codex import modes, params
from agentctl_adapters.codex.account import Account
from agentctl_adapters.codex.calls import Calls
from agentctl_adapters.codex.inbound import Inbound
from agentctl_adapters.codex.known import Known
from agentctl_adapters.codex.link import Link
from agentctl_adapters.codex.probe import sandbox_fault
from agentctl_adapters.codex.threads import Thread, Threads
from agentctl_adapters.codex.toolspace import offers_of
from agentctl_adapters.common.shapes import Json, as_object, as_text

logger = logging.getLogger(__name__)

# Resuming reads the whole conversation; starting connects the session's MCP servers in the background.
THREAD_TIMEOUT_S = 120.0
# An agent that does not read holds up no cancel and no answer: they stay queued, in order.
WRITE_TIMEOUT_S = 2.0
# A turn that was interrupted ends within 10 ms; other sessions' prompts wait behind this one.
ENDING_TIMEOUT_S = 5.0
# Good manners are worth no more: the process is ended next, whatever it answers.
GOODBYE_TIMEOUT_S = 1.0
ROWS_A_PAGE = 100
MOST_PAGES = 20

FEATURES = frozenset(
    {
        Feature.RESUME,
        Feature.FORK,
        Feature.LIST,
        Feature.CLOSE,
        Feature.DELETE,
        Feature.STEER,
        Feature.IMAGE,
        Feature.MCP_HTTP,
        Feature.ADDITIONAL_DIRECTORIES,
        Feature.MANY_SESSIONS,
        Feature.LIVE_RESUME,
        Feature.GUARDED,
    }
)
_VERSION = re.compile(r"/(\d\S*)")
_WATCHED = frozenset(
    {
        "item/started",
        "turn/started",
        "turn/completed",
        "thread/settings/updated",
        "serverRequest/resolved",
        "account/updated",
    }
)
_NOT_STEERABLE = ("no active turn", "expected active turn", "cannot be steered", "not steerable")


class CodexConnection:
    """A core.adapter.Connection. Made by adapter.connect()."""

    def __init__(self, launch: Launch, link: Link, inbound: Inbound) -> None:
        self._launch = launch
        self._link = link
        self._inbound = inbound
        self._entry = launch.entry
        self._calls = Calls(launch, link)
        self._account = Account(launch, self._calls)
        self._threads = Threads(link.peer, inbound)
        self._known = Known(launch.entry, self._calls)
        self._group: TaskGroup | None = None
        self._sandbox_fault: str | None = None
        self._probed = False
        self._said_goodbye = False

    @property
    def info(self) -> AgentInfo:
        process = self._link.process
        return AgentInfo(
            name="codex",
            version=self._calls.version,
            features=FEATURES,
            auth_methods=self._account.methods,
            pid=None if process is None else process.pid,
        )

    async def handshake(self) -> None:
        """initialize, account and models; the caller sets the deadline.

        Raises:
            AgentFailed: it died or refused.
        """
        told = params.initialize(self._launch.client_version)
        try:
            result = await self._calls.request("initialize", told, timeout_s=None)
        except RpcError as error:
            raise AgentFailed(
                f"{self._entry.id} refused initialize: {error.message}",
                metadata={"entry": self._entry.id, "code": str(error.code)},
            ) from error
        found = _VERSION.search(as_text(result.get("userAgent")))
        self._calls.version = found[1] if found else ""
        with self._calls.alive("before it was ready"):
            await self._link.peer.notify("initialized")
        await self._account.look()
        await self._known.look()

    def serve(self, group: TaskGroup) -> None:
        """What takes longer than a call may run in this group from now on."""
        self._group = group

    def on_notification(self, message: Json) -> None:
        """Sees what the agent notifies, before its draft goes out; keeps what calls depend on."""
        method = message["method"]
        if method not in _WATCHED:
            return
        told = as_object(message.get("params"))
        if method == "serverRequest/resolved":
            self._inbound.on_resolved(told)
        elif method == "account/updated":
            self._account.changed(told)
        else:
            self._threads.on_notification(method, told)

    def on_given_up(self, native: NativeSessionId) -> None:
        """We ended a turn of which the agent does not know: it must not run into the next one."""
        self._threads.interrupt(self._threads.of(native))

    async def new_session(self, spec: SessionSpec) -> NativeSessionId:
        await self._account.need()
        told = params.thread(spec, self._entry, self._known.default_mode)
        return await self._opened("thread/start", told, spec)

    async def resume_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        """thread/resume; what fails is never made anew."""
        await self._account.need()
        told = self._reopening(native, spec)
        opened = await self._opened("thread/resume", told, spec)
        if opened != native:
            raise AgentFailed(
                f"{self._entry.id} opened another conversation ({opened}) instead of {native}: the"
                " old one is not there any more, start a new session"
            )
        return opened

    async def fork_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        await self._account.need()
        told = self._reopening(native, spec)
        return await self._opened("thread/fork", told, spec)

    async def list_sessions(self, cwd: str | None) -> Sequence[NativeSession]:
        asked: Json = {"limit": ROWS_A_PAGE}
        if cwd is not None:
            asked["cwd"] = cwd
        rows = await self._known.pages("thread/list", asked)
        return [params.native_session(row) for row in rows if as_text(row.get("id"))]

    async def close_session(self, native: NativeSessionId) -> None:
        """Answers what is open of it, ends its commands, and lets Codex forget it."""
        thread = self._threads.of(native)
        if thread.busy and not self._link.lost:
            await self.cancel(native)
            with anyio.move_on_after(ENDING_TIMEOUT_S):
                await thread.idle.wait()
        family = self._threads.family(native)
        self._inbound.cancel(family)
        for each in family:
            self._threads.clean(each)
        try:
            await self._calls.call("thread/unsubscribe", {"threadId": native})
        finally:
            self._threads.forget(native)

    async def delete_session(self, native: NativeSessionId) -> None:
        self._inbound.cancel(self._threads.family(native))
        await self._calls.call("thread/delete", {"threadId": native})
        self._threads.forget(native)

    async def tools(self, native: NativeSessionId) -> Sequence[ToolOffer]:
        """Those of the MCP servers of its thread."""
        rows: list[ToolOffer] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            asked = {"threadId": native, "cursor": cursor}
            result = await self._calls.call("mcpServerStatus/list", asked)
            rows += offers_of(result)
            cursor = as_text(result.get("nextCursor")) or None
            if cursor is None:
                break
        return rows

    async def prompt(self, native: NativeSessionId, prompt: PromptSpec) -> None:
        thread = self._threads.of(native)
        if thread.interrupting:
            with anyio.move_on_after(ENDING_TIMEOUT_S):
                await thread.idle.wait()
        if thread.busy and not self._link.lost:
            raise Refused(
                f"{self._entry.id} still works on the last prompt of this session: cancel it first",
                reason="SESSION_BUSY",
            )
        method, told = self._asked(native, prompt)
        with self._calls.alive("before it took the prompt"):
            _, answer = self._link.peer.start_request(method, told)
            # The translator reads the answer; here it only names the turn.
            thread.begin(answer)
            await self._link.peer.flush()
            if answer.done() and isinstance(failure := answer.exception(), PeerGone):
                raise failure
        if method != "turn/start":
            await self._accepted(method, answer)

    async def steer(self, native: NativeSessionId, prompt: PromptSpec) -> bool:
        thread, words = self._threads.of(native), params.user_input(prompt.blocks)
        if thread.starting is not None and not thread.starting.done():
            await asyncio.wait([thread.starting], timeout=ENDING_TIMEOUT_S)
        if not thread.turn or thread.interrupting:
            return False
        told = {"threadId": native, "expectedTurnId": thread.turn, "input": words}
        try:
            await self._calls.request("turn/steer", told)
        except RpcError as error:
            if any(words in error.message for words in _NOT_STEERABLE):
                return False
            raise self._calls.refused("turn/steer", error) from error
        return True

    async def cancel(self, native: NativeSessionId) -> None:
        """Tells the turn and its subagents' to end; returns without waiting for that."""
        family = self._threads.family(native)
        for each in family:
            if self._threads.of(each).busy:
                self._threads.interrupt(self._threads.of(each))
        self._inbound.cancel(family)
        with self._calls.alive("before it was told"), anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._link.peer.flush()

    async def answer_permission(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        with self._calls.alive("before it got the answer"), anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._inbound.answer_permission(request, answer)

    async def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        with self._calls.alive("before it got the answer"), anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._inbound.answer_question(request, answer)

    async def set_model(self, native: NativeSessionId, model: str) -> None:
        models = self._known.models
        if self._account.builtin and models and model not in models:
            known = ", ".join(models)
            raise Invalid(
                f"{self._entry.id} has no model {model!r}; it has: {known}", reason="INVALID_MODEL"
            )
        await self._set(native, {"model": model})

    async def set_mode(self, native: NativeSessionId, mode: str) -> None:
        await self._set(native, self._mode(native, mode))

    async def set_option(self, native: NativeSessionId, option: str, value: str) -> None:
        if option not in params.EFFORT_NAMES:
            raise Invalid(f"{self._entry.id} has no option {option!r}; it has: reasoning_effort")
        await self._set(native, {"effort": value})

    async def authenticate(self, method: str) -> None:
        await self._account.authenticate(method)

    async def goodbye(self) -> None:
        if self._said_goodbye or self._link.death.known:
            return
        self._said_goodbye = True
        with anyio.move_on_after(GOODBYE_TIMEOUT_S, shield=True):
            self._inbound.cancel(None)
            await self._link.peer.flush()

    def _asked(self, native: str, prompt: PromptSpec) -> tuple[str, Json]:
        name = prompt.command.name.removeprefix("/") if prompt.command is not None else ""
        if prompt.compact or name == "compact":
            return "thread/compact/start", {"threadId": native}
        if prompt.review or name == "review":
            return "review/start", {"threadId": native, "target": params.review_target(prompt)}
        if name:
            raise Unsupported(f"{self._entry.id} has no command {name!r}; it has: compact, review")
        return "turn/start", params.turn(native, prompt)

    async def _accepted(self, method: str, answer: "asyncio.Future[Any]") -> None:
        """A review or compaction that is refused opens no turn: the caller is told."""
        with anyio.move_on_after(ENDING_TIMEOUT_S):
            await asyncio.wait([answer])
        if not answer.done() or answer.cancelled():
            return
        if isinstance(error := answer.exception(), RpcError):
            raise self._calls.refused(method, error)

    async def _opened(self, method: str, told: Json, spec: SessionSpec) -> NativeSessionId:
        result = await self._calls.call(method, told, THREAD_TIMEOUT_S)
        native = as_text(as_object(result.get("thread")).get("id"))
        if not native:
            raise AgentFailed(f"{self._entry.id} answered {method} without a thread")
        thread = self._threads.of(native)
        thread.spec = spec
        thread.in_force(result)
        sandbox = modes.sandbox_of(result.get("sandbox"))
        contained = spec.environment in params.CONTAINED
        if contained and (sandbox == modes.WORKSPACE or not spec.mode):
            # What confines the agent there leaves its own sandbox no namespaces to work with.
            await self._set(native, {"sandboxPolicy": modes.policy_of(modes.EXTERNAL)})
        elif sandbox in (modes.READ_ONLY, modes.WORKSPACE) and self._group is not None:
            self._group.start_soon(self._probe, NativeSessionId(native))
        if spec.mode == modes.PLAN:
            await self.set_mode(NativeSessionId(native), modes.PLAN)
        for name in spec.options:
            if name not in params.EFFORT_NAMES:
                await self.set_option(NativeSessionId(native), name, spec.options[name])
        return NativeSessionId(native)

    def _mode(self, native: str, name: str) -> Json:
        thread = self._threads.of(native)
        spec = thread.spec or SessionSpec(self._entry.id, "")
        if name == modes.PLAN:
            return {"collaborationMode": _collaboration(thread, modes.PLAN)}
        mode = params.named_mode(name, spec, self._entry)
        contained = spec.environment in params.CONTAINED and mode.sandbox == modes.WORKSPACE
        sandbox = modes.EXTERNAL if contained else mode.sandbox
        roots, network = spec.additional_directories, self._known.network
        policy = modes.policy_of(
            sandbox, roots, network=network and mode.sandbox != modes.READ_ONLY
        )
        told: Json = {"approvalPolicy": params.approval_of(mode, spec), "sandboxPolicy": policy}
        if thread.planning:
            told["collaborationMode"] = _collaboration(thread, "default")
        return told

    async def _set(self, native: str, settings: Mapping[str, Any]) -> None:
        await self._calls.call("thread/settings/update", {"threadId": native, **settings})
        # Its notification may still be on the way.
        self._threads.of(native).in_force(settings)

    def _reopening(self, native: str, spec: SessionSpec) -> Json:
        again = {"threadId": native, "excludeTurns": True}
        return params.thread(spec, self._entry, self._known.default_mode, **again)

    async def _probe(self, native: NativeSessionId) -> None:
        program = self._launch.argv[0]
        if not self._probed and PurePath(program).name.startswith("codex"):
            self._probed = True
            self._sandbox_fault = await sandbox_fault(program, self._launch)
        if self._sandbox_fault is not None:
            words = (
                f"The sandbox of {self._entry.id} does not work on this machine, so every command"
                f" will fail ({self._sandbox_fault[:300]}). Allow user namespaces, or run the"
                " session in an environment that confines it (sandbox, container)."
            )
            self._link.tell([Draft(Error("SANDBOX_UNAVAILABLE", words), native)])


def _collaboration(thread: Thread, mode: str) -> Json:
    """The way to work, which cannot be told without a model."""
    settings = {
        "model": thread.model,
        "reasoning_effort": thread.effort,
        "developer_instructions": None,
    }
    return {"mode": mode, "settings": settings}
