"""Owns our half of Claude Code's control channel: requests that wait for an answer, writes in order.

Reads nothing by itself and knows no subtype. What is queued is written, whoever stops waiting for it.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import orjson

from agentctl.process.errors import ClosedByPeer
from agentctl_adapters.common.shapes import Json, as_object, as_text


class ControlRefused(Exception):
    """The agent answered a control request with an error; `code` is its own word, or ""."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class AgentGone(Exception):
    """The agent can no longer be reached; reason says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, eq=False)
class _Outgoing:
    message: Json
    failed: AgentGone | None = None


class Control:
    """Made before the process; `send` writes one line, `tap` is told right before each write."""

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], tap: Callable[[str, object], None]
    ) -> None:
        self._send = send
        self._tap = tap
        self._count = 0
        self._pending: dict[str, asyncio.Future[Json]] = {}
        self._outbox: deque[_Outgoing] = deque()
        self._lock = anyio.Lock(fast_acquire=True)
        self._flusher: asyncio.Task[None] | None = None
        self._gone: str | None = None

    async def request(self, subtype: str, *, timeout_s: float, **fields: object) -> Json:
        """A control request and its answer.

        Raises:
            ControlRefused: the agent answered with an error.
            AgentGone: it cannot be reached, or went away before it answered.
            TimeoutError: no answer in time; a late one matches nothing any more.
        """
        name, out, answer = self._ask(subtype, fields)
        try:
            with anyio.fail_after(timeout_s):
                await self._deliver(out)
                return await answer
        finally:
            self._pending.pop(name, None)

    def post_request(self, subtype: str, **fields: object) -> None:
        """A control request whose answer nobody waits for. Never waits."""
        if self._gone is None:
            self._ask(subtype, fields)
            self._kick()

    async def write(self, message: Json) -> None:
        """Returns when it is written. Raises AgentGone."""
        await self._deliver(self._enqueue(message))

    def post(self, message: Json) -> None:
        """Queues a message without waiting; lost when the agent is gone."""
        if self._gone is None:
            self._enqueue(message)
            self._kick()

    def resolve(self, message: Json) -> bool:
        """Hand in a control_response; True if it answers a request that still waits."""
        response = as_object(message.get("response"))
        answer = self._pending.pop(as_text(response.get("request_id")), None)
        if answer is None or answer.done():
            return False
        if response.get("subtype") == "success":
            answer.set_result(as_object(response.get("response")))
            return True
        said = as_text(response.get("error")) or "it did not say why"
        answer.set_exception(ControlRefused(said, as_text(response.get("error_code"))))
        answer.exception()  # marks it as seen: nobody may be waiting, and that is no error
        return True

    def fail_all(self, reason: str) -> None:
        """Fails every waiting request, and all later ones, with AgentGone."""
        self._gone = reason
        while self._outbox:
            self._outbox.popleft().failed = AgentGone(reason)
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            if not answer.done():
                answer.set_exception(AgentGone(reason))
                answer.exception()

    async def flush(self) -> None:
        """Returns when all that was queued so far is written, or its sender told otherwise."""
        async with self._lock:
            while self._outbox:
                out = self._outbox.popleft()
                self._tap("to_agent", out.message)
                try:
                    await self._send(orjson.dumps(out.message))
                except (ClosedByPeer, OSError) as error:
                    out.failed = AgentGone(str(error))

    def _ask(
        self, subtype: str, fields: dict[str, object]
    ) -> tuple[str, _Outgoing, asyncio.Future[Json]]:
        self._count += 1
        name = f"agentctl-{self._count}"
        request = {"subtype": subtype, **fields}
        out = self._enqueue({"type": "control_request", "request_id": name, "request": request})
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._pending[name] = answer
        return name, out, answer

    def _enqueue(self, message: Json) -> _Outgoing:
        if self._gone is not None:
            raise AgentGone(self._gone)
        out = _Outgoing(message)
        self._outbox.append(out)
        return out

    async def _deliver(self, out: _Outgoing) -> None:
        try:
            await self.flush()
        finally:
            if self._outbox:  # cancelled: what others queued must not stay behind
                self._kick()
        if out.failed is not None:
            raise out.failed

    def _kick(self) -> None:
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.get_running_loop().create_task(self.flush())


def success(request_id: str, response: Json) -> Json:
    """Our answer to a control request of the agent."""
    inner = {"subtype": "success", "request_id": request_id, "response": response}
    return {"type": "control_response", "response": inner}


def failure(request_id: str, error: str) -> Json:
    inner = {"subtype": "error", "request_id": request_id, "error": error}
    return {"type": "control_response", "response": inner}
