"""Owns a client of each gateway for the bench: it prompts, and gives the text as it comes.

It refuses to know what is measured with it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Protocol

import anyio
import httpx
import orjson
from websockets.asyncio.client import ClientConnection, connect

from agentctl import v1
from agentctl.client import AgentCtl
from bench.served import BIN, Place, Served, listening, live

Json = dict[str, Any]

# A client reads this much at once, as the pipes and sockets of most do.
READ_BYTES = 65_536
# An agent starts and answers within seconds; longer than this is a hang.
OPEN_S = 60.0

_CHUNK = v1.EventType.EVENT_TYPE_MESSAGE_CHUNK
_COMPLETE = v1.EventType.EVENT_TYPE_COMPLETE


class Way(Protocol):
    """A client of one gateway with one session, whose id is the daemon's."""

    session_id: str

    def turn(self, prompt: str) -> AsyncIterator[Sequence[str]]:
        """Prompts; the pieces of text as they come, those of one read together, to the end."""
        ...


Open = Callable[[Place, Served, str], AbstractAsyncContextManager[Way]]
"""A way into a daemon with a session of the named agent."""


class Plain:
    """gRPC itself."""

    def __init__(self, client: AgentCtl, session_id: str) -> None:
        self._client = client
        self.session_id = session_id

    async def turn(self, prompt: str) -> AsyncIterator[Sequence[str]]:
        async with live(self._client, self.session_id) as batches:
            await self._client.runs.create(self.session_id, prompt)
            async for batch in batches:
                yield [e.message_chunk.text for e in batch.events if e.type == _CHUNK]
                if any(e.type == _COMPLETE for e in batch.events):
                    return


class AcpWay:
    """`agentctl acp` as a subprocess."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._next = 0
        self._held = b""
        self.session_id = ""

    async def open(self, workspace: str) -> None:
        await self._result("initialize", {"protocolVersion": 1})
        params: Json = {"cwd": workspace, "mcpServers": []}
        self.session_id = (await self._result("session/new", params))["sessionId"]

    async def turn(self, prompt: str) -> AsyncIterator[Sequence[str]]:
        block = {"type": "text", "text": prompt}
        own = await self._send("session/prompt", {"sessionId": self.session_id, "prompt": [block]})
        async with aclosing(self._messages()) as reads:
            async for messages in reads:
                yield [text for each in messages if (text := _said(each))]
                if any(each.get("id") == own for each in messages):
                    return

    async def _result(self, method: str, params: Json) -> Json:
        own = await self._send(method, params)
        async with aclosing(self._messages()) as reads:
            async for messages in reads:
                for each in messages:
                    if each.get("id") == own:
                        return each["result"]
        raise RuntimeError(f"agentctl acp ended before it answered {method}")

    async def _send(self, method: str, params: Json) -> int:
        assert self._process.stdin is not None
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        self._process.stdin.write(orjson.dumps(message) + b"\n")
        await self._process.stdin.drain()
        return self._next

    async def _messages(self) -> AsyncGenerator[list[Json]]:
        assert self._process.stdout is not None
        while data := await self._process.stdout.read(READ_BYTES):
            *lines, self._held = (self._held + data).split(b"\n")
            yield [orjson.loads(line) for line in lines]


def _said(message: Json) -> str:
    if message.get("method") != "session/update":
        return ""
    update: Json = message["params"]["update"]
    is_text = update["sessionUpdate"] == "agent_message_chunk"
    return update["content"]["text"] if is_text else ""


@asynccontextmanager
async def acp(place: Place, served: Served, agent: str) -> AsyncGenerator[Way]:
    """ACP over standard input and output."""
    log = place.root / "stderr.log"
    words = ("--address", served.address, "acp", "--agent", agent)
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            str(BIN / "agentctl"),
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=place.environ,
        )
        assert process.stdin is not None
        try:
            way = AcpWay(process)
            with anyio.fail_after(OPEN_S):
                await way.open(str(place.workspace))
            yield way
        finally:
            with anyio.CancelScope(shield=True):
                process.stdin.close()
                await process.wait()


class OpenCodeWay:
    """The events of OpenCode's server, and its calls."""

    def __init__(self, http: httpx.AsyncClient, session_id: str) -> None:
        self._http = http
        self.session_id = session_id
        self._users: set[str] = set()
        self._seen: dict[str, int] = {}

    async def turn(self, prompt: str) -> AsyncIterator[Sequence[str]]:
        body = {"parts": [{"type": "text", "text": prompt}]}
        known = len(self._users)
        async with (
            self._http.stream("GET", "/event") as answer,
            aclosing(_frames(answer)) as reads,
        ):
            await anext(reads)
            path = f"/session/{self.session_id}/prompt_async"
            (await self._http.post(path, json=body)).raise_for_status()
            async for events in reads:
                # The end of the turn before may be on its way still.
                mine = [each for each in events if self._is_of_ours(each["properties"])]
                told = [(self._said(each), len(self._users) > known, each) for each in mine]
                yield [text for text, begun, _ in told if begun and text]
                if any(begun and each["type"] == "session.idle" for _, begun, each in told):
                    return

    def _is_of_ours(self, told: Json) -> bool:
        """The stream tells all sessions of the directory."""
        inner: Json = told.get("info") or told.get("part") or told
        return inner.get("sessionID", told.get("sessionID")) == self.session_id

    def _said(self, event: Json) -> str:
        """What is new: a part is told whole now and then, and in pieces between."""
        told: Json = event["properties"]
        match event["type"]:
            case "message.updated" if told["info"]["role"] == "user":
                self._users.add(told["info"]["id"])
            case "message.part.delta":
                self._seen[told["partID"]] = self._seen.get(told["partID"], 0) + len(told["delta"])
                return told["delta"]
            case "message.part.updated" if told["part"]["type"] == "text":
                part: Json = told["part"]
                if part["messageID"] not in self._users:
                    seen = self._seen.get(part["id"], 0)
                    self._seen[part["id"]] = len(part["text"])
                    return part["text"][seen:]
            case _:
                pass
        return ""


