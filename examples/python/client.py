"""Prompts an agent with the typed client, shows what it does and answers what it asks for."""

import asyncio
import sys
from pathlib import Path

from agentctl.client import AgentCtl


async def main(agent: str = "demo", prompt: str = "hello", workspace: str = ".") -> None:
    async with AgentCtl.connect() as client:
        session = await client.sessions.create(
            agent, str(Path(workspace).resolve()), policy="ask", wait_ready=True
        )
        run = (await client.runs.create(session.session_id, prompt)).run
        async for event in client.events(runs=[run.run_id]):
            match event.WhichOneof("payload"):
                case "message_chunk":
                    print(event.message_chunk.text, end="", flush=True)
                case "tool_call":
                    print(f"\n[tool] {event.tool_call.title}")
                case "permission_request":
                    asked = event.permission_request
                    print(f"[allowed] {asked.title}")
                    await client.approvals.respond(asked.approval_id, "approve")
                case "complete":
                    print(f"\n[{'completed' if event.complete.outcome == 1 else 'not completed'}]")
                case _:
                    pass
        await client.sessions.close(session.session_id)


asyncio.run(main(*sys.argv[1:]))
