"""Owns the command `chat`: a conversation at the terminal, one prompt after the other."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, inputs, options
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

LEAVE = frozenset({"/exit", "/quit"})


def chat(
    target: Annotated[
        str,
        typer.Argument(
            metavar="AGENT|SESSION",
            help="An entry to start, or an open session.",
            autocompletion=completion.entries_or_sessions,
        ),
    ],
    workspace: options.Workspace = None,
    model: options.Model = None,
    mode: options.Mode = None,
    approve: options.ApproveOption = None,
    mcp_config: options.McpConfig = None,
) -> None:
    """Talks with an agent; answers its requests at the keyboard. /exit or Ctrl-D leaves.

    A session that was made here is closed at the end; one that was there stays.

    \b
    Examples:
      agentctl chat gemini --workspace ~/api
      agentctl chat ses_01k…9c4f
    """

    servers = inputs.mcp_servers(mcp_config)

    async def work(client: "AgentCtl") -> None:
        session_id, ours = await _open(client, target, workspace, model, mode, approve, servers)
        try:
            await _talk(client, session_id)
        finally:
            if ours:
                await _close(client, session_id)

    go(work, start=True)


async def _open(
    client: "AgentCtl",
    target: str,
    workspace: Any,
    model: str | None,
    mode: str | None,
    approve: str | None,
    servers: Any,
) -> tuple[str, bool]:
    """(session, whether we made it)."""
    from agentctl.cli.ids import is_full, resolve
    from agentctl.cli.starting import new_session

    entries = {each.entry_id for each in (await client.registry.list(page_size=1000)).entries}
    if target not in entries:
        known = await resolve(client, "session", target)
        if is_full(known):
            return known, False
    create = partial(
        client.sessions.create,
        await inputs.named_agent(client, target),
        inputs.workspace(workspace),
        model=model,
        mode=mode,
        policy=approve or "",
        mcp_servers=servers,
        env=await inputs.caller_env(client, target),
    )
    return (await new_session(client, target, create)).session_id, True


async def _talk(client: "AgentCtl", session_id: str) -> None:
    from agentctl.cli.follow import What
    from agentctl.cli.following import follow
    from agentctl.cli.lines import read_lines

    first = True
    while True:
        line = await read_lines()
        if line is None or line.strip() in LEAVE:
            return
        if not line.strip():
            continue
        after = (await client.daemon.get_info()).head_cursor
        made = await client.runs.create(session_id, line)
        what = What(session_id, made.run.run_id, after, header=first)
        await follow(client, what, as_json=False)
        first = False


async def _close(client: "AgentCtl", session_id: str) -> None:
    import anyio

    # The stop ladder of an agent takes up to 20 s; nobody wants to wait longer at an exit.
    with anyio.move_on_after(30, shield=True):
        await client.sessions.close(session_id)


COMMANDS: Sequence[Any] = (chat,)