async def _frames(answer: httpx.Response) -> AsyncGenerator[list[Json]]:
    held = b""
    async for data in answer.aiter_raw():
        *blocks, held = (held + data).split(b"\n\n")
        told = [each.partition(b"data: ")[2] for each in blocks]
        yield [orjson.loads(each) for each in told if each]


def _data_dir(served: Served) -> str:
    return str(Path(served.address.removeprefix("unix:")).parent.parent)


@asynccontextmanager
async def opencode(place: Place, served: Served, agent: str) -> AsyncGenerator[Way]:
    """OpenCode's HTTP API with server-sent events."""
    words = ("serve", "--mode", "opencode", "--port", "0", "--data-dir", _data_dir(served))
    async with (
        listening(place, [str(BIN / "agentctl"), *words]) as server,
        httpx.AsyncClient(
            base_url=server.address, timeout=OPEN_S, params={"directory": str(place.workspace)}
        ) as http,
    ):
        answer = (await http.post("/session", json={"agent": agent})).raise_for_status()
        yield OpenCodeWay(http, answer.json()["id"])


class ToolWay:
    """The tool's WebSocket, and its calls. It tells whole messages, not their pieces."""

    def __init__(self, http: httpx.AsyncClient, socket: ClientConnection, own: str) -> None:
        self._http = http
        self._socket = socket
        self.session_id = own

    async def turn(self, prompt: str) -> AsyncIterator[Sequence[str]]:
        body = {"action": "send_message", "session_id": self.session_id, "message": prompt}
        sent = asyncio.ensure_future(self._http.post("/tool", json=body))
        try:
            while True:
                event: Json = orjson.loads(await self._socket.recv())
                yield [event["content"]] if event["type"] == "agent.message" else []
                if event["type"] == "agent.complete":
                    (await sent).raise_for_status()
                    return
        finally:
            sent.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sent


@asynccontextmanager
async def tool(place: Place, served: Served, agent: str) -> AsyncGenerator[Way]:
    """The tool over HTTP, with events on a WebSocket."""
    token, secret = place.root / "tool.token", token_urlsafe()
    await anyio.Path(token).write_text(secret)
    words = ("--address", served.address, "tool", "serve", "--listen", "127.0.0.1:0")
    async with AgentCtl.connect(served.address) as client:
        made = await client.sessions.create(agent, str(place.workspace), wait_ready=True)
    own = made.session_id
    async with listening(
        place, [str(BIN / "agentctl"), *words, "--token-file", str(token)]
    ) as server:
        bearer = {"authorization": f"Bearer {secret}"}
        events = f"{server.address.replace('http', 'ws')}/events?session_id={own}"
        async with (
            httpx.AsyncClient(base_url=server.address, timeout=OPEN_S, headers=bearer) as http,
            connect(events, additional_headers=bearer, max_size=None) as socket,
        ):
            yield ToolWay(http, socket, own)


WAYS: dict[str, Open] = {
    "ACP over stdio": acp,
    "OpenCode's server-sent events": opencode,
    "the tool's WebSocket": tool,
}
"""Each gateway that is measured, by the name of its row."""
