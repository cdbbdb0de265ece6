"""Owns standard input and output as lines of JSON-RPC. Knows no method.

Nothing but the protocol reaches the client's end: what else is printed goes to standard error.
"""

import json
import os
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager

import orjson

from agentctl.gateway.acp.errors import INVALID_REQUEST, PARSE_ERROR, Json, Refusal
from agentctl.process.errors import ClosedByPeer
from agentctl.process.pipes import PipeReader, PipeWriter
from agentctl.transport.frames import LineFramer, Oversized
from agentctl.transport.jsonrpc import Peer, PeerGone, parse

_HEAD, _TAIL = b'{"jsonrpc":"2.0","method":"session/update","params":', b"}\n"


class Wire:
    """The two ends of one client."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._reader = PipeReader(stdin)
        self._writer = PipeWriter(stdout)
        self.peer = Peer(self._send, tap=lambda _direction, _message: None)

    async def _send(self, line: bytes) -> None:
        await self._writer.write(line + b"\n")

    async def updates(self, session: str, updates: Sequence[Json]) -> None:
        """Notifies of updates in one write: a turn is mostly these, and each is small.

        Raises:
            PeerGone: the client reads no more.
        """
        if not updates:
            return
        lines = [
            _HEAD + encoded({"sessionId": session, "update": update}) + _TAIL for update in updates
        ]
        try:
            await self.peer.flush()
            await self._writer.write(b"".join(lines))
        except ClosedByPeer as error:
            raise PeerGone(str(error)) from error

    async def messages(self) -> AsyncGenerator[list[Json | Refusal]]:
        """What each read of the pipe completes, in order, until the client closes its end.

        A line that is no message is a Refusal; it has no id to answer to.
        """
        framer = LineFramer()
        while chunk := await self._reader.read():
            if lines := [line for line in framer.feed(chunk) if line]:
                yield [message_of(line) for line in lines]
        if last := framer.flush():
            yield [message_of(last)]

    def close(self) -> None:
        self._reader.close()
        self._writer.close()


def encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # big integers and lone surrogates are JSON all the same
        return json.dumps(value, separators=(",", ":")).encode()


def message_of(line: bytes | Oversized) -> Json | Refusal:
    if isinstance(line, Oversized):
        return Refusal(PARSE_ERROR, f"a line of {line.size} bytes is longer than any may be")
    message = parse(line)
    if message is not None:
        return message
    try:
        orjson.loads(line)
    except ValueError:
        return Refusal(PARSE_ERROR, "a line that is not JSON")
    return Refusal(INVALID_REQUEST, "a message is one JSON object; batches are not served")


@contextmanager
def standard_streams() -> Generator[tuple[int, int]]:
    """Descriptors of our own for standard input and output, which are made ours alone.

    Whoever takes them closes them. The modes are put back at the end: a terminal that others use must
    not stay non-blocking.
    """
    kept = (os.dup(0), os.dup(1))
    modes = [os.get_blocking(fd) for fd in kept]
    os.dup2(2, 1)
    try:
        for fd in kept:
            os.set_blocking(fd, False)
        yield os.dup(kept[0]), os.dup(kept[1])
    finally:
        for fd, blocking in zip(kept, modes, strict=True):
            os.set_blocking(fd, blocking)
        os.dup2(kept[1], 1)
        for fd in kept:
            os.close(fd)
