"""Owns the terminals that an agent may run through us: commands in the workspace, ended with it.

Each command runs under the same guard as an agent, so that nothing of it is left. Knows no pipe to the
agent and answers no request by itself.
"""

import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from agentctl.core.adapter import Launch
from agentctl.process.errors import SpawnFailed
from agentctl.process.spawn import Exit, Process, SpawnSpec, spawn
from agentctl_adapters.acp.workspace import FileRefused, Workspace
from agentctl_adapters.common.shapes import Json, as_objects, as_text, as_words

# Kept of one command's output when the agent names no limit, and at most when it does.
DEFAULT_OUTPUT_BYTES = 1024 * 1024
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_TERMINALS = 32
# Output that a dead command left in its pipe; a stray that holds the pipe is not waited for.
OUTPUT_AFTER_EXIT_S = 0.5
# One pipe for both streams, so that their lines keep their order.
_MERGED = ("/bin/sh", "-c", 'exec "$@" 2>&1', "sh")


class TerminalUnknown(Exception):
    """There is no such terminal, or it was released."""


@dataclass(slots=True)
class _Terminal:
    session: str
    limit: int
    ready: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    process: Process | None = None
    failed: str = ""
    exit: Exit | None = None
    pieces: deque[bytes] = field(default_factory=deque[bytes])
    size: int = 0
    truncated: bool = False

    def keep(self, chunk: bytes) -> None:
        self.pieces.append(chunk)
        self.size += len(chunk)
        while self.size > self.limit:
            self.truncated = True
            over, first = self.size - self.limit, self.pieces.popleft()
            self.size -= min(over, len(first))
            if over < len(first):
                self.pieces.appendleft(first[over:])

    def text(self) -> str:
        data = b"".join(self.pieces)
        if self.truncated:
            start = next((i for i, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
            data = data[start:]
        return data.decode("utf-8", "replace")


class Terminals:
    """The terminals of one process; they run in `group`, which its owner sets and ends."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._terminals: dict[str, _Terminal] = {}
        self._numbers: Iterator[int] = count(1)
        self.group: TaskGroup | None = None

    async def create(self, params: Json, workspace: Workspace) -> Json:
        """Starts a command.

        Raises:
            FileRefused: its directory is outside, it cannot be started, or there are too many.
        """
        assert self.group is not None
        if len(self._terminals) >= MAX_TERMINALS:
            raise FileRefused(f"{MAX_TERMINALS} terminals are open: release one first")
        cwd = workspace.directory(as_text(params.get("cwd")) or workspace.root)
        limit = params.get("outputByteLimit")
        wanted = limit if isinstance(limit, int) else DEFAULT_OUTPUT_BYTES
        terminal = _Terminal(as_text(params.get("sessionId")), min(wanted, MAX_OUTPUT_BYTES))
        name = f"term_{next(self._numbers)}"
        self._terminals[name] = terminal
        env = {
            as_text(e.get("name")): as_text(e.get("value")) for e in as_objects(params.get("env"))
        }
        spec = SpawnSpec(
            argv=_argv(params),
            env={**self._launch.env, **env},
            cwd=Path(cwd),
            cookie=f"{self._launch.cookie}.{name}",
            stdin_pipe=False,
        )
        self.group.start_soon(self._run, terminal, spec)
        await terminal.ready.wait()
        if terminal.failed:
            del self._terminals[name]
            raise FileRefused(terminal.failed)
        return {"terminalId": name}

    async def output(self, params: Json) -> Json:
        terminal = self._named(params)
        told: Json = {"output": terminal.text(), "truncated": terminal.truncated}
        if terminal.ended.is_set():
            told["exitStatus"] = _status(terminal)
        return told

    async def wait_for_exit(self, params: Json) -> Json:
        terminal = self._named(params)
        await terminal.ended.wait()
        return _status(terminal)

    async def kill(self, params: Json) -> Json:
        """Ends the command; the terminal and its output stay until released."""
        terminal = self._named(params)
        if terminal.process is not None:
            terminal.process.kill()
        return {}

    async def release(self, params: Json) -> Json:
        terminal = self._named(params)
        del self._terminals[as_text(params.get("terminalId"))]
        _end(terminal)
        return {}

    def release_session(self, session: str) -> None:
        for name, terminal in list(self._terminals.items()):
            if terminal.session == session:
                del self._terminals[name]
                _end(terminal)

    def _named(self, params: Json) -> _Terminal:
        name = as_text(params.get("terminalId"))
        terminal = self._terminals.get(name)
        if terminal is None or terminal.session != as_text(params.get("sessionId")):
            raise TerminalUnknown(repr(name))
        return terminal

    async def _run(self, terminal: _Terminal, spec: SpawnSpec) -> None:
        try:
            async with spawn(spec, redact=self._launch.redact) as process:
                terminal.process = process
                terminal.ready.set()
                await self._follow(terminal, process)
        except SpawnFailed as error:
            terminal.failed = str(error)
        finally:
            terminal.ready.set()
            terminal.ended.set()

    async def _follow(self, terminal: _Terminal, process: Process) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_collect, terminal, process)
                terminal.exit = await process.wait_exit()
                group.cancel_scope.deadline = anyio.current_time() + OUTPUT_AFTER_EXIT_S
        finally:
            process.kill()


async def _collect(terminal: _Terminal, process: Process) -> None:
    while chunk := await process.read():
        terminal.keep(chunk)


def _end(terminal: _Terminal) -> None:
    if terminal.process is not None:
        terminal.process.kill()


def _argv(params: Json) -> tuple[str, ...]:
    command, words = as_text(params.get("command")), as_words(params.get("args"))
    if not command:
        raise FileRefused("a terminal needs a command")
    # Some agents send a whole shell line as the command and no arguments.
    if not words and " " in command.strip():
        return (*_MERGED, "/bin/sh", "-c", command)
    return (*_MERGED, command, *words)


def _status(terminal: _Terminal) -> Json:
    if terminal.exit is None:
        return {"exitCode": None, "signal": None}
    number = terminal.exit.signal
    return {
        "exitCode": terminal.exit.code,
        "signal": None if number is None else _signal_name(number),
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
