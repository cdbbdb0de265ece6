"""Decides by rule what an agent may do: some commands are allowed, some refused, the rest is a person's."""

import asyncio
import sys
from fnmatch import fnmatch
from pathlib import Path

from agentctl.client import AgentCtl, Approval

ALLOWED = ("ls*", "git status*", "echo *")
REFUSED = ("rm *", "sudo *")


async def decide(request: Approval) -> None:
    command = request.command or ""
    if any(fnmatch(command, pattern) for pattern in ALLOWED):
        print(f"[allowed] {command}")
        await request.approve_once(reason="on the list")
    elif any(fnmatch(command, pattern) for pattern in REFUSED):
        print(f"[refused] {command}")
        await request.deny(reason="This program never allows that: do it in another way.")
    else:
        print(f"[waits for a person] {request.summary}: agentctl approve {request.id}")
        await request.ask_user()


async def main(agent: str = "demo", prompt: str = "run ls", workspace: str = ".") -> None:
    async with AgentCtl.connect() as client:
        run = await client.agent(agent).run(prompt, workspace=Path(workspace))
        run.on_approval(decide)
        result = await run.wait()
        print(result.text)
        print(f"[{result.status}]")


asyncio.run(main(*sys.argv[1:]))
