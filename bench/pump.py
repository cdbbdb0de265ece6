"""The least that carries an agent's chunks to a client durably: the base that agentctl is compared with.

One process: read the pipe, frame, parse, build and encode the AgentEvent, one SQLite transaction and
one gRPC message for each read. It knows one agent, one session and one kind of update; it has no turns,
no bookkeeping, no other subscribers, no filters, and reads nothing back. Every step is done in the
fastest honest way that was found: fields set one by one, one row for a batch, no thread.
"""

import asyncio
import fcntl
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import anyio
import grpc.aio
import orjson

from agentctl import v1
from agentctl.transport.frames import LineFramer

METHOD = "/bench.Pump/Run"
READ_BYTES = 1 << 18
# The daemon gives its agents a pipe of this size too, and spares its collector in the same way.
PIPE_BYTES = 1 << 20
GC_THRESHOLDS = (20_000, 20, 20)

_CHUNK = v1.EventType.EVENT_TYPE_MESSAGE_CHUNK
_ASSISTANT = v1.Role.ROLE_ASSISTANT
_AGENT, _SESSION, _RUN = (f"{kind}_01jzzzzzzzzzzzzzzzzzzzzzzz" for kind in ("agt", "ses", "run"))
_JOURNAL = "0123456789abcdef"


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Agent:
    """The producer, spoken to by hand: three requests and then only its chunks."""

    def __init__(self, command: list[str], workspace: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._framer = LineFramer()
        self._last_id = 0
        self.fd = self._stdout.fileno()
        fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self.session = str(self._ask("session/new", {"cwd": workspace, "mcpServers": []}))

    def _ask(self, method: str, params: dict[str, Any]) -> object:
        self._send(method, params)
        while True:
            for message in self.read():
                if message.get("id") == self._last_id:
                    return message["result"].get("sessionId")

    def _send(self, method: str, params: dict[str, Any]) -> None:
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._stdin.write(orjson.dumps(message) + b"\n")
        self._stdin.flush()

    def prompt(self, text: str) -> None:
        block = {"type": "text", "text": text}
        self._send("session/prompt", {"sessionId": self.session, "prompt": [block]})

    def read(self) -> list[dict[str, Any]]:
        """Every message of one read. Raises EOFError when the agent is gone."""
        data = os.read(self.fd, READ_BYTES)
        if not data:
            raise EOFError("the producer is gone")
        return [orjson.loads(line) for line in self._framer.feed(data) if isinstance(line, bytes)]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()


class Store:
    """One row for each batch."""

    def __init__(self, path: Path) -> None:
        self._conn = sqlite3.connect(path, isolation_level=None)
        self._conn.execute("PRAGMA journal_mode = WAL")
        self._conn.execute("PRAGMA synchronous = NORMAL")
        self._conn.execute(
            "CREATE TABLE block (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, data BLOB NOT NULL)"
        )

    def insert(self, first: int, last: int, data: bytes) -> None:
        self._conn.execute("BEGIN IMMEDIATE")
        self._conn.execute("INSERT INTO block VALUES (?, ?, ?)", (first, last, data))
        self._conn.execute("COMMIT")


class Pump:
    """Serves one call at a time."""

    def __init__(self, agent: Agent, store: Store) -> None:
        self._agent = agent
        self._store = store
        self._seq = 0
        self._answered = False
        os.set_blocking(agent.fd, False)

    def encode(self, message: dict[str, Any]) -> bytes | None:
        """The event of a chunk as a field of an EventBatch; None for any other message."""
        if message.get("method") != "session/update":
            self._answered = self._answered or "result" in message or "error" in message
            return None
        update = message["params"]["update"]
        if update["sessionUpdate"] != "agent_message_chunk":
            return None
        self._seq += 1
        event = v1.AgentEvent()
        event.type, event.version = _CHUNK, 1
        event.seq, event.ts = self._seq, time.time_ns() // 1_000_000
        event.cursor = f"{_JOURNAL}:{self._seq}"
        event.agent_id, event.session_id, event.run_id = _AGENT, _SESSION, _RUN
        chunk = event.message_chunk
        chunk.message_id, chunk.role = update["messageId"], _ASSISTANT
        chunk.text = update["content"]["text"]
        data = event.SerializeToString()
        return b"\n" + varint(len(data)) + data

    async def run(self, request: bytes, _context: object) -> AsyncIterator[bytes]:
        """Prompts the producer with `request` and streams its chunks until it answers."""
        self._agent.prompt(request.decode())
        self._answered = False
        while not self._answered:
            try:
                messages = self._agent.read()
            except BlockingIOError:
                await anyio.wait_readable(self._agent.fd)
                continue
            first = self._seq + 1
            frames = [frame for each in messages if (frame := self.encode(each)) is not None]
            if frames:
                data = b"".join(frames)
                self._store.insert(first, self._seq, data)
                yield data


async def serve(socket: str, database: Path, workspace: str, command: list[str]) -> None:
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    agent = Agent(command, workspace)
    try:
        pump = Pump(agent, Store(database))
        server = grpc.aio.server()
        handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_stream_rpc_method_handler(pump.run)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("bench.Pump", {"Run": handler})]
        )
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            sys.stdout.write(f"pump listening on unix:{socket}\n")
            sys.stdout.flush()
            async for _ in signals:
                break
        await server.stop(0)
    finally:
        agent.stop()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
