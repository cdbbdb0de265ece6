"""Answers what an agent asks: the first option where there are some, else a line from the keyboard."""

import asyncio
import sys
from pathlib import Path

from agentctl.client import AgentCtl, Question


async def answer(question: Question) -> None:
    print(f"[asked] {question.text}")
    if question.schema:
        # A form: here each of its fields gets the same text.
        line = (await asyncio.to_thread(sys.stdin.readline)).strip()
        await question.answer(content=dict.fromkeys(question.schema["properties"], line))
        return
    given: list[str] = []
    for item in question.questions:
        if item.options:
            given.append(item.options[0].id)
        else:
            given.append((await asyncio.to_thread(sys.stdin.readline)).strip())
    await question.answer(*given)


async def main(agent: str = "demo", prompt: str = "ask Which?", workspace: str = ".") -> None:
    async with AgentCtl.connect() as client:
        run = await client.agent(agent).run(prompt, workspace=Path(workspace))
        run.on_question(answer)
        result = await run.wait()
        print(result.text)
        print(f"[{result.status}]")


asyncio.run(main(*sys.argv[1:]))
