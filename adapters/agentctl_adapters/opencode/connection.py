"""Owns the sessions of one live OpenCode server and every call that we make of it.

What the server says is not its business (the translator reads that), nor how the server came to be
(`adapter`). What takes the server long is done in the session's own lane (`turning`).
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from agentctl.core.adapter import (
    AgentInfo,
    Draft,
    Feature,
    PermissionAnswer,
    QuestionAnswer,
)
from agentctl.core.errors import AgentctlError, AgentFailed, Invalid, NotFound, Refused, Unsupported
from agentctl.core.events import Error
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.spec import McpServer, PromptSpec, SessionSpec
from agentctl.core.words import QuestionOutcome
from agentctl_adapters.opencode import bodies
from agentctl_adapters.opencode.bodies import InForce
from agentctl_adapters.opencode.catalog import BOOT_TIMEOUT_S, Offer
from agentctl_adapters.opencode.history_calls import HistoryCalls
from agentctl_adapters.opencode.host import Host, Open
from agentctl_adapters.opencode.lanes import Lane
from agentctl_adapters.opencode.server import dispose
from agentctl_adapters.opencode.settings import ASK, carried
from agentctl_adapters.opencode.shapes import Json, as_object, as_text, model_name
from agentctl_adapters.opencode.toolspace import ToolCalls
from agentctl_adapters.opencode.turning import ANSWER_TIMEOUT_S, Turning

FEATURES = frozenset(
    {
        Feature.RESUME,
        Feature.FORK,
        Feature.LIST,
        Feature.CLOSE,
        Feature.DELETE,
        Feature.STEER,
        Feature.IMAGE,
        Feature.EMBEDDED_CONTEXT,
        Feature.MCP_HTTP,
        Feature.MCP_SSE,
        Feature.MANY_SESSIONS,
        Feature.LIVE_RESUME,
    }
)
VARIANT_OPTIONS = frozenset({"variant", "effort", "thought_level"})
# A close is a courtesy to a server that others use: what runs is told to stop, no more.
CLOSE_TIMEOUT_S = 2.0
# MCP servers may be downloaded by a launcher first.
MCP_TIMEOUT_S = 120.0


class OpenCodeConnection(HistoryCalls, ToolCalls):
    """A core.adapter.Connection and HistoryConnection. Made by adapter.connect()."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._turning = Turning(host)
        self._mcp: dict[tuple[str, str], McpServer] = {}

    @property
    def info(self) -> AgentInfo:
        process = self._host.link.process
        return AgentInfo(
            name="OpenCode",
            version=self._host.version,
            features=FEATURES - self._host.absent,
            pid=None if process is None else process.pid,
        )

    # Sessions

    async def new_session(self, spec: SessionSpec) -> NativeSessionId:
        directory = await self._directory(spec)
        offer = await self._prepare(directory, spec)
        chosen = self._chosen(spec, offer)
        body = await self._creation(directory, chosen)
        with self._host.roster.expected():
            told = await self._create(directory, body)
            native = self._identity(told)
            await self._opened(native, as_text(told.get("directory")) or directory, chosen)
        if (default := self._host.launch.entry.default_model) and not chosen.model:
            text = f"the default model {default} is not offered here: the server's own is used"
            self._warn(native, "INVALID_MODEL", text)
        return native

    async def resume_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        """The same session of the server, in its own directory. What is not there is never made anew."""
        directory = await self._directory(spec)
        answer = await self._host.api.call(
            "GET", f"/session/{native}", directory=directory, timeout_s=BOOT_TIMEOUT_S
        )
        if not answer.ok or not as_text(as_object(answer.body).get("id")):
            error = self._host.api.refusal(answer, f"find the session {native}")
            if isinstance(error, NotFound):
                raise NotFound(
                    f"{self._host.launch.entry.id} has no session {native} any more: start a new one",
                    metadata={"native_session_id": native},
                )
            raise error
        told = as_object(answer.body)
        where = as_text(told.get("directory")) or directory
        if where != directory and not self._host.remote:
            raise Invalid(
                f"the session {native} belongs to {where}, not to {directory}: resume it there"
            )
        offer = await self._prepare(where, spec)
        await self._opened(native, where, self._chosen(spec, offer, resumed=told))
        await self._host.refetch.requests(where)
        return native

    async def fork_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        """The copy works where `spec` says, which may be another directory than that of `native`."""
        session = self._host.session(native)
        directory = session.directory if self._host.remote else await self._directory(spec)
        if directory != session.directory:
            await self._prepare(directory, spec)
        with self._host.roster.expected():
            answer = await self._host.api.call(
                "POST", f"/session/{native}/fork", directory=directory, body={}
            )
            if not answer.ok:
                error = self._host.api.refusal(answer, "fork the session")
                if isinstance(error, Unsupported):
                    self._host.absent.add(Feature.FORK)
                raise error
            told = as_object(answer.body)
            fork = self._identity(told)
            if (as_text(told.get("directory")) or directory) != directory:
                await self._move(fork, directory)
            await self._opened(fork, directory, session.chosen)
        return fork

    async def _move(self, native: NativeSessionId, directory: str) -> None:
        """The server forks a session where it is; its copy then goes where it is to work.

        Raises:
            Unsupported: the server cannot; the copy is removed again.
        """
        body = {"sessionID": native, "destination": {"directory": directory}, "moveChanges": False}
        answer = await self._host.api.call(
            "POST", "/experimental/control-plane/move-session", body=body
        )
        if not answer.ok:
            await self._host.api.call("DELETE", f"/session/{native}", quiet=True)
            raise Unsupported(
                f"this server cannot fork a session into {directory}: its copy works where the "
                "session does. Start a new session there."
            )

    async def close_session(self, native: NativeSessionId) -> None:
        """Tells it to stop and forgets it; the server and its other sessions go on."""
        session = self._host.sessions.get(native)
        if session is None:
            return
        try:
            if self._host.runs(native):
                path = f"/session/{native}/abort"
                await self._host.api.call("POST", path, timeout_s=CLOSE_TIMEOUT_S)
        finally:
            self._forget(session)

    async def delete_session(self, native: NativeSessionId) -> None:
        await self._host.api.need("delete the session", "DELETE", f"/session/{native}")
        if (session := self._host.sessions.get(native)) is not None:
            self._forget(session)

    # Turns

    async def prompt(self, native: NativeSessionId, prompt: PromptSpec) -> None:
        session = self._host.session(native)
        offer = self._host.catalog.known(session.directory)
        offer.check(prompt.model, prompt.mode)
        if prompt.command and offer.commands and prompt.command.name not in offer.commands:
            raise Invalid(
                f'there is no command "/{prompt.command.name}" here. There are: '
                f"{', '.join(sorted(offer.commands))}"
            )
        compact = self._compact_model(session, offer) if prompt.compact else ""
        self._turning.prompt(session, bodies.order(prompt, session.chosen, compact))

    async def steer(self, native: NativeSessionId, prompt: PromptSpec) -> bool:
        """A message without a turn of its own: the running one takes it in with its next step."""
        session = self._host.session(native)
        if not self._host.runs(native):
            return False
        order = bodies.order(prompt, session.chosen)
        if order.route != "prompt_async":
            raise Unsupported("a command cannot be added to a running turn: queue it")
        body = {**order.body, "noReply": True}
        path = f"/session/{native}/message"
        how: dict[str, Any] = {"directory": session.directory, "timeout_s": ANSWER_TIMEOUT_S}
        await self._host.api.need("add to the turn", "POST", path, body=body, **how)
        if self._host.runs(native):
            return True
        await self._host.api.call("DELETE", f"{path}/{body['messageID']}", **how)
        return False

    async def cancel(self, native: NativeSessionId) -> None:
        self._turning.abort(self._host.session(native))

    async def answer_permission(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        session, asked_in = self._asker(request)
        self._turning.answer(session, request, asked_in, bodies.reply(answer))

    async def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        session, asked_in = self._asker(request)
        answered = answer.outcome is QuestionOutcome.ANSWERED
        body = bodies.answers(answer) if answered else None
        self._turning.answer_question(session, request, asked_in, body)

    # Choices

    async def set_model(self, native: NativeSessionId, model: str) -> None:
        """Used from the next prompt on."""
        bodies.split_model(model)
        self._choose(native, replace(self._host.session(native).chosen, model=model))

    async def set_mode(self, native: NativeSessionId, mode: str) -> None:
        self._choose(native, replace(self._host.session(native).chosen, agent=mode))

    async def set_option(self, native: NativeSessionId, option: str, value: str) -> None:
        if option not in VARIANT_OPTIONS:
            raise Invalid(f'there is no option "{option}" here. There is: variant')
        self._choose(native, replace(self._host.session(native).chosen, variant=value or None))

    async def authenticate(self, method: str) -> None:
        raise Unsupported("log in with the agent's own program: type `opencode auth login`")

    async def goodbye(self) -> None:
        """Has a server of ours end its turns and shells; another's goes on as it is."""
        if self._host.own and not self._host.link.ended.is_set():
            await dispose(self._host.api)

    # What stands behind them

    def _choose(self, native: NativeSessionId, chosen: InForce) -> None:
        session = self._host.session(native)
        self._host.catalog.known(session.directory).check(chosen.model, chosen.agent)
        session.chosen = chosen

    async def _directory(self, spec: SessionSpec) -> str:
        """The real path: the server takes any, and makes an instance of each spelling."""
        if self._host.remote:
            return spec.workspace

        def look() -> str:
            return os.path.realpath(spec.workspace) if Path(spec.workspace).is_dir() else ""

        directory = await anyio.to_thread.run_sync(look)
        if not directory:
            raise Invalid(f"the workspace {spec.workspace} is no directory. Name one that exists.")
        return directory

    async def _prepare(self, directory: str, spec: SessionSpec) -> Offer:
        await self._host.streams.open(directory)
        offer = await self._host.catalog.of(directory)
        for server in spec.mcp_servers:
            await self._add_mcp(directory, server)
        return offer

    async def _add_mcp(self, directory: str, server: McpServer) -> None:
        """An MCP server serves all sessions of its directory: two of one name cannot be."""
        known = self._mcp.get((directory, server.name))
        if known == server:
            return
        if known is not None:
            raise Refused(
                f'another session of {directory} uses another MCP server named "{server.name}". Rename'
                " it, or set sharing to exclusive in the entry.",
                reason="INVALID_PARAMETERS",
            )
        body = {"name": server.name, "config": bodies.mcp_config(server)}
        how: dict[str, Any] = {"directory": directory, "body": body, "timeout_s": MCP_TIMEOUT_S}
        await self._host.api.need(f"add the MCP server {server.name}", "POST", "/mcp", **how)
        self._mcp[directory, server.name] = server

    def _chosen(self, spec: SessionSpec, offer: Offer, resumed: Json | None = None) -> InForce:
        if spec.model:
            bodies.split_model(spec.model)
        offer.check(spec.model, spec.mode)
        model = spec.model or (model_name(resumed) if resumed is not None else "")
        default = self._host.launch.entry.default_model
        if not model and resumed is None and default:
            model = default if offer.models is None or default in offer.models else ""
        variants = [spec.options[name] for name in VARIANT_OPTIONS if spec.options.get(name)]
        return InForce(model or None, spec.mode, variants[0] if variants else None)

    async def _creation(self, directory: str, chosen: InForce) -> dict[str, Any]:
        body: dict[str, Any] = {}
        if chosen.model:
            provider, name = bodies.split_model(chosen.model)
            body["model"] = {"providerID": provider, "id": name}
            if chosen.variant:
                body["model"]["variant"] = chosen.variant
        if not self._host.own and (rules := await self._missing_rules(directory)):
            body["permission"] = rules
        return body

    async def _missing_rules(self, directory: str) -> list[bodies.Body]:
        """Of another's server only the session can be told to ask, where its config says nothing."""
        tools = self._host.launch.entry.tools_requiring_permission
        answer = await self._host.api.call("GET", "/config", directory=directory, quiet=True)
        config = answer.told
        if not tools or not config or isinstance(config.get("permission"), str):
            return []
        said = as_object(config.get("permission"))
        return bodies.rules({tool: ASK for tool in tools if not {tool, "*"} & said.keys()})

    async def _create(self, directory: str, body: dict[str, Any]) -> Json:
        how: dict[str, Any] = {"directory": directory, "timeout_s": BOOT_TIMEOUT_S}
        answer = await self._host.api.call("POST", "/session", body=body, **how)
        if answer.status in (400, 422) and body and not self._host.own:
            # Servers of other makes know fewer fields; the model goes with each prompt anyway.
            answer = await self._host.api.call("POST", "/session", body={}, **how)
        if not answer.ok:
            raise self._host.api.refusal(answer, "make a session")
        return as_object(answer.body)

    def _identity(self, told: Json) -> NativeSessionId:
        own = as_text(told.get("id"))
        if not own:
            raise AgentFailed(f"{self._host.launch.entry.id} made a session and did not name it")
        return NativeSessionId(own)

    async def _opened(self, native: NativeSessionId, directory: str, chosen: InForce) -> None:
        host = self._host
        if (old := host.sessions.pop(native, None)) is not None:
            old.lane.close()
        host.roster.add(native, directory)
        session = Open(native, directory, chosen, Lane(native))
        host.sessions[native] = session
        host.group.start_soon(session.lane.run)
        if not host.remote:
            await self._tell_carried(native, directory)

    async def _tell_carried(self, native: NativeSessionId, directory: str) -> None:
        """Settings of a workspace may loosen permissions, and its plugins run when it is opened."""
        found = await anyio.to_thread.run_sync(lambda: carried(directory))
        trusted = self._host.launch.trust_workspace or not self._host.own
        if found.settings:
            state = "are in force" if trusted else "are off: this workspace is not trusted"
            text = (
                f"The workspace has settings for OpenCode, which {state}: {_few(found.settings)}."
            )
            self._warn(native, "WORKSPACE_SETTINGS", text)
        if found.code:
            text = (
                "The workspace has code that OpenCode runs when it opens it, and that no setting "
                f"turns off: {_few(found.code)}."
            )
            self._warn(native, "WORKSPACE_CODE", text)

    def _warn(self, native: NativeSessionId, code: str, text: str) -> None:
        self._host.link.say(Draft(Error(code, text), session=native))

    def _forget(self, session: Open) -> None:
        session.lane.close()
        self._host.sessions.pop(session.native, None)
        self._host.roster.forget(session.native)

    def _compact_model(self, session: Open, offer: Offer) -> str:
        told = self._host.translator.book.view(session.native).told.get("model")
        model = session.chosen.model or as_text(told) or offer.default_model
        if not model:
            raise AgentctlError("choose a model first: one is needed to shorten the conversation")
        return model

    def _asker(self, request: NativeRequestId) -> tuple[Open, str]:
        roster = self._host.roster
        asked_in = roster.asked.get(request, "")
        session = self._host.sessions.get(roster.roots.get(asked_in, ""))
        if session is None:
            raise NotFound(
                f"the request {request} is not open any more", reason="APPROVAL_NOT_FOUND"
            )
        return session, asked_in


def _few(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:5])
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5} more"
