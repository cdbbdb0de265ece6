"""Owns the commands that prompt: run, prompt, cancel; and start and stop of what they need."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import completion, inputs, options
from agentctl.cli.state import go
from agentctl.core.errors import AgentctlError

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.cli.follow import What
    from agentctl.client import AgentCtl


def run(
    agent: options.Agent,
    prompt: options.Prompt,
    workspace: options.Workspace = None,
    model: options.Model = None,
    mode: options.Mode = None,
    approve: options.ApproveOption = None,
    mcp_config: options.McpConfig = None,
    file: options.Files = None,
    timeout: options.Timeout = None,
    on_ask: options.OnAskOption = options.OnAsk.WAIT,
    url: options.Url = None,
    auth: options.Auth = None,
    environment: options.Environment = None,
    branch: options.Branch = None,
    base: options.Base = None,
    keep: options.Keep = None,
    as_json: options.Json = False,
) -> None:
    """Starts an agent, prompts it, shows what it does, stops it.

    \b
    Examples:
      agentctl run gemini "make the failing test pass" --workspace ~/api
      git diff | agentctl run claude-acp - --approve deny --json
    """
    login = inputs.attach_auth(url, auth)
    given = inputs.blocks(inputs.read_prompt(prompt), file or [])
    servers = inputs.mcp_servers(mcp_config)
    place = inputs.environment(environment, branch=branch, base=base, keep=keep)

    async def work(client: "AgentCtl") -> int:
        after = (await client.daemon.get_info()).head_cursor
        session = await client.sessions.create(
            await inputs.named_agent(client, agent),
            inputs.workspace(workspace),
            model=model,
            mode=mode,
            policy=approve or "",
            url=url,
            auth=login,
            mcp_servers=servers,
            env=await inputs.caller_env(client, agent),
            environment=environment,
            environment_options=place,
            close_when_done=True,
        )
        try:
            made = await client.runs.create(session.session_id, given, timeout_ms=_ms(timeout))
        except AgentctlError:
            await client.sessions.close(session.session_id)
            raise
        what = _what(session.session_id, made.run.run_id, after, on_ask)
        what.closes, what.entry_id = True, session.entry_id
        return await _follow(client, what, as_json)

    raise typer.Exit(go(work, start=True))


def prompt(
    session: options.Session,
    prompt: options.Prompt,
    model: options.Model = None,
    mode: options.Mode = None,
    file: options.Files = None,
    timeout: options.Timeout = None,
    if_busy: Annotated[
        options.IfBusy, typer.Option(help="queue, reject, interrupt it, or steer it.")
    ] = options.IfBusy.QUEUE,
    on_ask: options.OnAskOption = options.OnAsk.WAIT,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Print the run; do not follow.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Prompts a session and shows what its agent does.

    \b
    Examples:
      agentctl prompt 9c4f "now write the changelog"
      agentctl prompt 9c4f "stop and explain" --if-busy interrupt
    """
    given = inputs.blocks(inputs.read_prompt(prompt), file or [])

    async def work(client: "AgentCtl") -> int:
        from agentctl.cli.ids import resolve

        identifier = await resolve(client, "session", session)
        after = (await client.daemon.get_info()).head_cursor
        made = await client.runs.create(
            identifier,
            given,
            if_busy=if_busy,
            timeout_ms=_ms(timeout),
            model=model,
            mode=mode,
        )
        if no_wait:
            _print_made(made, as_json)
            return 0
        what = _what(made.run.session_id, made.run.run_id, after, on_ask)
        return await _follow(client, what, as_json)

    raise typer.Exit(go(work, start=True))


def cancel(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN_ID|SESSION_ID",
            help="What to cancel.",
            autocompletion=completion.runs_or_sessions,
        ),
    ],
    drop_queue: Annotated[
        bool, typer.Option("--drop-queue", help="Cancel the prompts behind it too.")
    ] = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Cancels a run, or whatever runs in a session.

    \b
    Examples:
      agentctl cancel run_01k…9c4f
      agentctl cancel 77ab --drop-queue
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve_any
        from agentctl.cli.out import out, print_message

        kind, identifier = await resolve_any(client, target, ("session", "run"))
        names: dict[str, str] = {f"{kind}_id": identifier}
        found = await client.runs.cancel(**names, drop_queue=drop_queue, force=force)
        if as_json:
            print_message(found)
        elif found.HasField("run"):
            out().line(f"cancelling {found.run.run_id}")
        else:
            out().line("nothing runs there")

    go(work)


