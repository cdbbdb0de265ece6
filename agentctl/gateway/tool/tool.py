"""Owns the tool itself: one callable with twelve actions, and its streams of events.

It refuses to know how requests reach it.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import anyio
import anyio.to_thread

from agentctl.client import Unreachable
from agentctl.config import default_address, default_data_dir
from agentctl.core.errors import AgentctlError, Invalid
from agentctl.gateway.tool import config as config_file
from agentctl.gateway.tool import reports, sessions, talk
from agentctl.gateway.tool.actions import Call, read
from agentctl.gateway.tool.config import ToolConfig
from agentctl.gateway.tool.errors import ToolError, away, refusal
from agentctl.gateway.tool.feed import Feed
from agentctl.gateway.tool.house import Ask, Attach, House
from agentctl.gateway.tool.instances import Instances
from agentctl.gateway.tool.state import Memory, StateFile

logger = logging.getLogger(__name__)

Json = dict[str, Any]

STATE_NAME = "tool.json"


async def _connect(ask: Ask) -> Json:
    args = ask.args
    made = await ask.instances.connect(
        args["url"], args["name"] or "", args["auth_token"] or "", args["timeout_ms"]
    )
    version = {"server_version": made.found.version} if made.found.version else {}
    what = "OpenCode" if made.http else "agentctl"
    return {
        "instance": made.name,
        "url": made.url,
        "connected": True,
        **version,
        "message": f"Connected to {what} {made.found.version}".strip(),
    }


async def _disconnect(ask: Ask) -> Json:
    names = await ask.instances.disconnect(ask.args["instance"])
    said = f"Disconnected from {', '.join(names)}" if names else "Nothing was connected"
    return {"disconnected": names, "message": said}


HANDLERS: Mapping[str, Callable[[Ask], Awaitable[Json]]] = {
    "connect": _connect,
    "disconnect": _disconnect,
    "create_session": sessions.create_session,
    "list_sessions": sessions.list_sessions,
    "attach_session": sessions.attach_session,
    "send_message": talk.send_message,
    "get_status": reports.get_status,
    "get_messages": talk.get_messages,
    "terminate_session": sessions.terminate_session,
    "export_session": reports.export_session,
    "get_stats": reports.get_stats,
    "approve_permission": talk.approve_permission,
}


class OpenCodeTool:
    """The `opencode` tool: `await tool({"action": …})` or `await tool(action="…", …)`.

    It never raises for what a caller can get wrong: an answer has `success`, and `error` when that
    is false. It must be used in one event loop.

    Args:
        config: the configuration, or the file that holds it; default: ~/.openclaw/config/gateway.yaml.
        address: the local daemon; default: as everywhere, $AGENTCTL_ADDRESS or the user's socket.
        data_dir: where the state file lies; default: the daemon's.
        start: brings the local daemon up when none answers; default: that is an error.
    """

    def __init__(
        self,
        config: ToolConfig | Path | None = None,
        *,
        address: str | None = None,
        data_dir: Path | None = None,
        start: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._config = config
        self._address = address or default_address()
        self._data_dir = data_dir or default_data_dir()
        self._start = start
        self._house: House | None = None
        self._opening = anyio.Lock()

    async def __call__(
        self, request: Mapping[str, Any] | None = None, /, **parameters: Any
    ) -> Json:
        return await self.call({**(request or {}), **parameters})

    async def call(self, request: Mapping[str, Any], *, attach: Attach | None = None) -> Json:
        """Runs one action. `attach` shows the events of a session to whoever asks."""
        try:
            call = read(request)
            answer = await self._run(call, attach)
        except ToolError as error:
            return error.response()
        except AgentctlError as error:
            return refusal(error).response()
        except Exception:
            # The caller is another program's model or code: it gets an answer whatever happens here.
            logger.exception("the tool failed at %s", request.get("action"))
            message = "The tool failed at this call: its log says why."
            return ToolError("SERVER_ERROR", message).response()
        return {"success": True, **answer}

    async def _run(self, call: Call, attach: Attach | None) -> Json:
        house = await self.house()
        limit_ms = call.args.get("timeout_ms") or house.config.defaults.timeout_ms
        if call.action == "connect":
            # It keeps its own time: starting the local daemon is not waiting for a server.
            limit_ms += config_file.DEFAULT_TIMEOUT_MS
        deadline = anyio.current_time() + limit_ms / 1000
        ask = Ask(house, call.args, uuid4().hex, deadline, attach)
        try:
            with anyio.fail_after(limit_ms / 1000):
                return await self._handle(call.action, ask)
        except TimeoutError:
            message = f"{call.action} took longer than {limit_ms} ms."
            raise ToolError("TIMEOUT", message, {"timeout_ms": limit_ms}) from None

    async def _handle(self, action: str, ask: Ask) -> Json:
        """Once more when a daemon went away: the key makes the second try do nothing twice."""
        handler = HANDLERS[action]
        try:
            return await handler(ask)
        except Unreachable as error:
            ask.instances.lose(error.metadata.get("address", ""))
            if not ask.house.config.features.auto_reconnect:
                raise _lost(error) from error
        try:
            return await handler(ask)
        except Unreachable as error:
            raise _lost(error) from error

    async def house(self) -> House:
        """What the tool holds, made at its first use.

        Raises:
            ToolError: the configuration is wrong, or switches the tool off.
        """
        async with self._opening:
            if self._house is None:
                self._house = await self._open()
        if not self._house.config.enabled:
            raise ToolError(
                "PERMISSION_DENIED",
                f"The tool is switched off: tools.opencode.enabled in {config_file.config_file()}.",
            )
        return self._house

    async def _open(self) -> House:
        config = self._config
        if not isinstance(config, ToolConfig):
            try:
                config = await anyio.to_thread.run_sync(config_file.load, config)
            except Invalid as error:
                raise ToolError("SERVER_ERROR", error.message, error.metadata) from error
        kept = config.features.state_persistence
        memory = StateFile(self._data_dir / STATE_NAME) if kept else Memory()
        instances = Instances(config, memory, self._address, self._start)
        await instances.recall()
        return House(config, instances)

    @asynccontextmanager
    async def events(
        self, session_id: str = "", *, after: str | None = None
    ) -> AsyncGenerator[Feed]:
        """A stream of `agent.*` events; `async with tool.events() as events: async for …`.

        Args:
            session_id: only this session's.
            after: where to go on: a cursor, "" for the oldest kept, "now"; events then carry
                `cursor`. None: from now on, without.

        Raises:
            ToolError: streaming is switched off, nothing is connected, or there is no such session.
        """
        house = await self.house()
        features = house.config.features
        if not features.streaming:
            raise ToolError("PERMISSION_DENIED", "Events are switched off (features.streaming).")
        feed = Feed(
            house.instances,
            session_id=session_id,
            after=after,
            permissions=features.permission_approval,
            reconnect=features.auto_reconnect,
        )
        house.feeds.append(feed)
        try:
            async with feed:
                yield feed
        finally:
            house.feeds.remove(feed)

    async def aclose(self) -> None:
        """Lets go of every connection; sessions go on in their daemons."""
        house, self._house = self._house, None
        if house is not None:
            await house.instances.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def _lost(error: Unreachable) -> ToolError:
    return ToolError("INSTANCE_NOT_CONNECTED", away(error), {"cause": "ECONNREFUSED"})
