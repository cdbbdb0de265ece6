"""Owns how we call an app-server: deadlines, and what its errors and its death mean to our caller.

Codex has one code for nearly all errors, so the words decide. Knows no method's content.
"""

from collections.abc import Generator
from contextlib import contextmanager

from agentctl.core.adapter import Launch
from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    Invalid,
    NotFound,
    Refused,
    TimedOut,
    Unsupported,
)
from agentctl.transport.jsonrpc import PeerGone, RpcError
from agentctl_adapters.codex.link import Link
from agentctl_adapters.common.failures import death_error, quoted
from agentctl_adapters.common.shapes import Json, as_object

# Answered from memory or one file; some first read a long conversation.
CALL_TIMEOUT_S = 30.0
INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32600, -32601, -32603
_NOT_THERE = ("no rollout found", "thread not found", "not found: ")
_BAD_ID = "invalid session id"


class Calls:
    """`version` is what the handshake told; empty before."""

    def __init__(self, launch: Launch, link: Link) -> None:
        self._launch = launch
        self._link = link
        self.version = ""

    async def call(self, method: str, params: Json, timeout_s: float = CALL_TIMEOUT_S) -> Json:
        """The result of a method, as an object.

        Raises:
            AgentctlError: it refused (NotFound, Invalid, Refused, Unsupported), died, was too slow.
        """
        try:
            return await self.request(method, params, timeout_s)
        except RpcError as error:
            raise self.refused(method, error) from error

    async def request(
        self, method: str, params: Json, timeout_s: float | None = CALL_TIMEOUT_S
    ) -> Json:
        """The same, but the agent's own error comes as RpcError."""
        try:
            with self.alive(f"before it answered {method}"):
                result = await self._link.peer.request(method, params, timeout_s=timeout_s)
        except TimeoutError as error:
            raise TimedOut(
                f"{self._entry} did not answer {method} within {timeout_s:g} s: look at its log,"
                " or stop it and try again"
            ) from error
        return as_object(result)

    def refused(self, method: str, error: RpcError) -> AgentctlError:
        said, metadata = quoted(error.message), {"entry": self._entry, "method": method}
        if f"unknown variant `{method}`" in error.message or error.code == METHOD_NOT_FOUND:
            return Unsupported(
                f"{self._entry} cannot do this: this version does not know {method}",
                metadata=metadata,
            )
        if any(words in error.message for words in (*_NOT_THERE, _BAD_ID)):
            return NotFound(
                f"{self._entry} has no such conversation ({said}): start a new session",
                metadata=metadata,
            )
        if "active writer" in error.message:
            return Refused(
                f"{self._entry} has this conversation open in another process ({said}): stop that"
                " one first",
                reason="SESSION_BUSY",
                metadata=metadata,
            )
        if "failed to load configuration" in error.message:
            return AgentFailed(
                f"{self._entry} cannot read its configuration: {said}; repair the file, then start"
                " anew",
                metadata=metadata,
            )
        if error.code == INVALID_REQUEST:
            return Invalid(f"{self._entry} refused {method}: {said}", metadata=metadata)
        return AgentFailed(
            f"{self._entry} answered {method} with error {error.code}: {said}", metadata=metadata
        )

    @contextmanager
    def alive(self, doing: str) -> Generator[None]:
        """Words the agent's death for our caller; `doing` says when it was noticed."""
        try:
            yield
        except PeerGone as error:
            raise self.dead(doing) from error

    def dead(self, doing: str) -> AgentFailed:
        return death_error(self._launch, self._link.death, doing, self.version)

    @property
    def _entry(self) -> str:
        return self._launch.entry.id
