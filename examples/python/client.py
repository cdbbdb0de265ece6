"""Prompts an agent with the Python SDK, shows what it does and allows what it asks for."""

import asyncio
import sys
from pathlib import Path

from agentctl.client import AgentCtl, Approval


async def allow(request: Approval) -> None:
    print(f"[allowed] {request.summary}")
    await request.approve_once()


async def main(agent: str = "demo", prompt: str = "hello", workspace: str = ".") -> None:
    async with AgentCtl.connect() as client:
        run = await client.agent(agent).run(prompt, workspace=Path(workspace))
        run.on_approval(allow)
        async for event in run.events():
            match event.family:
                case "assistant.delta":
                    print(event.text, end="", flush=True)
                case "tool.call.started":
                    print(f"\n[tool] {event.data.get('title', '')}")
                case _:
                    pass
        print(f"\n[{(await run.wait()).status}]")


asyncio.run(main(*sys.argv[1:]))
