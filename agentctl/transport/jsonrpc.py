"""A JSON-RPC 2.0 peer over any line transport: ids, pending calls, writes in order.

Owns the calls we made and the order of what we write. Reads nothing by itself, knows no method, and
keeps no map of the other side's ids: those are its own and may equal ours.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import anyio
import orjson

from agentctl.process.errors import ClosedByPeer

# JSON-RPC 2.0, section 5.1: what an error without a usable code counts as.
INTERNAL_ERROR = -32603


class RpcError(Exception):
    """The other side answered a call with an error object (JSON-RPC 2.0, section 5.1)."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class PeerGone(Exception):
    """The other side can no longer be reached; reason says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the message on a line, None for whatever is not an object of JSON-RPC.

    Invalid UTF-8 and halves of surrogate pairs, which agents let through from command output, are
    replaced by U+FFFD.
    """
    if line[:1] != b"{" and line.lstrip()[:1] != b"{":  # cheaper than a parser's exception
        return None
    try:
        value = orjson.loads(line)
    except ValueError:
        value = _parse_leniently(line)
    if isinstance(value, dict) and ("method" in value or "jsonrpc" in value or "id" in value):
        return cast(dict[str, Any], value)
    return None


def _parse_leniently(line: bytes) -> object:
    try:
        return _without_surrogates(json.loads(line.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_without_surrogates(each) for each in cast(list[Any], value)]
        case dict():
            items = cast(dict[str, Any], value).items()
            return {_without_surrogates(key): _without_surrogates(each) for key, each in items}
        case _:
            return value


def _encode(message: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:  # big integers and lone surrogates are JSON all the same
        return json.dumps(message, separators=(",", ":")).encode()


def _error_of(error: object) -> RpcError:
    if not isinstance(error, dict):
        return RpcError(INTERNAL_ERROR, str(error))
    fields = cast(dict[str, Any], error)
    code = fields.get("code")
    number = int(code) if isinstance(code, int | float) else INTERNAL_ERROR
    message = fields.get("message")
    return RpcError(number, "" if message is None else str(message), fields.get("data"))


@dataclass(slots=True, eq=False)
class _Outgoing:
    message: dict[str, Any]
    line: bytes
    future: asyncio.Future[Any] | None = None
    failed: PeerGone | None = None

    def fail(self, reason: str) -> None:
        self.failed = PeerGone(reason)
        if self.future is not None:
            _fail(self.future, reason)


def _fail(future: asyncio.Future[Any], reason: str) -> None:
    if not future.done():
        future.set_exception(PeerGone(reason))
        future.exception()  # marks it as seen: nobody may be waiting, and that is no error


class Peer:
    """Our end of a JSON-RPC connection.

    Args:
        send: writes one line (without its end). Once called it must deliver the line whole, even
            when its caller is cancelled.
        tap: told ("to_agent", message) right before each write, in the order of the writes.
    """

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], *, tap: Callable[[str, object], None]
    ) -> None:
        self._send = send
        self._tap = tap
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._outbox: deque[_Outgoing] = deque()
        self._lock = anyio.Lock(fast_acquire=True)
        self._flusher: asyncio.Task[None] | None = None
        self._gone: str | None = None

    @property
    def open_requests(self) -> int:
        """How many calls wait for their answer."""
        return len(self._pending)

    async def request(
        self, method: str, params: object = None, *, timeout_s: float | None = None
    ) -> Any:
        """Call a method and return its result.

        Raises:
            RpcError: the other side refused.
            PeerGone: it cannot be reached, or went away before it answered.
            TimeoutError: no answer within timeout_s; a late one matches nothing any more.
        """
        id_, out, future = self._open(method, params)
        try:
            with anyio.fail_after(timeout_s):
                await self._deliver(out)
                return await future
        finally:
            self._pending.pop(id_, None)
            if out in self._outbox:
                self._outbox.remove(out)

    def start_request(self, method: str, params: object = None) -> tuple[int, asyncio.Future[Any]]:
        """Call a method without waiting; return the id and the future of its result.

        The line is in the queue when this returns: what is sent later is written later. Cancelling
        the future forgets the call. The future raises as request() does.

        Raises:
            PeerGone: the other side went away before.
        """
        id_, _, future = self._open(method, params)
        self._kick()
        return id_, future

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification; returns when it is written. Raises PeerGone."""
        await self._deliver(self._enqueue(_call(method, params)))

    async def respond(self, id_: object, result: object) -> None:
        """Answer a request of the other side; its id goes back as it came. Raises PeerGone."""
        await self._deliver(self._enqueue({"jsonrpc": "2.0", "id": id_, "result": result}))

    async def respond_error(
        self, id_: object, code: int, message: str, data: object = None
    ) -> None:
        """Refuse a request of the other side. Raises PeerGone."""
        error: dict[str, Any] = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        await self._deliver(self._enqueue({"jsonrpc": "2.0", "id": id_, "error": error}))

    def queue_result(self, id_: object, result: object) -> None:
        """Answer without waiting for the pipe; written in its turn. Raises PeerGone."""
        self._enqueue({"jsonrpc": "2.0", "id": id_, "result": result})
        self._kick()

    def queue_error(self, id_: object, code: int, message: str) -> None:
        """Refuse without waiting for the pipe. Raises PeerGone."""
        self._enqueue({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}})
        self._kick()

    def resolve(self, msg: dict[str, Any]) -> bool:
        """Hand in an incoming message; True if it answers a call of ours that still waits."""
        if "method" in msg:
            return False
        id_: object = msg.get("id")
        if isinstance(id_, str) and id_.isdecimal():  # some agents give numbers back as text
            id_ = int(id_)
        if type(id_) is not int or (future := self._pending.pop(id_, None)) is None:
            return False
        if future.done():
            return False
        if msg.get("error") is not None:
            future.set_exception(_error_of(msg["error"]))
            future.exception()
        else:
            future.set_result(msg.get("result"))
        return True

    def fail_all(self, error: Exception) -> None:
        """Fail every waiting call, and all later ones, with PeerGone: the other side is dead."""
        reason = self._gone = error.reason if isinstance(error, PeerGone) else str(error)
        while self._outbox:
            self._outbox.popleft().fail(reason)
        pending, self._pending = self._pending, {}
        for future in pending.values():
            _fail(future, reason)

    async def flush(self) -> None:
        """Return when all that was queued so far is written (or its sender told that it cannot be)."""
        async with self._lock:
            while self._outbox:
                out = self._outbox.popleft()
                if out.future is not None and out.future.done():
                    continue
                self._tap("to_agent", out.message)
                try:
                    await self._send(out.line)
                except (ClosedByPeer, OSError) as error:
                    out.fail(str(error))

    def _open(self, method: str, params: object) -> tuple[int, _Outgoing, asyncio.Future[Any]]:
        id_ = self._last_id + 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        out = self._enqueue(_call(method, params, id_), future)
        self._last_id = id_
        self._pending[id_] = future
        future.add_done_callback(lambda _: self._pending.pop(id_, None))
        return id_, out, future

    def _enqueue(
        self, message: dict[str, Any], future: asyncio.Future[Any] | None = None
    ) -> _Outgoing:
        if self._gone is not None:
            raise PeerGone(self._gone)
        out = _Outgoing(message, _encode(message), future)
        self._outbox.append(out)
        return out

    async def _deliver(self, out: _Outgoing) -> None:
        try:
            await self.flush()
        finally:
            if self._outbox:  # cancelled: others' messages, and answers, must not stay behind
                self._kick()
        if out.failed is not None:
            raise out.failed

    def _kick(self) -> None:
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.get_running_loop().create_task(self.flush())


def _call(method: str, params: object, id_: int | None = None) -> dict[str, Any]:
    fields = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    return {name: value for name, value in fields.items() if value is not None}
