"""Owns the command `chat`: a conversation at the terminal, one prompt after the other."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, inputs, options
from agentctl.cli.state import go

if TYPE_CHECKING:
    from agentctl.cli.follow import What
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

    What you type while it works is its next prompt; Ctrl-C cancels what it is at. A session that
    was made here is closed at the end; one that was there stays.

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
    """One prompt after the other; what is typed while the agent works is queued and shown in turn."""
    from agentctl.cli.following import follow
    from agentctl.cli.lines import read_lines

    queue = await _going_on(client, session_id)
    drafts: list[str] = []
    first = True

    async def send(line: str) -> str:
        what = await _prompt(client, session_id, line)
        queue.append(what)
        return "queued"

    while True:
        if not queue:
            line = await read_lines(drafts.pop() if drafts else "")
            if line is None or line.strip() in LEAVE:
                return
            if not line.strip():
                continue
            queue.append(await _prompt(client, session_id, line))
        what = queue.pop(0)
        what.header = first
        await follow(client, what, as_json=False, send=send, keep=drafts.append)
        first = False


async def _prompt(client: "AgentCtl", session_id: str, line: str) -> "What":
    from agentctl.cli.follow import What

    after = (await client.daemon.get_info()).head_cursor
    made = await client.runs.create(session_id, line)
    return What(session_id, made.run.run_id, after)


async def _going_on(client: "AgentCtl", session_id: str) -> "list[What]":
    """The run that a session is at, with what it waits for: who comes late can answer it."""
    from agentctl.cli.follow import What
    from agentctl.rpc.jsonview import to_dict

    after = (await client.daemon.get_info()).head_cursor
    runs = (await client.runs.list(session_id=session_id, states=["running"])).runs
    if not runs:
        return []
    run_id = runs[0].run_id
    approvals = (await client.approvals.list(session_id=session_id)).approvals
    questions = (await client.questions.list(session_id=session_id)).questions
    asked = [
        *((each.approval_id, to_dict(each.request), False) for each in approvals),
        *((each.question_id, to_dict(each.request), True) for each in questions),
    ]
    return [What(session_id, run_id, after, begun=True, asked=asked)]


async def _close(client: "AgentCtl", session_id: str) -> None:
    import anyio

    # The stop ladder of an agent takes up to 20 s; nobody wants to wait longer at an exit.
    with anyio.move_on_after(30, shield=True):
        await client.sessions.close(session_id)


COMMANDS: Sequence[Any] = (chat,)
