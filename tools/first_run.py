"""Owns what `make run` shows: a daemon, one prompt on the demo agent, and how to go on."""

import subprocess
import sys
import tempfile
from pathlib import Path

AGENTCTL = Path(sys.executable).with_name("agentctl")

GO_ON = """
The daemon goes on in the background. Go on with:

    {agentctl} run demo "run ls -l || say done" --workspace .    answer its question with y
    {agentctl} events                                            read all of it again
    {agentctl} doctor                                            which agents this machine has
    {agentctl} run gemini "what is in this folder?" --workspace .
    {agentctl} down                                              stop the daemon and all it started
"""


def step(*arguments: str) -> int:
    sys.stderr.write(f"$ {AGENTCTL.name} {' '.join(arguments)}\n")
    sys.stderr.flush()
    return subprocess.run([AGENTCTL, *arguments], check=False).returncode


def main() -> int:
    workspace = tempfile.mkdtemp(prefix="agentctl-demo-")
    failed = step("up")
    if not failed:
        policy = "ask" if sys.stdin.isatty() and sys.stderr.isatty() else "allow"
        prompt = ("run", "demo", "hello", "--workspace", workspace, "--approve", policy)
        failed = step(*prompt)
    if not failed:
        shown = AGENTCTL.relative_to(Path.cwd()) if AGENTCTL.is_relative_to(Path.cwd()) else AGENTCTL
        sys.stderr.write(GO_ON.format(agentctl=shown))
    return failed


if __name__ == "__main__":
    sys.exit(main())