def start(
    agent: options.Agent,
    workspace: options.Workspace = None,
    model: options.Model = None,
    mode: options.Mode = None,
    approve: options.ApproveOption = None,
    mcp_config: options.McpConfig = None,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="A name for people.")] = None,
    key: Annotated[str | None, typer.Option(metavar="K", help="A key of your own.")] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="SES", help="Take up a session, ours or the agent's own."),
    ] = None,
    url: options.Url = None,
    auth: options.Auth = None,
    environment: options.Environment = None,
    branch: options.Branch = None,
    base: options.Base = None,
    keep: options.Keep = None,
    as_json: options.Json = False,
) -> None:
    """Starts an agent with an open session to prompt.

    \b
    Examples:
      agentctl start gemini --workspace ~/api --model gemini-2.5-flash
      agentctl start gemini --resume ses_01k…9c4f
    """
    login = inputs.attach_auth(url, auth)
    servers = inputs.mcp_servers(mcp_config)
    into = inputs.environment(environment, branch=branch, base=base, keep=keep)

    async def work(client: "AgentCtl") -> None:
        from agentctl import v1
        from agentctl.cli.ids import is_full, resolve
        from agentctl.cli.starting import new_session, watched

        env = await inputs.caller_env(client, agent)
        place = inputs.workspace(workspace)
        known = await resolve(client, "session", resume) if resume else ""
        if not resume:
            create = partial(
                client.sessions.create,
                await inputs.named_agent(client, agent),
                place,
                model=model,
                mode=mode,
                key=key,
                name=name,
                policy=approve or "",
                url=url,
                auth=login,
                mcp_servers=servers,
                env=env,
                environment=environment,
                environment_options=into,
            )
            _print_started(await new_session(client, agent, create), as_json)
            return
        if is_full(known):
            starting = client.sessions.resume(known, wait_ready=True)
        else:
            wanted = v1.CreateSessionRequest(
                agent=agent,
                workspace=place,
                model=model,
                mode=mode,
                key=key,
                name=name,
                policy=v1.Policy.Value(f"POLICY_{(approve or 'unspecified').upper()}"),
                url=url,
                auth=login,
                mcp_servers=servers,
                env=env,
                environment=environment,
                environment_options=into,
            )
            starting = client.sessions.resume(
                entry_id=agent, native_session_id=resume, create=wanted, wait_ready=True
            )
        _print_started(await watched(client, agent, starting), as_json)

    go(work, start=True)


def _print_started(session: "v1.Session", as_json: bool) -> None:
    from agentctl.cli.out import out, print_json

    told = {
        "agent_id": session.agent_id,
        "session_id": session.session_id,
        "native_session_id": session.native_session_id,
    }
    if as_json:
        from agentctl.rpc.jsonview import to_dict

        print_json(told | to_dict(session))
        return
    for label, value in told.items():
        out().line(f"{label:<18} {value}")
    out().line(out().text(f'agentctl prompt {session.session_id[-6:]} "…"', "dim"))


def stop(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT_ID|SESSION_ID",
            help="What to stop.",
            autocompletion=completion.agents_or_sessions,
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every agent.")] = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Stops an agent with its sessions, or closes one session.

    \b
    Examples:
      agentctl stop ses_01k…9c4f
      agentctl stop --all --force
    """
    from agentctl.cli.errors import usage

    if everything == (target is not None):
        usage("Name one agent or session, or say --all: agentctl ps lists them.")

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.ids import resolve_any
        from agentctl.cli.out import out, print_message

        if target is not None:
            kind, identifier = await resolve_any(client, target, ("agent", "session"))
            if kind == "session":
                closed = await client.sessions.close(identifier, force=force)
                if as_json:
                    print_message(closed)
                else:
                    out().line(f"closed {closed.session_id}")
                return
            stopped = await client.agents.stop(identifier, force=force)
        else:
            stopped = await client.agents.stop(stop_all=True, force=force)
        for each in stopped.agents:
            if as_json:
                print_message(each)
            else:
                out().line(f"stopped {each.agent_id} ({each.entry_id})")
        if not stopped.agents and not as_json:
            out().line("nothing was running")

    go(work)


def _ms(seconds: float | None) -> int | None:
    from agentctl.cli.errors import usage

    if seconds is not None and seconds <= 0:
        usage("--timeout takes seconds greater than 0.")
    return None if seconds is None else max(int(seconds * 1000), 1)


def _what(session_id: str, run_id: str, after: str, on_ask: str) -> "What":
    from agentctl.cli.follow import What

    return What(session_id, run_id, after, on_ask=str(on_ask))


async def _follow(client: "AgentCtl", what: "What", as_json: bool) -> int:
    from agentctl.cli.following import follow

    return await follow(client, what, as_json=as_json)


def _print_made(made: "v1.CreateRunResponse", as_json: bool) -> None:
    from agentctl.cli.out import out, print_message

    if as_json:
        print_message(made)
        return
    place = f" (place {made.position} in the queue)" if made.HasField("position") else ""
    out().line(made.run.run_id + (" (steered)" if made.steered else place))


COMMANDS: Sequence[Any] = (run, prompt, cancel, start, stop)
