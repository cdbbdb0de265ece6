"""Owns what the shell completes: agents, sessions, runs, open approvals and questions.

Bounded and silent: no daemon, a slow one or an error completes nothing.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

# A person waits with a finger on the tab key.
LIMIT_S = 1.0

Items = list[tuple[str, str]]
"""What to insert, and a word about it."""


def _ask(work: Callable[["AgentCtl"], Awaitable[Items]], incomplete: str) -> Items:
    # Whatever is wrong, a completion must print nothing: the next Enter shows the error.
    with suppress(Exception):
        from agentctl.cli import state
        from agentctl.cli.daemonize import answers

        where = state.address()
        if state.is_local(where) and not answers(where):
            return []

        async def bounded(client: "AgentCtl") -> Items:
            import anyio

            with anyio.move_on_after(LIMIT_S):
                return await work(client)
            return []

        return [item for item in state.go(bounded) if item[0].startswith(incomplete)]
    return []


def entries(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.registry.list(enabled_only=True)
        return [(each.entry_id, each.display_name or each.description) for each in found.entries]

    found = _ask(work, incomplete)
    if found:
        return found
    with suppress(Exception):
        from agentctl.cli.state import settings
        from agentctl_registry.catalog import Catalog

        told = settings()
        catalog = Catalog.load(user=told.user_registry, project=told.registry)
        known = [(each.id, each.display_name) for each in catalog.entries() if each.enabled]
        return [item for item in known if item[0].startswith(incomplete)]
    return []


def sessions(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.sessions.list(page_size=100)
        return [(s.session_id, f"{s.entry_id} {s.title or s.workspace}") for s in found.sessions]

    return _ask(work, incomplete)


def agents(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.agents.list()
        return [(each.agent_id, each.entry_id) for each in found.agents]

    return _ask(work, incomplete)


def runs(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.runs.list(page_size=100)
        return [(each.run_id, _begin(each.prompt[0].text)) for each in found.runs if each.prompt]

    return _ask(work, incomplete)


def agents_or_sessions(incomplete: str) -> Items:
    return agents(incomplete) + sessions(incomplete)


def entries_or_sessions(incomplete: str) -> Items:
    return entries(incomplete) + sessions(incomplete)


def runs_or_sessions(incomplete: str) -> Items:
    return runs(incomplete) + sessions(incomplete)


def approvals(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.approvals.list()
        return [(a.approval_id, _begin(a.request.title)) for a in found.approvals]

    return _ask(work, incomplete)


def artifacts(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.artifacts.list(page_size=100)
        return [(a.artifact_id, _begin(a.title or a.path)) for a in found.artifacts]

    return _ask(work, incomplete)


def environments(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.environments.list()
        return [(each.name, _begin(each.detail)) for each in found.environments if each.available]

    return _ask(work, incomplete)


def questions(incomplete: str) -> Items:
    async def work(client: "AgentCtl") -> Items:
        found = await client.questions.list()
        return [(q.question_id, _begin(q.request.message)) for q in found.questions]

    return _ask(work, incomplete)


def _begin(text: str) -> str:
    return " ".join(text.split())[:60]
