"""Owns waiting for an agent's start with a word on the screen about why it takes long."""

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio

from agentctl import v1
from agentctl.cli.out import err, plain
from agentctl.cli.render import SPINNER
from agentctl.cli.screen import Screen

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

# A session that is resumed may wait on an agent that is ready.
_GOING = (v1.AgentState.AGENT_STATE_STARTING, v1.AgentState.AGENT_STATE_READY)

# A spinner should turn, not flicker.
TICK_S = 0.15
# Closing ends the process, which takes as long as its stop ladder; Ctrl-C again leaves at once.
CLOSE_S = 20.0


async def new_session(
    client: "AgentCtl", entry_id: str, create: Callable[..., Awaitable[v1.Session]]
) -> v1.Session:
    """A session that is ready. One whose start is interrupted is closed: nobody knows its id.

    Args:
        create: Sessions.Create with all but `idempotency_key` and `wait_ready`.
    """
    key = uuid4().hex
    try:
        return await watched(client, entry_id, create(idempotency_key=key, wait_ready=True))
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(CLOSE_S, shield=True):
            session = await create(idempotency_key=key)
            await client.sessions.close(session.session_id, force=True)
        raise


async def watched(client: "AgentCtl", entry_id: str, starting: Awaitable[v1.Session]) -> v1.Session:
    """Waits for a session that is being made; shows what the start of its agent says meanwhile."""
    screen = Screen(err())
    words = [f"starting {entry_id}"]
    made: list[v1.Session] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_hear, client, entry_id, words, screen)
        group.start_soon(_spin, words, screen)
        try:
            made.append(await starting)
        finally:
            screen.bottom("")
            group.cancel_scope.cancel()
    return made[0]


async def _hear(client: "AgentCtl", entry_id: str, words: list[str], screen: Screen) -> None:
    async for event in client.events("now", types=["agent_status"]):
        status = event.agent_status
        if status.entry_id != entry_id or status.state not in _GOING:
            continue
        detail = plain(status.detail)
        told = f"{entry_id}: {detail}"
        if detail and told != words[-1]:
            words.append(told)
            if not screen.out.is_terminal:
                screen.line(told)


async def _spin(words: list[str], screen: Screen) -> None:
    began = time.monotonic()
    turn = 0
    while True:
        await anyio.sleep(TICK_S)
        turn += 1
        passed = time.monotonic() - began
        screen.bottom(f"{SPINNER[turn % len(SPINNER)]} {words[-1]} … {passed:.0f} s")
