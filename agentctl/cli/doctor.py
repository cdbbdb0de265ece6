"""Owns `doctor`: what is installed, logged in and wrong, and what to type next; with or without a
daemon. It never starts a model turn.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from agentctl.cli import options
from agentctl.cli.state import address, go, is_local, settings
from agentctl.core.errors import AgentctlError

if TYPE_CHECKING:
    from agentctl import v1
    from agentctl.client import AgentCtl

# What `node --version` takes, many times over: it must not hold up the table.
NODE_S = 5.0

_STYLES = {"ok": "green", "login": "yellow", "missing": "dim", "disabled": "dim", "down": "dim"}


@dataclass(slots=True)
class Row:
    """One line: a name, a word (ok, login, missing, disabled, problem, down) and what to know."""

    name: str
    state: str
    detail: str


def doctor(as_json: options.Json = False) -> None:
    """Shows what is installed, what is logged in, and what to type next.

    \b
    Examples:
      agentctl doctor
      agentctl doctor --json
    """
    rows = _from_daemon() if _daemon_runs() else _alone()
    rows.append(_node())
    if as_json:
        from agentctl.cli.out import print_json

        for row in rows:
            print_json({"name": row.name, "state": row.state, "detail": row.detail})
    else:
        from agentctl.cli.out import out, table

        styled = out().text
        cells = [[r.name, styled(r.state, _STYLES.get(r.state, "red")), r.detail] for r in rows]
        table(cells, whole=True)
    if any(row.state == "problem" for row in rows):
        raise typer.Exit(1)


def _daemon_runs() -> bool:
    from agentctl.cli.daemonize import answers

    where = address()
    return not is_local(where) or answers(where)


def _from_daemon() -> list[Row]:
    async def work(client: "AgentCtl") -> list[Row]:
        from agentctl.cli.ps import journal_facts

        info = await client.daemon.get_info(timeout_s=10)
        facts = [info.version, client.address, f"journal {journal_facts(info, client.address)}"]
        rows = [Row("daemon", "problem" if info.disk_full else "ok", " · ".join(facts))]
        entries = {e.entry_id: e for e in (await client.registry.list(page_size=1000)).entries}
        for found in (await client.registry.discover()).agents:
            entry = entries.get(found.entry_id)
            rows.append(_row(found, entry is None or entry.enabled))
        for problem in (await client.registry.validate()).problems:
            place = problem.file + (f":{problem.line}" if problem.line else "")
            told = ": ".join(each for each in (place, problem.field, problem.message) if each)
            rows.append(Row("registry", "problem", told))
        return rows

    return go(work)


def _row(found: "v1.Discovered", enabled: bool) -> Row:
    version = found.version if found.HasField("version") else ""
    name = found.entry_id
    if not enabled:
        return Row(name, "disabled", f"agentctl registry enable {name}")
    if not found.installed:
        return Row(name, "missing", found.install or found.problem or "not found on PATH")
    if found.missing_env:
        return Row(name, "problem", f"{version} · set {', '.join(found.missing_env)}".strip(" ·"))
    if found.problem:
        return Row(name, "problem", f"{version} · {found.problem}".strip(" ·"))
    if found.HasField("authenticated") and not found.authenticated:
        return Row(name, "login", f"{version} · not logged in: {found.auth_detail}".strip(" ·:"))
    login = ""
    if found.authenticated:
        login = "logged in" + (f" ({found.auth_detail})" if found.auth_detail else "")
    elif found.auth_detail:
        login = found.auth_detail
    return Row(name, "ok", " · ".join(each for each in (version, login) if each))


def _alone() -> list[Row]:
    import anyio

    from agentctl import v1
    from agentctl_registry.catalog import Catalog
    from agentctl_registry.discovery import Discovery, Login

    rows = [Row("daemon", "down", "not running: any run starts it, or agentctl up")]
    try:
        told = settings()
        catalog = Catalog.load(user=told.user_registry, project=told.registry)
    except AgentctlError as error:
        return [*rows, Row("settings", "problem", error.message)]

    async def look() -> list[Row]:
        entries = catalog.entries()
        found = await Discovery().discover(entries, base=dict(os.environ), home=Path.home())
        out: list[Row] = []
        for entry, each in zip(entries, found, strict=True):
            seen = v1.Discovered(
                entry_id=each.entry_id,
                installed=each.installed,
                version=each.version or None,
                auth_detail=each.via or entry.login.hint or None,
                install=each.install or None,
                missing_env=[name for name in entry.required_env if not os.environ.get(name)],
                authenticated=None if each.login is Login.UNKNOWN else each.login is Login.YES,
                problem=None if each.installed else each.note or None,
            )
            out.append(_row(seen, entry.enabled))
        return out

    rows += anyio.run(look)
    return rows + [Row("registry", "problem", str(each)) for each in catalog.problems]


def _node() -> Row:
    import subprocess

    node, npx = shutil.which("node"), shutil.which("npx")
    if node is None:
        return Row("node", "missing", "most agents come from npm: install Node.js 20 or later")
    try:
        told = subprocess.run(
            [node, "--version"], capture_output=True, text=True, timeout=NODE_S, check=False
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return Row("node", "problem", f"{node} does not run")
    if npx is None:
        return Row("node", "problem", f"{told} · npx is missing: install npm")
    return Row("node", "ok", f"{told} · npx")


COMMANDS: Sequence[Any] = (doctor,)
