"""Owns a call whose session is watched: the answer and the events, to the end of the turn it began."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio

from agentctl.gateway.tool.tool import OpenCodeTool

Json = dict[str, Any]


async def follow(
    tool: OpenCodeTool, request: Mapping[str, Any], show: Callable[[Json], None]
) -> bool:
    """Shows the answer of a call and the events of its session; whether the call succeeded.

    Where the call sent a message it ends with that turn; else it goes on until it is cancelled.

    Raises:
        ToolError: events are switched off, nothing is connected, or there is no such session.
    """
    wanted: list[Any] = [request.get("session_id")]
    early: list[Json] = []
    answer: list[Json] = []
    over = anyio.Event()

    def take(event: Json) -> None:
        if event["session_id"] != wanted[0]:
            return
        show(event)
        if event["type"] == "agent.complete":
            over.set()

    async with tool.events() as feed, anyio.create_task_group() as group:

        async def listen() -> None:
            async for event in feed:
                if wanted[0] is None:
                    early.append(event)
                else:
                    take(event)

        group.start_soon(listen)
        answer.append(await tool(request))
        show(answer[0])
        if answer[0]["success"]:
            wanted[0] = answer[0].get("session_id")
            for event in early:
                take(event)
            await (over.wait() if request.get("message") else anyio.sleep_forever())
        group.cancel_scope.cancel()
    return bool(answer[0]["success"])
