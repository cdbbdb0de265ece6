"""The real Codex, made hermetic, behind its adapter. Knows neither the daemon nor a test."""

import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import psutil

from agentctl.core.adapter import PermissionAnswer
from agentctl.core.words import Decision
from agentctl_adapters.codex.connection import CodexConnection
from tests.adapters.codex.harness import Seen, running
from tests.real.harness import (
    FAKE_KEY,
    NODE_MODULES,
    Home,
    Model,
    Recipe,
    agent_env,
    processes_of,
    wait_until_gone,
)

# A real slug decides which tools Codex offers: this one has them directly, the other as a script.
DIRECT, SCRIPTED = "gpt-5.5", "gpt-6.1-sol"
CONFIG = """
model = "{model_name}"
model_provider = "scripted"
check_for_update_on_startup = false
suppress_unstable_features_warning = true
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
env_key = "{key}"
request_max_retries = 1
stream_max_retries = 1
stream_idle_timeout_ms = 60000
[analytics]
enabled = false
[features]
unbounded_connection_retries = false
apps = false
plugins = false
goals = false
shell_snapshot = false
default_mode_request_user_input = true
[tools]
update_plan = {{enabled = true}}
"""

CODEX = Recipe(
    name="codex",
    protocol="codex",
    binary="codex",
    arguments=("app-server",),
    env={"SCRIPTED_KEY": FAKE_KEY},
)

ONCE = PermissionAnswer(Decision.APPROVED, "accept")
NO = PermissionAnswer(Decision.DENIED, "decline")


def configure(home: Home, model: Model, *, key: str = "SCRIPTED_KEY") -> Path:
    """Writes the settings of a home, with the variable that holds the key; returns the file."""
    path = home.home / ".codex/config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(CONFIG.format(model_name=DIRECT, url=model.url, key=key))
    return path


@dataclass
class Real:
    """The real app-server, and what was heard of it."""

    codex: CodexConnection
    seen: Seen


@asynccontextmanager
async def codex(
    home: Home, model: Model, program: str = "codex", **how: Any
) -> AsyncGenerator[Real]:
    """Starts it; at the end nothing of it is left."""
    env = agent_env(home, model.url, CODEX)
    binaries = f"{NODE_MODULES / '.bin'}:{env['PATH']}"
    seen = Seen()
    async with running((program, "app-server"), seen, env={**env, "PATH": binaries}, **how) as (
        connection,
        _,
    ):
        yield Real(connection, seen)
    await wait_until_gone(home)


def without_namespaces(home: Home) -> str:
    """A program that starts Codex where no further user namespace can be made."""
    (real,) = (NODE_MODULES / "@openai/codex-linux-x64/vendor").glob("*/bin/codex")
    program = home.root / "codex-confined"
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" "$@"'
    program.write_text(f"#!/bin/sh\nexec unshare -Ur sh -c '{forbid}' {real} \"$@\"\n")
    program.chmod(0o755)
    return str(program)


def running_in(home: Home, name: str) -> list[int]:
    """Pids of the programs of this name that were started with this home."""
    found: list[int] = []
    for process in processes_of(home):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == name:
                found.append(process.pid)
    return found


async def until(ready: Callable[[], object]) -> None:
    """Waits for what no event of the agent tells (a file, a process)."""
    with anyio.fail_after(10):
        while not ready():  # noqa: ASYNC110 - the file system tells nobody
            await anyio.sleep(0.02)
