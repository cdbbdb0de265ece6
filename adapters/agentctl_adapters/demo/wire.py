"""JSON-RPC lines over this process's own standard input and output.

Owns framing, the write lock and the ids of our own requests. Knows no ACP method.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

Json = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMS = -32700, -32600, -32601, -32602
INTERNAL, AUTH_REQUIRED, NOT_FOUND = -32603, -32000, -32002


def obj(value: Any) -> Json:
    """The value when it is a JSON object, else an empty one."""
    return cast(Json, value) if isinstance(value, dict) else {}


class RpcError(Exception):
    """Becomes the JSON-RPC error answer to the request being served."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def body(self) -> Json:
        body: Json = {"code": self.code, "message": self.message}
        return body if self.data is None else {**body, "data": self.data}


class _Waiter:
    __slots__ = ("answer", "done")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: Json | None = None


def encode(message: Json) -> bytes:
    """One message as one line of UTF-8."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    ) + (b"\n")


class Wire:
    """The two pipes. Reading happens in one thread, writing in any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[int, _Waiter] = {}
        # The first id is 0, as several real agents have it: clients must not test ids for truth.
        self._next_id = 0
        self._out = os.dup(1)
        # What anything prints by accident must not look like a message.
        os.dup2(2, 1)

    def write(self, data: bytes) -> None:
        """Write whole lines, atomically among threads; blocks while the pipe is full."""
        view = memoryview(data)
        with self._lock:
            while view:
                try:
                    view = view[os.write(self._out, view) :]
                except BrokenPipeError:
                    # Nobody listens any more; the main thread ends the work in its own way.
                    signal.raise_signal(signal.SIGTERM)
                    return

    def notify(self, method: str, params: Json) -> None:
        self.write(encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def answer(self, request_id: Any, result: Json) -> None:
        self.write(encode({"jsonrpc": "2.0", "id": request_id, "result": result}))

    def refuse(self, request_id: Any, error: RpcError) -> None:
        self.write(encode({"jsonrpc": "2.0", "id": request_id, "error": error.body()}))

    def request(
        self, method: str, params: Json, waiting: Callable[[threading.Event], None]
    ) -> Json | None:
        """Ask the client and wait for its answer.

        Args:
            waiting: Receives the event that ends the wait, so that a cancel can set it.

        Returns:
            The whole response (with `result` or `error`), or None when woken by a cancel.
        """
        waiter = _Waiter()
        waiting(waiter.done)
        with self._lock:
            request_id = self._next_id
            self._next_id += 1
            self._waiters[request_id] = waiter
        self.write(encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}))
        waiter.done.wait()
        return waiter.answer

    def messages(self) -> Iterator[Json]:
        """Requests and notifications of the client, until it closes our standard input."""
        while line := sys.stdin.buffer.readline():
            if not line.strip():
                continue
            message = self._decode(line)
            if message is None:
                continue
            if "method" in message:
                yield message
            else:
                self._settle(message)

    def _decode(self, line: bytes) -> Json | None:
        try:
            message = json.loads(line)
        except ValueError:
            self.refuse(None, RpcError(PARSE_ERROR, "Parse error: a line that is not JSON"))
            return None
        if not isinstance(message, dict):
            self.refuse(None, RpcError(INVALID_REQUEST, "A message is one JSON object"))
            return None
        return cast(Json, message)

    def _settle(self, message: Json) -> None:
        request_id = message.get("id")
        if not isinstance(request_id, int):
            return
        with self._lock:
            waiter = self._waiters.pop(request_id, None)
        if waiter is not None:
            waiter.answer = message
            waiter.done.set()
