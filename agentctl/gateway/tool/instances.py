"""Owns the servers that the tool may use: which there are, which are connected, whose a session is.

It refuses to know what is asked of them.
"""

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import anyio
import anyio.to_thread

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.client.channel import Connection
from agentctl.gateway.tool import probe
from agentctl.gateway.tool.actions import CONNECT_MS
from agentctl.gateway.tool.config import LOCAL, InstanceConfig, ToolConfig, check_url
from agentctl.gateway.tool.errors import ToolError, invalid
from agentctl.gateway.tool.instance import (
    LABEL,
    OPENCODE,
    Instance,
    not_connected,
    one_each,
    session_of,
)
from agentctl.gateway.tool.state import Connected, Memory, State, StateFile

# A daemon that restarts is back within a second or two; what is away for longer is told.
RECONNECT_S = 10.0
# A list of everything does not ask again so soon for what was away.
AGAIN_S = 30.0
# Between two looks whether a server is back.
LOOK_S = 0.2


class Instances:
    """The servers of one tool. `start` brings the local daemon up where that is ours to do."""

    def __init__(
        self,
        config: ToolConfig,
        memory: Memory | StateFile,
        local: str,
        start: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._features = config.features
        self._memory = memory
        self._local = local
        self._start = start
        self._clients: dict[tuple[str, str], AgentCtl] = {}
        self._owners: dict[str, str] = {}
        self.changed = anyio.Event()
        told = config.instances or (InstanceConfig(name=LOCAL, url=local, default=True),)
        self._all = {each.name: self._configured(each) for each in told}

    def _configured(self, each: InstanceConfig) -> Instance:
        token = os.environ.get(each.auth_token_env, "") if each.auth_token_env else ""
        if each.url == self._local and not token:
            token = os.environ.get("AGENTCTL_TOKEN", "")
        return Instance(each.name, each.url, token, each.default, wanted=each.auto_connect)

    async def recall(self) -> None:
        """Takes over what earlier processes connected and disconnected."""
        state = await anyio.to_thread.run_sync(self._memory.read)
        self._owners.update(state.sessions)
        for name, each in state.connected.items():
            known = self._all.get(name)
            if known is None or known.url != each.url:
                self._all[name] = Instance(name, each.url, default=bool(known and known.default))
            self._all[name].wanted = True
        for name in state.disconnected & self._all.keys():
            self._all[name].wanted = False

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    # Connecting

    async def connect(self, url: str, name: str, token: str, timeout_ms: int) -> Instance:
        """Connects and remembers it; a name that was another server's is this one's from now on."""
        try:
            url = check_url(url)
        except ValueError as error:
            raise invalid(f"connect: {error}.", "url") from None
        name = name or self._name_for(url)
        old = self._all.get(name)
        made = Instance(name, url, token, default=bool(old and old.default), wanted=True)
        if old is not None and old.url == url and not token:
            made.token = old.token
        await self._reach(made, timeout_ms / 1000)
        self._all[name] = made

        def change(state: State) -> None:
            if old is not None and old.url != url:
                state.forget_instance(name)
            state.connected[name] = Connected(url, bool(token))
            state.disconnected.discard(name)

        if old is not None and old.url != url:
            self._owners = {key: value for key, value in self._owners.items() if value != name}
        await self._remember(change)
        self._tell()
        return made

    def _name_for(self, url: str) -> str:
        for each in self._all.values():
            if each.url == url:
                return each.name
        name = re.sub(r"^(https?://|unix:)", "", url).strip("/").rpartition("/")[2]
        name = base = re.sub(r"[^A-Za-z0-9_.:-]", "-", name) or "server"
        number = 1
        while name in self._all:
            number += 1
            name = f"{base}-{number}"
        return name

    async def disconnect(self, name: str | None) -> list[str]:
        """Lets go of one or all; their sessions go on. Returns the names that were connected."""
        if name is not None and name not in self._all:
            raise not_connected(name, "there is no such instance")
        found = [
            each
            for each in self._all.values()
            if (each.wanted or each.up) and name in (None, each.name)
        ]
        for each in found:
            each.wanted = each.up = False
        names = [each.name for each in found]

        def change(state: State) -> None:
            for each in names:
                state.connected.pop(each, None)
                state.disconnected.add(each)

        await self._remember(change)
        self._tell()
        return names

    async def _reach(self, instance: Instance, timeout_s: float) -> None:
        """Connects it, or raises why not."""
        address = self._local if instance.http else instance.url
        token = os.environ.get("AGENTCTL_TOKEN", "") if instance.http else instance.token
        key = (address, token)
        known = self._clients.get(key)
        client = known or AgentCtl(Connection(address, token))
        self._clients[key] = client
        instance.tried_at = anyio.current_time()
        try:
            found = await self._identify(instance, client, timeout_s)
        except BaseException as error:
            if isinstance(error, ToolError):
                instance.up, instance.problem = False, error
            if known is None and self._clients.get(key) is client and not self._uses(client):
                del self._clients[key]
                with anyio.CancelScope(shield=True):
                    await client.close()
            raise
        instance.held, instance.found, instance.problem = client, found, None
        instance.up, instance.lost = True, False

    def _uses(self, client: AgentCtl) -> bool:
        return any(each.held is client for each in self._all.values())

    async def _identify(
        self, instance: Instance, client: AgentCtl, timeout_s: float
    ) -> probe.Found:
        if not instance.http:
            return await self._daemon(client, timeout_s)
        try:
            ours = await self._daemon(client, timeout_s)
        except ToolError as error:
            raise ToolError(
                "SERVER_ERROR",
                f"Your own daemon is needed to attach to {instance.url}: {error.message}",
                {**error.details, "cause": error.code},
            ) from error
        at = await probe.opencode(instance.url, instance.token, timeout_s)
        return probe.Found(at.version, at.login, ours.settings)

    async def _daemon(self, client: AgentCtl, timeout_s: float) -> probe.Found:
        try:
            return await probe.daemon(client, timeout_s)
        except ToolError as error:
            if error.code != "ECONNREFUSED" or self._start is None or client.address != self._local:
                raise
        await self._start()
        deadline = anyio.current_time() + RECONNECT_S
        while True:
            # It serves now; the channel may still rest from its first try.
            try:
                return await probe.daemon(client, timeout_s)
            except ToolError as error:
                if error.code != "ECONNREFUSED" or anyio.current_time() >= deadline:
                    raise
            await anyio.sleep(LOOK_S)

    # Finding

    async def pick(self, name: str | None = None) -> Instance:
        """The instance that a request means, connected.

        Raises:
            ToolError: INSTANCE_NOT_CONNECTED, or PERMISSION_DENIED when its token is refused.
        """
        if name is not None:
            if name not in self._all:
                raise not_connected(name, "there is no such instance")
            return await self.ensure(self._all[name])
        wanted = [each for each in self._all.values() if each.wanted]
        if not wanted:
            raise not_connected("", "no instance is connected")
        return await self.ensure(next((each for each in wanted if each.default), wanted[0]))

    async def reachable(self, name: str | None = None) -> tuple[list[Instance], list[str]]:
        """The instances that are meant, and the names of those that cannot be reached now."""
        if name is not None:
            return [await self.pick(name)], []
        wanted = [each for each in self._all.values() if each.wanted]
        if len(wanted) < 2:
            return [await self.pick()], []
        async with anyio.create_task_group() as group:
            for each in wanted:
                group.start_soon(self._try, each)
        found = [each for each in wanted if each.up]
        if not found:
            raise self._why(wanted[0])
        return found, [each.name for each in wanted if not each.up]

    async def _try(self, instance: Instance) -> None:
        """Connects it unless it was away a moment ago: one that is away holds no other up."""
        if anyio.current_time() - instance.tried_at < AGAIN_S and not instance.up:
            return
        with suppress(ToolError):
            await self.ensure(instance, patient=False)

    async def ensure(self, instance: Instance, *, patient: bool = True) -> Instance:
        """Connects it when it is wanted and is not; one that was just lost is waited for."""
        if instance.up:
            return instance
        if not instance.wanted:
            raise not_connected(instance.name, "it is not connected")
        if not self._features.auto_reconnect and (instance.lost or instance.problem):
            raise self._why(instance)
        waits = patient and instance.lost and instance.problem is None
        deadline = anyio.current_time() + (RECONNECT_S if waits else 0)
        async with instance.lock:
            while not instance.up:
                try:
                    await self._reach(instance, CONNECT_MS / 1000)
                except ToolError as error:
                    gone = error.code == "ECONNREFUSED"
                    if not gone or anyio.current_time() >= deadline:
                        raise self._why(instance) from error
                    await anyio.sleep(LOOK_S)
        self._tell()
        return instance

    def _why(self, instance: Instance) -> ToolError:
        problem = instance.problem
        if problem is not None and problem.code == "AUTH_FAILED":
            details = {**problem.details, "instance": instance.name}
            return ToolError("PERMISSION_DENIED", problem.message, details)
        cause = problem.message if problem is not None else "the connection was lost"
        code = problem.code if problem is not None else "ECONNREFUSED"
        return not_connected(instance.name, cause, cause=code)

    def lose(self, address: str) -> None:
        """Notes that no daemon answers at an address any more."""
        for each in self._all.values():
            if each.held is not None and each.held.address == address:
                each.up, each.lost = False, True

    @property
    def up(self) -> list[Instance]:
        return [each for each in self._all.values() if each.up]

    # Sessions

    async def own(self, session_id: str, instance: Instance) -> None:
        """Remembers whose a session is."""
        if self._owners.get(session_id) != instance.name:
            self._owners[session_id] = instance.name
            await self._remember(lambda state: state.remember(session_id, instance.name))

    async def of_session(
        self, session_id: str, *, adopt: bool = False
    ) -> tuple[Instance, v1.Session]:
        """The instance of a session, and the session.

        Args:
            adopt: it may be a conversation of an OpenCode server's own, by the id there.

        Raises:
            ToolError: SESSION_NOT_FOUND on every connected instance, INSTANCE_NOT_CONNECTED.
        """
        name = self._owners.get(session_id)
        if name is None:
            state = await anyio.to_thread.run_sync(self._memory.read)
            name = state.sessions.get(session_id)
        if name is not None and name in self._all:
            instance = await self.ensure(self._all[name])
            found = await session_of(instance, session_id)
            if found is not None:
                return instance, found
        connected, _ = await self.reachable()
        for instance in one_each(connected):
            found = await session_of(instance, session_id)
            if found is not None:
                owner = self.owner(instance, found.labels)
                await self.own(found.session_id, owner)
                return owner, found
        for instance in [each for each in connected if each.http and adopt]:
            adopted = await self._adopt(instance, session_id)
            if adopted is not None:
                return instance, adopted
        raise ToolError(
            "SESSION_NOT_FOUND",
            f"No connected instance has a session {session_id}: list_sessions shows what there is.",
            {"session_id": session_id},
        )

    async def _adopt(self, instance: Instance, native: str) -> v1.Session | None:
        """Takes up a conversation of an OpenCode server's own, by the id that it has there."""
        directory = await probe.directory_of(instance.url, instance.found.login, native)
        if directory is None:
            return None
        sessions = instance.client.sessions
        create = v1.CreateSessionRequest(
            workspace=directory, url=instance.url, auth=instance.found.login
        )
        made = await sessions.resume(
            entry_id=OPENCODE, native_session_id=native, create=create, wait_ready=True
        )
        if made.labels.get(LABEL, instance.url) != instance.url:
            return None
        made = await sessions.update(made.session_id, labels=instance.labels)
        await self.own(made.session_id, instance)
        return made

    def owner(self, instance: Instance, labels: Mapping[str, str]) -> Instance:
        """Whose a session of a daemon is: an OpenCode URL's, or the daemon's own."""
        url = labels.get(LABEL)
        same = [each for each in self._all.values() if each.up and each.held is instance.held]
        if url is not None:
            found = next((each for each in same if each.url == url), None)
            if found is not None:
                return found
        return next((each for each in same if not each.http), instance)

    def others(self, instance: Instance) -> list[Instance]:
        """The OpenCode URLs whose sessions live in the same daemon as this daemon's own."""
        if instance.http:
            return []
        return [each for each in self.up if each.http and each.held is instance.held]

    async def _remember(self, change: Callable[[State], None]) -> None:
        await anyio.to_thread.run_sync(self._memory.change, change)

    def _tell(self) -> None:
        news, self.changed = self.changed, anyio.Event()
        news.set()
