"""The real Claude Code, made hermetic, behind its adapter. Knows neither the daemon nor a test."""

import platform
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from agentctl.core.adapter import PermissionAnswer
from agentctl.core.events import Complete, ToolUpdate
from agentctl.core.ids import NativeSessionId
from agentctl.core.words import Decision, ToolStatus
from agentctl_adapters.claude.connection import ClaudeConnection
from tests.adapters.claude.claude_harness import (
    Seen,
    connected,
    launch,
    request_of,
    say,
    spec,
    text,
)
from tests.real.harness import (
    FAKE_KEY,
    NODE_MODULES,
    POLL_S,
    TURN_TIMEOUT_S,
    Home,
    Model,
    Recipe,
    agent_env,
    wait_until_gone,
)

_ARCH = {"x86_64": "x64", "aarch64": "arm64"}

CLAUDE = Recipe(
    name="claude",
    protocol="claude-code",
    binary="claude",
    arguments=(),
    env={
        "ANTHROPIC_API_KEY": FAKE_KEY,
        "ANTHROPIC_BASE_URL": "{model}",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
    },
)


def binary() -> Path:
    """The native program; the npm package links it only when install scripts may run.

    Raises:
        FileNotFoundError: it is not installed.
    """
    arch = _ARCH.get(platform.machine(), platform.machine())
    package = f"claude-code-{platform.system().lower()}-{arch}"
    path = NODE_MODULES / "@anthropic-ai" / package / "claude"
    if not path.exists():
        raise FileNotFoundError(f"{path}: run `npm ci` in {NODE_MODULES.parent}")
    return path


ONCE = PermissionAnswer(Decision.APPROVED, "allow")
NO = PermissionAnswer(Decision.DENIED, "reject", "Not in this house.")


@dataclass
class Real:
    """One conversation with the real program, and what was heard of it."""

    connection: ClaudeConnection
    seen: Seen
    native: NativeSessionId = field(default=NativeSessionId(""))

    async def say(self, words: str) -> Complete:
        return await say(self.connection, self.seen, self.native, words)

    async def begin(self, words: str) -> None:
        await self.connection.prompt(self.native, text(words))

    async def answer(self, answer: PermissionAnswer, nth: int = 1) -> Any:
        asked = await self.seen.asked(nth)
        await self.connection.answer_permission(request_of(asked), answer)
        return asked

    def status(self, tool: str) -> ToolStatus | None:
        told = [u.status for u in self.seen.of(ToolUpdate) if u.tool_call_id == tool and u.status]
        return told[-1] if told else None


@asynccontextmanager
async def real(
    home: Home, model: Model, *, without: tuple[str, ...] = (), alone: bool = True, **how: Any
) -> AsyncGenerator[Real]:
    env = {k: v for k, v in agent_env(home, model.url, CLAUDE).items() if k not in without}
    seen = Seen()
    made = launch((str(binary()),), home.workspace, seen, env={**env, **how.pop("env", {})}, **how)
    async with connected(made, seen) as connection:
        yield Real(connection, seen)
    if alone:
        await wait_until_gone(home)


async def exists(path: Path) -> None:
    """Waits until a tool has made a file."""
    with anyio.fail_after(TURN_TIMEOUT_S):
        while not path.exists():  # noqa: ASYNC110, ASYNC240 - nobody tells of it
            await anyio.sleep(POLL_S)


@asynccontextmanager
async def begun(home: Home, fake: Model, **asked: Any) -> AsyncGenerator[Real]:
    """A new conversation, asked for with these words of a session's spec."""
    async with real(home, fake) as it:
        it.native = await it.connection.new_session(spec(home.workspace, **asked))
        yield it
