"""Owns how we call an ACP agent: deadlines, and what its errors and its death mean to our caller.

Remembers which methods the agent does not know, whatever it claimed. Knows no method's content.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager

from agentctl.core.adapter import Launch
from agentctl.core.errors import AgentctlError, AgentFailed, TimedOut, Unsupported
from agentctl.transport.jsonrpc import PeerGone, RpcError
from agentctl_adapters.acp.failures import (
    AUTH_REQUIRED,
    METHOD_NOT_FOUND,
    auth_required,
    refusal,
    words_of,
)
from agentctl_adapters.acp.handshake import Handshake
from agentctl_adapters.acp.link import Link
from agentctl_adapters.common.failures import death_error
from agentctl_adapters.common.shapes import Json, as_object

# Settings, lists and closing are answered from memory or one file.
CALL_TIMEOUT_S = 30.0


class Calls:
    """`agent` is what the handshake told; empty before."""

    def __init__(self, launch: Launch, link: Link) -> None:
        self._launch = launch
        self._link = link
        self.agent = Handshake()
        self.unknown_methods: set[str] = set()

    async def call(self, method: str, params: Json, timeout_s: float = CALL_TIMEOUT_S) -> Json:
        """The result of a method, as an object.

        Raises:
            Refused: AUTH_REQUIRED, with the ways to log in.
            Unsupported: the agent does not know the method.
            AgentctlError: it refused for another reason, died or was too slow.
        """
        try:
            return await self.request(method, params, timeout_s)
        except RpcError as error:
            raise self.refused(method, error) from error

    async def request(self, method: str, params: Json, timeout_s: float = CALL_TIMEOUT_S) -> Json:
        """The same, but the agent's own error (all but "no such method") comes as RpcError."""
        if method in self.unknown_methods:
            raise Unsupported(f"{self._entry} cannot do this: it does not know {method}")
        try:
            with self.alive(f"before it answered {method}"):
                result = await self._link.peer.request(method, params, timeout_s=timeout_s)
        except TimeoutError as error:
            raise TimedOut(
                f"{self._entry} did not answer {method} within {timeout_s:g} s: look at its log,"
                " or stop it and try again"
            ) from error
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            self.unknown_methods.add(method)
            raise refusal(self._entry, method, error) from error
        return as_object(result)

    def refused(self, method: str, error: RpcError) -> AgentctlError:
        if error.code == AUTH_REQUIRED:
            return auth_required(self._launch, self.agent.auth_methods, words_of(error))
        return refusal(self._entry, method, error)

    @contextmanager
    def alive(self, doing: str) -> Generator[None]:
        """Words the agent's death for our caller; `doing` says when it was noticed."""
        try:
            yield
        except PeerGone as error:
            raise self.dead(doing) from error

    def dead(self, doing: str) -> AgentFailed:
        return death_error(self._launch, self._link.death, doing, self.agent.version)

    @property
    def _entry(self) -> str:
        return self._launch.entry.id


def now_ms() -> int:
    """The wall clock, Unix ms."""
    return time.time_ns() // 1_000_000
