"""Owns `python -m agentctl.testing.conformance`: the suite at a terminal, as a table and an exit code."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import anyio

from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError
from agentctl.testing.conformance.runner import Result, Verdict, play
from agentctl.testing.conformance.scenarios import Scenario, load
from agentctl.testing.conformance.script import Script

FAILED, USAGE = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 when no scenario failed, 1 when one did, 2 when nothing could be played."""
    told = _arguments(argv)
    try:
        script = _script(told.script)
        chosen = _chosen(told.scenario)
        results = anyio.run(_play, told, script, chosen)
    except (AgentctlError, ValueError, ImportError, AttributeError) as error:
        sys.stderr.write(f"{error}\n")
        return USAGE
    failed = sum(each.verdict is Verdict.FAILED for each in results)
    return FAILED if failed else 0


async def _play(
    told: argparse.Namespace, script: Script, chosen: Sequence[Scenario]
) -> list[Result]:
    results: list[Result] = []
    workspace = await anyio.Path(told.workspace).resolve()
    async with AgentCtl.connect(told.address) as client:
        await client.registry.get(told.entry)
        for each in chosen:
            result = await play(client, told.entry, Path(workspace), script, each)
            results.append(result)
            sys.stdout.write(row(result))
            sys.stdout.flush()
    return results


def row(result: Result) -> str:
    """One line of the table; what was seen stands below a scenario that failed."""
    line = f"{result.verdict:<12} {result.scenario.name:<13} {result.scenario.title}\n"
    if result.why:
        line += f"{'':13}{result.why}\n"
    if result.verdict is Verdict.FAILED:
        line += f"{'':13}seen {' '.join(result.words)}\n"
    return line


def _script(name: str) -> Script:
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"--script {name!r}: write MODULE:OBJECT")
    # A script stands beside the tests of an adapter, which are seldom installed.
    sys.path.insert(0, str(Path.cwd()))
    return cast(Script, getattr(importlib.import_module(module), attribute))


def _chosen(names: Sequence[str]) -> Sequence[Scenario]:
    known = {each.name: each for each in load()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"there is no scenario {unknown[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m agentctl.testing.conformance",
        description="Play the conformance scenarios on an agent of a running daemon.",
    )
    parser.add_argument("--address", help="unix:PATH or HOST:PORT; absent: the default daemon")
    parser.add_argument("--entry", required=True, metavar="ID", help="the entry of agents.json")
    parser.add_argument("--workspace", required=True, metavar="DIR", help="where the agent works")
    parser.add_argument(
        "--script", required=True, metavar="MODULE:OBJECT", help="how the agent is made to act"
    )
    parser.add_argument(
        "--scenario", action="append", default=[], metavar="NAME", help="only this one; repeatable"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
