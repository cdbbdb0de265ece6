"""Owns the commands that show what runs: ps, status, version."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentctl.cli import options
from agentctl.cli.state import go, is_local

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.cli.out import Out
    from agentctl.client import AgentCtl

_STATE_STYLES = {"ready": "green", "starting": "yellow", "stopping": "yellow", "lost": "red"}


def ps(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Lately exited ones too.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Lists running agents: their sessions, CPU, memory and age.

    \b
    Examples:
      agentctl ps
      agentctl ps --all --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import out, print_message

        agents = (await client.agents.list(include_exited=everything)).agents
        if as_json:
            for each in agents:
                print_message(each)
            return
        sessions = (await client.sessions.list(open_only=True, page_size=1000)).sessions
        if agents:
            _table(agents, sessions, out())
        else:
            out().line("no agent runs")
        counts = (await client.daemon.get_info()).counts
        for line in waiting(counts):
            out().line(line)

    go(work)


def _table(agents: "Sequence[v1.Agent]", sessions: "Sequence[v1.Session]", screen: "Out") -> None:
    from agentctl.cli.ids import short
    from agentctl.cli.out import NONE, age, size, table
    from agentctl.rpc.jsonview import to_dict

    names = [each.agent_id for each in agents]
    served: dict[str, list[Any]] = {}
    for session in sessions:
        served.setdefault(session.agent_id, []).append(to_dict(session))
    rows: list[list[str]] = []
    for each in agents:
        state = str(to_dict(each).get("state", ""))
        rows.append(
            [
                short(each.agent_id, names) if screen.is_terminal else each.agent_id,
                each.entry_id,
                screen.text(state, _STATE_STYLES.get(state, "dim")),
                _sessions(each, served.get(each.agent_id, [])),
                str(each.pid) if each.HasField("pid") else NONE,
                f"{each.cpu_percent:.0f}%" if each.HasField("cpu_percent") else NONE,
                size(each.memory_bytes) if each.HasField("memory_bytes") else NONE,
                age(each.started_at) if each.started_at else NONE,
            ]
        )
    head = ["AGENT", "ENTRY", "STATE", "SESSIONS", "PID", "CPU", "MEM", "UP"]
    table(rows, head, right="CPU MEM")


def _sessions(agent: "v1.Agent", sessions: Sequence[Any]) -> str:
    count = len(agent.session_ids)
    running = sum(each.get("state") == "active" for each in sessions)
    asking = sum(each.get("state") == "awaiting" for each in sessions)
    facts = [f"{running} run" if running else "", "ask" if asking else ""]
    told = ", ".join(each for each in facts if each)
    return f"{count} ({told})" if told else str(count)


def waiting(counts: "v1.Counts") -> list[str]:
    """Lines that say what waits for a person."""
    out: list[str] = []
    for count, noun in ((counts.approvals_open, "approval"), (counts.questions_open, "question")):
        if count:
            verb = f"{noun} is" if count == 1 else f"{noun}s are"
            out.append(f"{count} {verb} waiting: agentctl {noun}s")
    return out


def status(as_json: options.Json = False) -> None:
    """Shows the daemon: address, age, journal, and how much it holds.

    \b
    Examples:
      agentctl status
      agentctl status --json
    """

    async def work(client: "AgentCtl") -> None:
        from agentctl.cli.out import out, print_message, table

        info = await client.daemon.get_info(timeout_s=10)
        if as_json:
            print_message(info)
            return
        counts = info.counts
        took = out().text("version", "dim")
        rows = [
            [took, info.version],
            *([out().text("address", "dim"), each] for each in info.addresses),
            [out().text("pid", "dim"), f"{info.pid} · up {_up(info)}"],
            [out().text("data", "dim"), info.data_dir],
            [out().text("journal", "dim"), journal_facts(info, client.address)],
            [
                out().text("agents", "dim"),
                f"{counts.agents} running · {counts.sessions_open} of {counts.sessions} sessions open",
            ],
            [
                out().text("runs", "dim"),
                f"{counts.runs_running} running · {counts.runs_queued} queued",
            ],
        ]
        table(rows)
        for line in waiting(counts):
            out().line(line)

    go(work)


def _up(info: "v1.GetInfoResponse") -> str:
    from agentctl.cli.out import duration

    return duration(max(time.time() * 1000 - info.started_at, 0))


def journal_facts(info: "v1.GetInfoResponse", place: str) -> str:
    """Size, events and age of the last write; size and age only where we see the files."""
    from agentctl.cli.out import age, size

    facts = [f"{info.head_seq:,} events"]
    if is_local(place):
        files: list[tuple[int, float]] = []
        for name in ("journal.db", "journal.db-wal"):
            with suppress(OSError):
                found = (Path(info.data_dir) / name).stat()
                files.append((found.st_size, found.st_mtime))
        if files:
            facts.insert(0, size(sum(each for each, _ in files)))
            last = max(when for _, when in files)
            facts.append(f"last write {age(last * 1000)} ago")
    if info.disk_full:
        facts.append("the disk is full: free some space, nothing new is taken in")
    return ", ".join(facts)


def version(as_json: options.Json = False) -> None:
    """Prints the version of this program.

    \b
    Examples:
      agentctl version
      agentctl version --json
    """
    from importlib.metadata import version as installed

    from agentctl.cli.out import out, print_json

    number = installed("agentctl")
    if as_json:
        print_json({"version": number})
    else:
        out().line(f"agentctl {number}")


COMMANDS: Sequence[Any] = (ps, status, version)
