"""Runs a prompt, allows all it asks for, and fetches what it made into a directory."""

import asyncio
import sys
from pathlib import Path

from agentctl.client import AgentCtl, Unsupported


async def main(
    agent: str = "demo",
    prompt: str = "write made.txt text",
    workspace: str = ".",
    target: str = "artifacts",
) -> None:
    async with AgentCtl.connect() as client:
        run = await client.agent(agent).run(prompt, workspace=Path(workspace), policy="allow")
        result = await run.wait()
        folder = Path(target)
        folder.mkdir(parents=True, exist_ok=True)
        for artifact in await run.artifacts.list():
            name = f"{artifact.id}-{Path(artifact.title or artifact.type).name}"
            try:
                path = await artifact.download(folder / name)
                print(f"[{artifact.type}] {artifact.title}: {path.stat().st_size} bytes")
            except Unsupported:
                print(f"[{artifact.type}] {artifact.url or artifact.path}")
        print(f"[{result.status}]")


asyncio.run(main(*sys.argv[1:]))
