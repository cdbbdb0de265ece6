"""Owns the question whether Codex's sandbox works on this machine, asked with its own probe.

Where it does not, Codex says nothing: every command fails and every patch asks to go without it.
"""

import logging
from pathlib import Path

import anyio

from agentctl.core.adapter import Launch
from agentctl.process.errors import SpawnFailed
from agentctl.process.spawn import SpawnSpec, spawn

logger = logging.getLogger(__name__)

# The probe runs `true`, in 50 ms where it works; a machine that swaps is given more.
PROBE_TIMEOUT_S = 20.0
_WORDS_BYTES = 4096

_works: set[str] = set()
"""Programs whose sandbox has worked: that does not change while the daemon runs."""


async def sandbox_fault(program: str, launch: Launch) -> str | None:
    """Why no command can run in the sandbox, in the probe's words; None when they can."""
    known = f"{program} {launch.env.get('PATH', '')}"
    if known in _works:
        return None
    argv, cookie = (program, "sandbox", "true"), f"{launch.cookie}.probe"
    spec = SpawnSpec(argv, launch.env, Path(launch.cwd), cookie, stdin_pipe=False)
    try:
        with anyio.fail_after(PROBE_TIMEOUT_S):
            async with spawn(spec, redact=launch.redact) as process:
                said = b""
                while chunk := await process.read():
                    said = (said + chunk)[:_WORDS_BYTES]
                end = await process.wait_exit()
                tail = " ".join(process.stderr_tail)
    except (SpawnFailed, TimeoutError) as error:
        logger.debug("the sandbox of %s could not be probed: %s", program, error)
        return None
    if end.code == 0:
        _works.add(known)
        return None
    return tail or said.decode("utf-8", "replace").strip() or f"exit code {end.code}"
