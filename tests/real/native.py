"""What the tests of Claude Code and Codex through the daemon share: the agent's own words, and looks.

Owns how each is told to leave a shell in the background, and how a test sees what is left of it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil

from agentctl import v1
from tests.real.agents import AGENTS
from tests.real.harness import GONE_TIMEOUT_S, POLL_S, TURN_TIMEOUT_S
from tests.real.served import Served

REPOSITORY = Path(__file__).parents[2]
SLEEPER = "sleep 321"

_BACKGROUND = {
    "claude": ("Bash", {"command": f"touch began; {SLEEPER}", "run_in_background": True}),
    # Codex leaves a command in a terminal of its own when it yields before its end.
    "codex": ("exec_command", {"cmd": f"touch began; {SLEEPER}", "yield_time_ms": 250}),
}
MODELS = {"claude": ("sonnet", "my-own-model"), "codex": ("gpt-5.5", "gpt-6.1-sol")}
MODES = {"claude": ("default", "acceptEdits"), "codex": ("untrusted", "auto")}
MCP = {"claude": 'CALL mcp__local__shout {"text": "hello"}', "codex": "MCP local/shout hello"}
_SUBAGENT = {
    "claude": (
        "Agent",
        {
            "description": "helper",
            "prompt": "SAYTEXT from the child",
            "subagent_type": "general-purpose",
        },
    ),
    "codex": ("spawn_agent", {"task_name": "child", "message": "SAYTEXT from the child"}),
}
# The model whose tools Codex offers together with the one that makes a subagent.
SUBAGENT_MODEL = {"claude": "sonnet", "codex": "gpt-6.1-sol"}
BUSY_MODEL = {"claude": "FAIL 529", "codex": "FAIL 500"}


def background(agent: str, then: str = "SAYTEXT it runs") -> str:
    """A prompt that leaves a shell in the background and goes on."""
    name, arguments = _BACKGROUND[agent]
    return f"CALL {name} {json.dumps(arguments)} || {then}"


def subagent(agent: str) -> str:
    """A prompt that has a subagent say `from the child`, and then says `done` itself."""
    name, arguments = _SUBAGENT[agent]
    return f"CALL {name} {json.dumps(arguments)} || SAYTEXT done"


async def session_of(served: Served, **how: Any) -> v1.Session:
    """A session in which commands need leave."""
    script = AGENTS[served.entry].script(served.home)
    return await served.session(**{**script.create(), **how})


async def allow(served: Served, run: str, nth: int = 1) -> None:
    request = await served.asked(run, nth)
    await served.client.approvals.respond(request["approval_id"], "approve")


async def began(served: Served) -> None:
    """Waits until the command in the background is there."""
    path = served.home.workspace / "began"
    with anyio.fail_after(TURN_TIMEOUT_S):
        while not path.exists() or not sleepers(served):  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(POLL_S)


def sleepers(served: Served) -> list[psutil.Process]:
    """The commands that a test left in the background."""
    found: list[psutil.Process] = []
    for process in served.agent_processes():
        try:
            if process.cmdline() == SLEEPER.split():
                found.append(process)
        except psutil.Error:
            continue
    return found


async def no_sleeper(served: Served) -> None:
    with anyio.fail_after(GONE_TIMEOUT_S):
        while sleepers(served):  # noqa: ASYNC110 - no event for foreign pids
            await anyio.sleep(POLL_S)


def local_server() -> v1.McpServer:
    """An MCP server of the tests."""
    env = {"PYTHONPATH": str(REPOSITORY)}
    argv = ["-m", "tests.fakes.mcp_server"]
    return v1.McpServer(name="local", command=sys.executable, args=argv, env=env)
