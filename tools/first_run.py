"""Owns what `make run` shows: a daemon, one prompt on the demo agent, and how to go on."""

import subprocess
import sys
import tempfile
from pathlib import Path

AGENTCTL = Path(sys.executable).with_name("agentctl")

GO_ON = """
The daemon goes on in the background. Go on with:

    export PATH="{bin}:$PATH"            then agentctl is a command of this shell

    agentctl run demo "run ls -l || say done"    a command: answer its question with y
    agentctl events                              all that happened, again
    agentctl doctor                              which agents this machine has
    agentctl run gemini "what is in this folder?"
    agentctl down                                stops the daemon and all it started

README.md has a first session to copy.
"""


def step(*arguments: str) -> int:
    sys.stderr.write(f"$ agentctl {' '.join(arguments)}\n")
    sys.stderr.flush()
    return subprocess.run([AGENTCTL, *arguments], check=False).returncode


def main() -> int:
    asks = sys.stdin.isatty() and sys.stderr.isatty()
    with tempfile.TemporaryDirectory(prefix="agentctl-demo-") as workspace:
        failed = step("up")
        if not failed:
            if asks:
                sys.stderr.write("It will ask whether it may write a file: answer with y.\n")
            policy = "ask" if asks else "allow"
            failed = step("run", "demo", "hello", "--workspace", workspace, "--approve", policy)
    if not failed:
        sys.stderr.write(GO_ON.format(bin=AGENTCTL.parent))
    return failed


if __name__ == "__main__":
    sys.exit(main())
