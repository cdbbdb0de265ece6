"""A bare ACP client over stdio, without any of the project's own code.

It shows what an agent really says, so that a failing test tells an agent's change from a fault of
ours. Owns JSON lines and the process; keeps every message as it came and interprets none.
"""

import json
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from tests.real.harness import POLL_S, START_TIMEOUT_S, TURN_TIMEOUT_S

_READ_BYTES = 1 << 18
# An idle agent ends within half a second of the end of its stdin.
_EOF_GRACE_S = 2.0
# What a terminated agent may need to write its session file; after that it is killed.
_TERM_GRACE_S = 2.0
_KILL_GRACE_S = 5.0

Message = dict[str, Any]


class RawAcp:
    """One connection; `messages` holds everything the agent said, in order."""

    def __init__(self, stdin: ByteSendStream) -> None:
        self.messages: list[Message] = []
        self._stdin = stdin
        self._news = anyio.Event()
        self._next_id = 1
        self._ended = False

    async def read(self, stdout: ByteReceiveStream) -> None:
        """Collects messages until the end of stdout."""
        rest = b""
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                *lines, rest = (rest + await stdout.receive(_READ_BYTES)).split(b"\n")
                self.messages.extend(json.loads(line) for line in lines if line.strip())
                self._tell()
        self._ended = True
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def wait(
        self, condition: Callable[[Message], bool], timeout_s: float = TURN_TIMEOUT_S
    ) -> Message:
        """The first message that fulfils the condition, past or future."""
        seen = 0
        with anyio.fail_after(timeout_s):
            while True:
                for message in self.messages[seen:]:
                    if condition(message):
                        return message
                seen = len(self.messages)
                if self._ended:
                    raise EOFError(f"the agent closed its stdout; last words: {self.messages[-3:]}")
                await self._news.wait()

    async def begin(self, method: str, params: Message) -> int:
        """Sends a request and returns its id."""
        number, self._next_id = self._next_id, self._next_id + 1
        await self._send({"id": number, "method": method, "params": params})
        return number

    async def answer_to(self, number: int, timeout_s: float = TURN_TIMEOUT_S) -> Message:
        """Waits for the response to a request of ours."""
        return await self.wait(
            lambda message: "method" not in message and message.get("id") == number, timeout_s
        )

    async def call(self, method: str, params: Message) -> Message:
        """Sends a request and waits for its response (the whole message)."""
        return await self.answer_to(await self.begin(method, params))

    async def notify(self, method: str, params: Message) -> None:
        await self._send({"method": method, "params": params})

    async def respond(self, request: Message, result: Message) -> None:
        """Answers a request of the agent; its ids start at 0."""
        await self._send({"id": request["id"], "result": result})

    async def initialize(self) -> Message:
        """initialize, offering no file system and no terminal; returns the response."""
        files = {"readTextFile": False, "writeTextFile": False}
        number = await self.begin(
            "initialize",
            {"protocolVersion": 1, "clientCapabilities": {"fs": files, "terminal": False}},
        )
        return await self.answer_to(number, START_TIMEOUT_S)

    async def open_session(self, workspace: Path, mcp_servers: list[Message] | None = None) -> str:
        """initialize and session/new; returns the session id."""
        await self.initialize()
        new = await self.call(
            "session/new", {"cwd": str(workspace), "mcpServers": mcp_servers or []}
        )
        return str(new["result"]["sessionId"])

    async def begin_prompt(self, session: str, text: str) -> int:
        """Sends a prompt and returns the id of the request."""
        return await self.begin(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        )

    def updates(self, kind: str) -> list[Message]:
        """All session updates of a kind so far."""
        updates = (
            message["params"]["update"]
            for message in self.messages
            if message.get("method") == "session/update"
        )
        return [update for update in updates if update["sessionUpdate"] == kind]

    def text(self) -> str:
        """All text of the assistant so far."""
        return "".join(chunk["content"]["text"] for chunk in self.updates("agent_message_chunk"))

    async def _send(self, message: Message) -> None:
        await self._stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


@asynccontextmanager
async def raw_acp(
    command: list[str], env: dict[str, str], cwd: Path, stderr: Path
) -> AsyncGenerator[RawAcp]:
    """Starts an agent; leaving the context ends it and all its descendants."""
    with stderr.open("wb") as errors:
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        try:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("the agent was started without pipes")
            async with anyio.create_task_group() as tasks:
                agent = RawAcp(process.stdin)
                tasks.start_soon(agent.read, process.stdout)
                yield agent
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _end(process: Process) -> None:
    tree = _tree(process.pid)
    if process.stdin is not None:
        await process.stdin.aclose()
    if not await _dead(tree, _EOF_GRACE_S):
        tree = _signal(tree, psutil.Process.terminate)
        if not await _dead(tree, _TERM_GRACE_S):
            await _dead(_signal(tree, psutil.Process.kill), _KILL_GRACE_S)
    with anyio.move_on_after(_KILL_GRACE_S):
        await process.aclose()


def _tree(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _signal(
    tree: list[psutil.Process], send: Callable[[psutil.Process], None]
) -> list[psutil.Process]:
    everyone = {process: None for top in tree for process in (top, *_tree(top.pid))}
    for process in everyone:
        with suppress(psutil.NoSuchProcess):
            send(process)
    return list(everyone)


async def _dead(tree: list[psutil.Process], within_s: float) -> bool:
    with anyio.move_on_after(within_s):
        while any(_lives(process) for process in tree):  # noqa: ASYNC110 - no event for foreign pids
            await anyio.sleep(POLL_S)
        return True
    return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
