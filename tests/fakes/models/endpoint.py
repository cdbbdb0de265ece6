"""What every fake model endpoint shares: the log of what was asked and sent, and ways to run one.

Owns `/_log`, `/_reset`, the JSONL file, the command line and the thread; knows no wire format.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from tests.fakes.models.http import Reply, Request, serving

# A loop with nothing but loopback work in it starts and stops in milliseconds; this only ends a bug.
_THREAD_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Exchange:
    """One request and its answer. `sent_text` is what the client can have shown, thoughts apart.

    `outcome` is open, completed, failed (an HTTP error), cut, or client_gone.
    """

    path: str
    model: str = ""
    rounds: int = 0
    steps: list[str] = field(default_factory=list[str])
    sent_text: str = ""
    sent_thoughts: str = ""
    tools: list[str] = field(default_factory=list[str])
    called: list[str] = field(default_factory=list[str])
    usage: dict[str, int] = field(default_factory=dict[str, int])
    api_key_header: str = ""
    auxiliary: bool = False
    outcome: str = "open"


class Log:
    """All exchanges in order of arrival; written to `file` as JSONL when they end."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._exchanges: list[Exchange] = []

    def open(self, exchange: Exchange) -> Exchange:
        """Adds an exchange that begins; it stays in the log while it is changed."""
        self._exchanges.append(exchange)
        return exchange

    def close(self, exchange: Exchange, outcome: str) -> None:
        """Ends an exchange with its outcome."""
        exchange.outcome = outcome
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(exchange)) + "\n")

    def reset(self) -> None:
        self._exchanges.clear()

    def as_json(self) -> list[dict[str, Any]]:
        return [asdict(exchange) for exchange in self._exchanges]


class Endpoint(Protocol):
    """One model API. `answer` fills the exchange while it sends and raises what the wire raises."""

    log: Log

    async def answer(self, request: Request, reply: Reply, exchange: Exchange) -> str:
        """Answers one API request and returns the outcome."""
        ...


async def handle(endpoint: Endpoint, request: Request, reply: Reply) -> None:
    """Answers the log's own routes itself and leaves all others to the endpoint."""
    if request.path == "/_log":
        return await reply.send(200, endpoint.log.as_json())
    if request.path == "/_reset":
        endpoint.log.reset()
        return await reply.send(200, {})
    exchange = endpoint.log.open(Exchange(request.path))
    outcome = "client_gone"
    try:
        outcome = await endpoint.answer(request, reply, exchange)
    except ConnectionError:
        pass
    finally:
        endpoint.log.close(exchange, outcome)


@contextmanager
def in_thread(endpoint: Endpoint) -> Generator[str]:
    """Serves in a thread with a loop of its own and yields the base URL.

    A caller that blocks its own loop (or has none) does not stop the model from answering.
    """
    loop = asyncio.new_event_loop()
    leave = asyncio.Event()
    url: asyncio.Queue[str] = asyncio.Queue()

    async def serve() -> None:
        async with serving(lambda request, reply: handle(endpoint, request, reply)) as base:
            url.put_nowait(base)
            await leave.wait()

    thread = Thread(target=lambda: loop.run_until_complete(serve()), name="fake-model")
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(url.get(), loop).result(_THREAD_TIMEOUT_S)
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join(_THREAD_TIMEOUT_S)
        loop.close()


def main(make: Callable[[Log], Endpoint], argv: list[str] | None = None) -> None:
    """The command line of every endpoint: `--port N` (0 = any free one) and `--log FILE`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args(argv)
    endpoint = make(Log(options.log))

    async def serve() -> None:
        async with serving(
            lambda request, reply: handle(endpoint, request, reply), options.port
        ) as url:
            sys.stdout.write(f"listening on {url}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(serve())
